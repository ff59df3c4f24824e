"""Watching the layers of a Keras model, which stays as it is."""

from __future__ import annotations

import fnmatch
import functools
import threading
from typing import Any

from gradwright import tree
from gradwright.errors import ArgumentError
from gradwright.observe.hub import hub
from gradwright.observe.probe import rule_of
from gradwright.observe.wishes import checked, listed
from gradwright.places import place_of

_lock = threading.Lock()
# By the identity of a layer: the logs that watch it, and the `call` that was its own before, if any.
_watchers: dict[int, tuple[list[Any], Any]] = {}


class LayerWatch:
    """The layers of some models that one log watches, each by a `call` of its own while the log is open."""

    def __init__(self, models: tuple[Any, ...], layers: Any = None):
        self.layers: list[tuple[Any, str]] = []
        filters = None if layers is None else [checked(one, "layers", is_layer_filter) for one in listed(layers)]
        for model in models:
            found = named(layers_of(model))
            kept = [pair for pair in found if filters is None or any(means(f, *pair) for f in filters)]
            for one in filters or ():
                if not any(means(one, *pair) for pair in found):
                    there = ", ".join(name for _, name in found)
                    raise ArgumentError(f"layers={one!r} names no layer of the model; it has {there}")
            self.layers += kept
        self.identities = frozenset(id(layer) for layer, _ in self.layers)

    def watch(self, log: Any) -> None:
        """Put a watching `call` on each layer, once for all logs."""
        with _lock:
            for layer, name in self.layers:
                if id(layer) not in _watchers:
                    _watchers[id(layer)] = ([], layer.__dict__.get("call"))
                    layer.__dict__["call"] = watching(layer, name, layer.call)
                _watchers[id(layer)][0].append(log)

    def leave(self, log: Any) -> None:
        """Take it away with the last log."""
        with _lock:
            for layer, _ in self.layers:
                logs, own = _watchers.get(id(layer), ([], None))
                if log not in logs:
                    continue
                logs.remove(log)
                if not logs:
                    del _watchers[id(layer)], layer.__dict__["call"]
                    if own is not None:
                        layer.__dict__["call"] = own


def watching(layer: Any, name: str, call: Any) -> Any:
    """The layer's call, with a probe on each tensor that comes out."""
    where, identity = place_of_layer(layer), id(layer)

    @functools.wraps(call)
    def watched(*args: Any, **kwargs: Any) -> Any:
        output = call(*args, **kwargs)
        demand = hub.demand()
        if demand is None or not any(identity in wish.layers for wish in demand.wishes):
            return output
        return probed(output, name, where, identity)

    return watched


def probed(output: Any, name: str, where: str, identity: int) -> Any:
    """Probes on the float tensors of an output; an output of several names them `name[0]`, `name[1]`."""
    leaves, spec = tree.flatten(output, is_tensor)
    several = sum(map(is_float, leaves)) > 1
    made = [
        rule_of(f"{name}[{i}]" if several else name, where, identity)(leaf) if is_float(leaf) else leaf
        for i, leaf in enumerate(leaves)
    ]
    return tree.unflatten(spec, made)


def is_tensor(value: Any) -> bool:
    """Whether a value is an array of some sort."""
    return hasattr(value, "dtype") and hasattr(value, "shape")


def is_float(value: Any) -> bool:
    """Whether a value is a real tensor of floats, not one that stands for it while a model is drawn."""
    return is_tensor(value) and type(value).__name__ != "KerasTensor" and "float" in str(value.dtype)


def layers_of(model: Any) -> list[Any]:
    """All layers of a model, also those inside its layers, without inputs and the model itself."""
    flatten = getattr(model, "_flatten_layers", None)
    if flatten is None and not hasattr(model, "layers"):
        kind = type(model).__name__
        raise ArgumentError(f"gw.observe(model) takes Keras models, not a {kind}; name points of it by gw.probe")
    found = flatten(include_self=False) if flatten is not None else below(model)
    return [layer for layer in found if type(layer).__name__ != "InputLayer" and hasattr(layer, "call")]


def below(model: Any) -> list[Any]:
    """The layers below a model, by what it shows."""
    return [one for layer in model.layers for one in [layer, *(below(layer) if hasattr(layer, "layers") else [])]]


def named(layers: list[Any]) -> list[tuple[Any, str]]:
    """Layers with names that differ: a second one of the same name carries its path or a number."""
    names: dict[str, int] = {}
    made = []
    for layer in layers:
        name = layer.name if layer.name not in names else (getattr(layer, "path", None) or layer.name)
        count = names.get(name, 0)
        names[name] = count + 1
        made.append((layer, f"{name}#{count}" if count else name))
    return made


def is_layer_filter(one: Any) -> bool:
    """Whether something can name a layer."""
    return isinstance(one, str | type) or hasattr(one, "call")


def means(wanted: Any, layer: Any, name: str) -> bool:
    """Whether a filter (a pattern, a class, a layer) means this layer."""
    if isinstance(wanted, str):
        return fnmatch.fnmatchcase(name, wanted) or fnmatch.fnmatchcase(layer.name, wanted)
    return isinstance(layer, wanted) if isinstance(wanted, type) else wanted is layer


def place_of_layer(layer: Any) -> str:
    """Where a layer of the user's is written; the class of one of Keras's own."""
    kind = type(layer)
    if kind.__module__.partition(".")[0] == "keras":
        return f"keras.layers.{kind.__name__}"
    return place_of(kind.call)
