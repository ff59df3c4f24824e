"""Ready rules, each with its formula, its source and its proof; one file a family.

Imports no framework: the formulas are written in functions that the first tensor brings.
"""

from gradwright.ops.checkpoint import checkpoint
from gradwright.ops.choice import where
from gradwright.ops.external import external
from gradwright.ops.reductions import clip_by_norm, norm, safe_norm, std
from gradwright.ops.stable import acos, asin, atan2, log, log1mexp, log1p_exp, pow, softplus, sqrt, xlogy
from gradwright.ops.surrogates import round_ste, sign_ste, straight_through
from gradwright.ops.upstream import clip, mask, reverse, scale

__all__ = [
    "acos",
    "asin",
    "atan2",
    "checkpoint",
    "clip",
    "clip_by_norm",
    "external",
    "log",
    "log1mexp",
    "log1p_exp",
    "mask",
    "norm",
    "pow",
    "reverse",
    "round_ste",
    "safe_norm",
    "scale",
    "sign_ste",
    "softplus",
    "sqrt",
    "std",
    "straight_through",
    "where",
    "xlogy",
]
