"""Where in the user's code something of TensorFlow was called: through AutoGraph and through the library."""

from __future__ import annotations

from typing import Any

from gradwright.explain import lines

# Ops that close a way; a library function may use one inside for good reasons of its own.
CLOSED = frozenset({"StopGradient", "PreventGradient", "Floor", "Ceil", "Round", "Rint", "Sign", "Cast", "ArgMax"})


def written(frame: Any) -> tuple[str, int] | None:
    """Where the user wrote what AutoGraph has rewritten: the map that goes with a rewritten function."""
    name, line = frame.f_code.co_filename, frame.f_lineno
    while frame is not None:
        source_map = getattr(frame.f_locals.get("converted_f"), "ag_source_map", None)
        for place, came_from in source_map.items() if source_map else ():
            if place.filename == name and place.lineno == line:
                return came_from.loc.filename, came_from.loc.lineno
        frame = frame.f_back
    return None


def direct(op_type: str, callers: list[str]) -> bool:
    """Whether the user's own code called an op, and not some library function on the way; by the callers' names."""
    wanted = op_type.lower()
    names = (name.replace("_", "").removesuffix("v2") for name in callers)
    return all(name == wanted or name in _WRAPPERS for name in names)


_WRAPPERS = {"errorhandler", "opdispatchhandler", "wrapper", "wrapped", "invokeopcallbacks", "executewithcallbacks"}
_WRAPPERS |= {
    f"{op}eagerfallback" for op in ("stopgradient", "floor", "ceil", "round", "rint", "sign", "cast", "argmax")
}


def callers(frame: Any) -> list[str]:
    """The names of the functions between an op and the code that is not TensorFlow's."""
    names = []
    while frame is not None and lines.rank(frame.f_code.co_filename) == lines.INSIDE:
        if lines.GENERATED in frame.f_code.co_filename:
            break
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


def spot(frame: Any) -> tuple[str, int]:
    """File and line of the innermost frame of the user's."""
    while frame is not None and lines.rank(frame.f_code.co_filename) != lines.USER:
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("", 0)
