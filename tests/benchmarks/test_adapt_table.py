"""The table of benchmarks/adapt_domains.sh."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.adapt_table import write_table


def standing(encoder: str, lexical: float, score: float, **more: bool) -> dict[str, Any]:
    contender = {"encoder": encoder, "lexical": lexical, "reranker": 0.0, **more}
    return {"contender": contender, "gain": score - 50, "by_test": {"labels": score}}


def test_means_and_deviations_over_seeds(tmp_path: Path) -> None:
    for seed, more in enumerate((0.0, 1.0, 2.0)):
        standings = [
            standing("lists", 0.3, 56 + more),
            standing("lists", 0.0, 53 + more),
            standing("base", 0.3, 52),
            standing("large", 0.0, 55, teacher=True),
            standing("base", 0.0, 50),
        ]
        labels = {
            "standings": standings,
            "chosen": standings[1],
            "correlation": 0.5,
            "judges": {"lexical": 40.0},
            "refit": standing("refit", 0.3, 58 + more) if seed else None,
        }
        folder = tmp_path / f"some-log-{seed}"
        folder.mkdir()
        (folder / "results.json").write_text(json.dumps({"labels": labels, "seconds": 60}))
        (tmp_path / f"some-simcse-{seed}.json").write_text(json.dumps({"scores": [{"score": 30 + more}]}))
    (tmp_path / "some-base.json").write_text(json.dumps({"scores": [{"score": 50.0}]}))
    lines = write_table(tmp_path)
    assert lines[0] == "## some-log, 3 seeds"
    for row in (
        "| base | 50.0 ± 0.0 |",
        "| chosen set-up | 54.0 ± 1.0 |",
        "| its gain | 4.0 ± 1.0 |",
        "| best of all set-ups by labels | 57.0 ± 1.0 |",
        "| student lists alone | 54.0 ± 1.0 |",
        "| teacher large alone | 55.0 ± 0.0 |",
        "| chosen set-up, trained again on all documents | 59.5 ± 0.7 |",  # with two of the seeds
        "| judge lexical | 40.0 ± 0.0 |",
        "| 100 × Spearman of tests and labels | 50.0 ± 0.0 |",
        "| chosen | lists; lists; lists |",
        "| some-simcse | 31.0 ± 1.0 |",
        "| some-base | 50.0 |",
    ):
        assert row in lines
