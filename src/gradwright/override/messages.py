"""What is said when an override names nothing, hits nothing, or asks for what cannot be replaced."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from gradwright.override.entries import Entry

# What people call a thing, and the op types that TensorFlow makes of it.
KNOWN_AS = {
    "silu": "Sigmoid and Mul, inside a custom gradient of TensorFlow's own",
    "swish": "Sigmoid and Mul, inside a custom gradient of TensorFlow's own",
    "gelu": "Erfc and Mul, or Tanh and Mul when approximate",
    "mish": "Softplus, Tanh and Mul",
    "dense": "MatMul and BiasAdd",
    "conv": "Conv2D",
    "batchnormalization": "Mean, Rsqrt, Mul, AddV2 and Sub in Keras 3",
    "hardsigmoid": "Relu6",
    "clip": "Minimum and Maximum",
    "clipbyvalue": "Minimum and Maximum, or ClipByValue",
    "add": "AddV2",
    "argmax": "ArgMax, whose output has no gradient",
    "stopgradient": "StopGradient",
    "attention": "Einsum, or BatchMatMulV2, and Softmax",
}


STRAIGHT_THROUGH = "y = gw.ops.straight_through(lambda v: ...)(x), a rule around the whole integer path"
AROUND = "gw.custom_gradient around the function itself, or write it with plain ops: x * tf.sigmoid(x) for silu"


def unknown_type(name: str, known: Iterable[str]) -> str:
    """Name the op types that may have been meant.

    >>> print(unknown_type("relu", ["Relu", "Relu6", "Selu"]))
    TensorFlow has no op of type 'relu'; did you mean Relu, Relu6, Selu?
      repair: gw.override({"Relu": rule})
    """
    near, plain = near_names(name, known), _plain(name)
    said = f"; {name} is made of {KNOWN_AS[plain]}" if plain in KNOWN_AS else ""
    fact = f"TensorFlow has no op of type {name!r}{said}"
    if not near:
        return f"{fact}\n  repair: use the op type as in op.type, for example Relu, Conv2D, MatMul"
    return f'{fact}; did you mean {", ".join(near)}?\n  repair: gw.override({{"{near[0]}": rule}})'


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """The known names nearest to one, the best first; case and underscores count for nothing.

    >>> near_names("leaky_relu", ["Relu", "LeakyRelu", "MatMul"])[0]
    'LeakyRelu'
    """
    plain = {}
    for one in known:
        plain.setdefault(_plain(one), one)
    return [plain[found] for found in difflib.get_close_matches(_plain(name), plain, 3, 0.6)]


def _plain(name: str) -> str:
    return name.replace("_", "").replace(" ", "").lower()


def never_hit(missing: list[Entry]) -> str:
    """Say which rules never served an op, why not, and what was met instead."""
    return "\n".join(_one_never_hit(entry) for entry in missing)


def _one_never_hit(entry: Entry) -> str:
    missed = entry.hits.missed[entry.op_type]
    fact = f"the rule {entry.name} ({entry.where}) for {entry} never served an op"
    if missed:
        reasons = "; ".join(f"{count} x {reason}" for reason, count in missed.most_common())
        return f"{fact}: what was met cannot be overridden: {reasons}\n  repair: {_way_out(missed)}"
    return f"{fact}{_met(entry)}\n  repair: call the model inside the scope, or pass strict=False"


def _way_out(missed: Iterable[str]) -> str:
    return AROUND if any("custom gradient" in reason for reason in missed) else STRAIGHT_THROUGH


def _met(entry: Entry) -> str:
    met = sorted(entry.hits.met)
    if entry.op_type in entry.hits.met:
        why = "another rule served it" if entry.conditions.everywhere else "only where its conditions do not hold"
        return f": {entry.op_type} ran, but {why}"
    if not met:
        return ": no op at all ran in the scope (a call before it or after it is not seen)"
    near = [one for one in near_names(entry.op_type, met) if one != entry.op_type]
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"; the ops that ran are {', '.join(met[:12])}{' ...' if len(met) > 12 else ''}{hint}"


def no_gradient_passes(op_type: str, why: str) -> str:
    """Say that ops of a type can never be reached, and the way out."""
    return (
        f"{op_type} cannot be overridden: {why}, and TensorFlow carries no gradient through such tensors, "
        f"so no rule for it is ever asked\n  repair: {STRAIGHT_THROUGH}"
    )


def not_an_op(op_type: str) -> str:
    """Say that a call or a branch has no gradient of its own to override."""
    return (
        f"{op_type} calls other functions and has no gradient of its own; the ops inside are overridden "
        'wherever they stand\n  repair: name them, for example gw.override({"Relu": rule})'
    )


def ambiguous_layer(layer: str, scopes: list[str]) -> str:
    """Say that a traced graph, which has names only, does not tell which ops belong to a layer."""
    return (
        f"the traced graph does not tell which ops are of layer {layer!r}: {', '.join(scopes)} may all be it\n"
        f'  repair: gw.override(rules, names="*/{scopes[0]}"), or override the model or tf.function itself'
    )
