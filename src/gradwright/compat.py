"""The old names, working: RegisterGradient, gradient_override_map, Defun, as they were known in TensorFlow 1.

>>> import tensorflow as tf, gradwright as gw
>>> @gw.compat.RegisterGradient("HalfSign")
... def half(op, upstream):
...     return upstream / 2
>>> x = tf.constant([3.])
>>> with tf.GradientTape() as tape, gw.compat.gradient_override_map({"Sign": "HalfSign"}):
...     tape.watch(x)
...     loss = tf.reduce_sum(5 * tf.sign(x))
>>> tape.gradient(loss, x).numpy().tolist()
[2.5]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradwright.errors import ArgumentError, GradientCountError
from gradwright.override import override
from gradwright.override.scope import Scope

__all__ = ["Defun", "RegisterGradient", "get_default_graph", "gradient_override_map"]


class RegisterGradient:
    """Register `rule(op, *upstreams)` under a name, as `tf.RegisterGradient`, but again and again.

    >>> import gradwright as gw
    >>> for factor in (2, 3):
    ...     @gw.compat.RegisterGradient("Scaled")
    ...     def scaled(op, upstream): return factor * upstream
    >>> gw.compat.RegisterGradient.remove("Scaled")

    Args:
        name: any name, for `gradient_override_map`; or an op type, for the whole process.
        overwrite: None (the default) replaces what has a name of your own, so that a notebook cell may run twice,
            and refuses the built-in gradient of an op type. True replaces that too, until `remove`. False
            replaces nothing.

    Raises:
        OverrideError: the name is taken, and may not be overwritten.
    """

    def __init__(self, name: str, *, overwrite: bool | None = None):
        if not isinstance(name, str):
            raise ArgumentError(
                f'RegisterGradient takes a name, not {name!r}\n  repair: @gw.compat.RegisterGradient("MyRule")'
            )
        self.name, self.overwrite = name, overwrite

    def __call__(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Register the rule, and give it back."""
        from gradwright.frameworks import tf_override_registry

        tf_override_registry.register(self.name, rule, self.overwrite)
        return rule

    @staticmethod
    def remove(name: str) -> None:
        """Take a name back out; the built-in gradient of an op type comes back."""
        from gradwright.frameworks import tf_override_registry

        tf_override_registry.remove(name)


def gradient_override_map(*graph_and_map: Any, strict: bool = True) -> Scope:
    """Override the gradients of op types by registered names, in a `with` block, in every mode.

    >>> import gradwright as gw
    >>> gw.compat.gradient_override_map({"relu": "MyRule"})  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    OverrideError: TensorFlow has no op of type 'relu'; did you mean Relu, Relu6?

    Args:
        graph_and_map: `{op type: registered name}`; a graph may stand before it, so that the function can be put
            in the place of the method `graph.gradient_override_map`.
        strict: as for `gw.override`: raise at the end of the block if a rule served no op.

    Raises:
        OverrideError: an op type or a name does not exist, or a rule served no op.
    """
    op_type_map = graph_and_map[-1] if graph_and_map else None
    if not isinstance(op_type_map, Mapping) or len(graph_and_map) > 2:
        raise ArgumentError(
            "gradient_override_map takes {op type: name}, perhaps after a graph\n"
            '  repair: gw.compat.gradient_override_map({"Relu": "MyRule"})'
        )
    from gradwright.frameworks import tf_override, tf_override_registry

    tf_override.check_types(op_type_map)
    rules = {t: n if callable(n) else tf_override_registry.rule_named(n) for t, n in op_type_map.items()}
    return override(rules, strict=strict)


class _Graph:
    """A graph whose `gradient_override_map` works in every mode; all else is the graph's own."""

    def __init__(self, graph: Any):
        self._graph = graph

    def gradient_override_map(self, op_type_map: Mapping[str, str], strict: bool = True) -> Scope:
        """Override by registered names; see `gw.compat.gradient_override_map`."""
        return gradient_override_map(self._graph, op_type_map, strict=strict)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)


def get_default_graph() -> Any:
    """The default graph, for old code that says `get_default_graph().gradient_override_map({...})`.

    >>> import gradwright as gw
    >>> scope = gw.compat.get_default_graph().gradient_override_map({"Relu": "Relu"})
    """
    import tensorflow as tf

    return _Graph(tf.compat.v1.get_default_graph())


