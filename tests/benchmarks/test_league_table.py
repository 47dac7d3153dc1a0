"""The tables of a league that documents have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.league_table import main, write_table


def standing(method: str, averages: list[float], against: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "method": method,
        "tuned": {"learning_rate": 3e-05, "queue_size": 128},
        "seeds": [{"averages": {"sts": each}, "dev": each + 10} for each in averages],
        "step_seconds": 0.6614,
        "against_baseline": {} if against is None else {"sts": against},
        "ranks": {"sts": {"rank": 1, "mean": 1.5, "best": 1.0, "worst": 2.0}},
        "failures": [],
    }


DIVISION = {
    "backbone": "mini",
    "kinds": {"sts": ["STS12"]},
    "standings": [
        standing("queue", [63.0, 64.0, 62.0], {"difference": 1.5, "low": 0.25, "high": 2.75}),
        standing("near", [62.0, 62.0], {"difference": 0.5, "low": -0.25, "high": 1.25}),
        standing("alone", [61.0], {"difference": -0.5, "low": None, "high": None}),
        standing("simcse", [61.5, 61.5], None),
    ],
    "unplaced": [{"method": "broken", "failures": ["all trials failed"]}],
    "seed_agreement": {"sts": 0.5},
    "agreement": [],
}


def test_rows_tell_what_is_certain() -> None:
    head, _, *rows, left_out = write_table(DIVISION)
    columns = [cell.strip() for cell in head.strip("|").split("|")]
    cells = [dict(zip(columns, (cell.strip() for cell in row.strip("|").split("|")), strict=True)) for row in rows]
    assert [row["method"] for row in cells] == ["queue", "near", "alone", "simcse"]
    assert [row["sts"] for row in cells] == ["63.00 ± 1.00", "62.00 ± 0.00", "61.00", "61.50 ± 0.00"]
    assert [row["above the baseline"] for row in cells] == [
        "**+1.50 (+0.25 to +2.75)**",
        "+0.50 (-0.25 to +1.25)",
        "-0.50",
        "",
    ]
    assert cells[0] | {"by seed": "63.00, 64.00, 62.00", "dev": "73.00 ± 1.00", "step": "661 ms"} == cells[0]
    assert cells[0]["ranks of its seeds"] == "1 to 2"
    assert cells[0]["chosen of its trials"] == "learning_rate 3e-05, queue_size 128"
    assert left_out == "left out: broken (all trials failed)"


def test_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["league_table", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"usage: python -m benchmarks.league_table LEAGUE"):
        main()
    (tmp_path / "results.json").write_text(json.dumps({"divisions": [DIVISION]}))
    main()
    assert capsys.readouterr().out.startswith("## mini\n| method | sts | by seed |")
