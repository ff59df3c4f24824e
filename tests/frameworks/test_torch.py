"""Rules in PyTorch: every form of return, every mode, against mathematics and torch's own gradcheck."""

import gc
import threading
import warnings
import weakref
from dataclasses import dataclass

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.autograd import forward_ad, gradcheck, gradgradcheck  # noqa: E402
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vmap  # noqa: E402

import gradwright as gw  # noqa: E402
from gradwright import events  # noqa: E402
from gradwright.frameworks import torch_private  # noqa: E402

X = torch.tensor([0.5, 1.0])


def leaf(value):
    return torch.as_tensor(value).detach().clone().requires_grad_()


def close(actual, expected):
    torch.testing.assert_close(torch.as_tensor(actual), torch.as_tensor(expected), check_dtype=False)


@gw.custom_gradient
def marked(x):
    """exp with three times its gradient: orders 1, 2, 3 are 3, 9, 27 times exp, and nothing else is."""
    y = torch.exp(x)
    return y, lambda up: 3 * up * y


@gw.custom_gradient
def clipped(x):
    return x * 1, lambda up: up.clamp(-1, 1)


@gw.custom_gradient
def cube(x):
    square = x * x  # captured by grad: neither argument nor output
    return square * x, lambda up: 3 * square * up


def refused(kind, function, *parts):
    with pytest.raises(kind) as caught:
        function()
    for part in parts:
        assert part in str(caught.value)


class TestForms:
    def test_broadcast_is_summed(self):
        scale = gw.custom_gradient(lambda x, s: (x * s, lambda up: (up * s, up * x)))
        x, s = leaf(torch.ones(2, 3)), leaf([1.0, 2.0, 3.0])
        scale(x, s).sum().backward()
        close(s.grad, [2.0, 2.0, 2.0])
        close(x.grad, [[1.0, 2.0, 3.0]] * 2)

    @pytest.mark.parametrize(
        "answer",
        [
            lambda gx, gs: (gx, gs),
            lambda gx, gs: [gx, gs],
            lambda gx, gs: {"s": gs, "x": gx},
            lambda gx, gs: (gx, None, gs),
            lambda gx, gs: (gx, None, gs, None),
        ],
    )
    def test_every_return(self, answer):
        @gw.custom_gradient
        def power(x, n, s, *, mode="fast"):
            assert mode == "slow"
            return x**n * s, lambda up: answer(up * n * x ** (n - 1) * s, up * x**n)

        x, s = leaf(X), leaf([2.0, 3.0])
        power(x, 3, s=s, mode="slow").sum().backward()
        close(x.grad, 3 * X**2 * torch.tensor([2.0, 3.0]))
        close(s.grad, X**3)

    def test_structures(self):
        @dataclass
        class Pair:
            a: object
            b: object

        @gw.custom_gradient
        def f(p, q, *more, scale=2.0, **options):
            y = p["w"] * q.a * more[0] * scale * options["z"]
            return {"y": y, "n": torch.arange(2), "text": "t"}, lambda up: {
                "p": {"w": up["y"], "unused": None},
                "q": Pair(2 * up["y"], None),
                "more": [3 * up["y"]],
                "z": 4 * up["y"],
            }

        w, unused, a, m, z = (leaf(torch.ones(3)) for _ in range(5))
        out = f({"w": w, "unused": unused}, Pair(a, "static"), m, z=z)
        assert out["text"] == "t" and not out["n"].requires_grad
        out["y"].sum().backward()
        for tensor, value in zip([w, a, m, z], [1.0, 2.0, 3.0, 4.0], strict=True):
            close(tensor.grad, torch.full((3,), value))
        assert unused.grad is None

    def test_outputs_several_same_and_handed_through(self):
        both = gw.custom_gradient(lambda x: ((x * 2, x * 3), lambda a, b: 2 * a + 3 * b))
        x = leaf(X)
        both(x)[1].sum().backward()  # the other upstream is zero
        close(x.grad, [3.0, 3.0])
        twice = gw.custom_gradient(lambda x: (lambda y: ((y, y), lambda a, b: a + 10 * b))(x * 2))
        x = leaf(X)
        sum(twice(x)).sum().backward()
        close(x.grad, [11.0, 11.0])
        reverse = gw.custom_gradient(lambda x: (x, lambda up: -up))
        x = leaf(X)
        reverse(x).sum().backward()
        close(x.grad, [-1.0, -1.0])

    def test_one_tensor_in_two_places(self):
        product = gw.custom_gradient(lambda a, b: (a * b, lambda up: (up * b, up * a)))
        x = leaf(X)
        product(x, x).sum().backward()
        close(x.grad, 2 * X)

    def test_methods_arrays_and_integers(self):
        class Layer:
            factor = 3.0

            @gw.custom_gradient
            def scaled(self, x):
                return x * self.factor, lambda up: up * self.factor

        x = leaf(X)
        Layer().scaled(x).sum().backward()
        close(x.grad, [3.0, 3.0])
        close(marked(np.zeros(2, np.float32)), [1.0, 1.0])
        pick = gw.custom_gradient(lambda x, i: (x[i], lambda up: torch.zeros_like(x).index_add(0, i, up)))
        x = leaf(X)
        pick(x, torch.tensor([0, 0])).sum().backward()
        close(x.grad, [2.0, 0.0])

    def test_numbers_and_precision(self):
        half = gw.custom_gradient(lambda x: (x.float() * 2, lambda up: up.double() * 2))
        x = leaf(torch.ones(2, dtype=torch.float16))
        half(x).sum().backward()
        assert x.grad.dtype == torch.float16
        number = gw.custom_gradient(lambda x: (x * 2, lambda up: 2.0))
        x = leaf(1.0)
        number(x).backward()
        close(x.grad, 2.0)

    def test_complex(self):
        square = gw.custom_gradient(lambda z: (z * z, lambda up: up * (2 * z).conj()))
        z = leaf(torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128))
        assert gradcheck(square, z)
        close(jvp(square, (z.detach(),), (1j * z.detach(),))[1], 2j * z.detach() ** 2)
        turned = gw.custom_gradient(lambda x: (x * 1j, lambda up: up * -1j))
        refused(gw.GradientDtypeError, lambda: turned(leaf(X)).imag.sum().backward(), "`x`", "complex64", "float32")

    def test_sparse_upstream_is_dense(self):
        table = leaf(torch.zeros(3, 2))
        rows = torch.nn.functional.embedding(torch.tensor([0, 2, 0]), marked(table), sparse=True)
        rows.sum().backward()
        close(table.grad, [[6.0, 6.0], [0.0, 0.0], [3.0, 3.0]])


