"""What a league found: one division for each backbone, methods in the order of their means.

Methods are compared within a division alone. The first kind of test that the league names gives the order.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearer.evaluation.published import Published
from nearer.evaluation.tasks import kind_name
from nearer.leagues.plan import LeagueFile
from nearer.leagues.runs import Cost
from nearer.leagues.statistics import Difference, Rank, Spread, spread

if TYPE_CHECKING:
    from rich.console import Group

RESAMPLES = 1000


@dataclass(frozen=True)
class Trial:
    settings: dict[str, Any]
    state: str
    dev: float | None
    best_step: int | None
    reason: str
    chosen: bool


@dataclass(frozen=True)
class SeedRun:
    """A run of the chosen setting. figures: by test; averages: by kind of test; curve: dev scores by step."""

    seed: int
    folder: str
    dev: float | None
    best_step: int | None
    figures: dict[str, float | None]
    averages: dict[str, float | None]
    curve: list[tuple[int, float]]
    cost: Cost


@dataclass(frozen=True)
class Standing:
    """A method in its division. The differences are by kind of test; none against itself."""

    method: str
    title: str
    needs: str
    data: str
    teachers: list[str]
    starts_from: str
    batch_size: int
    tuned: dict[str, Any]
    trials: list[Trial]
    seeds: list[SeedRun]
    failures: list[str]
    against_baseline: dict[str, Difference]
    against_best: dict[str, Difference]
    ranks: dict[str, Rank]
    published: list[Published]

    def spread_of(self, test: str) -> Spread | None:
        """Over the seeds with a figure."""
        return _spread([run.figures.get(test) for run in self.seeds])

    def average_of(self, kind: str) -> Spread | None:
        return _spread([run.averages.get(kind) for run in self.seeds])

    def is_below_best(self, kind: str) -> bool:
        """Whether it can be told from the best of a kind."""
        difference = self.against_best.get(kind)
        return difference is not None and difference.is_certain

    @property
    def dev(self) -> Spread | None:
        return _spread([run.dev for run in self.seeds])

    @property
    def step_seconds(self) -> float | None:
        known = [run.cost.step_seconds for run in self.seeds if run.cost.step_seconds is not None]
        return statistics.fmean(known) if known else None

    @property
    def peak_memory(self) -> int | None:
        return max((run.cost.peak_memory for run in self.seeds if run.cost.peak_memory is not None), default=None)

    def to_dict(self) -> dict[str, Any]:
        tests = dict.fromkeys(name for run in self.seeds for name in run.figures)
        kinds = dict.fromkeys(kind for run in self.seeds for kind in run.averages)
        spreads = {"tests": {name: self.spread_of(name) for name in tests}}
        spreads["averages"] = {kind: self.average_of(kind) for kind in kinds}
        plain = {part: {name: _plain(each) for name, each in found.items()} for part, found in spreads.items()}
        runs = [{**to_plain(run), "cost": run.cost.model_dump()} for run in self.seeds]
        return {
            **to_plain(self, without=("seeds",)),
            **plain,
            "dev": _plain(self.dev),
            "step_seconds": self.step_seconds,
            "peak_memory": self.peak_memory,
            "seeds": runs,
        }


@dataclass(frozen=True)
class Division:
    """All methods on one backbone. kinds: the tests of each kind; measures: what each test's figure is.

    flips: by kind, how often single runs of two methods stand the other way round than their means. seed_agreement:
    Kendall's τ of the orders that two seeds give, the mean over pairs of seeds. agreement: of the orders of two kinds.
    """

    backbone: str
    model: str
    kinds: dict[str, list[str]]
    measures: dict[str, str]
    standings: list[Standing]
    unplaced: list[Standing]
    flips: dict[str, dict[str, dict[str, float]]]
    seed_agreement: dict[str, float | None]
    agreement: list[tuple[str, str, float | None]]

    @property
    def primary(self) -> str | None:
        return next(iter(self.kinds), None)

    @property
    def best(self) -> Standing | None:
        return self.standings[0] if self.standings else None

    def to_dict(self) -> dict[str, Any]:
        plain = to_plain(self, without=("standings", "unplaced"))
        return {
            **plain,
            "standings": [standing.to_dict() for standing in self.standings],
            "unplaced": [standing.to_dict() for standing in self.unplaced],
        }


@dataclass(frozen=True)
class LeagueOutcome:
    """file: the league's own; seconds: of all its runs together, as far as they were recorded."""

    folder: Path
    file: LeagueFile
    divisions: list[Division]
    runs: int
    seconds: float

    @cached_property
    def failures(self) -> list[str]:
        """All that went wrong, a line each."""
        return [
            f"{standing.method} on {division.backbone}: {failure}"
            for division in self.divisions
            for standing in (*division.standings, *division.unplaced)
            for failure in standing.failures
        ]

    def table(self) -> Group:
        """The averages of each division, for a terminal."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        parts = []
        for division in self.divisions:
            table = Table(title=Text(division.backbone), title_justify="left")
            for name in ("method", *map(kind_name, division.kinds), "dev"):
                table.add_column(name, justify="left" if name == "method" else "right")
            for standing in division.standings:
                spreads = [*(standing.average_of(kind) for kind in division.kinds), standing.dev]
                table.add_row(Text(standing.method), *(_shown(each) for each in spreads))
            parts.append(table)
        return Group(*parts)

    def to_dict(self) -> dict[str, Any]:
        return {
            "league": self.file.plan.model_dump(mode="json", by_alias=True),
            "resamples": RESAMPLES,
            "runs": self.runs,
            "seconds": round(self.seconds, 1),
            "divisions": [division.to_dict() for division in self.divisions],
        }


def to_plain(found: Any, without: Sequence[str] = ()) -> dict[str, Any]:
    plain = {name: value for name, value in vars(found).items() if name not in without}
    return {name: _plain(value) for name, value in plain.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Cost):
        return value.model_dump()
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return asdict(value) if hasattr(value, "__dataclass_fields__") else value


def _shown(found: Spread | None) -> str:
    if found is None:
        return "–"
    return f"{found.mean:.2f}" if found.half is None else f"{found.mean:.2f} ± {found.half:.2f}"


def _spread(values: Sequence[float | None]) -> Spread | None:
    known = [value for value in values if value is not None]
    return spread(known) if known else None
