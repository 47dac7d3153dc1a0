"""Two processes equal one on the same global batch: losses, gradients, final weights; hard negatives included."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nearer.training import train
from patience import HANG

DRIVER = """
import sys
import nearer, yaml
nearer.train(sys.argv[1], sys.argv[2], out=sys.argv[3], settings=yaml.safe_load(sys.argv[4]))
"""


def in_processes(count: int, *arguments: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", DRIVER, *arguments],
            env={**shared, "WORLD_SIZE": str(count), "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=HANG)
        assert process.returncode == 0, errors


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"data": "triplets", "hard_negative_weight": 2.0, "pooling": "cls"}, marks=pytest.mark.slow),
        # equal views are asked for, since dropout would differ; shares of 4 and 3, and a partial batch
        {"fixed_masks": True, "mlm_weight": 0.5, "mlm_rate": 0.999, "batch_size": 7},
        {
            "method": "rankcse",
            "ranking": "list_mle",
            "student_temperature": 0.5,
            "contrastive_weight": 0,  # both would need views that differ
            "consistency_weight": 0,
            "batch_size": 7,
        },  # some sentences twice: ties drawn alike
    ],
)
def test_two_equal_one(
    settings: dict[str, Any],
    recipe: Path,
    corpus: Path,
    tmp_path: Path,
    weights: Callable[[Path], dict[str, Any]],
    tiny_model: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import json

    import yaml

    text = corpus
    if settings.get("data") == "triplets":
        lines = corpus.read_text().split("\n")[:60]
        text = tmp_path / "triplets.tsv"
        text.write_text("".join("\t".join(lines[place : place + 3]) + "\n" for place in range(0, 57)))
    if settings.get("method") == "rankcse":
        text = tmp_path / "twice.txt"
        text.write_text(corpus.read_text() + corpus.read_text())
        settings = {**settings, "teachers": [{"model": str(tiny_model("roberta")), "pooling": "mean"}]}
    # dropout and masks are drawn by each process for itself, so they are made certain here
    # a small learning rate: Adam magnifies rounding errors of the first gradients into steps of other weights
    settings = {"dropout": 0.0, "learning_rate": 1e-5, "max_steps": 20, "select_on": [], "test_on": [], **settings}
    if "mlm_weight" in settings:
        monkeypatch.setattr("nearer.text.augmentation.Masker.__call__", _certain)
        certain = tmp_path / "sitecustomize.py"
        certain.write_text(
            "import nearer.text.augmentation as m, numpy as np\n"
            "def certain(self, ids, random):\n"
            "    chosen = ~np.isin(ids, self.special)\n"
            "    return np.where(chosen, self.mask_id, ids), chosen\n"
            "m.Masker.__call__ = certain\n"
        )
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    in_processes(2, str(recipe), str(text), str(tmp_path / "two"), yaml.safe_dump(settings))
    train(recipe, text, out=tmp_path / "one", settings=settings)
    one, two = (
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("one", "two")
    )
    assert len(one) == len(two) >= 14
    # all cosines of a tiny random model are near 1, so that its gradients are small and to a part rounding; a wrong
    # share of a batch of 7 or 8 would make a difference of a tenth and more
    near = 1e-2
    for alone, together in zip(one, two, strict=True):
        assert together["loss"] == pytest.approx(alone["loss"], rel=near / 100, abs=1e-5)
        assert together["gradient_norm"] == pytest.approx(alone["gradient_norm"], rel=near, abs=1e-5)
    alone, together = weights(tmp_path / "one"), weights(tmp_path / "two")
    moments = [name for name in alone if name.endswith(":exp_avg")]
    assert moments
    for name in moments:  # the running mean of all gradients
        torch.testing.assert_close(together[name], alone[name], atol=1e-5, rtol=near)


def _certain(self: Any, ids: Any, random: Any) -> Any:
    import numpy as np

    chosen = ~np.isin(ids, self.special)
    return np.where(chosen, self.mask_id, ids), chosen