class TestRefusals:
    def check(self, grads, kind, *parts, **options):
        rule = gw.custom_gradient(name="wrong", **options)(lambda x, s: (x * s, grads))
        x, s = leaf(torch.ones(2, 3)), leaf(torch.ones(3))
        refused(kind, lambda: rule(x, s).sum().backward(), "rule `wrong` (test_torch.py:", *parts)

    def test_each(self):
        self.check(
            lambda up: (up, up, up), gw.GradientCountError, "expected 2 gradients, for `x` and `s`", "received 3"
        )
        self.check(lambda up: (up[0], up), gw.GradientShapeError, "`x`", "(3,)", "(2, 3)", "torch.ones_like(x)")
        self.check(lambda up: (up.T, up), gw.GradientShapeError, "`x`", "torch.permute(g, [1, 0])")
        self.check(lambda up: None, gw.GradientCountError, "`x` and `s`", "None")
        self.check(lambda up: (up.int(), up), gw.GradientDtypeError, "`x`", "int32")
        self.check(lambda up: (up, "no"), gw.GradientDtypeError, "`s`", "str")
        self.check(lambda up: {"x": up}, gw.GradientCountError, "`s`")
        self.check(lambda up: {"x": up, "t": up}, gw.GradientCountError, "'t'")
        self.check(lambda up: (up, up), gw.GradientShapeError, "`s`", "strict", strict=True)

    def test_no_pair(self):
        rule = gw.custom_gradient(lambda x: x * 2)
        refused(gw.GradwrightError, lambda: rule(leaf(X)), "test_torch.py:", "must return (output, grad)")


