"""Nested structures of tensors: dict, list, tuple, namedtuple, dataclass, by optree."""

from __future__ import annotations

import collections
import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import optree

NAMESPACE = "gradwright"
_registering = threading.Lock()
_known: set[type] = set()


# What optree knows by itself.
_BUILT_IN = (dict, list, tuple, collections.OrderedDict, collections.defaultdict)


def _register(cls: type, value: Any) -> None:
    """Let optree see into a class of the user's; once a class, in a namespace of our own."""
    if dataclasses.is_dataclass(value):
        names = [f.name for f in dataclasses.fields(value)]
        functions = _of_dataclass(cls, names)
        entry: Any = optree.GetAttrEntry
    elif isinstance(value, dict):
        functions, entry = _of_mapping(cls), optree.MappingEntry
    else:
        functions, entry = _of_sequence(cls, list if isinstance(value, list) else tuple), optree.SequenceEntry
    with _registering:
        if cls not in _known:
            optree.register_pytree_node(cls, *functions, path_entry_type=entry, namespace=NAMESPACE)
            _known.add(cls)


def _of_dataclass(cls: type, names: list[str]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def flatten(value: Any) -> tuple[list[Any], type, list[str]]:
        return [getattr(value, name) for name in names], cls, names

    def unflatten(_: Any, children: Any) -> Any:
        made = object.__new__(cls)
        for name, child in zip(names, children, strict=True):
            object.__setattr__(made, name, child)
        return made

    return flatten, unflatten


def _of_mapping(cls: type) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Subclasses of dict, and the proxies in which `tf.Module` and Keras keep a model's dicts."""

    def flatten(value: Any) -> tuple[list[Any], list[Any], list[Any]]:
        keys = optree_keys(value)
        return [value[key] for key in keys], keys, keys

    def unflatten(keys: Any, children: Any) -> Any:
        made: Any = {} if _is_wrapper(cls) else cls.__new__(cls)  # pyright: ignore[reportCallIssue]
        dict.update(made, zip(keys, children, strict=True))
        return made

    return flatten, unflatten


def _of_sequence(cls: type, base: type) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Subclasses of list and tuple, and the proxies for them."""

    def flatten(value: Any) -> tuple[list[Any], None, list[int]]:
        return list(value), None, list(range(len(value)))

    def unflatten(_: Any, children: Any) -> Any:
        if _is_wrapper(cls):
            return base(children)
        made: Any = base.__new__(cls, children) if base is tuple else cls.__new__(cls)  # pyright: ignore[reportCallIssue]
        if base is list:
            list.extend(made, children)
        return made

    return flatten, unflatten


def _is_wrapper(cls: type) -> bool:
    """Whether a class is one in which a framework tracks a plain container; we rebuild the plain one."""
    return cls.__module__.partition(".")[0] in ("tensorflow", "keras", "wrapt")


def _meet(value: Any, is_leaf: Callable[[Any], bool]) -> None:
    """Register the classes found in a value, so that they are structure and not leaves."""
    if is_leaf(value) or not is_structure(value):
        return
    cls = type(value)
    if cls not in _BUILT_IN and cls not in _known and not optree.is_namedtuple_class(cls):
        _register(cls, value)
    if isinstance(value, dict):
        children: Any = list(value.values())
    elif isinstance(value, list | tuple):
        children = value
    else:
        children = [getattr(value, f.name, None) for f in dataclasses.fields(value)]
    for child in children:
        _meet(child, is_leaf)


def is_structure(value: Any) -> bool:
    """Whether a value may hold others: a dict, list, tuple or dataclass."""
    return isinstance(value, dict | list | tuple) or (dataclasses.is_dataclass(value) and not isinstance(value, type))


def flatten(value: Any, is_leaf: Callable[[Any], bool]) -> tuple[list[Any], Any]:
    """Split a value into its leaves and its structure; None is a leaf."""
    _meet(value, is_leaf)
    return optree.tree_flatten(value, is_leaf=is_leaf, none_is_leaf=True, namespace=NAMESPACE)


def unflatten(spec: Any, leaves: list[Any]) -> Any:
    """Put leaves back into their structure."""
    return optree.tree_unflatten(spec, leaves)


def paths(name: str, spec: Any) -> list[str]:
    """Write how a person would reach each leaf: `grads['b']`, `p.w`, `xs[0]`.

    >>> import optree
    >>> paths("p", optree.tree_structure({"w": 0, "b": [1, 2]}, none_is_leaf=True, namespace=NAMESPACE))
    ["p['b'][0]", "p['b'][1]", "p['w']"]
    """
    return [accessor.codify(name) for accessor in spec.accessors()]


def show(value: Any, is_leaf: Callable[[Any], bool]) -> str:
    """Draw a structure without its values: {'b': *, 'w': *}."""
    if is_leaf(value) or not is_structure(value):
        return "None" if value is None else "*"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {show(v, is_leaf)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        inner = ", ".join(show(v, is_leaf) for v in value)
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    names = getattr(value, "_fields", None) or [f.name for f in dataclasses.fields(value)]  # pyright: ignore[reportArgumentType]
    return type(value).__name__ + "(" + ", ".join(f"{n}={show(getattr(value, n), is_leaf)}" for n in names) + ")"


def align(value: Any, like: Any, is_leaf: Callable[[Any], bool]) -> list[Any]:
    """List the leaves of `value` in the order of the leaves of `like`; lists and tuples may stand for each other.

    None may stand for a whole part. Raises ValueError when the structures differ.
    """
    if is_leaf(like) or not is_structure(like):
        if value is not None and not is_leaf(value) and is_structure(value):
            raise ValueError("a structure for a leaf")
        return [value]
    if value is None:
        return [None] * len(flatten(like, is_leaf)[0])
    if is_leaf(value):
        raise ValueError("a leaf for a structure")
    return [leaf for v, child in _children(value, like) for leaf in align(v, child, is_leaf)]


def _children(value: Any, like: Any) -> list[tuple[Any, Any]]:
    """Pair the children of two structures, in optree's order of `like`."""
    if isinstance(like, dict):
        if not isinstance(value, dict) or set(value) != set(like):
            raise ValueError("keys differ")
        keys = list(like) if type(like).__name__ == "OrderedDict" else optree_keys(like)
        return [(value[key], like[key]) for key in keys]
    if isinstance(like, list | tuple):
        if not isinstance(value, list | tuple) or len(value) != len(like):
            raise ValueError("lengths differ")
        return list(zip(value, like, strict=True))
    if type(value) is not type(like):
        raise ValueError("types differ")
    return [(getattr(value, f.name), getattr(like, f.name)) for f in dataclasses.fields(like)]


def optree_keys(mapping: dict[Any, Any]) -> list[Any]:
    """The keys in the order in which optree lists the leaves."""
    try:
        return sorted(mapping)
    except TypeError:
        return sorted(mapping, key=lambda k: (f"{type(k).__module__}.{type(k).__qualname__}", k))
