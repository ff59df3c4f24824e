"""Each hypothesis alone, on cases made by hand: it fits what it names and nothing else."""

import numpy as np
import pytest

from gradwright.check.case import Case, Felt, Known, simple
from gradwright.check.code import Code
from gradwright.check.diagnose import name_mistake
from gradwright.check.fitted import Leaf
from gradwright.check.hypotheses.scale import told
from gradwright.check.numeric import inner

RNG = np.random.default_rng(5)


def case(rule, right, *xs, outputs=None, index=0, names="xyzw", felt=False):
    """A case of a rule and the right pullback, both functions (u, *xs) -> gradients, of one output."""
    xs = [np.asarray(x) for x in xs]
    y = np.asarray(xs[0] if outputs is None else outputs(*xs))
    u = RNG.standard_normal(y.shape) + (1j * RNG.standard_normal(y.shape) if np.iscomplexobj(y) else 0)

    def gradients(fn, point, ups):
        found = fn(ups[0], *point)
        return list(found) if isinstance(found, tuple) else [found]

    def shaped(found, point):
        return [
            None if g is None or np.shape(g) != x.shape else np.asarray(g) for g, x in zip(found, point, strict=True)
        ]

    raw = gradients(rule, xs, [u])
    due = gradients(right, xs, [u])[index]
    probes = []
    for _ in range(3):
        v = RNG.standard_normal(xs[index].shape)
        probes.append((v, inner([due], [v]), 1e-10))
    return Case(
        index,
        [Leaf(n, "argument", None, x.dtype.name, x.shape) for n, x in zip(names, xs, strict=False)],
        xs, [u], [y], shaped(raw, xs), [None if g is None else np.asarray(g) for g in raw],
        Felt(xs[index].shape, probes) if felt else Known(due, 1e-12 * np.abs(due) + 1e-15),
        Code("tensorflow"),
        pull=lambda ups: shaped(gradients(rule, xs, ups), xs),
        pull_at=lambda point, ups: shaped(gradients(rule, point, ups), point),
        due_at=None if felt else lambda point, ups: gradients(right, point, ups),
        eps=2.0**-52,
    )  # fmt: skip


def labels(found):
    return {finding.label for finding in name_mistake(found)}


X = RNG.standard_normal(7)
SQUARE = (X, 5.0 * RNG.standard_normal(7))


@pytest.mark.parametrize("felt", [False, True], ids=["known", "felt"])
@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (lambda u, x: -u * np.cos(x), {"sign"}),
        (lambda u, x: 3 * u * np.cos(x), {"factor"}),
        (lambda u, x: -u * np.cos(x) / 7, {"sign", "factor"}),
        (lambda u, x: np.cos(x), {"upstream-ignored"}),
        (lambda u, x: -2 * np.cos(x), {"upstream-ignored", "sign", "factor"}),
        (lambda u, x: (u * np.cos(x))[::-1], {"transposed"}),
        (lambda u, x: u**3 * np.cos(x), {"nonlinear"}),
        (lambda u, x: u * np.cos(x) + 0.1, {"nonlinear"}),
        (lambda u, x: u * 0, {"value"}),
        (lambda u, x: None, {"none"}),
        (lambda u, x: u * np.where(np.arange(7) == 3, 2.0, 1.0) * np.cos(x), {"value"}),
    ],
)
def test_mistakes_of_one_argument(rule, expected, felt):
    assert labels(case(rule, lambda u, x: u * np.cos(x), X, outputs=np.sin, felt=felt)) == expected


def test_the_factor_is_told():
    findings = name_mistake(case(lambda u, x: u * x, lambda u, x: 2 * u * x, X))
    assert findings[0].repair == "return g * 2"
    assert "2 times as large" in findings[0].message


def test_a_factor_of_the_size_is_named_after_it():
    one = case(lambda u, x: u * np.ones(7), lambda u, x: u / 7 * np.ones(7), X, outputs=lambda x: x.mean())
    message = name_mistake(one)[0].message
    assert "1/7" in message and "number of elements of the input" in message


