"""Two processes equal one on the same global batch: losses, gradients, final weights; hard negatives included."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from two_processes import check_moments, check_steps, two_beside_one


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
    steps = two_beside_one(recipe, text, tmp_path, settings)
    assert len(steps) >= 14
    check_steps(steps, loss=1e-4, norm=1e-2)
    check_moments(tmp_path, weights)


def _certain(self: Any, ids: Any, random: Any) -> Any:
    import numpy as np

    chosen = ~np.isin(ids, self.special)
    return np.where(chosen, self.mask_id, ids), chosen
