"""Element-wise comparison: what counts as rounding and what does not."""

import numpy as np
import pytest

from gradwright.check.compare import WINDOW, compare, corner

X = np.linspace(1, 2, 100)
QUIET = np.full(100, 1e-16)
EPS = 2.0**-52


def judge(got, expected, noise=QUIET, eps=EPS):
    return compare(got, expected, X, noise, eps, 1.0)


def test_rounding_is_right():
    assert judge(X * (1 + 1e-15), X).right


@pytest.mark.parametrize("at", [0, 57, 99])
def test_one_element_is_found_and_named(at):
    got = X.copy()
    got[at] *= 1.0001
    found = judge(got, X)
    assert not found.right and found.index == (at,) and found.bad.sum() == 1
    assert found.error == pytest.approx(1e-4 * X[at])


def test_a_small_zeroed_element_beside_huge_ones_is_found():
    expected = 10.0 ** np.linspace(-6, 12, 100)
    got = expected.copy()
    got[0] = 0
    assert compare(got, expected, X, 1e-16 * expected, EPS, 1.0).index == (0,)


def test_noisy_elements_are_given_room():
    noise = QUIET.copy()
    noise[3] = 1e-9
    got = X.copy()
    got[3] += 1e-7
    assert judge(got, X, noise).right


def test_none_is_zero():
    assert judge(None, np.zeros(100)).right
    assert judge(None, None).right
    assert not judge(None, X).right
    assert not judge(X, None).right


def test_not_a_number_is_off_unless_expected():
    got = X.copy()
    got[5] = np.nan
    assert judge(got, X).index == (5,)
    assert judge(got, got).right
    got[5] = np.inf
    assert judge(got, got).right


def test_detectable_is_relative():
    assert judge(X, X).detectable < 1e-11
    assert judge(X, X, np.full(100, 1e-5)).detectable == pytest.approx(2 * 1000 * 1e-5 / 1.5, rel=0.2)
    assert judge(X, np.zeros(100)).detectable is None


def test_empty_arrays_are_right():
    empty = np.zeros((0, 3))
    found = compare(empty, empty, empty, empty, EPS, 1.0)
    assert found.right and found.index is None and found.slice() is None


def test_the_corner_surrounds_the_worst_element():
    a = np.arange(400.0).reshape(4, 10, 10)
    found = corner(a, a + 1, (2, 7, 5))
    assert found.start == (2, 4, 2)
    assert found.analytic.shape == (1, WINDOW, WINDOW)
    assert np.all(found.difference == -1)
    assert found.analytic[0, 3, 3] == a[2, 7, 5]
