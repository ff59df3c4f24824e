"""A product that broadcasts: the rule says what the gradient is, element by element, and it is summed where it must be.

A scale of shape (3,) meets data of shape (4, 3). What `grad` returns for it has shape (4, 3); the gradient of the scale
has shape (3,), the sum over the axis along which the scale was repeated.
"""

import tensorflow as tf

import gradwright as gw

data = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0], [1.0, 1.0, 1.0]])
scale = tf.constant([0.5, -1.0, 2.0])


@gw.custom_gradient(example=lambda: (data, scale))
def product(x, s):
    return x * s, lambda upstream: (upstream * s, upstream * x)


def main():
    with tf.GradientTape() as tape:
        tape.watch([data, scale])
        y = product(data, scale)
    for_data, for_scale = tape.gradient(y, [data, scale])
    print(f"gradient of the data:  shape {tuple(for_data.shape)}, each row {for_data[0].numpy().tolist()}")
    print(f"gradient of the scale: shape {tuple(for_scale.shape)}, sums of columns {for_scale.numpy().tolist()}")


if __name__ == "__main__":
    main()
