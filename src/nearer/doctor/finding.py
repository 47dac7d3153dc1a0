"""What a check finds, and how one is carried out so that nothing it meets can stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import NamedTuple

from nearer.errors import NearerError, first_line


class State(StrEnum):
    good = "good"
    absent = "absent"  # not there, and nothing needs it
    doubtful = "doubtful"  # usable, but not as it could be
    broken = "broken"  # something needed does not work


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
