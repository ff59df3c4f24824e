"""Rules under distribution strategies, in processes of their own."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import subprocess
import sys

import numpy as np
import pytest

PROGRAMS = pathlib.Path(__file__).parent / "programs"
QUIET = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}


@pytest.fixture(scope="module")
def mirrored():
    done = subprocess.run(
        [sys.executable, PROGRAMS / "mirrored.py"], capture_output=True, text=True, env=QUIET, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("mode", ["eager", "traced"])
@pytest.mark.parametrize("form", ["list", "by ref", "pairs", "function"])
def test_mirrored_replicas_get_their_own_gradients(mirrored, mode, form):
    """y = x w + b in replica r with x = r·[1, 4]; the rule marks its gradients by 3, 7 and 5."""
    dx, dw, db = mirrored[f"{mode}, {form}"]
    assert dx == [[6.0, 9.0]] * 2
    assert dw == [[7.0, 28.0], [14.0, 56.0]]
    assert db == [[5.0, 5.0]] * 2


@pytest.mark.parametrize("mode", ["eager", "traced"])
def test_a_mirrored_variable_may_be_an_argument(mirrored, mode):
    dx, dw = mirrored[f"{mode}, argument"]
    assert dx == [[6.0, 9.0]] * 2 and dw == [[7.0, 28.0], [14.0, 56.0]]


def test_grad_is_shown_the_mirrored_variables_themselves_in_order_of_use(mirrored):
    assert mirrored["seen"] == [["w", "b"]]


def test_fit_under_the_strategy_is_fit_without(mirrored):
    under, without = mirrored["fit"]
    for u, w in zip(under, without, strict=True):
        np.testing.assert_allclose(u, w, rtol=1e-5)
    assert under[0] != [2.0, 2.0, 2.0]


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [str(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.mark.slow
def test_two_workers_on_the_loopback():
    ports = free_ports(2)
    workers = [
        subprocess.Popen(
            [sys.executable, PROGRAMS / "worker.py", str(i), *ports],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=QUIET,
        )
        for i in range(2)
    ]  # fmt: skip
    try:
        ends = [worker.communicate(timeout=300) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    for worker, (out, err) in zip(workers, ends, strict=True):
        assert worker.returncode == 0, err[-3000:]
        dx, total, w, same = json.loads(out.splitlines()[-1])
        assert dx == [6.0, 9.0] and same
        np.testing.assert_allclose(total, [7.0 * 3, 28.0 * 3])
        np.testing.assert_allclose(w, [2.0 - 2.1, 3.0 - 8.4], rtol=1e-5)
