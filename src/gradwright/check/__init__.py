"""Proving a rule: `check` says right, wrong or undecided, with evidence; `assert_gradients` raises unless right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradwright.check.prove import assert_gradients, check
else:
    # NumPy alone would double the time of `import gradwright`: the engine is loaded when it is first called.
    def check(*args: Any, **kwargs: Any) -> Any:
        """Prove that a gradient is right, or say what is wrong with it; see `gradwright.check.prove.check`."""
        from gradwright.check.prove import check as prove

        return prove(*args, **kwargs)

    def assert_gradients(*args: Any, **kwargs: Any) -> Any:
        """`check`, for tests: raises `WrongGradientError` unless the rule is right."""
        from gradwright.check.prove import assert_gradients as prove

        return prove(*args, **kwargs)


__all__ = ["assert_gradients", "check"]
