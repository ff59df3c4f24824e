"""Matching what a rule returned to its arguments: by structure and name, never by a silent flat order."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from gradwright import tree
from gradwright.errors import Fault, GradientCountError
from gradwright.signature import Slot


def match(returned: Any, slots: list[Slot], seam: Any, takes: list[bool] | None = None) -> list[Any]:
    """Give one gradient per tensor among the arguments, in their order; None where unconnected.

    Understood: one gradient; a tuple or list in the order of the arguments (static ones left out or None); a dict
    by argument name. `takes` tells of each tensor whether it can have a gradient; for those that cannot (integers,
    bools, strings) none need be returned.
    """
    wanted = needed(slots, takes)
    values = by_slot(returned, slots, wanted, seam)
    return [leaf for slot in slots if slot.is_tensor for leaf in leaves_of(slot, values.get(slot.name), seam)]


def needed(slots: list[Slot], takes: list[bool] | None) -> list[Slot]:
    """The arguments that a rule must answer for: those with a tensor that can have a gradient."""
    tensor_slots = [slot for slot in slots if slot.is_tensor]
    if takes is None:
        return tensor_slots
    flags = iter(takes)
    own = [(slot, [next(flags) for _ in slot.tensors]) for slot in tensor_slots]
    return [slot for slot, each in own if any(each)]


def by_slot(returned: Any, slots: list[Slot], wanted: list[Slot], seam: Any) -> dict[str, Any]:
    """Give a value per argument, by name; a name that is missing has no gradient."""
    if returned is None:
        return {}
    if len(wanted) == 1 and fits_alone(returned, wanted[0], seam):
        return {wanted[0].name: returned}
    if len(wanted) == 1 and not wanted[0].is_plain and is_flat_guess(returned, slots, wanted):
        raise structure_fault(wanted[0], returned, seam)
    if isinstance(returned, Mapping):
        return by_name(returned, slots, wanted, seam)
    if isinstance(returned, list | tuple):
        return by_order(returned, slots, wanted)
    if len(wanted) == 1 and not wanted[0].is_plain:
        return {wanted[0].name: returned}  # refused below, with both structures
    if not wanted and sum(slot.takes_gradient for slot in slots) == 1:
        return {}
    raise count_fault(1, slots, wanted)


def is_flat_guess(returned: Any, slots: list[Slot], wanted: list[Slot]) -> bool:
    """Whether a list was returned for one structured argument, as long as no list of gradients can be."""
    if not isinstance(returned, list | tuple):
        return False
    return len(returned) not in {len(layout) for layout in layouts(slots, wanted)}


def fits_alone(returned: Any, slot: Slot, seam: Any) -> bool:
    """Whether the whole of what was returned is the gradient of the only tensor argument."""
    if slot.is_plain:
        return seam.is_leaf(returned) or not tree.is_structure(returned)
    try:
        tree.align(returned, slot.value, seam.is_leaf)
    except ValueError:
        return False
    return returned is not None


def by_name(returned: Mapping[str, Any], slots: list[Slot], wanted: list[Slot], seam: Any) -> dict[str, Any]:
    """Take gradients by argument name; an unknown or missing name is refused."""
    values = dict(returned)
    groups = variadic_groups(slots)
    names = {slot.name for slot in slots}
    for key in [k for k in values if k not in names]:
        members = groups.get(key)
        if members is None:
            raise unknown_name(key, slots, wanted, returned, seam)
        group = values.pop(key)
        if not isinstance(group, list | tuple) or len(group) != len(members):
            raise Fault(GradientCountError, f"`{key}` has {len(members)} elements, its gradients have another number")
        values.update(zip(members, group, strict=True))
    missing = [slot.name for slot in wanted if slot.name not in values]
    if missing:
        raise Fault(
            GradientCountError,
            f"returned gradients by name, but none for {listed(missing)}",
            f"add {missing[0]!r}: ... to the returned dict (None if it has no gradient)",
        )
    return values


def variadic_groups(slots: list[Slot]) -> dict[str, list[str]]:
    """The elements of `*xs` under the name `xs`."""
    groups: dict[str, list[str]] = {}
    for slot in slots:
        if slot.name.endswith("]"):
            groups.setdefault(slot.name.split("[")[0], []).append(slot.name)
    return groups


def unknown_name(key: Any, slots: list[Slot], wanted: list[Slot], returned: Any, seam: Any) -> Fault:
    """Refuse a name that is no argument; a lone structured argument gets both structures shown."""
    if len(wanted) == 1 and not wanted[0].is_plain:
        return structure_fault(wanted[0], returned, seam)
    names = {slot.name.lower(): slot.name for slot in slots}
    near = difflib.get_close_matches(str(key).lower(), list(names), n=1)
    hint = f"did you mean {names[near[0]]!r}?" if near else f"the arguments are {listed([s.name for s in slots])}"
    return Fault(GradientCountError, f"returned a gradient for {key!r}, which is no argument", hint)


def by_order(returned: list[Any] | tuple[Any, ...], slots: list[Slot], wanted: list[Slot]) -> dict[str, Any]:
    """Take gradients in the order of the arguments; static arguments may be left out or None."""
    for layout in layouts(slots, wanted):
        if len(returned) == len(layout):
            extra = [s.name for s, g in zip(layout, returned, strict=True) if g is not None and not s.takes_gradient]
            if extra:
                raise Fault(
                    GradientCountError,
                    f"returned a gradient for {listed(extra)}, which is no tensor",
                    f"return None for it, or leave it out: {listed([s.name for s in wanted])}",
                )
            return {s.name: g for s, g in zip(layout, returned, strict=True)}
    raise count_fault(len(returned), slots, wanted)


def layouts(slots: list[Slot], wanted: list[Slot]) -> list[list[Slot]]:
    """The orders a list of gradients may follow: what needs one, all tensors, with numbers, the first so many."""
    tensors = [slot for slot in slots if slot.is_tensor]
    numbers = [slot for slot in slots if slot.takes_gradient]
    last = max((i for i, slot in enumerate(slots) if slot.takes_gradient), default=-1)
    return [wanted, tensors, numbers, *(slots[:n] for n in range(last + 1, len(slots) + 1))]


def count_fault(received: int, slots: list[Slot], wanted: list[Slot]) -> Fault:
    """Say how many gradients were expected, by name, and how many came."""
    names = [slot.name for slot in wanted]
    static = [slot.name for slot in slots if not slot.is_tensor]
    whole = [slot.name for slot in slots if slot.is_tensor and slot not in wanted]
    notes = [(static, "static"), (whole, "no float")]
    left = [f"{listed(names)} {'is' if len(names) == 1 else 'are'} {why}" for names, why in notes if names]
    note = f" ({' and '.join(left)} and may be left out)" if left else ""
    return Fault(
        GradientCountError,
        f"expected {len(names)} gradient{'s' * (len(names) != 1)}, for {listed(names)}{note}, but received {received}",
        f"return {', '.join('d_' + n.replace('[', '').replace(']', '') for n in names) or 'None'}",
    )


def leaves_of(slot: Slot, value: Any, seam: Any) -> list[Any]:
    """Take the gradient of one argument apart along the argument's structure."""
    if slot.is_plain:
        if value is not None and not seam.is_leaf(value) and tree.is_structure(value):
            raise structure_fault(slot, value, seam)
        return [value]
    try:
        leaves = tree.align(value, slot.value, seam.is_leaf)
    except ValueError:
        raise structure_fault(slot, value, seam) from None
    return [leaves[i] for i in slot.tensors]


def structure_fault(slot: Slot, value: Any, seam: Any) -> Fault:
    """Refuse a gradient of another structure, showing both."""
    return Fault(
        GradientCountError,
        f"the gradient of `{slot.name}` has the structure {tree.show(value, seam.is_leaf)}, "
        f"the argument has {tree.show(slot.value, seam.is_leaf)}",
        f"return it in the structure of `{slot.name}`; a flat order is never guessed",
    )


def listed(names: list[str]) -> str:
    """Write names in a sentence.

    >>> listed(["x", "w", "b"])
    '`x`, `w` and `b`'
    """
    quoted = [f"`{name}`" for name in names]
    if len(quoted) < 2:
        return quoted[0] if quoted else "no argument"
    return ", ".join(quoted[:-1]) + " and " + quoted[-1]