class Defun:
    """A function with declared input types and, if wanted, a gradient of its own.

    >>> import tensorflow as tf, gradwright as gw
    >>> @gw.compat.Defun(tf.float32, python_grad_func=lambda op, upstream: upstream / 2)
    ... def sign(x):
    ...     return tf.sign(x)
    >>> x = tf.constant([3.])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     loss = 5 * sign(x)
    >>> tape.gradient(loss, x).numpy().tolist()
    [2.5]

    Args:
        input_types: the dtype of each argument; arguments are converted. Without any, they are taken as they come.
        func_name: the name in messages.
        grad_func: `grad_func(*inputs, *upstreams)`, often a Defun itself, returns the gradients of the inputs.
        python_grad_func: `python_grad_func(op, *upstreams)`, with `op.inputs` and `op.outputs`.
        ignored: what else the old Defun took (`out_names`, `shape_func`, `noinline`) changes nothing here.
    """

    def __init__(
        self,
        *input_types: Any,
        func_name: str | None = None,
        grad_func: Callable[..., Any] | None = None,
        python_grad_func: Callable[..., Any] | None = None,
        **ignored: Any,
    ):
        if grad_func is not None and python_grad_func is not None:
            raise ArgumentError("Defun was given two gradients\n  repair: either grad_func= or python_grad_func=")
        self.input_types, self.func_name = input_types, func_name
        self.grad_func, self.python_grad_func = grad_func, python_grad_func

    def __call__(self, function: Callable[..., Any]) -> DefinedFunction:
        """Give the function its types and its gradient."""
        return DefinedFunction(self, function)


class DefinedFunction:
    """What `Defun` makes of a function."""

    autograph_info__: Mapping[str, Any] = {}

    def __init__(self, made: Defun, function: Callable[..., Any]):
        self._made, self.function = made, function
        name = made.func_name or getattr(function, "__name__", "defun")
        self.name = self.__name__ = name if name.isidentifier() else "defun"
        self.__doc__ = function.__doc__
        self.declared_input_types = made.input_types
        self._rule = self._with_gradient() if made.grad_func or made.python_grad_func else function

    def __call__(self, *args: Any, name: str | None = None) -> Any:
        """Call the function with its arguments converted to the declared types."""
        import tensorflow as tf

        types = self.declared_input_types or (None,) * len(args)
        if len(args) != len(types):
            raise GradientCountError(f"{self.name} was declared with {len(types)} inputs, but called with {len(args)}")
        inputs = [tf.convert_to_tensor(a, dtype=t) for a, t in zip(args, types, strict=True)]
        with tf.name_scope(name or self.name):
            return self._rule(*inputs)

    def _with_gradient(self) -> Callable[..., Any]:
        from gradwright.rule import custom_gradient

        def pair(*inputs: Any) -> Any:
            output = self.function(*inputs)

            def grad(*upstreams: Any, variables: Sequence[Any] = ()) -> Any:
                gradients = self._gradient(inputs, output, upstreams)
                return (gradients, self._of_variables(inputs, upstreams, variables)) if variables else gradients

            return output, grad

        return custom_gradient(name=self.name)(pair)

    def _gradient(self, inputs: Sequence[Any], output: Any, upstreams: Sequence[Any]) -> Any:
        made = self._made
        if made.grad_func is not None:
            return made.grad_func(*inputs, *upstreams)
        assert made.python_grad_func is not None
        outputs = list(output) if isinstance(output, list | tuple) else [output]
        return made.python_grad_func(FunctionOp(self.name, list(inputs), outputs), *upstreams)

    def _of_variables(self, inputs: Sequence[Any], upstreams: Sequence[Any], variables: Sequence[Any]) -> Any:
        """Captured variables get the framework's own gradient; the old gradients spoke of the inputs only."""
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(variables)
            output = self.function(*inputs)
        return tape.gradient(tf.nest.flatten(output), list(variables), output_gradients=list(upstreams))

    def add_to_graph(self, graph: Any) -> None:
        """Do nothing: a function of this kind needs no graph."""


class FunctionOp:
    """The call of a defined function, as its `python_grad_func` sees it."""

    def __init__(self, name: str, inputs: list[Any], outputs: list[Any]):
        self.type = self.name = name
        self.inputs, self.outputs = inputs, outputs
