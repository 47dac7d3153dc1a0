"""One line at the end of a run says which tests were skipped for want of something, and how to have them run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import pytest

# what a reason for skipping speaks of: what is missing, and its mend; the first that fits counts
MISSING = (
    (r"NEARER_SHARED", "the folder of real data", "NEARER_SHARED=DIR"),
    (r"NEARER_MODELS", "real models", "NEARER_MODELS=DIR"),
    (r"GPU|CUDA", "a GPU", "a machine that has one"),
    (r"browser", "a browser", "make browser"),
    (r"\b(mteb|llama_cpp|llama-cpp-python|ray|playwright)\b", r"\1", "nearer doctor says how to have it"),
    (r"could not import '(\w+)", r"\1", "pip install it"),
)


def not_covered(reasons: Iterable[str]) -> str:
    """`not covered: 62 tests need the folder of real data (NEARER_SHARED=DIR), 12 a GPU (…)`; empty if nothing is."""
    counts: Counter[str] = Counter()
    for reason in reasons:
        for pattern, what, mend in MISSING:
            found = re.search(pattern, reason)
            if found:
                counts[f"{found.expand(what)} ({mend})"] += 1
                break
        else:
            counts[f"another kind of machine or user ({reason.strip().rstrip('.')})"] += 1
    if not counts:
        return ""
    # by name where there are as many: workers end in any order
    (first, most), *others = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    parts = [f"{most} test{'s need' if most > 1 else ' needs'} {first}", *(f"{count} {what}" for what, count in others)]
    return f"not covered: {', '.join(parts)}"


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    # (file, line, reason): a file that is skipped as a whole is one entry
    line = not_covered(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    if line:
        terminalreporter.write_line(line, yellow=True)
