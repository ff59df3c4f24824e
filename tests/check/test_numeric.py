"""Differences with bounds: the bound holds, and is small."""

import numpy as np
import pytest

from gradwright.check.numeric import (
    derivative,
    epsilon,
    inner,
    ladder,
    moved,
    normal,
    nudged,
    signs,
    spread,
    typical,
)

EPS = 2.0**-52


def central(f):
    return lambda h: (f(h) - f(-h)) / (2 * h)


@pytest.mark.parametrize(
    ("f", "slope"),
    [
        (lambda t: np.sin(1 + t), np.cos(1.0)),
        (lambda t: np.exp(5 * (1 + t)), 5 * np.exp(5.0)),
        (lambda t: np.sin(30 * (2 + t)), 30 * np.cos(60.0)),
        (lambda t: (1000 + t) ** 3, 3e6),
        (lambda t: 1e-9 * np.tanh(0.3 + t), 1e-9 / np.cosh(0.3) ** 2),
        (lambda t: np.log(1e-3 * (1 + t)), 1.0),
        (lambda t: 4.0 + 0 * t, 0.0),
    ],
)
def test_the_bound_holds_and_is_small(f, slope):
    noise = EPS * abs(f(0.0))
    found = derivative(central(f), noise, 1e-7 * max(abs(slope), noise), 1e-2, 11)
    assert abs(found.value - slope) <= found.bound
    assert found.bound <= max(1e-4 * abs(slope), 1e-10 * abs(f(0.0)))


def test_noise_widens_the_bound():
    rng = np.random.default_rng(0)
    f = lambda t: np.sin(1 + t) + 1e-6 * rng.standard_normal()
    found = derivative(central(f), 1e-6, 0.0, 0.1, 8)
    assert abs(found.value - np.cos(1.0)) <= found.bound
    assert found.bound > 1e-6


def test_a_function_undefined_at_long_steps_is_still_differentiated():
    f = lambda t: np.sqrt(1e-4 + t)
    with np.errstate(invalid="ignore"):
        found = derivative(central(f), EPS * 1e-2, 1e-6, 1e-2, 11)
    assert abs(found.value - 50.0) <= found.bound < 1.0


def test_a_function_defined_nowhere_has_no_finite_derivative():
    assert not np.isfinite(derivative(lambda h: np.nan, EPS, 0.0, 1e-2, 6).value)


def test_smooth_functions_need_few_evaluations():
    assert derivative(central(lambda t: np.sin(1 + t)), EPS, 1e-6, 1e-2, 11).evaluations <= 10


def test_steps_shrink():
    steps = ladder(8, 1.0)
    assert sorted(steps, reverse=True) == steps and len(set(steps)) == 8


def test_inner_product_is_real_and_conjugates_the_left():
    z, w = np.array([1 + 2j]), np.array([3 - 1j])
    assert inner([z], [w]) == pytest.approx((np.conj(z) * w).real.sum())
    assert inner([None, z], [w, w]) == inner([z], [w])


def test_spread_is_the_root_of_squares():
    assert spread([np.array([3.0, 4.0])], [np.array([1.0, 1.0])]) == 5.0


def test_typical_keeps_scales_and_fills_zeros():
    assert typical(np.array([1e-8, 1e8])).tolist() == [1e-8, 1e8]
    assert typical(np.zeros(3)).tolist() == [1, 1, 1]
    assert typical(np.array([0.0, 2.0]))[0] > 0


def test_random_arrays_follow_their_kind():
    rng = np.random.default_rng(0)
    for draw in (signs, normal):
        assert np.iscomplexobj(draw(rng, np.zeros(3, complex))) and not np.iscomplexobj(draw(rng, np.zeros(3)))
    assert np.all(np.abs(signs(rng, np.zeros(100))) >= 0.5)


def test_nudges_are_one_unit_in_the_last_place():
    moved_by = nudged(np.random.default_rng(0), np.ones(100), 1e-3) - 1
    assert set(np.round(moved_by, 6)) <= {-0.001, 0.0, 0.001}


def test_moving_leaves_the_point_alone():
    point = [np.array([1.0])]
    assert moved(point, [np.array([2.0])], 0.5)[0] == 2.0 and point[0] == 1.0


def test_rounding_units():
    assert epsilon("float32") == np.finfo(np.float32).eps and epsilon("float16") == np.finfo(np.float16).eps
    assert epsilon("float64") == np.finfo(float).eps
