"""Guided backprop, deconvnet and rectified gradient: three pictures of what a network looks at, by three rules.

    python examples/guided_backprop.py [directory for the pictures]

A small CNN learns the digits that scikit-learn ships. Then the gradient of relu is replaced, in the model itself
and in the same model saved, loaded and exported: the pictures must be the same.
"""

import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from saliency_rules import RULES
from sklearn.datasets import load_digits

import gradwright as gw


def digits():
    """Images of 8 x 8 pixels between 0 and 1, and their labels, in random order."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    return (data.images[order, ..., None] / 16).astype("float32"), data.target[order]


def trained(images, labels):
    """A CNN with a relu in every form that Keras offers."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu", name="conv1"),
            keras.layers.Conv2D(32, 3, padding="same", name="conv2"),
            keras.layers.ReLU(name="relu2"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(32, 3, padding="same", name="conv3"),
            keras.layers.Activation("relu", name="relu3"),
            keras.layers.Flatten(),
            keras.layers.Dense(10, name="logits"),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    model.fit(images, labels, epochs=8, batch_size=64, verbose=0)
    return model


def saliency(model, images, labels):
    """The gradient of each image's own logit with respect to the image."""
    images = tf.constant(images)
    with tf.GradientTape() as tape:
        tape.watch(images)
        logits = model(images)
        score = tf.reduce_sum(tf.gather(logits, labels, batch_dims=1))
    return tape.gradient(score, images).numpy()


def all_maps(model, images, labels):
    """A saliency map by each rule; the plain gradient first."""
    maps = {"gradient": saliency(model, images, labels)}
    for name, rule in RULES.items():
        with gw.override({"Relu": rule}) as hits:
            maps[name] = saliency(model, images, labels)
        assert hits["Relu"] == 3, hits
    return maps


def other_forms(model, directory):
    """The same model after saving: reloaded, exported and loaded, and as a traced function."""
    model.save(directory / "digits.keras")
    model.export(directory / "digits", verbose=False)
    exported = tf.saved_model.load(str(directory / "digits"))
    return {
        "reloaded .keras": keras.models.load_model(directory / "digits.keras"),
        "exported SavedModel": lambda images: exported.serve(images),
        "traced function": tf.function(model).get_concrete_function(tf.TensorSpec([None, 8, 8, 1])),
    }


def picture(images, labels, maps, path):
    """Images in the first row, then one row of maps a rule, red for more and blue for less of the digit."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = {"digit": images, **maps}
    figure, axes = plt.subplots(len(rows), len(images), figsize=(1.3 * len(images), 1.35 * len(rows)))
    for row, (name, values) in zip(axes, rows.items(), strict=True):
        for axis, value, label in zip(row, values[..., 0], labels, strict=True):
            bound = np.abs(value).max() or 1.0
            style = {"cmap": "gray_r"} if name == "digit" else {"cmap": "seismic", "vmin": -bound, "vmax": bound}
            axis.imshow(value, **style)
            axis.set(xticks=[], yticks=[])
            if name == "digit":
                axis.set_title(str(label))
        row[0].set_ylabel(name, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(directory):
    directory.mkdir(parents=True, exist_ok=True)
    images, labels = digits()
    model = trained(images[:1500], labels[:1500])
    accuracy = model.evaluate(images[1500:], labels[1500:], verbose=0)[1]
    print(f"accuracy on digits it has not seen: {accuracy:.3f}")
    shown = [int(np.flatnonzero(labels[1500:] == digit)[0]) + 1500 for digit in range(10)]
    some, theirs = images[shown], labels[shown]
    maps = all_maps(model, some, theirs)
    picture(some, theirs, maps, directory / "saliency.png")
    with tempfile.TemporaryDirectory() as scratch:
        for form, other in other_forms(model, Path(scratch)).items():
            again = all_maps(other, some, theirs)
            apart = max(np.abs(again[name] - maps[name]).max() for name in maps)
            print(f"{form:20} largest difference of a map: {apart:.1e}")
            assert apart < 1e-4
            if form == "exported SavedModel":
                picture(some, theirs, again, directory / "saliency_after_saving.png")
    print(f"pictures: {directory / 'saliency.png'}, {directory / 'saliency_after_saving.png'}")
    return maps


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "saliency"))
