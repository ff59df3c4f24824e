"""Three rules for the gradient of relu, as attribution methods know them.

Guided backprop:      Springenberg et al., Striving for Simplicity, 2015, arXiv:1412.6806
Deconvnet:            Zeiler and Fergus, Visualizing and Understanding Convolutional Networks, 2014, arXiv:1311.2901
Rectified gradient:   Kim et al., Why are Saliency Maps Noisy?, 2019, arXiv:1902.04893
"""

import tensorflow as tf


def guided(op, upstream):
    """Only positive influence on units that were active."""
    return tf.where(op.outputs[0] > 0, tf.nn.relu(upstream), 0.0)


def deconvnet(op, upstream):
    """Only positive influence, whether the unit was active or not."""
    return tf.nn.relu(upstream)


def rectified(op, upstream, kept=0.1):
    """Only the units whose activation times upstream is among the largest tenth of its image."""
    importance = op.outputs[0] * upstream
    flat = tf.reshape(importance, [tf.shape(importance)[0], -1])
    rank = tf.cast((1 - kept) * tf.cast(tf.shape(flat)[1] - 1, tf.float32), tf.int32)
    threshold = tf.sort(flat, axis=1)[:, rank]
    threshold = tf.reshape(threshold, [-1] + [1] * (len(importance.shape) - 1))
    return tf.where((importance > threshold) & (importance > 0), upstream, 0.0)


RULES = {"guided backprop": guided, "deconvnet": deconvnet, "rectified gradient": rectified}
