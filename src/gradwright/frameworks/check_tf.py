"""What the proving engine needs of TensorFlow: tensors from and to NumPy, a function's own gradient, its variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradwright.frameworks.check_numpy import NumPy


class TensorFlow(NumPy):
    """TensorFlow as the prover sees it; complex gradients are conj(df/dz) * upstream, the real inner product's own."""

    name = "tensorflow"

    def is_tensor(self, value: Any) -> bool:
        """Whether a value can be a differentiable input."""
        import tensorflow as tf

        return super().is_tensor(value) or (
            isinstance(value, (tf.Tensor, tf.Variable, tf.RaggedTensor)) or _is_keras_variable(value)
        )

    def dtype(self, value: Any) -> str:
        """The dtype's plain name: `float32`, `bfloat16`, `complex64`."""
        import tensorflow as tf

        return tf.as_dtype(value.dtype).name

    def numpy(self, value: Any) -> np.ndarray:
        """The numbers of a tensor; the flat values of a ragged one, sparse slices made dense."""
        import tensorflow as tf

        if isinstance(value, tf.RaggedTensor):
            value = value.flat_values
        if not isinstance(value, (np.ndarray, np.generic)):
            value = tf.convert_to_tensor(value).numpy()
        return np.asarray(value)

    def tensor(self, value: np.ndarray, like: Any, dtype: str) -> Any:
        """A tensor of that dtype holding `value`, ragged as `like` is."""
        import tensorflow as tf

        tensor = tf.constant(value.astype(tf.as_dtype(dtype).as_numpy_dtype))
        return like.with_flat_values(tensor) if isinstance(like, tf.RaggedTensor) else tensor

    def scalar(self, value: Any) -> Any:
        """A python number as the tensor that TensorFlow makes of it."""
        import tensorflow as tf

        return tf.convert_to_tensor(value)

    def flatten(self, output: Any) -> list[Any]:
        """The output tensors in TensorFlow's order."""
        import tensorflow as tf

        return [
            tf.convert_to_tensor(t) if isinstance(t, (np.ndarray, np.generic, int, float, complex)) else t
            for t in tf.nest.flatten(output)
            if t is not None
        ]

    def spy(self, fn: Callable[[], Any]) -> tuple[Any, list[Any]]:
        """Run `fn` and tell which trainable variables it read."""
        import tensorflow as tf

        with tf.GradientTape() as tape:
            result = fn()
        return result, list(tape.watched_variables())

    def vjp(self, fn: Callable[..., Any], tensors: list[Any], variables: list[Any]) -> tuple[list[Any], Callable]:
        """The outputs of `fn(*tensors)` and the function that pulls upstreams back through TensorFlow's own record."""
        import tensorflow as tf

        with tf.GradientTape(persistent=True) as tape:
            tape.watch(tensors)
            outputs = self.flatten(fn(*tensors))
        targets = [i for i, t in enumerate(outputs) if self.dtype(t).startswith(("float", "bfloat", "complex"))]

        def pull(upstreams: list[Any]) -> list[Any]:
            return tape.gradient(
                [outputs[i] for i in targets],
                tensors + variables,
                output_gradients=[upstreams[i] for i in targets],
            )

        return outputs, pull

    def variable_name(self, variable: Any) -> str:
        """The name a user knows the variable by."""
        return str(getattr(variable, "path", None) or variable.name).removesuffix(":0")

    def write(self, variable: Any, value: np.ndarray) -> None:
        """Put a value into a variable."""
        variable.assign(value.astype(variable.numpy().dtype))

    def double(self, fn: Callable[..., Any], likes: list[Any], variables: list[Any]) -> Any:
        """The double precision graph of a function of tensors; raises where there is none."""
        import tensorflow as tf

        from gradwright.frameworks.tf_double import DoubleGraph

        def of_flat(*tensors: Any) -> list[Any]:
            given = [
                like.with_flat_values(t) if isinstance(like, tf.RaggedTensor) else t
                for like, t in zip(likes, tensors, strict=True)
            ]
            return [t.flat_values if isinstance(t, tf.RaggedTensor) else t for t in self.flatten(fn(*given))]

        flat = [like.flat_values if isinstance(like, tf.RaggedTensor) else tf.convert_to_tensor(like) for like in likes]
        return DoubleGraph(of_flat, flat, variables)

    def state_of(self, f: Any) -> Callable[[], list[tuple[Any, Any]]]:
        """What a layer or model changes by being called: moving averages, seeds."""

        def state() -> list[tuple[Any, Any]]:
            own, trained = getattr(f, "variables", []), getattr(f, "trainable_variables", [])
            kept = {id(v) for v in trained}
            return [(v, self.numpy(v).copy()) for v in own if id(v) not in kept] if hasattr(f, "weights") else []

        return state

    def restore(self, state: list[tuple[Any, Any]]) -> None:
        """Put such a state back."""
        for variable, value in state:
            variable.assign(value)

    def modes(self) -> dict[str, tuple[str, Callable[..., list[Any]]]]:
        """The modes by name: what each is, and how to take gradients in it."""
        from gradwright.frameworks.check_tf_modes import MODES, Run

        def bound(do: Callable[[Any], list[Any]]) -> Callable[..., list[Any]]:
            return lambda apply, xs, variables, ups: do(Run(self._live(apply), xs, variables, ups))

        return {name: (told, bound(do)) for name, (told, do) in MODES.items()}

    def _live(self, fn: Callable[..., Any]) -> Callable[..., list[Any]]:
        """`fn` as a function to the flat list of outputs that carry gradients."""

        def live(*xs: Any) -> list[Any]:
            return [y for y in self.flatten(fn(*xs)) if y.dtype.is_floating or y.dtype.is_complex]

        return live

    def second(
        self, fn: Callable[..., Any], xs: list[Any], upstreams: list[Any], tangents: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        """The gradients of <tangents, gradients of fn for upstreams> by the inputs and by the upstreams."""
        import tensorflow as tf

        with tf.GradientTape() as outer:
            outer.watch([*xs, *upstreams])
            with tf.GradientTape() as tape:
                tape.watch(xs)
                ys = self._live(fn)(*xs)
            first = tape.gradient(ys, xs, output_gradients=upstreams)
            parts = [_paired(t, g) for t, g in zip(tangents, first, strict=True) if g is not None]
            total = tf.add_n(parts)
        found = outer.gradient(total, [*xs, *upstreams])
        return found[: len(xs)], found[len(xs) :]

    def forward(self, fn: Callable[..., Any], xs: list[Any], tangents: list[Any]) -> list[Any]:
        """The tangents of the outputs, in forward mode."""
        import tensorflow as tf

        with tf.autodiff.ForwardAccumulator(xs, tangents) as accumulator:
            ys = self._live(fn)(*xs)
        return accumulator.jvp(ys)

    def seed(self, seed: int) -> None:
        """Make the next random numbers of the eager process repeat."""
        import tensorflow as tf

        tf.random.set_seed(seed)
        self._seeded = True

    _seeded = False

    def random_state(self) -> Any:
        """What `restore_random_state` needs."""
        from gradwright.frameworks.tf_seed import global_seed

        return global_seed()

    def restore_random_state(self, state: Any) -> None:
        """Give the global seed back; the sequence starts anew, as TensorFlow has no way to continue it."""
        import tensorflow as tf

        if self._seeded:
            tf.random.set_seed(state)


def _is_keras_variable(value: Any) -> bool:
    return type(value).__module__.startswith("keras") and hasattr(value, "assign") and hasattr(value, "trainable")


def _paired(tangent: Any, gradient: Any) -> Any:
    """The real inner product of two tensors."""
    import tensorflow as tf

    product = tf.convert_to_tensor(gradient) * (tf.math.conj(tangent) if tangent.dtype.is_complex else tangent)
    return tf.reduce_sum(tf.math.real(product) if tangent.dtype.is_complex else product)