class TestVariables:
    def setup_method(self):
        self.w, self.v = leaf([2.0, 3.0]), leaf([5.0, 7.0])

    def affine(self, answer, **options):
        w, v = self.w, self.v

        @gw.custom_gradient(**options)
        def affine(x):
            y = x * w + v  # w is read first

            def grad(up, variables=None):
                assert [t is u for t, u in zip(variables, [w, v], strict=True)] == [True, True]
                return up * w, answer(up, x)

            return y, grad

        return affine

    @pytest.mark.parametrize("form", ["list", "mapping", "pairs", "function"])
    def test_forms(self, form):
        w, v = self.w, self.v
        answers = {
            "list": lambda up, x: [up * x, up],
            "mapping": lambda up, x: {v: up, w: up * x},
            "pairs": lambda up, x: [(v, up), (w, up * x)],
            "function": lambda up, x: lambda variables: [up * x, up],
        }
        x = leaf(torch.full((4, 2), 3.0))
        self.affine(answers[form])(x).sum().backward()
        close(w.grad, [12.0, 12.0])
        close(v.grad, [4.0, 4.0])
        close(x.grad, torch.tensor([2.0, 3.0]).expand(4, 2))

    def test_names_and_refusal(self):
        layer = torch.nn.Linear(2, 2)
        rule = gw.custom_gradient(name="dense")(lambda x: (layer(x), lambda up: up @ layer.weight))
        refused(
            gw.VariablesError,
            lambda: rule(leaf(X)).sum().backward(),
            "rule `dense`",
            "`layer.weight`",
            "`layer.bias`",
            "{v: d_v}",
        )
        assert rule.open(X).variable_names == ["layer.weight", "layer.bias"]
        assert self.affine(None).open(X).variable_names == ["w", "v"]

    def test_autodiff(self):
        layer = torch.nn.Linear(2, 2, dtype=torch.float64)
        rule = gw.custom_gradient(variables="autodiff")(lambda x: (layer(x).sin(), lambda up: 100 * up))
        x = leaf(torch.ones(3, 2, dtype=torch.float64))
        rule(x).sum().backward()
        found = layer.weight.grad.clone(), layer.bias.grad.clone()
        layer.zero_grad()
        layer(x.detach()).sin().sum().backward()
        close(found[0], layer.weight.grad)
        close(found[1], layer.bias.grad)
        close(x.grad, torch.full((3, 2), 100.0))

    def test_frozen_detached_and_earlier_tensors(self):
        layer = torch.nn.Linear(2, 2)
        layer.bias.requires_grad_(False)
        rule = gw.custom_gradient(lambda x: (layer(x), lambda up: (up @ layer.weight, [up.T @ x, up.sum(0)])))
        rule(leaf(torch.ones(3, 2))).sum().backward()
        close(layer.weight.grad, torch.full((2, 2), 3.0))
        assert layer.bias.grad is None
        w = self.w
        stopped = gw.custom_gradient(lambda x: (x * w.detach(), lambda up: up * w))
        stopped(leaf(X)).sum().backward()
        assert w.grad is None
        earlier = w * 2
        silent = gw.custom_gradient(lambda x: (x * earlier, lambda up: up * earlier))
        refused(gw.VariablesError, lambda: silent(leaf(X)).sum().backward(), "`earlier`")

    def test_modules_and_functional_call(self):
        class Scale(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.w = torch.nn.Parameter(torch.tensor([2.0, 3.0]))

            @gw.custom_gradient
            def rule(self, x):
                return x * self.w, lambda up: (up * self.w, [up * x])

            def forward(self, x):
                return self.rule(x)

        module = Scale()
        params, xs = dict(module.named_parameters()), torch.arange(3.0)[:, None] * torch.ones(3, 2)

        def loss(p, x):
            return functional_call(module, p, (x,)).sum()

        close(vmap(grad(loss), (None, 0))(params, xs)["w"], xs)
        assert module.rule.open(X).variable_names == ["w"]

    def test_keyed_by_tensor_under_vmap(self):
        def loss(x, w):
            rule = gw.custom_gradient(lambda x: (x * w, lambda up: (up * w, {w: up * x})))
            return rule(x).sum()

        gx, g = vmap(grad(loss, (0, 1)), (0, None))(torch.ones(3, 2), torch.tensor([2.0, 5.0]))
        close(gx, torch.tensor([2.0, 5.0]).expand(3, 2))
        close(g, torch.ones(3, 2))

    def test_rule_inside_a_rule(self):
        w = self.w

        @gw.custom_gradient
        def outer(x):
            return marked(x) * w, lambda up: (up * w, [up * marked(x)])

        outer(leaf(X)).sum().backward()
        close(w.grad, torch.exp(X))


class TestModes:
    def test_orders_follow_the_rule(self):
        x, e = leaf(X), torch.exp(X)
        derived = marked(x)
        for factor in (3, 9, 27):
            (derived,) = torch.autograd.grad(derived.sum(), x, create_graph=True)
            close(derived, factor * e)

    @pytest.mark.parametrize("outer", [jacfwd, jacrev])
    @pytest.mark.parametrize("middle", [jacfwd, jacrev])
    @pytest.mark.parametrize("inner", [jacfwd, jacrev])
    def test_transforms_nested(self, inner, middle, outer):
        def total(x):
            return marked(x).sum()

        e = torch.exp(X)
        close(inner(total)(X), 3 * e)
        close(middle(inner(total))(X), torch.diag(9 * e))
        close(torch.einsum("iii->i", outer(middle(inner(total)))(X)), 27 * e)

    def test_captured_intermediates(self):
        close(hessian(lambda x: cube(x).sum())(X), torch.diag(6 * X))
        close(jacrev(jacrev(jacrev(lambda x: cube(x).sum())))(X)[0, 0, 0], 6.0)
        x = X.double().requires_grad_()
        assert gradcheck(cube, x, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)
        assert gradgradcheck(cube, x)

    def test_gradcheck_sees_a_wrong_rule(self):
        refused(RuntimeError, lambda: gradcheck(marked, X.double().requires_grad_()), "Jacobian mismatch")

    def test_straight_through_second_order(self):
        st = gw.custom_gradient(lambda x: (torch.round(x), lambda up: up))
        close(hessian(lambda x: (st(x) ** 2).sum())(torch.tensor([1.3, 2.6])), 2 * torch.eye(2))

    def test_vmap(self):
        xs = torch.arange(6.0).reshape(3, 2) / 4
        close(vmap(marked)(xs), torch.exp(xs))
        close(vmap(grad(lambda x: marked(x).sum()))(xs), 3 * torch.exp(xs))
        close(vmap(jacfwd(marked))(xs), 3 * torch.diag_embed(torch.exp(xs)))
        close(grad(lambda xs: vmap(cube, 1)(xs).sum())(xs), 3 * xs**2)

    def test_dual_numbers(self):
        with forward_ad.dual_level():
            made = forward_ad.unpack_dual(marked(forward_ad.make_dual(X, torch.ones(2))))
            close(made.tangent, 3 * torch.exp(X))
        x = leaf(X)
        with forward_ad.dual_level():
            tangent = forward_ad.unpack_dual(marked(forward_ad.make_dual(x, torch.ones(2)))).tangent
            close(torch.autograd.grad(tangent.sum(), x)[0], 9 * torch.exp(X))

    def test_own_jvp(self):
        @gw.custom_gradient
        def product(x, y):
            def grad(up):
                return up * y, up * x

            grad.jvp = lambda tx, ty: 10 * (tx * y + ty * x)  # told apart from the transpose
            return x * y, grad

        close(jvp(product, (X, X + 1), (torch.ones(2), torch.zeros(2)))[1], 10 * (X + 1))
        close(jacfwd(lambda x: product(x, x).sum())(X), 20 * X)
        close(jacrev(lambda x: product(x, x).sum())(X), 2 * X)

    @pytest.mark.parametrize("mode", [lambda: jvp(clipped, (X,), (X,)), lambda: jacfwd(clipped)(X)])
    def test_nonlinear_has_no_forward_mode(self, mode):
        refused(gw.ModeError, mode, "rule `clipped` (test_torch.py:", "forward mode", "jvp")
        refused(gw.ModeError, lambda: vmap(jacfwd(clipped))(torch.ones(3, 2)), "rule `clipped`")
        close(grad(lambda x: 5 * clipped(x).sum())(X), torch.ones(2))

    def test_no_grad(self):
        with torch.no_grad():
            assert not marked(leaf(X)).requires_grad
        assert not marked(X).requires_grad

    def test_autocast_is_there_in_the_backward(self):
        matmul = gw.custom_gradient(lambda x, w: (x @ w, lambda up: (up @ w.T, x.T @ up)))
        x, w = leaf(torch.ones(2, 4)), leaf(torch.ones(4, 4))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = matmul(x, w)
        assert y.dtype == torch.bfloat16
        y.float().sum().backward()
        assert w.grad.dtype == torch.float32
        close(w.grad, torch.full((4, 4), 2.0))

    def test_checkpoint_and_saved_tensor_hooks(self):
        x = leaf(X)
        torch.utils.checkpoint.checkpoint(marked, x, use_reentrant=False).sum().backward()
        close(x.grad, 3 * torch.exp(X))
        x = leaf(X)
        with torch.autograd.graph.save_on_cpu():
            y = marked(x)
        y.sum().backward()
        close(x.grad, 3 * torch.exp(X))

    def test_in_place(self):
        x = leaf(X)
        y = cube(x)
        y += 1  # grad does not use its output
        y.sum().backward()
        close(x.grad, 3 * X**2)
        y = marked(leaf(X))
        y += 1
        refused(RuntimeError, lambda: y.sum().backward(), "modified by an inplace operation")

    def test_trace_and_export(self):
        module = type("Module", (torch.nn.Module,), {"forward": lambda self, x: marked(x)})()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            refused(gw.ModeError, lambda: torch.jit.trace(marked, (X,)), "rule `marked`", "torch.jit.trace")
            refused(gw.ModeError, lambda: torch.export.export(module, (X,)), "rule `marked`", "torch.export")
            with torch.no_grad():
                close(torch.export.export(module, (X,)).module()(X), torch.exp(X))

    def test_compile(self):
        x = leaf(X)
        compiled = torch.compile(lambda x: marked(x * 2).sum(), backend="eager")
        compiled(x).backward()
        close(x.grad, 6 * torch.exp(2 * X))
        whole = torch.compile(lambda x: marked(x), backend="eager", fullgraph=True)
        refused(Exception, lambda: whole(x), "a gradwright rule runs outside the compiled graph")

    def test_threads(self):
        found = []

        def work(i):
            x = leaf(X * i)
            marked(x).sum().backward()
            found.append(torch.allclose(x.grad, 3 * torch.exp(X * i)))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [True] * 6


class TestMemory:
    def test_nothing_outlives_its_call(self):
        x = leaf(X)
        output = weakref.ref(marked(x))
        assert output() is None  # at once: no cycle holds the output

    def test_residuals_go_with_the_backward(self):
        watched = []

        @gw.custom_gradient
        def f(x):
            kept = torch.ones(10) * x[0]
            watched.append(weakref.ref(kept))
            return x * 2, lambda up: up * 2 * kept[0]

        y = f(leaf(X))
        gc.collect()
        assert watched[0]() is not None
        y.sum().backward()
        gc.collect()
        assert watched[0]() is None

    def test_what_grad_writes_to_stays_the_users(self):
        seen, calls = [], 0

        @gw.custom_gradient
        def f(x):
            y = x * 2

            def grad(up):
                nonlocal calls
                calls += 1
                seen.append(up)
                return up * y

            return y, grad

        for _ in range(3):
            f(leaf(X)).sum().backward()
        assert len(seen) == calls == 3


def test_listeners_see_each_backward():
    seen = []

    class Listener:
        def watch(self, pullback, upstreams, pulled):
            seen.append((pullback.rule.name, upstreams[0].tolist(), pulled.gradients[0].tolist()))

    events.listeners.append(Listener())
    try:
        (cube(leaf([1.0, 2.0])) * 2).sum().backward()
    finally:
        events.listeners.pop()
    assert seen == [("cube", [2.0, 2.0], [6.0, 24.0])]


def test_fit_and_open():
    close(gw.fit(torch.ones(2, 3), torch.zeros(3)), [2.0, 2.0, 2.0])
    close(gw.fit(torch.tensor([2 + 1j]), torch.zeros(1), complex="real"), [2.0])
    refused(gw.GradientShapeError, lambda: gw.fit(torch.ones(3), torch.zeros(2, 3)), "`input`")
    call = cube.open(X)
    assert call.names == ["x"]
    close(call.pull([torch.ones(2)]).gradients[0], 3 * X**2)
    close(cube.forward(X), X**3)
    assert cube.forward(leaf(X)).grad_fn is not None


def test_tensors_inside_wrappers_are_found():
    class Wrapper:
        """Like the variables of Keras: torch functions take it, and unwrap it where no mode looks."""

        def __init__(self, tensor):
            self.tensor = tensor

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func(*(a.tensor if isinstance(a, cls) else a for a in args), **(kwargs or {}))

    hidden = Wrapper(leaf([2.0, 3.0]))
    silent = gw.custom_gradient(name="silent")(lambda x: (x * hidden, lambda up: up * hidden))
    refused(gw.VariablesError, lambda: silent(leaf(X)).sum().backward(), "rule `silent`", "tensor of shape (2,)")
    answered = gw.custom_gradient(lambda x: (x * hidden, lambda up: (up * hidden, [up * x])))
    x = leaf(X)
    answered(x).sum().backward()
    close(hidden.tensor.grad, X)


class TestWithoutPrivateNames:
    """Each private name of torch may be gone; a rule then takes a longer way, or is refused by name.

    torch itself needs two of the names, so for those the answer of our own function is taken away instead.
    """

    def works(self):
        x, e = leaf(X), torch.exp(X)
        derived = marked(x)
        for factor in (3, 9):
            (derived,) = torch.autograd.grad(derived.sum(), x, create_graph=True)
            close(derived, factor * e)
        close(vmap(grad(lambda x: marked(x).sum()))(X[None]), 3 * e[None])
        with torch.no_grad():
            close(marked(X), e)

    def test_transforms_unknown(self, monkeypatch):
        monkeypatch.setattr(torch_private, "transformed", lambda: True)
        self.works()

    def test_level_of_forward_mode_unknown(self, monkeypatch):
        monkeypatch.delattr(forward_ad, "_current_level")
        x = leaf(X)
        marked(x).sum().backward()
        close(x.grad, 3 * torch.exp(X))

    def test_sequence_unknown(self, monkeypatch):
        monkeypatch.delattr(torch._C._autograd, "_get_sequence_nr")
        self.works()
        w = leaf([2.0, 3.0])
        rule = gw.custom_gradient(lambda x: (x * w, lambda up: (up * w, [up * x])))
        rule(leaf(X)).sum().backward()
        close(w.grad, X)

    def test_forward_mode_cannot_be_switched(self, monkeypatch):
        monkeypatch.setattr(torch_private, "forward_mode_on", lambda: None)
        self.works()
        refused(gw.ModeError, lambda: jvp(marked, (X,), (X,)), "rule `marked`", "nested forward mode")


def test_check_proves_captured_tensors_too():
    w = leaf([2.0, 3.0])
    right = gw.custom_gradient(lambda x: (x * w, lambda up: (up * w, [up * x])))
    wrong = gw.custom_gradient(lambda x: (x * w, lambda up: (up * w, [2 * up * x])))
    x = torch.tensor([[0.5, 1.0], [2.0, 3.0]])
    assert gw.check(right, x).verdict == "right"
    report = gw.check(wrong, x)
    assert [(fault.label, fault.argument) for fault in report.faults] == [("factor", "w")]
    close(w, [2.0, 3.0])
