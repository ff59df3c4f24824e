"""The protocol of a seam: what the rest of gradwright may ask of a framework.

A seam is one object, `seam`, of a module in this package. The core (`rule`, `signature`, `matching`, `outputs`,
`captured`, `fit`) knows a framework only through it. To bring another framework in, write the module, name it in
`frameworks.adapter` and `frameworks.NAMES`, and let `tests/frameworks` run it through the table of modes.

A seam holds no state of a call. What it must never do: keep a tensor alive that the user's grad does not use, answer
a call differently in one mode than in another, or leave anything patched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from gradwright.errors import Fault
from gradwright.fit import AtRunTime, Plan, plan
from gradwright.outputs import Outputs
from gradwright.pullback import Fitted
from gradwright.rule import Rule
from gradwright.signature import Bound
from gradwright.space import Space


class Seam(Protocol):
    """What a framework must offer."""

    name: str
    keyed: str
    """How a rule answers by variable, as the repair in a message writes it; `{v.ref(): d_v}` where it is left out."""

    def is_leaf(self, value: Any) -> bool:
        """Whether a value stands for itself in a structure, although it may look like one: tensors and arrays."""
        ...

    def is_tensor(self, value: Any) -> bool:
        """Whether a value is a tensor of this framework, symbolic ones and variables too."""
        ...

    def to_tensor_argument(self, value: Any) -> Any:
        """Turn what stands for a tensor (an array, a wrapped variable) into one; leave everything else alone."""
        ...

    def to_output(self, value: Any) -> Any:
        """Turn a number or array that the forward returned into a tensor; leave static outputs alone."""
        ...

    def is_trainable(self, variable: Any) -> bool:
        """Whether a captured variable wants a gradient, so that the rule must answer for it."""
        ...

    def variable_of_key(self, key: Any) -> Any:
        """The variable that a key of a rule's answer stands for; None if it stands for none."""
        ...

    def variable_name(self, variable: Any) -> str:
        """The name by which the user knows a variable."""
        ...

    def not_among(self, reads: list[Any], arguments: list[Any]) -> list[Any]:
        """The variables that were read without being arguments, in order of first use."""
        ...

    def space(self, value: Any) -> Space:
        """Shape and dtype of a tensor: all that a gradient needs to fit it."""
        ...

    def shape_at_run_time(self, value: Any) -> Any:
        """The shape as the framework knows it when the program runs."""
        ...

    def upstream(self, upstream: Any, space: Space, sparse: bool) -> Any:
        """An upstream that a rule can compute with: dense unless `sparse`, zeros where the framework has none."""
        ...

    def fit(
        self, gradient: Any, space: Space, complex: str = "refuse", strict: bool = False, at: AtRunTime | None = None
    ) -> Fitted:
        """Carry out `fit.plan`; a `Fault` says what is wrong, and the caller says whose gradient it is."""
        ...

    def call(self, rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a rule in whatever mode the framework is in, and leave a `Pullback` with its own recorder."""
        ...

    def run(self, rule: Rule, bound: Bound) -> tuple[Any, Callable[..., Any], Outputs, list[Any]]:
        """Run the forward once on plain tensors, for provers: output, grad, the outputs apart, variables read."""
        ...

    def variables_by_autodiff(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run a pair whose grad answers for its inputs; give (output, grad) that answers for variables as well."""
        ...


def plan_in_words(given: Space, wanted: Space, complex: str, strict: bool, words: dict[str, str]) -> Plan:
    """`fit.plan`, whose repairs are lines of TensorFlow, with the words of another framework in them."""
    try:
        return plan(given, wanted, complex, strict)
    except Fault as fault:
        repair = fault.repair
        for old, new in words.items():
            repair = repair and repair.replace(old, new)
        raise Fault(fault.kind, fault.fact, repair) from None
