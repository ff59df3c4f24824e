"""Each shape function against numpy's forward and the transpose of its matrix, in every kind of knowledge of shapes."""

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from gradwright import shapes
from gradwright.errors import ArgumentError
from gradwright.shapes import plan

# name, shape of x, the pair, what numpy does, the lowest knowledge that it must work with
CASES = [
    ("reshape", (2, 6), lambda x: shapes.reshape(x, [3, 4]), lambda x: x.reshape(3, 4), "rank"),
    ("reshape -1", (2, 6), lambda x: shapes.reshape(x, (4, -1)), lambda x: x.reshape(4, -1), "rank"),
    ("reshape scalar", (1, 1), lambda x: shapes.reshape(x, ()), lambda x: x.reshape(()), "rank"),
    ("reshape numpy", (2, 6), lambda x: shapes.reshape(x, np.array([12])), lambda x: x.reshape(12), "rank"),
    ("reshape tensor", (2, 6), lambda x: shapes.reshape(x, tf.constant([6, 2])), lambda x: x.reshape(6, 2), "rank"),
    ("flatten", (2, 3, 4), lambda x: shapes.flatten(x), lambda x: x.reshape(-1), "rank"),
    ("flatten from 1", (2, 3, 4), lambda x: shapes.flatten(x, 1), lambda x: x.reshape(2, 12), "size"),
    ("flatten to 1", (2, 3, 4), lambda x: shapes.flatten(x, 0, 1), lambda x: x.reshape(6, 4), "size"),
    ("flatten middle", (2, 3, 2, 2), lambda x: shapes.flatten(x, 1, -2), lambda x: x.reshape(2, 6, 2), "size"),
    ("flatten scalar", (), lambda x: shapes.flatten(x), lambda x: x.reshape(1), "size"),
    ("flatten empty", (0, 3), lambda x: shapes.flatten(x), lambda x: x.reshape(0), "rank"),
    ("expand_dims", (2, 3), lambda x: shapes.expand_dims(x, 1), lambda x: np.expand_dims(x, 1), "rank"),
    ("expand_dims -1", (2, 3), lambda x: shapes.expand_dims(x, -1), lambda x: np.expand_dims(x, -1), "rank"),
    ("expand_dims two", (2, 3), lambda x: shapes.expand_dims(x, (0, -1)), lambda x: np.expand_dims(x, (0, -1)), "size"),
    ("expand_dims np", (3,), lambda x: shapes.expand_dims(x, np.int64(-2)), lambda x: np.expand_dims(x, -2), "rank"),
    ("squeeze", (1, 3, 1), lambda x: shapes.squeeze(x), np.squeeze, "rank"),
    ("squeeze -1", (1, 3, 1), lambda x: shapes.squeeze(x, -1), lambda x: np.squeeze(x, -1), "rank"),
    ("squeeze list", (1, 3, 1, 2), lambda x: shapes.squeeze(x, [0, -2]), lambda x: np.squeeze(x, (0, 2)), "rank"),
    ("transpose", (2, 3, 4), lambda x: shapes.transpose(x), np.transpose, "rank"),
    ("transpose 120", (2, 3, 4), lambda x: shapes.transpose(x, [1, 2, 0]), lambda x: x.transpose(1, 2, 0), "rank"),
    ("transpose neg", (2, 3, 4), lambda x: shapes.transpose(x, (-1, 0, 1)), lambda x: x.transpose(2, 0, 1), "rank"),
    (
        "transpose 4",
        (2, 3, 2, 2),
        lambda x: shapes.transpose(x, np.array([3, 0, 2, 1])),
        lambda x: x.transpose(3, 0, 2, 1),
        "rank",
    ),
    ("moveaxis", (2, 3, 4), lambda x: shapes.moveaxis(x, 0, -1), lambda x: np.moveaxis(x, 0, -1), "size"),
    (
        "moveaxis two",
        (2, 3, 1, 2),
        lambda x: shapes.moveaxis(x, [0, -1], [-1, 1]),
        lambda x: np.moveaxis(x, [0, -1], [-1, 1]),
        "size",
    ),
    ("broadcast_to", (3, 1), lambda x: shapes.broadcast_to(x, [2, 3, 4]),
     lambda x: np.broadcast_to(x, (2, 3, 4)), "rank"),
    ("broadcast same", (3, 2), lambda x: shapes.broadcast_to(x, (3, 2)), lambda x: x, "rank"),
    ("broadcast scalar", (), lambda x: shapes.broadcast_to(x, [2, 2]), lambda x: np.broadcast_to(x, (2, 2)), "rank"),
    ("broadcast 1", (1, 2), lambda x: shapes.broadcast_to(x, (1, 1, 2)), lambda x: x[None], "rank"),
    ("tile", (2, 3), lambda x: shapes.tile(x, [2, 3]), lambda x: np.tile(x, (2, 3)), "rank"),
    ("tile tensor", (2,), lambda x: shapes.tile(x, tf.constant([3])), lambda x: np.tile(x, 3), "rank"),
    ("repeat", (2, 3), lambda x: shapes.repeat(x, 2, -1), lambda x: np.repeat(x, 2, -1), "size"),
    ("repeat each", (2, 3), lambda x: shapes.repeat(x, [1, 0, 3], 1), lambda x: np.repeat(x, [1, 0, 3], 1), "size"),
    ("repeat flat", (2, 2), lambda x: shapes.repeat(x, 3), lambda x: np.repeat(x, 3), "rank"),
    ("pad", (2, 3), lambda x: shapes.pad(x, [[1, 0], [2, 3]]), lambda x: np.pad(x, [[1, 0], [2, 3]]), "rank"),
    ("reflect", (3, 4), lambda x: shapes.pad(x, [[2, 1], [0, 3]], "REFLECT"),
     lambda x: np.pad(x, [[2, 1], [0, 3]], mode="reflect"), "size"),
    ("symmetric", (2, 3), lambda x: shapes.pad(x, [[2, 1], [1, 3]], "symmetric"),
     lambda x: np.pad(x, [[2, 1], [1, 3]], mode="symmetric"), "size"),
    ("edge", (2, 3), lambda x: shapes.pad(x, [[3, 1], [0, 2]], "edge"),
     lambda x: np.pad(x, [[3, 1], [0, 2]], mode="edge"), "size"),
    ("wrap", (2, 3), lambda x: shapes.pad(x, [[2, 1], [0, 3]], "wrap"),
     lambda x: np.pad(x, [[2, 1], [0, 3]], mode="wrap"), "size"),
    ("slice", (3, 4), lambda x: shapes.slice(x, [1, 0], [2, 3]), lambda x: x[1:3, 0:3], "rank"),
    ("slice to end", (3, 4), lambda x: shapes.slice(x, (1, 2), (-1, -1)), lambda x: x[1:, 2:], "rank"),
    ("slice key", (4, 5), lambda x: shapes.slice(x, np.s_[::2, -1:0:-2]), lambda x: x[::2, -1:0:-2], "size"),
    ("slice dots", (2, 3, 4), lambda x: shapes.slice(x, np.s_[..., None, 1]), lambda x: x[..., None, 1], "size"),
    ("gather", (4, 3), lambda x: shapes.gather(x, [3, 0, 3, 3]), lambda x: x[[3, 0, 3, 3]], "rank"),
    ("gather scalar", (4, 3), lambda x: shapes.gather(x, 2, -1), lambda x: x[:, 2], "rank"),
    ("gather -2", (2, 3, 2), lambda x: shapes.gather(x, np.array([[0, 1], [1, 1]]), -2),
     lambda x: np.take(x, [[0, 1], [1, 1]], 1), "size"),
    ("gather batch", (2, 3, 2), lambda x: shapes.gather(x, [[0, 2, 2], [1, 1, 0]], 1, 1),
     lambda x: np.stack([x[0][[0, 2, 2]], x[1][[1, 1, 0]]]), "rank"),
    ("gather batch axis", (2, 2, 3), lambda x: shapes.gather(x, [[0, 2], [1, 1]], 2, 1),
     lambda x: np.stack([x[0][:, [0, 2]], x[1][:, [1, 1]]]), "size"),
    ("rearrange", (2, 12), lambda x: shapes.rearrange(x, "b (h w) -> w h b", h=3),
     lambda x: x.reshape(2, 3, 4).transpose(2, 1, 0), "size"),
    ("rearrange three", (2, 12), lambda x: shapes.rearrange(x, "b (h w c) -> (c b) (w h)", h=3, c=2),
     lambda x: x.reshape(2, 3, 2, 2).transpose(3, 0, 2, 1).reshape(4, 6), "size"),
    ("rearrange dots", (2, 3, 4), lambda x: shapes.rearrange(x, "a ... -> (...) 1 a"),
     lambda x: x.transpose(1, 2, 0).reshape(12, 1, 2), "size"),
    ("chain", (2, 3, 4),
     lambda x: shapes.chain(
         x, lambda v: shapes.transpose(v, [2, 0, 1]), shapes.flatten, lambda v: shapes.pad(v, [[1, 2]])),
     lambda x: np.pad(x.transpose(2, 0, 1).reshape(-1), (1, 2)), "rank"),
]  # fmt: skip
IDS = [case[0] for case in CASES]
KNOWLEDGE = {"all": lambda s: s, "size": lambda s: [None] * len(s), "rank": lambda s: None}


