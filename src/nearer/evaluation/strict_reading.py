"""Reading data of which every line counts: what other readings drop and report is an error here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from nearer.errors import InputError
from nearer.text.faults import Fault, ReadReport
from nearer.text.reading import Reading
from nearer.text.shapes import Unusable

Record = TypeVar("Record")

# Far above what a model reads of a text; a line longer than this is no text.
MAX_CHARACTERS = 1_000_000


@dataclass
class Oddities:
    """What published data holds although nobody meant it to: counted by kind, or an error where `strict`."""

    strict: bool = False
    counts: dict[str, int] = field(default_factory=dict)

    def meet(self, kind: str, error: str) -> None:
        """error: what is said of it where it is one, with file and line."""
        self.refuse(error)
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def refuse(self, error: str) -> None:
        """As `meet`, of what is counted elsewhere."""
        if self.strict:
            raise InputError(error)


def strictly(reading: Reading[Record]) -> Iterator[tuple[int, Record]]:
    """Each record with its line. Blank lines are passed over, any other fault is an error with its file and line."""
    for located in reading.located():
        _check(reading.report)
        yield located
    _check(reading.report)


def plain_text(value: object, what: str) -> str:
    """A text as it stands, spaces and emptiness included, if it is one that can be encoded."""
    if not isinstance(value, str):
        raise Unusable(Fault.WRONG_FIELDS, f"{what}: text expected, {type(value).__name__} found")
    try:
        value.encode()
    except UnicodeEncodeError:  # JSON escapes can hold one, UTF-8 cannot
        raise Unusable(Fault.INVALID_TEXT, f"{what}: half a surrogate pair") from None
    return value


def filled_text(value: object, what: str) -> str:
    """A text that says something, without the spaces around it."""
    text = plain_text(value, what).strip()
    if not text:
        raise Unusable(Fault.WRONG_FIELDS, f"{what}: empty")
    return text


def _check(report: ReadReport) -> None:
    for fault, tally in report.tallies.items():
        if fault is Fault.DAMAGED or (fault.drops and fault is not Fault.EMPTY):
            line, detail = tally.examples[0]
            reason = f"{fault.label} ({detail})" if detail else fault.label
            raise InputError(f"{report.source}: {report.unit} {line}: {reason}; mend or remove it.")
