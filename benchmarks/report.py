"""What was measured, as a table and as JSON."""

from __future__ import annotations

import datetime
import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.machine import Ceilings, machine_facts, versions
from nearer.errors import InputError
from nearer.storage.whole import partial_of, write_whole
from nearer.units import as_bytes, as_count, as_seconds

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

FLOOR = "arithmetic floor"


@dataclass(frozen=True)
class Row:
    """One thing measured. `seconds` is the median over `rounds`, None where nothing could be measured (see `note`).

    seconds: of one step, or of the whole where `sentences` says how many. start_up: from nothing to the first timed
    step, less what the steps until then take when all is running. memory: bytes at the peak beyond what was
    held before. times_faster: the seconds of other rows, by their names, over these. of_floor: these seconds over
    those that the arithmetic alone would take.
    """

    subject: str
    what: str
    seconds: float | None = None
    batch: int | None = None
    max_length: int | None = None
    sentences: int | None = None
    rounds: tuple[float, ...] = ()
    start_up: float | None = None
    memory: int | None = None
    note: str = ""
    times_faster: Mapping[str, float] = field(default_factory=dict)
    of_floor: float | None = None

    @property
    def per_second(self) -> float | None:
        """Sentences a second."""
        amount = self.sentences or self.batch
        return None if not self.seconds or amount is None else amount / self.seconds

    @property
    def case(self) -> tuple[object, ...]:
        """What rows must share to be compared."""
        return self.subject, self.batch, self.max_length, self.sentences


def compared(rows: Sequence[Row], peers: Sequence[str]) -> list[Row]:
    """The rows with their ratios to the peers (names of rows) and to the floor of the same case."""
    times = {(row.case, row.what): row.seconds for row in rows if row.seconds}
    return [_compared(row, peers, times) for row in rows]


def _compared(row: Row, peers: Sequence[str], times: Mapping[tuple[tuple[object, ...], str], float]) -> Row:
    if not row.seconds or row.what == FLOOR:
        return row
    others = {peer: times[row.case, peer] for peer in peers if peer != row.what and (row.case, peer) in times}
    floor = times.get((row.case, FLOOR))
    return replace(
        row,
        times_faster={peer: seconds / row.seconds for peer, seconds in others.items()},
        of_floor=None if floor is None else row.seconds / floor,
    )


@dataclass(frozen=True)
class Report:
    """Rows with everything needed to judge them: machine, versions, command line, date, settings."""

    subject: str
    command: str
    date: str
    machine: dict[str, Any]
    versions: dict[str, str]
    settings: dict[str, Any]
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    profiles: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> str:
        rows = [{**asdict(row), "per_second": row.per_second} for row in self.rows]
        return json.dumps({**asdict(self), "rows": rows}, indent=2, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Report:
        facts = json.loads(text)
        rows = [{name: value for name, value in row.items() if name != "per_second"} for row in facts["rows"]]
        return cls(**{**facts, "rows": [Row(**{**row, "rounds": tuple(row["rounds"])}) for row in rows]})

    def write_json(self, path: str | Path) -> None:
        """Whole or not at all."""
        try:
            write_whole(Path(path), self.to_json() + "\n")
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror}).") from None

    def table(self) -> Group:
        """The rows for a terminal, a table a subject, with the machine above and the notes below."""
        from rich.console import Group
        from rich.text import Text

        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        above = [Text(line, style="dim") for line in (*_machine_lines(self.machine), versions)]
        subjects = list(dict.fromkeys(row.subject for row in self.rows))
        tables = [_table(subject, [row for row in self.rows if row.subject == subject]) for subject in subjects]
        return Group(
            *above, *tables, *map(_profile_table, self.profiles), *[Text(note, style="dim") for note in self.notes]
        )


def new_report(
    subject: str,
    device: torch.device,
    limits: Ceilings,
    settings: Mapping[str, Any],
    rows: list[Row],
    notes: list[str],
    profiles: Sequence[dict[str, Any]] = (),
) -> Report:
    """The report of what this process just measured."""
    return Report(
        subject=subject,
        command=shlex.join(["nearer", *sys.argv[1:]]),
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        machine={**machine_facts(device), "limits": limits.described},
        versions=versions(),
        settings={name: str(value) if isinstance(value, Path) else value for name, value in settings.items()},
        rows=rows,
        notes=notes,
        profiles=list(profiles),
    )


def check_writable(path: str | Path) -> None:
    """Worth knowing before minutes are spent on measuring."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path}: is a folder, the report is a file.")
    try:
        partial_of(path).touch()
        partial_of(path).unlink()
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}).") from None


def _machine_lines(machine: Mapping[str, Any]) -> Iterator[str]:
    for name, value in machine.items():
        yield f"{name}: " + (", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value))


def _table(subject: str, rows: Sequence[Row]) -> Table:
    from rich.table import Table
    from rich.text import Text

    peers = [name for name in dict.fromkeys(row.what for row in rows) if any(name in row.times_faster for row in rows)]
    columns = {
        "batch": [as_count(row.batch) for row in rows],
        "tokens": [as_count(row.max_length) for row in rows],
        "sentences": [as_count(row.sentences) for row in rows],
        "by": [row.what for row in rows],
        "time": [as_seconds(row.seconds) for row in rows],
        "sentences/s": ["" if row.what == FLOOR else as_count(row.per_second) for row in rows],
        **{f"× {peer}": [_ratio(row.times_faster.get(peer)) for row in rows] for peer in peers},
        "time ÷ floor": [_ratio(row.of_floor) for row in rows],
        "start-up": [as_seconds(row.start_up) for row in rows],
        "memory": [as_bytes(row.memory) for row in rows],
        "note": [row.note for row in rows],
    }
    table = Table(title=subject, title_justify="left")
    filled = {name: cells for name, cells in columns.items() if any(cells)}
    for name in filled:
        table.add_column(name, justify="left" if name in ("by", "note") else "right")
    for number, row in enumerate(rows):
        ends_case = number + 1 < len(rows) and rows[number + 1].case != row.case
        table.add_row(*[Text(cells[number]) for cells in filled.values()], end_section=ends_case)
    return table


def _profile_table(profile: Mapping[str, Any]) -> Table:
    from rich.table import Table

    title = f"{profile['what']}, batch {profile['batch']}: {profile['title']}"
    table = Table(title=title, title_justify="left")
    for name, justify in (("kind", "left"), ("ms a step", "right"), ("share", "right"), ("launches a step", "right")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for group in profile["groups"]:
        table.add_row(
            group["kind"], f"{group['milliseconds']:.2f}", f"{group['share']:.0%}", f"{group['launches']:,.0f}"
        )
    return table


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
