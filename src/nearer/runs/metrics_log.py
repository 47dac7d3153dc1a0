"""What a run noted as it went: one line of JSON for each look at its losses and each evaluation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nearer.errors import InputError, first_line
from nearer.storage.sealed import unsealed_line


class Line(NamedTuple):
    step: int
    values: dict[str, float]


class Fault(NamedTuple):
    """A line that could not be used: its number in the file, and why."""

    number: int
    reason: str


@dataclass(frozen=True)
class MetricsLog:
    """Every line of the file is among `lines` or among `faults`."""

    path: Path
    lines: tuple[Line, ...]
    faults: tuple[Fault, ...]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for line in self.lines for name in line.values))

    @property
    def last_step(self) -> int:
        return max((line.step for line in self.lines), default=0)

    def series(self, name: str) -> tuple[list[int], list[float]]:
        """The steps at which a figure was noted, and its values."""
        noted = [line for line in self.lines if name in line.values]
        return [line.step for line in noted], [line.values[name] for line in noted]


def read_metrics(path: Path) -> MetricsLog:
    """All lines of the file; none where it does not exist yet."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return MetricsLog(path, (), ())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from None
    rows = content.split(b"\n")
    whole, rest = rows[:-1], rows[-1]
    lines, faults = [], []
    for number, row in enumerate(whole, start=1):
        found = _line(row)
        if isinstance(found, Line):
            lines.append(found)
        else:
            faults.append(Fault(number, found))
    if rest:
        faults.append(Fault(len(whole) + 1, "not written to its end"))
    return MetricsLog(path, tuple(lines), tuple(faults))


def _line(row: bytes) -> Line | str:
    """The line, or what is wrong with it."""
    try:
        values = unsealed_line(row)
    except ValueError as error:
        return first_line(error)
    if type(values.get("step")) is not int:
        return "no step"
    figures = {name: value for name, value in values.items() if name != "step"}
    wrong = [name for name, value in figures.items() if not _is_number(value)]
    if wrong:
        return f"{wrong[0]} is not a number"
    return Line(values["step"], {name: float(value) for name, value in figures.items()})


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
