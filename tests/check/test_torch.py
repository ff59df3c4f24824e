"""PyTorch functions and modules, by the same course."""

import pytest

torch = pytest.importorskip("torch")

import gradwright as gw  # noqa: E402

X = torch.tensor([0.5, -1.0, 2.0])


def power(factor):
    class Power(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.save_for_backward(x)
            ctx.k = k
            return x**k

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return factor * g * ctx.k * x ** (ctx.k - 1), None

    return Power.apply


def test_autograd_functions():
    assert gw.check(power(1.0), X, 3).ok
    report = gw.check(power(-1.0), X, 3)
    assert [(f.label, f.argument) for f in report.faults] == [("sign", "x")]
    assert report.name == "Power" and "float64" in report.oracle


def test_the_form_with_setup_context():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return 2 * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return 3 * g

    assert gw.check(Double.apply, X).labels == ["factor"]


def test_modules_by_parameter():
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    before = [p.detach().clone() for p in module.parameters()]
    report = gw.check(module, torch.randn(5, 3, generator=torch.manual_seed(0)))
    assert report.ok, str(report)
    assert {"0.weight", "0.bias", "2.weight", "2.bias"} <= {row.argument for row in report.arguments}
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))


def test_plain_functions_and_second_order():
    assert gw.check(lambda x: torch.sin(x).sum(), X, order=2).ok
    assert gw.check(power(1.0), X, 3, order=2).ok


def test_complex_functions_conjugate():
    z = torch.tensor([1.0 + 2.0j, 0.5 - 1.0j])

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    assert gw.check(Square.apply, z).labels == ["conjugate"]
    assert gw.check(lambda z: z * z, z).ok


def test_in_place_work_on_the_input_is_found():
    class InPlace(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = 2 * x
            x.add_(1.0)
            return y

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    with torch.no_grad():
        report = gw.check(InPlace.apply, X)
    assert report.verdict == "wrong" and "writes into its input" in str(report)
