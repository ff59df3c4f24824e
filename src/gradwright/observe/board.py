"""A log as event files for TensorBoard."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import numpy as np

from gradwright.errors import GradwrightError
from gradwright.observe.records import NUMBERS, Record, Stats


def write(directory: Any, records: list[Record]) -> str:
    """Write scalars for every number, histograms of the values that were kept; gives the directory.

    The step is the number of the record among those of its name. Where no values were kept, the histogram is that of
    the norms over all records, under `norms`.
    """
    try:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError:
        raise GradwrightError(
            "log.to_tensorboard needs the package tensorboard\n  repair: pip install 'gradwright[tensorboard]'"
        ) from None
    directory = os.fspath(directory)
    writer = EventFileWriter(directory)
    try:
        for step, values in events(records):
            writer.add_event(event(step, values))
    finally:
        writer.close()
    return directory


def events(records: list[Record]) -> Any:
    """(step, {tag: number or array}) of all records, then the histograms of norms."""
    steps: Counter[str] = Counter()
    norms: dict[str, list[float]] = {}
    valued: set[str] = set()
    for record in records:
        step = steps[record.rule]
        steps[record.rule] += 1
        values: dict[str, Any] = {}
        for tag, stats in tensors(record):
            values.update(numbers(tag, stats))
            if stats.value is not None:
                values[f"{tag}/values"] = stats.value
                valued.add(tag)
            norms.setdefault(tag, []).append(stats.norm)
        yield step, values
    rest = {f"{tag}/norms": np.array(all_norms) for tag, all_norms in norms.items() if tag not in valued}
    if rest:
        yield max(steps.values()) - 1, rest


def tensors(record: Record) -> list[tuple[str, Stats]]:
    """Every tensor of a record with its tag."""
    ups = record.upstreams()
    named = [(f"{record.rule}/upstream" + (f"_{i}" if len(ups) > 1 else ""), s) for i, s in enumerate(ups)]
    return named + [(f"{record.rule}/gradients/{n}", s) for n, s in record.gradients.items() if s is not None]


def numbers(tag: str, stats: Stats) -> dict[str, float]:
    """The scalars of a tensor."""
    found = {name: getattr(stats, name) for name in NUMBERS}
    return {f"{tag}/{name}": float(value) for name, value in found.items() if value is not None}


def event(step: int, values: dict[str, Any]) -> Any:
    """One event of the file."""
    import time

    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    made = [
        Summary.Value(tag=tag, histo=histogram(value))
        if isinstance(value, np.ndarray)
        else Summary.Value(tag=tag, simple_value=value)
        for tag, value in values.items()
    ]
    return Event(wall_time=time.time(), step=step, summary=Summary(value=made))


def histogram(values: np.ndarray, bins: int = 30) -> Any:
    """A histogram of the finite elements."""
    from tensorboard.compat.proto.histogram_pb2 import HistogramProto

    flat = np.abs(values).ravel() if np.iscomplexobj(values) else values.astype(np.float64).ravel()
    flat = flat[np.isfinite(flat)]
    if not flat.size:
        return HistogramProto()
    counts, edges = np.histogram(flat, bins)
    return HistogramProto(
        min=flat.min(), max=flat.max(), num=flat.size, sum=flat.sum(), sum_squares=np.dot(flat, flat),
        bucket_limit=edges[1:].tolist(), bucket=counts.tolist(),
    )  # fmt: skip
