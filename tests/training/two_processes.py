"""The same training in two processes and in one, for tests that hold each beside the other."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from nearer.training import train
from patience import HANG

# Everything is imported and nothing computed when it splits, so that the seconds of imports pass once; where importing
# has started threads, which a child would lack, each process is an interpreter of its own.
DRIVER = """
import os, subprocess, sys, traceback
if "RANK" not in os.environ and os.path.exists("/proc/self/task"):
    import transformers.models.bert.modeling_bert
import nearer, nearer.training, yaml

def run():
    nearer.train(sys.argv[1], sys.argv[2], out=sys.argv[3], settings=yaml.safe_load(sys.argv[4]))

def forked(place):
    child = os.fork()
    if child == 0:
        os.environ |= place
        try:
            run()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child

if "RANK" in os.environ:
    run()
    sys.exit()
places = [{"RANK": rank, "LOCAL_RANK": rank} for rank in map(str, range(int(os.environ["WORLD_SIZE"])))]
if os.path.exists("/proc/self/task") and len(os.listdir("/proc/self/task")) == 1:
    ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in [forked(place) for place in places]]
else:
    command = [sys.executable, "-c", os.environ["DRIVER"], *sys.argv[1:]]
    ended = [process.wait() for process in [subprocess.Popen(command, env={**os.environ, **each}) for each in places]]
sys.exit(any(ended))
"""


def in_processes(count: int, *arguments: str) -> None:
    """Recipe, corpus, folder and settings as YAML, trained by so many processes as torchrun starts them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "DRIVER": DRIVER}
    ended = subprocess.run(
        [sys.executable, "-c", DRIVER, *arguments],
        env={**os.environ, **shared, "WORLD_SIZE": str(count)},
        stderr=subprocess.PIPE,
        text=True,
        timeout=HANG,
    )
    assert ended.returncode == 0, ended.stderr


def two_beside_one(
    recipe: Path, text: Path, folder: Path, settings: dict[str, Any]
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What each step of `folder/one` measured, beside what the same step of `folder/two` did."""
    in_processes(2, str(recipe), str(text), str(folder / "two"), yaml.safe_dump(settings))
    train(recipe, text, out=folder / "one", settings=settings)
    one, two = (
        [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("one", "two")
    )
    return list(zip(one, two, strict=True))


def check_steps(steps: list[tuple[dict[str, Any], dict[str, Any]]], *, loss: float, norm: float) -> None:
    """Losses and gradients' norms differ by no more than these shares.

    All cosines of a tiny random model are near 1, so that its gradients are small and to a part rounding; a wrong share
    of a batch of 7 or 8 would make a difference of a tenth and more.
    """
    for alone, together in steps:
        assert together["loss"] == pytest.approx(alone["loss"], rel=loss, abs=1e-5)
        assert together["gradient_norm"] == pytest.approx(alone["gradient_norm"], rel=norm, abs=1e-5)


def check_moments(folder: Path, weights: Callable[[Path], dict[str, Any]], *, atol: float = 1e-5) -> None:
    """The running means of all gradients are the same."""
    alone, together = weights(folder / "one"), weights(folder / "two")
    moments = [name for name in alone if name.endswith(":exp_avg")]
    assert moments
    for name in moments:
        torch.testing.assert_close(together[name], alone[name], atol=atol, rtol=1e-2)
