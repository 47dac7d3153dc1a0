"""Reading data of which every line counts: what other readings drop and report is an error here.

Published files are found compressed, too: `stored` and `stored_lines` serve the sets whose files are known by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from nearer.errors import InputError, first_line
from nearer.text.faults import Fault, ReadReport
from nearer.text.reading import COMPRESSIONS, Reading
from nearer.text.shapes import Unusable
from nearer.text.sources import BYTE_ORDER_MARK, DamagedData, open_bytes

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


def stored(path: Path) -> Path:
    """A file by its published name, or where it is missing its compressed copy (`NAME.xz`)."""
    copies = (path.with_name(f"{path.name}.{compression}") for compression in COMPRESSIONS)
    return path if path.exists() else next((copy for copy in copies if copy.is_file()), path)


def stored_lines(path: Path, encoding: str) -> list[str]:
    """The lines of a file that `stored` finds, whatever their ends. With a byte order mark it is UTF-8."""
    with open_bytes(stored(path)) as (stream, _):
        try:
            data = stream.read()
            marked = data.startswith(BYTE_ORDER_MARK)
            text = data.removeprefix(BYTE_ORDER_MARK).decode("utf-8" if marked else encoding)
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise InputError(
                f"{path}: line {line} is not valid {error.encoding}; convert the file, if it is Latin-1 with "
                f"iconv -f latin1 -t {error.encoding}."
            ) from None
        except (DamagedData, OSError) as error:
            raise InputError(f"{path}: cannot be read ({first_line(error)}).") from None
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


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