def test_averaged_over_the_broadcast():
    out = lambda b, x: x + b
    found = case(
        lambda u, b, x: (u.mean(0), u), lambda u, b, x: (u.sum(0), u), X, RNG.standard_normal((5, 7)), outputs=out
    )
    assert labels(found) == {"averaged"}


def test_swapped_arguments():
    found = case(lambda u, x, y: (u * x, u * y), lambda u, x, y: (u * y, u * x), *SQUARE, outputs=lambda x, y: x * y)
    assert labels(found) == {"swapped"}


def test_swapped_with_a_sign():
    rule, right = lambda u, x, y: (-u * x, u * y), lambda u, x, y: (u * y, u * x)
    out = lambda x, y: x * y
    assert labels(case(rule, right, *SQUARE, outputs=out)) == {"swapped"}
    assert labels(case(rule, right, *SQUARE, outputs=out, index=1)) == {"swapped", "sign"}


def test_transposed_matrices():
    w = RNG.standard_normal((4, 4))
    assert labels(case(lambda u, w: u.T * 1.0, lambda u, w: u * 1.0, w)) == {"transposed"}
    tall = RNG.standard_normal((4, 3))
    assert labels(case(lambda u, w: u, lambda u, w: u.T, tall, outputs=lambda w: w.T)) == {"transposed"}
    again = case(lambda u, w: u.reshape(4, 3), lambda u, w: u.T, tall, outputs=lambda w: w.T)
    assert labels(again) == {"transposed"}


def test_shifted():
    found = case(lambda u, x: np.roll(u, 3), lambda u, x: u, X)
    assert labels(found) == {"transposed"}
    assert "roll it by 4" in name_mistake(found)[0].message  # of seven elements: three back


def test_conjugates():
    z = RNG.standard_normal(5) + 1j * RNG.standard_normal(5)
    right = lambda u, z: u * np.conj(2 * z)
    assert labels(case(lambda u, z: u * 2 * z, right, z, outputs=lambda z: z * z)) == {"conjugate"}
    assert labels(case(lambda u, z: -u * 2 * z, right, z, outputs=lambda z: z * z)) == {"conjugate", "sign"}
    assert labels(case(lambda u, z: 1j * u * np.conj(2 * z), right, z, outputs=lambda z: z * z)) == {"factor"}


def test_wrong_points():
    right = lambda u, x: u * np.cos(x)
    assert labels(case(lambda u, x: u * np.cos(np.sin(x)), right, X, outputs=np.sin)) == {"wrong-point"}
    tanh = lambda u, x: u * (1 - np.tanh(x) ** 2)
    assert labels(case(lambda u, x: u * (1 - x**2), tanh, X, outputs=np.tanh)) == {"wrong-point"}
    at_y = case(
        lambda u, x, y: (u * np.cos(y), 0 * u),
        lambda u, x, y: (u * np.cos(x), 0 * u),
        *SQUARE,
        outputs=lambda x, y: np.sin(x),
    )
    assert labels(at_y) == {"wrong-point"} and "`y`" in name_mistake(at_y)[0].message


def test_a_missing_coupling():
    def softmax(x):
        return np.exp(x) / np.exp(x).sum()

    right = lambda u, x: softmax(x) * (u - (u * softmax(x)).sum())
    assert labels(case(lambda u, x: softmax(x) * u, right, X, outputs=softmax)) == {"missing-term"}


@pytest.mark.parametrize("form", ["float16", "float32"])
def test_a_short_format(form):
    many = RNG.standard_normal(50)
    rule = lambda u, x: u * np.cos(x).astype(form).astype(float)
    assert labels(case(rule, lambda u, x: u * np.cos(x), many, outputs=np.sin)) == {"precision"}


def test_numbers_are_freed_of_rounding():
    assert simple(2 + 1e-9) == 2.0 and simple(-1 / 3 + 1e-10) == -1 / 3 and simple(0.7310585) == 0.7310585
    assert told(0.5) == "1/2" and told(2.0) == "2" and told(0.75) == "0.75"
