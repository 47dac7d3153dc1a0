"""Findings: whatever a check meets is told, and none stops the others."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from rich.console import Console

from nearer.doctor import Finding, State, usable
from nearer.doctor.checks import all_checks
from nearer.doctor.findings import Check, as_json, as_tables, carry_out, summary
from nearer.errors import InputError

GOOD = Finding("Python", State.good, "3.11")
ABSENT = Finding("[plots]", State.absent, "figures: pip install -e '.[plots]'")
DOUBTFUL = Finding("threads", State.doubtful, "8 for torch, 2 cores", "export OMP_NUM_THREADS=2")
BROKEN = Finding("torch", State.broken, "ImportError: no library", "install torch again")


def raising(error: BaseException) -> Callable[[], list[Finding]]:
    def run() -> list[Finding]:
        raise error

    return run


class TestCarryingOut:
    @pytest.mark.parametrize(
        ("error", "found"),
        [
            (InputError("data: no such folder."), "data: no such folder."),
            (OSError("a library is missing\nand more"), "OSError: a library is missing"),
            (SystemExit(3), "SystemExit: 3"),
        ],
    )
    def test_an_error_is_a_finding(self, error: BaseException, found: str) -> None:
        assert carry_out(Check("torch", raising(error), "mend it")) == [
            Finding("torch", State.broken, found, "mend it")
        ]

    def test_an_interruption_is_none(self) -> None:
        with pytest.raises(KeyboardInterrupt):
            carry_out(Check("torch", raising(KeyboardInterrupt()), "mend it"))

    def test_every_check_has_a_name_and_a_mend(self, tmp_path) -> None:
        checks = all_checks(tmp_path, online=True)
        assert all(check.name and check.mend for check in checks)
        assert len({check.name for check in checks}) == len(checks)

    def test_the_hub_and_data_only_when_asked_for(self) -> None:
        assert {"hub", "data"}.isdisjoint(check.name for check in all_checks(None, online=False))


class TestReport:
    def test_usable(self) -> None:
        assert usable([GOOD, ABSENT, DOUBTFUL])
        assert not usable([GOOD, BROKEN])

    def test_summary(self) -> None:
        assert summary([GOOD]) == "ready to use"
        assert summary([GOOD, DOUBTFUL]) == "ready to use, 1 to look at"
        assert summary([BROKEN, DOUBTFUL]) == "not usable as it is: 1 broken, 1 to look at"

    @pytest.mark.parametrize(("encoding", "signs"), [("utf-8", "✓–!✗"), ("ascii", ["ok", "-", "!", "x"])])
    def test_table_and_mends(self, encoding: str, signs: str) -> None:
        console = Console(width=80)
        with console.capture() as captured:
            console.print(as_tables([GOOD, ABSENT, DOUBTFUL, BROKEN], encoding=encoding))
        lines = captured.get().splitlines()
        rows = [line.split("│")[1:4] for line in lines if line.startswith("│")]
        assert [row[0].strip() for row in rows] == list(signs)
        assert [row[1].strip() for row in rows] == ["Python", "[plots]", "threads", "torch"]
        after = lines[-3:]
        assert after[0] == f"{signs[2]} threads: export OMP_NUM_THREADS=2"
        assert after[1] == f"{signs[3]} torch: install torch again"
        assert after[2] == "not usable as it is: 1 broken, 1 to look at"

    def test_json(self) -> None:
        found = json.loads(as_json([GOOD, BROKEN]))
        assert found["usable"] is False
        assert found["findings"][1] == {
            "name": "torch",
            "state": "broken",
            "found": "ImportError: no library",
            "mend": "install torch again",
        }
