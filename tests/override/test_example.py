"""The saliency example, end to end."""

import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def rules():
    sys.path.insert(0, str(EXAMPLES))
    try:
        import saliency_rules

        yield saliency_rules
    finally:
        sys.path.remove(str(EXAMPLES))


class Op:
    def __init__(self, output):
        self.outputs = [tf.constant(output)]


def test_the_rules_by_hand(rules):
    op, upstream = Op([[0.0, 1.0, 2.0, 4.0]]), tf.constant([[3.0, -1.0, 1.0, 2.0]])
    assert rules.guided(op, upstream).numpy().tolist() == [[0.0, 0.0, 1.0, 2.0]]
    assert rules.deconvnet(op, upstream).numpy().tolist() == [[3.0, 0.0, 1.0, 2.0]]
    # The products are 0, -1, 2, 8; the upper half is kept.
    assert rules.rectified(op, upstream, kept=0.5).numpy().tolist() == [[0.0, 0.0, 1.0, 2.0]]


@pytest.mark.slow
def test_pictures_before_and_after_saving(rules, tmp_path):
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    import guided_backprop

    maps = guided_backprop.main(tmp_path)
    assert (tmp_path / "saliency.png").stat().st_size > 10_000
    assert (tmp_path / "saliency_after_saving.png").read_bytes() == (tmp_path / "saliency.png").read_bytes()
    # Negative influence is what the rules take out; the plain gradient has as much of it as of the other.
    negative = {name: -np.minimum(m, 0).sum() / np.abs(m).sum() for name, m in maps.items()}
    assert negative["gradient"] > 0.3
    assert max(negative[name] for name in ("guided backprop", "deconvnet")) < 0.15