def numbers(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def transposed(forward, shape, upstream):
    """The adjoint from the matrix of the forward, one basis vector at a time: nothing of ours takes part."""
    basis = np.eye(int(np.prod(shape)), dtype="float32").reshape(int(np.prod(shape)), *shape)
    columns = [float(np.sum(forward(e) * upstream)) for e in basis]
    return np.array(columns, "float32").reshape(shape)


def run(pair, x, upstream, tangent):
    y, back = pair(x)
    return y, back(upstream), back.jvp(tangent)


@pytest.mark.parametrize(("name", "shape", "pair", "forward", "least"), CASES, ids=IDS)
def test_exact_adjoint_eager_and_with_unknown_shapes(name, shape, pair, forward, least):
    x, tangent = numbers(shape), numbers(shape, 1)
    offset = forward(np.zeros(shape, "float32"))
    upstream = numbers(offset.shape, 2)
    want = forward(x), transposed(forward, shape, upstream), forward(tangent)
    levels = ["all", "size", "rank"][: ["all", "size", "rank"].index(least) + 1]
    for level in levels:
        signature = [tf.TensorSpec(KNOWLEDGE[level](a.shape)) for a in (x, upstream, tangent)]
        inside = tf.function(lambda *a: run(pair, *a), input_signature=signature)
        for got, right in zip(inside(x, upstream, tangent), want, strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-5, err_msg=f"{name} {level}")
    for got, right in zip(run(pair, *map(tf.constant, (x, upstream, tangent))), want, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-5)
        assert tuple(got.shape) == right.shape


@pytest.mark.parametrize(("name", "shape", "pair", "forward", "least"), CASES, ids=IDS)
def test_compiled_by_xla_and_vectorised(name, shape, pair, forward, least):
    x, upstream = numbers(shape), numbers(forward(np.zeros(shape, "float32")).shape, 2)
    want = transposed(forward, shape, upstream)
    compiled = tf.function(lambda a, u: pair(a)[1](u), jit_compile=True)
    if x.size:
        np.testing.assert_allclose(compiled(x, upstream), want, rtol=1e-5, atol=1e-5)
        many = tf.vectorized_map(lambda u: pair(tf.constant(x))[1](u), tf.stack([upstream, 2 * upstream]))
        np.testing.assert_allclose(many, np.stack([want, 2 * want]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("level", KNOWLEDGE)
def test_lists_of_tensors(level):
    a, b, u = numbers((2, 1)), numbers((2, 3)), numbers((2, 4))

    def joined(a, b, u):
        y, back = shapes.concat([a, b], -1 if level != "rank" else 1)
        return y, *back(u), back.jvp(a, b)

    signature = [tf.TensorSpec(KNOWLEDGE[level](v.shape)) for v in (a, b, u)]
    for f in (joined, tf.function(joined, input_signature=signature)):
        y, ga, gb, t = f(*map(tf.constant, (a, b, u)))
        np.testing.assert_array_equal(y, np.concatenate([a, b], 1))
        np.testing.assert_array_equal(t, np.concatenate([a, b], 1))
        np.testing.assert_array_equal(ga, u[:, :1])
        np.testing.assert_array_equal(gb, u[:, 1:])


def test_stack_and_split():
    parts = [numbers((2, 3), i) for i in range(3)]
    y, back = shapes.stack([tf.constant(p) for p in parts], axis=-1)
    np.testing.assert_array_equal(y, np.stack(parts, -1))
    up = numbers((2, 3, 3), 9)
    for i, g in enumerate(back(tf.constant(up))):
        np.testing.assert_array_equal(g, up[:, :, i])
    x = tf.constant(numbers((2, 7)))
    (a, b, c), back = shapes.split(x, [1, -1, 2], axis=-1)
    assert [v.shape[1] for v in (a, b, c)] == [1, 4, 2]
    np.testing.assert_array_equal(back(a, 10 * b, c), np.concatenate([a, 10 * b, c], 1))
    np.testing.assert_array_equal(back([a, None, c]), np.concatenate([a, 0 * b, c], 1))
    np.testing.assert_array_equal(shapes.split(x, 2, 0)[0][1], x[1:])


def test_overlapping_slices_add_up():
    x = tf.constant(numbers((5,)))
    first, back_first = shapes.slice(x, [0], [4])
    second, back_second = shapes.slice(x, [2], [3])
    gradient = back_first(tf.ones_like(first)) + back_second(tf.ones_like(second))
    np.testing.assert_array_equal(gradient, [1, 1, 2, 2, 1])


def test_begin_permutation_and_indices_known_only_at_run_time():
    @tf.function(input_signature=[tf.TensorSpec(None, d) for d in (tf.float32, tf.int32, tf.int32, tf.int32)])
    def f(x, perm, begin, chosen):
        y, back = shapes.transpose(x, perm)
        part, back_part = shapes.slice(x, begin, [1, 2, 1])
        picked, back_picked = shapes.gather(x, chosen)
        return back(y), back_part(part), back_picked(picked)

    x = numbers((2, 3, 4))
    same, part, picked = f(x, [1, 2, 0], [1, 1, 3], [1, 1])
    np.testing.assert_array_equal(same, x)
    want = np.zeros_like(x)
    want[1:2, 1:3, 3:4] = x[1:2, 1:3, 3:4]
    np.testing.assert_array_equal(part, want)
    np.testing.assert_array_equal(picked, x * np.array([0, 2]).reshape(2, 1, 1))


def test_pairs_compose():
    x = tf.constant(numbers((2, 3)))
    first = shapes.transpose(x)
    second = shapes.flatten(first[0])
    y, back = shapes.chain(first, second)
    np.testing.assert_array_equal(y, x.numpy().T.reshape(-1))
    np.testing.assert_array_equal(back(y), x)
    again, back = shapes.chain(shapes.transpose, shapes.flatten)(x)
    np.testing.assert_array_equal(again, y)
    np.testing.assert_array_equal(back(again), x)
    np.testing.assert_array_equal(back.jvp(x), y)


def test_known_shapes_stay_known_and_cost_no_operation():
    @tf.function(input_signature=[tf.TensorSpec([None, 4])])
    def f(x):
        y, back = shapes.reshape(x, [-1, 2])
        return back(y)

    assert f.get_concrete_function().outputs[0].shape.as_list() == [None, 4]
    same = tf.function(lambda x: shapes.broadcast_to(x, [2, 3])[1](x)).get_concrete_function(tf.TensorSpec([2, 3]))
    assert "Sum" not in [op.type for op in same.graph.get_operations()]


def test_pullback_keeps_no_tensor():
    import gc
    import weakref

    x = tf.ones([2, 3])
    y, back = shapes.flatten(x)
    refs = weakref.ref(x), weakref.ref(y)
    del x, y
    gc.collect()
    assert [r() for r in refs] == [None, None]
    assert back(tf.ones([6])).shape == (2, 3)


def test_upstream_kinds():
    _, back = shapes.transpose(tf.ones([3, 2], tf.float64))
    assert back([[1, 2, 3], [4, 5, 6]]).dtype == tf.float64
    sparse = tf.IndexedSlices(tf.ones([2, 3], tf.float64), [1, 1], [2, 3])
    np.testing.assert_array_equal(back(sparse), [[0, 2], [0, 2], [0, 2]])
    v = tf.Variable([[1.0, 2.0]])
    np.testing.assert_array_equal(shapes.flatten(v)[1]([3.0, 4.0]), [[3, 4]])


WRONG = [
    (lambda x: shapes.reshape(x, [4, 4]), ["reshape", "(2, 3)", "shape=[4, 4]"]),
    (lambda x: shapes.flatten(x, 1, 0), ["flatten", "start", "end"]),
    (lambda x: shapes.expand_dims(x, 5), ["expand_dims", "axis", "5"]),
    (lambda x: shapes.expand_dims(x, 1.5), ["expand_dims", "axis", "1.5"]),
    (lambda x: shapes.squeeze(x, 1), ["squeeze", "axis 1", "size 3"]),
    (lambda x: shapes.transpose(x, [0, 0]), ["transpose", "twice"]),
    (lambda x: shapes.transpose(x, [0, 1, 2]), ["transpose", "perm", "3", "2"]),
    (lambda x: shapes.moveaxis(x, [0, 1], 0), ["moveaxis", "source", "destination"]),
    (lambda x: shapes.broadcast_to(x, [3, 2]), ["broadcast_to", "(2, 3)"]),
    (lambda x: shapes.tile(x, [2]), ["tile", "multiples"]),
    (lambda x: shapes.repeat(x, [1, 2], 1), ["repeat", "repeats", "size 3"]),
    (lambda x: shapes.pad(x, [[1, 1]]), ["pad", "paddings"]),
    (lambda x: shapes.pad(x, [[1, 1], [0, 0]], "mirror"), ["pad", "mode", "reflect"]),
    (lambda x: shapes.slice(x, [0, 1], [2, 3]), ["slice", "(2, 3)"]),
    (lambda x: shapes.slice(x, [0, 1]), ["slice", "size"]),
    (lambda x: shapes.concat([x, tf.ones([3, 3])], 1), ["concat", "(3, 3)"]),
    (lambda x: shapes.concat(x, 1), ["concat", "list"]),
    (lambda x: shapes.stack([], 1), ["stack", "list"]),
    (lambda x: shapes.split(x, 2, -1), ["split", "size 3", "2 equal"]),
    (lambda x: shapes.split(x, [1, 1], 1), ["split", "size 3", "2"]),
    (lambda x: shapes.gather(x, [7]), ["gather", "indices"]),
    (lambda x: shapes.gather(x, [0], 0, 1), ["gather", "batch_dims"]),
    (lambda x: shapes.rearrange(x, "a b c -> c"), ["rearrange", "a b c -> c"]),
    (lambda x: shapes.rearrange(x, "a b"), ["rearrange", "->"]),
    (lambda x: shapes.chain(x, 3), ["chain", "3"]),
    (lambda x: shapes.chain(x, tf.transpose), ["chain", "transpose", "(output, back)"]),
    (lambda x: shapes.reshape(x), ["reshape", "shape"]),
    (lambda x: shapes.flatten(tf.ragged.constant([[1.0], [2.0, 3.0]])), ["flatten", "RaggedTensor"]),
]


@pytest.mark.parametrize(("call", "words"), WRONG)
def test_wrong_use_names_function_argument_and_shapes(call, words):
    with pytest.raises(ArgumentError) as caught:
        call(tf.ones([2, 3]))
    assert "gw.shapes." in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_wrong_upstream_is_refused_with_both_shapes():
    _, back = shapes.transpose(tf.ones([2, 3]))
    with pytest.raises(gw.GradientShapeError, match=r"\(2, 3\).*\(3, 2\)"):
        back(tf.ones([2, 3]))
    _, back = shapes.split(tf.ones([4]), 2)
    with pytest.raises(ArgumentError, match=r"2 upstreams expected.*1 came"):
        back(tf.ones([4]))


def test_plans_are_pure():
    assert plan.inverse((3, 0, 2, 1)) == (1, 3, 2, 0)
    assert plan.moved(4, (0, 3), (3, 1)) == (1, 3, 2, 0)
    assert plan.stretched_axes((1, 3, 1), (2, 5, 3, 1)) == [0, 1]
    assert plan.stretched_axes((0, 1), (0, 4)) == [1]
    with pytest.raises(ValueError, match="there are 2 axes"):
        plan.axis_of(2, 2)
