"""A run killed again and again ends with the weights of one that never was."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from nearer.training import train

# Dies at the N-th of the moments at which a run reads a batch, writes a file, renames a folder or removes one.
DRIVER = """
import os, pathlib, shutil, signal, sys
import nearer
from nearer.training import checkpoints, feed, log
folder, recipe, corpus, left = sys.argv[1], sys.argv[2], sys.argv[3], [int(sys.argv[4])]
def dying(function):
    def called(*arguments, **named):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **named)
    return called
feed.Feed.batch = dying(feed.Feed.batch)
log.RunLog.write = dying(log.RunLog.write)
checkpoints.save_file = dying(checkpoints.save_file)
pathlib.Path.rename = dying(pathlib.Path.rename)
pathlib.Path.write_text = dying(pathlib.Path.write_text)
shutil.rmtree = dying(shutil.rmtree)
if os.path.exists(folder + "/config.yaml"):
    nearer.resume(folder)
else:
    nearer.train(recipe, corpus, out=folder)
"""


def test_twenty_kills(recipe: Path, corpus: Path, tmp_path: Path, weights: Callable[[Path], dict[str, Any]]) -> None:
    draw = random.Random(11)
    kills = 0
    folder = tmp_path / "killed"
    for _ in range(60):
        # most runs die early on, so that twenty deaths spread over one training
        moment = draw.randint(2, 22) if kills < 20 else 10**9
        command = [sys.executable, "-c", DRIVER, str(folder), str(recipe), str(corpus), str(moment)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        kills += 1
    assert kills >= 20
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        train(recipe, corpus, out=tmp_path / "straight")
    finally:
        torch.set_num_threads(threads)
    killed, straight = weights(folder), weights(tmp_path / "straight")
    assert killed.keys() == straight.keys()
    assert all(torch.equal(killed[name], straight[name]) for name in straight)
    assert (folder / "metrics.jsonl").read_text() == (tmp_path / "straight" / "metrics.jsonl").read_text()
