"""Shape-changing functions that give `(output, back)`: back is the exact adjoint.

>>> y, back = gw.shapes.transpose(tf.ones([2, 3, 4]), [1, 2, 0])
>>> back(y).shape
TensorShape([2, 3, 4])

A pair is what `gw.custom_gradient` wants, so `return gw.shapes.flatten(x)` is a whole rule.
"""

from gradwright.shapes.axes import expand_dims, flatten, moveaxis, reshape, squeeze, transpose
from gradwright.shapes.chaining import chain
from gradwright.shapes.copies import broadcast_to, gather, pad, repeat, tile
from gradwright.shapes.einstein import rearrange
from gradwright.shapes.pieces import concat, slice, split, stack

__all__ = [
    "broadcast_to",
    "chain",
    "concat",
    "expand_dims",
    "flatten",
    "gather",
    "moveaxis",
    "pad",
    "rearrange",
    "repeat",
    "reshape",
    "slice",
    "split",
    "squeeze",
    "stack",
    "tile",
    "transpose",
]
