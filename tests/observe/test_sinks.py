"""What can be made of records: the table, dicts, a page, event files that TensorBoard's own reader reads."""

import html.parser
import io
import math
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import gradwright as gw
from gradwright.observe.table import sparkline


@gw.custom_gradient
def scale(x, s):
    return x * s, lambda upstream: (upstream * s, upstream * x)


def logged(**options):
    with gw.observe(**options) as log:
        for factor in (1.0, 2.0, 4.0):
            x, s = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([1.0, 0.0])
            with tf.GradientTape() as tape:
                tape.watch([x, s])
                y = gw.probe(scale(x, s) * factor, "scaled <b>")
            tape.gradient(y, [x, s])
    return log


@pytest.fixture(scope="module")
def log():
    return logged(values=True)


def test_the_table_shows_shapes_norms_zeros_course_and_repairs(log):
    table = log.table()
    row = next(line for line in table.splitlines() if line.strip().startswith("scale "))
    for word in ("3", "(2, 2)", "8", "▁▃█", "0%", "x (2, 2)", "5.657"):
        assert word in row, word
    assert any("s (2,)" in line and "summed over axis 0" in line for line in table.splitlines())
    assert scale.where in table and str(table) == table == repr(table)


def test_rich_shows_the_table_too(log):
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=200).print(log.table())
    assert "summed over axis 0" in out.getvalue()


def test_sparklines():
    assert sparkline((0.0, 1.0)) == "▁█" and sparkline((2.0, 2.0)) == "▁▁" and sparkline(()) == ""
    assert sparkline((0.0, math.nan, 7.0)) == "▁!█" and len(sparkline(tuple(range(99)))) == 16


def test_dicts_are_flat_and_ready_for_pandas(log):
    rows = log.to_dicts()
    assert rows[1]["rule"] == "scale" and rows[1]["upstream.norm"] == 2.0 and rows[1]["gradients.s.shape"] == (2,)
    assert rows[1]["repairs"] == "s: summed over axis 0"
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows)
    assert frame[frame.rule == "scale"]["upstream.norm"].tolist() == [2.0, 4.0, 8.0]


class Words(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.words, self.open, self.links = [], [], []

    def handle_starttag(self, tag, attributes):
        self.open += [tag] if tag != "meta" else []
        self.links += [v for k, v in attributes if k in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_the_page_stands_alone_and_escapes(log, tmp_path):
    path = log.to_html(tmp_path / "deep" / "log.html")
    reader = Words()
    reader.feed(pathlib.Path(path).read_text(encoding="utf-8"))
    assert not reader.open and not reader.links
    assert {"scaled <b>", "summed over axis 0", "5.657"} <= set(reader.words)


def test_event_files_are_read_back(log, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(log.to_tensorboard(tmp_path / "events"), size_guidance={"histograms": 0})
    read.Reload()
    norms = read.Scalars("scale/upstream/norm")
    assert [(e.step, e.value) for e in norms] == [(0, 2.0), (1, 4.0), (2, 8.0)]
    assert read.Scalars("scale/gradients/s/zeros")[0].value == 0.0
    histogram = read.Histograms("scale/gradients/x/values")[2]
    assert histogram.step == 2
    value = histogram.histogram_value
    assert (value.min, value.max, value.num, value.sum) == (0.0, 4.0, 4.0, 8.0)
    assert sum(value.bucket) == 4


def test_without_values_the_histogram_is_that_of_the_norms(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(logged().to_tensorboard(tmp_path))
    read.Reload()
    assert read.Histograms("scale/upstream/norms")[0].histogram_value.num == 3.0
    assert "scale/upstream/values" not in read.Tags()["histograms"]


def test_event_files_without_tensorboard_say_what_to_install(log, tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.event_file_writer", None)
    with pytest.raises(gw.GradwrightError, match=r"gradwright\[tensorboard\]"):
        log.to_tensorboard(tmp_path)


def test_the_live_table_fills_and_lets_go(monkeypatch):
    import rich.live
    from rich.console import Console

    out = io.StringIO()
    plain = rich.live.Live
    shown = lambda *args, **kwargs: plain(*args, console=Console(file=out, width=200), **kwargs)
    monkeypatch.setattr(rich.live, "Live", shown)
    logged(live=True)
    assert "summed over axis 0" in out.getvalue()


@pytest.mark.parametrize(
    ("rules", "names"),
    [
        ("scale", {"scale"}),
        ("sc*", {"scale", "scaled <b>"}),
        ([scale], {"scale"}),
        ([], set()),
    ],
)
def test_rules_are_chosen_by_name_pattern_or_object(rules, names):
    assert {r.rule for r in logged(rules=rules).records} == names


def test_a_name_that_was_never_met_is_told():
    assert "no record of a rule named 'scael'" in logged(rules="scael").table()


def test_thinning_keeps_each_nth_of_each_rule():
    found = logged(every=2).records
    assert [(r.rule, r.upstream.max) for r in found if r.rule == "scale"] == [("scale", 1.0), ("scale", 4.0)]
    assert len(found) == 4


def test_norms_alone_cost_less_and_tell_less(tmp_path):
    found = logged(statistics="norm")
    assert found.records[1].upstream.norm == 2.0 and found.records[1].upstream.mean is None
    assert "5.657" in found.table()
    found.to_html(tmp_path / "log.html")
    assert "upstream.mean" not in found.to_dicts()[0]


def test_not_finite_stands_out():
    with gw.observe() as log, tf.GradientTape() as tape:
        x = tf.constant([1.0, 0.0])
        tape.watch(x)
        y = gw.probe(x, "root") ** 0.5
        tape.gradient(y, x)
    assert log.records[0].upstream.nonfinite == 1 and log.records[0].upstream.max == np.inf
    assert " inf " in log.table()
