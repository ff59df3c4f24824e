"""A rule as found or met, gradwright's own or TensorFlow's: its name, its place, the function behind it."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import types
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from gradwright.frameworks import tf_audit
from gradwright.places import line_of


@dataclass(frozen=True)
class Found:
    """A rule and where it stands.

    `owner` is set for a method found in a class, which can only be called on an instance of it; `surrogate` for a rule
    of TensorFlow's whose gradient differs from its forward's on purpose: True, or the function whose gradient it is.
    """

    rule: Any
    name: str
    file: str
    line: int
    kind: str  # "gradwright" or "tensorflow"
    owner: type | None = None
    surrogate: Any = None

    @property
    def where(self) -> str:
        """The place as people look it up: the path from here, or the whole path if it is elsewhere."""
        return f"{shortened(self.file)}:{self.line}"

    @property
    def function(self) -> Any:
        """The function that returns output and gradient."""
        return pair_of(self.rule)


def shortened(path: str) -> str:
    """A path relative to the working directory where that is shorter to read."""
    relative = os.path.relpath(path) if os.path.isabs(path) else path
    return path if relative.startswith("..") else relative


def is_own_rule(value: Any) -> bool:
    """Whether `value` is a rule made by gradwright."""
    rule_class = getattr(sys.modules.get("gradwright.rule"), "Rule", None)
    return rule_class is not None and isinstance(value, rule_class)


def is_rule(value: Any) -> bool:
    """Whether `value` is a rule of gradwright or of `tf.custom_gradient`."""
    return is_own_rule(value) or (tf_audit.loaded() and tf_audit.is_rule(value))


def rule_in(value: Any) -> Any:
    """The rule inside a value: itself, or what a `tf.function`, a partial or another decorator wraps; None if none."""
    for _ in range(8):  # a wrapper that wraps itself would never end
        if is_rule(value):
            return value
        inner = _unwrapped(value)
        if inner is None:
            return None
        value = inner
    return None


def _unwrapped(value: Any) -> Any:
    if isinstance(value, functools.partial):
        return value.func
    if isinstance(value, (staticmethod, classmethod)):
        return value.__func__
    if inspect.isclass(value) or inspect.ismodule(value):
        return None
    for attribute in ("python_function", "__wrapped__"):
        inner = inspect.getattr_static(value, attribute, None)
        if inner is not None:
            return getattr(value, attribute)
    return None


def pair_of(rule: Any) -> Any:
    """The function that returns `(output, grad)`."""
    return rule.__wrapped__ if is_own_rule(rule) else tf_audit.pair_of(rule)


def found(rule: Any, owner: type | None = None) -> Found:
    """Say what a rule is called and where it stands."""
    if is_own_rule(rule):
        file, line = place(rule.__wrapped__, rule.where)
        named = rule.options.name is not None or "." not in name_of(rule.__wrapped__)
        return Found(rule, rule.name if named else name_of(rule.__wrapped__), file, line, "gradwright", owner)
    function = tf_audit.user_function(rule)
    file, line = place(function)
    wrapper = tf_audit.wrapper_name(rule)
    name = name_of(function)
    surrogate = identity if wrapper == "grad_pass_through" else getattr(rule, "surrogate", None)
    return Found(rule, f"{wrapper}({name})" if wrapper else name, file, line, "tensorflow", owner, surrogate)


def identity(*inputs: Any) -> Any:
    """What `tf.grad_pass_through` takes the gradient of."""
    return inputs[0] if len(inputs) == 1 else inputs


def declared(rule: Found, names: Collection[str]) -> Found:
    """The rule, marked as different on purpose if it is called by one of these names."""
    return replace(rule, surrogate=True) if {rule.name, rule.name.rpartition(".")[2]} & set(names) else rule


def name_of(function: Any) -> str:
    """A function's name as the user would say it: `Layer.call`, `inner`, `<lambda>`."""
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or type(function).__name__
    return name.rpartition("<locals>.")[2]


def place(function: Any, where: str = "") -> tuple[str, int]:
    """The file and the line of a function; `where` ("file.py:12") says it where the function is not the user's."""
    code = code_of(function)
    file, _, line = where.rpartition(":")
    if code is None or (file and os.path.basename(code.co_filename) != os.path.basename(file)):
        return (full_path(file) if file else "?", int(line) if line.isdigit() else 0)
    return code.co_filename, int(line) if line.isdigit() else line_of(code)


def full_path(name: str) -> str:
    """The path of a loaded file of this name; the user's before a library's, the name itself if none is loaded."""
    files = (getattr(module, "__file__", None) or "" for module in list(sys.modules.values()))
    paths = [os.path.abspath(file) for file in files if os.path.basename(file) == name]
    return next((p for p in paths if "site-packages" not in p), paths[0] if paths else name)


def code_of(function: Any) -> types.CodeType | None:
    """The code behind a function, a method, a partial or a callable object."""
    function = inspect.unwrap(function)
    while isinstance(function, functools.partial):
        function = inspect.unwrap(function.func)
    if hasattr(function, "__code__"):
        return function.__code__
    return getattr(type(function).__call__, "__code__", None) if callable(function) else None


def is_inside_framework(rule: Found) -> bool:
    """Whether a rule is part of TensorFlow or Keras, and so no concern of the user's."""
    return rule.kind == "tensorflow" and rule.file.startswith(tf_audit.framework_folders() or ("\0",))
