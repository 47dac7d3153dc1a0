"""What can be wrong with text, what is done about it, and the report that accounts for every record."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from nearer.errors import InputError

EXAMPLES_KEPT = 5


class Fault(Enum):
    """A kind of fault: its name in reports, the rule that handles it, and whether the rule drops the record."""

    EMPTY = ("empty", "dropped", True)
    INVALID_TEXT = ("not valid in the stated encoding", "dropped; name another with encoding (--encoding)", True)
    NUL = ("with NUL bytes", "NUL bytes removed, the rest kept", False)
    OVER_LONG = ("over-long", "dropped; raise the limit with max_characters (--max-characters)", True)
    WRONG_COLUMNS = ("with a wrong number of columns", "dropped", True)
    WRONG_FIELDS = ("with missing or unusable fields", "dropped", True)
    BAD_JSON = ("not valid JSON", "dropped", True)
    BAD_QUOTES = ("with broken quotes", "dropped; reading goes on at the next line", True)
    BAD_SCORE = ("with a score that is not a finite number", "dropped", True)
    NO_LABEL = ("on whose class people did not agree", "dropped", True)
    SHORT_LIST = ("shorter than list_length", "dropped; lower list_length to keep them", True)
    LONG_LIST = ("longer than list_length", "cut, the first sentences kept", False)
    FEW_PASSAGES = (
        "with fewer passages than passages_per_query",
        "dropped; lower passages_per_query to keep them",
        True,
    )
    EQUAL_SCORES = ("whose scores are all equal", "dropped: there is no order to learn", True)
    UNKNOWN_PASSAGE = ("with passages that passages.jsonl does not have", "these passages left out", False)
    REPEATED_PASSAGE = ("with a passage twice", "its higher score kept", False)
    CONTAINED = (
        "in which one side contains the other",
        "kept; cut it out with strip_contained (--strip-contained)",
        False,
    )
    STRIPPED = ("in which one side contained the other", "cut out", False)
    HELD_OUT = ("held out for the dev task", "not trained on", True)
    DUPLICATE = ("duplicate", "kept", False)
    DUPLICATE_DROPPED = ("duplicate", "dropped, the first one kept", True)
    DAMAGED = ("damaged data", "reading stopped here, what came before is kept", False)

    def __init__(self, label: str, rule: str, drops: bool) -> None:
        self.label = label
        self.rule = rule
        self.drops = drops


# A good file may have many of these: blank lines, repetitions, short lists
EXPECTED = frozenset(
    {Fault.EMPTY, Fault.DUPLICATE_DROPPED, Fault.SHORT_LIST, Fault.NO_LABEL, Fault.FEW_PASSAGES, Fault.HELD_OUT}
)


@dataclass
class Tally:
    """How often one fault was met, and where first."""

    count: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)


@dataclass
class ReadReport:
    """The account of one reading: `read == kept + dropped` holds at every moment between records.

    allow_dropped: it is no error if most records cannot be used.
    """

    source: str
    unit: str = "line"
    allow_dropped: bool = False
    read: int = 0
    kept: int = 0
    tallies: dict[Fault, Tally] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def dropped(self) -> int:
        return sum(tally.count for fault, tally in self.tallies.items() if fault.drops)

    def add(self, fault: Fault, line: int, detail: str = "") -> None:
        tally = self.tallies.setdefault(fault, Tally())
        tally.count += 1
        if len(tally.examples) < EXAMPLES_KEPT:
            tally.examples.append((line, detail))

    def count(self, fault: Fault) -> int:
        tally = self.tallies.get(fault)
        return tally.count if tally else 0

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def check_kept(self, *, told: bool = False) -> None:
        """Too little of use is an error, with the reasons unless the user was told them already.

        Too little is nothing at all, or fewer records than could not be read or understood: then the file is likely
        of another format or encoding than it was taken for.
        """
        reasons = "" if told else f"\n{self}"
        if not self.kept:
            raise InputError(f"{self.source}: nothing in it could be used.{reasons}")
        unusable = sum(tally.count for fault, tally in self.tallies.items() if fault.drops and fault not in EXPECTED)
        usable = self.read - unusable
        if unusable > usable and not self.allow_dropped:
            raise InputError(
                f"{self.source}: {unusable:,} of {self.read:,} {self.unit}s could not be used; is it the right file, "
                f"format and encoding? If so, allow it with allow_dropped (--allow-dropped).{reasons}"
            )

    def to_dict(self) -> dict[str, object]:
        return {
            "source": self.source,
            "unit": self.unit,
            "read": self.read,
            "kept": self.kept,
            "dropped": self.dropped,
            "faults": {
                fault.name.lower(): {
                    "count": tally.count,
                    "rule": fault.rule,
                    "examples": [{self.unit: line, "detail": detail} for line, detail in tally.examples],
                }
                for fault, tally in self.tallies.items()
            },
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [f"{self.source}: {self.read:,} read, {self.kept:,} kept, {self.dropped:,} dropped"]
        for fault, tally in self.tallies.items():
            where = ", ".join(f"{line}{f' ({detail})' if detail else ''}" for line, detail in tally.examples)
            more = ", …" if tally.count > len(tally.examples) else ""
            units = self.unit if tally.count == 1 else f"{self.unit}s"
            lines.append(f"  {tally.count:,} {fault.label} ({fault.rule}): {units} {where}{more}")
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)
