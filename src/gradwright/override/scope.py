"""`gw.override`: the scope, and the callable that carries its scope along."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from gradwright.errors import OverrideError
from gradwright.override import messages
from gradwright.override.conditions import Conditions, conditions
from gradwright.override.entries import Entry, entries
from gradwright.override.hits import Hits


class Scope:
    """The rules of one `gw.override` as a context manager; may be entered again, each time with fresh counts.

    Called with a function or model, it gives the callable that `gw.override(rules, function)` gives, so it also
    serves as a decorator.
    """

    # AutoGraph calls what carries this mark as it is, instead of converting our source.
    autograph_info__: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, rules: Mapping[str, Any], shared: Conditions, strict: bool):
        from gradwright.frameworks import tf_override

        self._rules = {str(op_type): rule for op_type, rule in rules.items()}
        self._shared, self._strict = shared, strict
        if not self._rules:
            raise OverrideError('no rule was given\n  repair: gw.override({"Relu": rule})')
        tf_override.check_types(self._rules)
        self.plan()
        self._entered = threading.local()

    def plan(self) -> tuple[list[Entry], Hits]:
        """Fresh entries with fresh counts."""
        hits = Hits(list(self._rules))
        return entries(self._rules, self._shared, hits), hits

    def __enter__(self) -> Hits:
        from gradwright.frameworks import tf_override

        own, hits = self.plan()
        stack = contextlib.ExitStack()
        stack.enter_context(tf_override.active(tf_override.Activation(own, tf_override.top())))
        self._entered.__dict__.setdefault("stack", []).append((stack, own))
        return hits

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        stack, own = self._entered.stack.pop()
        stack.close()
        if kind is None and self._strict:
            refuse_unanswered(own)

    def __call__(self, target: Any) -> Overridden:
        """Carry the scope into one model or function."""
        if not callable(target) and not _functions_of(target):
            raise OverrideError(f"{target!r} is no function or model\n  repair: gw.override(rules, model)")
        return Overridden(self, target, self._strict)


class Overridden:
    """A model or function with other gradients: called like it, and giving its attributes.

    Attributes:
        hits: what the rules met, over all calls.
        original: what was overridden, untouched.
    """

    autograph_info__: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, scope: Scope, target: Any, strict: bool, parts: Any = None):
        # Not `__wrapped__`: TensorFlow puts that in the place of an argument that has it.
        self.original = target
        self.__name__ = getattr(target, "__name__", type(target).__name__)
        self.__doc__ = getattr(target, "__doc__", None)
        self._scope, self._strict = scope, strict
        self._own, self.hits = parts or scope.plan()
        self._alone: Any = None
        self._over: Any = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the original within the scope."""
        target = self.original
        if not callable(target):
            raise OverrideError(_not_callable(target))
        from gradwright.frameworks import tf_override

        with self._active():
            result = tf_override.converted(target)(*args, **kwargs)
        if self._strict:
            refuse_unanswered(self._own)
        return result

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "original":
            raise AttributeError(name)
        return self._with_scope(getattr(self.original, name))

    def _with_scope(self, value: Any) -> Any:
        """Functions reached through the model are overridden too; all else is given as it is."""
        if isinstance(value, Mapping):
            functions = {key: self._with_scope(one) for key, one in value.items()}
            return functions if any(isinstance(one, Overridden) for one in functions.values()) else value
        if _is_function(value):
            return Overridden(self._scope, value, self._strict, (self._own, self.hits))
        return value

    @contextlib.contextmanager
    def _active(self) -> Iterator[None]:
        from gradwright.frameworks import tf_override

        with tf_override.active(self._activation(tf_override.top())):
            yield

    def _activation(self, over: Any) -> Any:
        """The activation over that of the caller; kept, with the functions traced for it."""
        from gradwright.frameworks import tf_override

        with self._lock:
            if over is None:
                self._alone = self._alone or tf_override.Activation(self._own, None)
                return self._alone
            if over not in self._over:
                self._over[over] = tf_override.Activation(self._own, over)
            return self._over[over]

    def __repr__(self) -> str:
        return f"<{self.original!r} with other gradients for {', '.join(self.hits)}>"


