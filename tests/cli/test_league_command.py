"""The command league: what it tells, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from nearer.methods import SimCSE


@pytest.fixture
def league(nearer: Any, model: Path, tmp_path: Path) -> Callable[..., Any]:
    """`nearer league` with two entries of one step."""
    words = "the quick brown fox jumps over a lazy dog and rain comes far away".split()  # noqa: SIM905
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"{a} {b}\n" for a in words for b in words if a != b))
    loop = {"pooling": "mean", "head": False, "batch_size": 4, "max_length": 12}
    (tmp_path / "league.yaml").write_text(
        yaml.safe_dump(
            {
                "corpus": str(corpus),
                "backbones": {"tiny": str(model)},
                "methods": {
                    "warm": {"method": "simcse"},
                    "cold": {"method": "simcse", "settings": {"temperature": 0.5}},
                },
                "settings": loop,
                "seeds": [0],
                "steps": 1,
                "trials": 1,
                "select_on": "everyday",
                "evaluate_every": 1,
                "test_on": "everyday",
            }
        )
    )

    def run(*arguments: object) -> Any:
        return nearer("league", tmp_path / "league.yaml", "--out", tmp_path / "out", *arguments)

    return run


def test_a_league_and_its_page(league: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = league("--dry-run")
    assert (told.code, told.out) == (
        0,
        "2 runs of 1 steps: 2 of tuning (seed 0) and 0 more of the chosen settings; 0 are done\n",
    )
    loss = SimCSE.loss
    spoilt = [True]

    def fail(self: SimCSE, *arguments: Any) -> Any:
        if spoilt and self.settings.temperature == 0.5:
            raise RuntimeError("a bad day")
        return loss(self, *arguments)

    monkeypatch.setattr(SimCSE, "loss", fail)
    failed = league()
    assert failed.code == 1
    assert "cold on tiny: all trials failed (RuntimeError: a bad day)" in failed.err
    assert "warm" in failed.out
    assert "cold" not in failed.out
    assert failed.err.splitlines()[-1] == "the same command tries again what failed, and goes on with what is not done"
    spoilt.clear()
    done = league()
    assert done.code == 0, done.err
    assert "cold" in done.out
    assert f"page: {tmp_path / 'out' / 'league.html'}" in done.err
    again = league("--page-only")
    assert (again.code, again.out) == (0, done.out)


def test_mistakes_end_in_one_line(league: Any, nearer: Any, tmp_path: Path) -> None:
    assert league("--workers", 0).code == 2
    path = tmp_path / "league.yaml"
    path.write_text(path.read_text().replace("steps: 1", "steps: one"))
    assert "steps: Input should be a valid integer" in league().error
