"""Rows, their ratios, and the report as JSON and as a table."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.report import FLOOR, Report, Row, check_writable, compared
from nearer.errors import InputError

ROWS = [
    Row("step", "theirs", 0.8, batch=64, rounds=(0.7, 0.8, 0.9), memory=3 * 2**30),
    Row("step", "ours", 0.1, batch=64, start_up=2.5),
    Row("step", FLOOR, 0.05, batch=64),
    Row("step", "theirs", 2.0, batch=512),
    Row("step", "ours", batch=512, note="does not fit in memory"),
]


def report(rows: list[Row]) -> Report:
    machine = {"cpu": "a good one", "limits": {"matrix product": "1 TFLOP/s"}}
    groups = [{"kind": "copies", "milliseconds": 1.0, "share": 0.5, "launches": 3.0}]
    profile = {"what": "ours", "batch": 64, "title": "time", "groups": groups}
    return Report(
        "train", "nearer bench train", "2026-01-01", machine, {"nearer": "0"}, {"steps": 5}, rows, [], [profile]
    )


def test_ratios_are_to_the_peer_and_the_floor_of_the_same_batch() -> None:
    theirs, ours, floor, theirs_512, ours_512 = compared(ROWS, ["theirs"])
    assert ours.times_faster == {"theirs": pytest.approx(8.0)}
    assert ours.of_floor == pytest.approx(2.0)
    assert theirs.times_faster == {}
    assert theirs.of_floor == pytest.approx(16.0)
    assert (floor.times_faster, floor.of_floor) == ({}, None)
    assert theirs_512.of_floor is None
    assert (ours_512.times_faster, ours_512.seconds) == ({}, None)


def test_sentences_a_second() -> None:
    assert Row("step", "ours", 0.5, batch=64).per_second == 128
    assert Row("epoch", "ours", 10.0, batch=64, sentences=1000).per_second == 100
    assert Row("step", "ours", batch=64).per_second is None


def test_json_and_back(tmp_path: Path) -> None:
    written = report(compared(ROWS, ["theirs"]))
    written.write_json(tmp_path / "report.json")
    assert Report.from_json((tmp_path / "report.json").read_text(encoding="utf-8")) == written
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_a_report_that_cannot_be_written_leaves_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    path.write_text("the last one")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(InputError, match=r"report\.json: cannot be written \(No space left on device\)\."):
        report(ROWS).write_json(path)
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("report.json", "the last one")]


def test_whether_it_can_be_written_is_known_before(tmp_path: Path) -> None:
    check_writable(tmp_path / "report.json")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match=r"none/report\.json: cannot be written"):
        check_writable(tmp_path / "none" / "report.json")
    with pytest.raises(InputError, match="is a folder"):
        check_writable(tmp_path)


def test_the_table_shows_every_figure() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(report(compared(ROWS, ["theirs"])).table())
    shown = console.export_text()
    for figure in (
        "800.00 ms",
        "8.00",
        "16.00",
        "3.00 GiB",
        "2.5 s",
        "does not fit in memory",
        "a good one",
        "1 TFLOP/s",
    ):
        assert figure in shown
    assert "× theirs" in shown
    assert "tokens" not in shown  # a column without a figure is left out
