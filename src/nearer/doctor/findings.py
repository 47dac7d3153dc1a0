"""What a check finds, how it is carried out so that nothing it meets can stop the others, how findings are shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from rich.console import Group
from rich.table import Table
from rich.text import Text

import nearer
from nearer.errors import NearerError, first_line


class State(StrEnum):
    good = "good"
    absent = "absent"  # not there, and nothing needs it
    doubtful = "doubtful"  # usable, but not as it could be
    broken = "broken"  # something needed does not work


SIGNS = {State.good: "✓", State.absent: "–", State.doubtful: "!", State.broken: "✗"}
PLAIN_SIGNS = {State.good: "ok", State.absent: "-", State.doubtful: "!", State.broken: "x"}
STYLES = {State.good: "green", State.absent: "dim", State.doubtful: "yellow", State.broken: "red"}


class Finding(NamedTuple):
    """mend: what to do, in one line; of a doubtful or broken thing there always is one."""

    name: str
    state: State
    found: str
    mend: str = ""


class Check(NamedTuple):
    """mend: what to do if the check itself fails. needs_torch: left out where torch cannot be imported."""

    name: str
    run: Callable[[], Iterable[Finding]]
    mend: str
    needs_torch: bool = False


def carry_out(check: Check) -> list[Finding]:
    """A check's findings; whatever it raises is a finding too."""
    try:
        return list(check.run())
    except NearerError as error:  # says its own mend
        return [Finding(check.name, State.broken, first_line(error), check.mend)]
    except (Exception, SystemExit) as error:
        return [Finding(check.name, State.broken, f"{type(error).__name__}: {first_line(error)}", check.mend)]


def usable(findings: Iterable[Finding]) -> bool:
    return all(finding.state is not State.broken for finding in findings)


def as_tables(findings: Sequence[Finding], *, encoding: str = "utf-8") -> Group:
    """A row each, then a line for each thing to mend and one that sums up. encoding: what the output can show."""
    signs = _signs(encoding)
    table = Table(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        sign = Text(signs[finding.state], style=STYLES[finding.state])
        table.add_row(sign, Text(finding.name), Text(finding.found))  # as they are, brackets and all
    mends = [
        Text(f"{signs[finding.state]} {finding.name}: {finding.mend}", style=STYLES[finding.state])
        for finding in findings
        if finding.mend
    ]
    return Group(table, *mends, Text(summary(findings)))


def summary(findings: Sequence[Finding]) -> str:
    doubtful = sum(finding.state is State.doubtful for finding in findings)
    broken = sum(finding.state is State.broken for finding in findings)
    beside = f", {doubtful} to look at" if doubtful else ""
    return f"ready to use{beside}" if usable(findings) else f"not usable as it is: {broken} broken{beside}"


def as_json(findings: Sequence[Finding]) -> str:
    facts = {
        "nearer": nearer.__version__,
        "usable": usable(findings),
        "findings": [finding._asdict() for finding in findings],
    }
    return json.dumps(facts, indent=2, ensure_ascii=False)


def _signs(encoding: str) -> dict[State, str]:
    try:
        "".join(SIGNS.values()).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return PLAIN_SIGNS
    return SIGNS
