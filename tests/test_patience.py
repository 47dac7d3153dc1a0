"""No test depends on the machine being quiet: waits end by `HANG` alone, and nothing sleeps or measures itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
# a number of seconds in a wait, a sleep of more than a turn of the loop, a clock that is read
IMPATIENT = re.compile(
    r"timeout=\d|\.(wait|join|result)\((timeout=)?([1-9]\d*|0\.[1-9]\d*)\)|set_default_timeout\(\d|set_options\(timeout=\d"
    r"|\bsleep\((?!0\))|\b(perf_counter|monotonic|process_time)\(\)|time\.time\(\)"
)
FILES = sorted(path for path in TESTS.rglob("*.py") if path.name not in ("test_patience.py", "conftest.py"))


@pytest.mark.parametrize("folder", sorted({path.parent for path in FILES}), ids=lambda folder: folder.name)
def test_waits_end_by_one_generous_limit(folder: Path) -> None:
    lines = (
        (f"{path.relative_to(TESTS)}:{number}", line.strip())
        for path in FILES
        if path.parent == folder
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    )
    found = [f"{place}: {line}" for place, line in lines if IMPATIENT.search(line)]
    assert found == [], "use patience.HANG"


@pytest.mark.parametrize(
    "line", ["run(command, timeout=120)", "gate.wait(20)", "thread.join(30)", "time.sleep(1)", "begun.result(20)"]
)
def test_impatience_is_seen(line: str) -> None:
    assert IMPATIENT.search(line)


@pytest.mark.parametrize("line", ["run(x, timeout=HANG)", "gate.wait(0.01)", "asyncio.sleep(0)", "found.result(0)"])
def test_patience_is_not_taken_for_it(line: str) -> None:
    assert not IMPATIENT.search(line)
