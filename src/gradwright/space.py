"""Space: what a gradient of one input must look like, known before the backward pass.

A space holds facts only (shape, dtype, kind), never the input itself, so a rule keeps no tensor alive that its
pullback does not use.
"""

from __future__ import annotations

from dataclasses import dataclass

Shape = tuple[int | None, ...]

COMPLEX = frozenset({"complex64", "complex128"})
REAL = frozenset({"float16", "bfloat16", "float32", "float64", "half", "double"})


def kind_of(dtype: str) -> str:
    """Tell what sort of gradient a dtype can carry: real, complex, or none (integers, bools, strings, resources).

    >>> kind_of("bfloat16"), kind_of("complex64"), kind_of("int32")
    ('real', 'complex', 'none')
    """
    if dtype in REAL or dtype.startswith("float8"):
        return "real"
    return "complex" if dtype in COMPLEX else "none"


_BYTES = {
    "float16": 2,
    "half": 2,
    "bfloat16": 2,
    "float32": 4,
    "complex64": 4,
    "float64": 8,
    "double": 8,
    "complex128": 8,
}


def narrows(given: str, wanted: str) -> bool:
    """Whether a cast loses precision or range; what is to be summed is summed before such a cast.

    >>> narrows("float32", "float16"), narrows("float32", "complex64")
    (True, False)
    """
    return _BYTES.get(given, 1) > _BYTES.get(wanted, 1)


def stretches(given: Shape | None, wanted: Shape | None) -> bool:
    """Whether a factor of one shape makes a product larger than the other factor, or fits it nowhere.

    >>> stretches((3, 1), (3,)), stretches((1,), (2, 3)), stretches((None, 1), (2, 3))
    (True, False, False)
    """
    if given is None or wanted is None:
        return False
    more = len(given) - len(wanted)
    if any(size not in (1, None) for size in given[: max(more, 0)]):
        return True
    pairs = zip(given[::-1], wanted[::-1], strict=False)
    return any(g not in (1, None, w) and w is not None for g, w in pairs)


@dataclass(frozen=True, slots=True)
class Space:
    """The shape (None for an unknown size, or for an unknown rank), dtype and kind of an input.

    >>> Space((None, 3), "float32").kind
    'real'
    """

    shape: Shape | None
    dtype: str

    @property
    def kind(self) -> str:
        """Whether a gradient of this input is real, complex or none at all."""
        return kind_of(self.dtype)

    @property
    def static(self) -> bool:
        """Whether every size is known."""
        return self.shape is not None and None not in self.shape

    def __str__(self) -> str:
        return f"{self.dtype}{show_shape(self.shape)}"


def show_shape(shape: Shape | None) -> str:
    """Write a shape as people do.

    >>> show_shape((2, None)), show_shape((3,)), show_shape(None)
    ('(2, ?)', '(3,)', '(unknown rank)')
    """
    if shape is None:
        return "(unknown rank)"
    inner = ", ".join("?" if size is None else str(size) for size in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"