def refuse_unanswered(own: list[Entry]) -> None:
    """Raise if a rule has not served any op."""
    missing = [entry for entry in own if not entry.answered]
    if missing:
        raise OverrideError(messages.never_hit(missing))


def _functions_of(target: Any) -> list[str]:
    """How to reach the functions of what cannot be called itself, as a loaded SavedModel."""
    named = [f'signatures["{key}"]' for key in getattr(target, "signatures", {})]
    return named + [name for name, value in getattr(target, "__dict__", {}).items() if _is_function(value)]


def _is_function(value: Any) -> bool:
    return hasattr(value, "get_concrete_function") or hasattr(value, "structured_input_signature")


def _not_callable(target: Any) -> str:
    """Say that it has no call, and what can be called."""
    shown = f"{type(target).__name__} has no call of its own"
    return f"{shown}\n  repair: " + " or ".join(f"overridden.{name}(x)" for name in _functions_of(target))


def override(
    rules: Mapping[str, Any],
    target: Any = None,
    *,
    strict: bool = True,
    layers: Any = None,
    names: Any = None,
    where: Callable[[Any], bool] | None = None,
) -> Any:
    """Give built-in ops other gradients: in a `with` block, or in one model or function.

    >>> import tensorflow as tf, gradwright as gw
    >>> def guided(op, upstream):
    ...     return tf.where(op.outputs[0] > 0, tf.nn.relu(upstream), 0.)
    >>> x, weights = tf.constant([-1., 2., 3.]), tf.constant([1., -1., 1.])
    >>> with tf.GradientTape() as tape, gw.override({"Relu": guided}) as hits:
    ...     tape.watch(x)
    ...     loss = tf.reduce_sum(weights * tf.nn.relu(x))
    >>> tape.gradient(loss, x).numpy().tolist(), hits["Relu"]
    ([0.0, 0.0, 1.0], 1)

    The override holds for what *runs forward* in the scope, on this thread: eager ops, ops put into a function,
    and calls of functions that were traced before, of ConcreteFunctions, loaded SavedModels and their signatures.
    Those are called as a twin; the function itself is not changed, and keeps nothing of the override afterwards.
    Backward passes are differentiated natively, wherever they run.

    Args:
        rules: {op type: rule}; `rule(op, *upstreams)` as for `tf.RegisterGradient` returns one gradient per input.
            A list of rules, made with `gw.override.at(rule, layers=..., names=..., where=...)`, serves ops of one
            type differently; the narrowest rule wins, also over other scopes.
        target: a function or model. Then the result is a callable like it, with these gradients.
        strict: raise `OverrideError` at the end of the block (or after the first call) if a rule served no op.
        layers: only ops inside these Keras layers (objects or names).
        names: only ops of these names or under these name scopes; `*` and `?` match.
        where: only ops for which this predicate on the op is true.

    Returns:
        A context manager that gives `hits` (`hits["Relu"]` counts, `hits.places["Relu"]` tells where), or the
        callable, which carries `hits`.

    Raises:
        OverrideError: an op type is unknown or can never be overridden, or a rule served no op.
        ModeError: a forward accumulator follows an overridden op, or a rule cannot be vectorised or saved.
        GradientShapeError, GradientCountError: what the rule returned does not fit the inputs of the op.
    """
    scope = Scope(rules, conditions(layers, names, where), strict)
    return scope if target is None else scope(target)


def native(op: Any, *upstreams: Any) -> Any:
    """What TensorFlow's own gradient gives, for rules that only change it a little.

    >>> import tensorflow as tf, gradwright as gw
    >>> def halved(op, upstream):
    ...     return gw.override.native(op, upstream / 2)
    >>> x = tf.constant(3.)
    >>> with tf.GradientTape() as tape, gw.override({"Square": halved}):
    ...     tape.watch(x)
    ...     y = tf.square(x)
    >>> float(tape.gradient(y, x))
    3.0
    """
    from gradwright.frameworks import tf_override

    return tf_override.native(op, *upstreams)
