"""What a sweep found: a figure for every run, mean ± sd for every point, as JSON, CSV and a table."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nearer.errors import TrainingError
from nearer.storage.whole import make_folder, write_whole
from nearer.sweeps.grid import shown
from nearer.training.seeds import spread

if TYPE_CHECKING:
    from rich.table import Table


RESULTS = "results.json"
RESULTS_TABLE = "results.csv"


@dataclass(frozen=True)
class SweepRun:
    """One run: `dev` is the score of its best step, `tests` those of the finished model, `reason` why it failed."""

    point: dict[str, Any]
    seed: int
    folder: Path
    state: Literal["waiting", "started", "finished", "failed"] = "waiting"
    dev: float | None = None
    best_step: int | None = None
    tests: dict[str, float | None] = field(default_factory=dict)
    average: float | None = None
    seconds: float = 0.0
    reason: str = ""

    @property
    def model(self) -> Path | None:
        """The finished model, where it was kept."""
        model = self.folder / "model"
        return model if self.state == "finished" and model.exists() else None

    def row(self) -> dict[str, Any]:
        """Flat, for a table of runs."""
        tests = {f"test {name}": score for name, score in {**self.tests, "average": self.average}.items()}
        facts = {"seed": self.seed, "state": self.state, "dev": self.dev, "best_step": self.best_step}
        rest = {"seconds": round(self.seconds, 2), "folder": str(self.folder), "reason": self.reason}
        return {**{key: shown(value) for key, value in self.point.items()}, **facts, **tests, **rest}


@dataclass(frozen=True)
class SweepPoint:
    """The runs of one point of the grid, one a seed."""

    settings: dict[str, Any]
    runs: list[SweepRun]

    @property
    def dev(self) -> list[float]:
        return [run.dev for run in self.runs if run.state == "finished" and run.dev is not None]

    @property
    def averages(self) -> list[float]:
        return [run.average for run in self.runs if run.state == "finished" and run.average is not None]

    @property
    def failed(self) -> list[SweepRun]:
        return [run for run in self.runs if run.state == "failed"]

    @property
    def ended(self) -> bool:
        return all(run.state in ("finished", "failed") for run in self.runs)

    @property
    def best_run(self) -> SweepRun:
        return max((run for run in self.runs if run.dev is not None), key=lambda run: run.dev or 0.0)

    def to_dict(self) -> dict[str, Any]:
        return {
            "settings": self.settings,
            "dev": _summary(self.dev),
            "test_average": _summary(self.averages),
            "failed": len(self.failed),
        }


@dataclass(frozen=True)
class SweepResult:
    """All points in the order of the grid. `picture`: the heat map or curve, if one could be drawn."""

    folder: Path
    recipe: str
    grid: dict[str, list[Any]]
    seeds: list[int]
    points: list[SweepPoint]
    picture: Path | None = None
    remarks: tuple[str, ...] = ()

    @property
    def runs(self) -> list[SweepRun]:
        return [run for point in self.points for run in point.runs]

    @property
    def failed(self) -> list[SweepRun]:
        return [run for run in self.runs if run.state == "failed"]

    @property
    def best(self) -> SweepPoint | None:
        return best_point(self.points)

    def write(self) -> None:
        """results.json and results.csv, as far as the runs have come; whole or not at all."""
        ended = [run for run in self.runs if run.state in ("finished", "failed")]
        best = self.best
        facts = {
            "recipe": self.recipe,
            "grid": self.grid,
            "seeds": self.seeds,
            "best": None if best is None else best.settings,
            "points": [point.to_dict() for point in self.points],
            "runs": [{**asdict(run), "folder": str(run.folder)} for run in ended],
        }
        rows = [run.row() for run in ended]
        columns = list(dict.fromkeys(name for row in rows for name in row))
        write_account(self.folder / RESULTS, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
        table = io.StringIO()
        writer = csv.DictWriter(table, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_account(self.folder / RESULTS_TABLE, table.getvalue())

    def table(self) -> Table:
        """One row a point, the best one marked."""
        from rich.table import Table
        from rich.text import Text

        tested = any(point.averages for point in self.points)
        seeds = f"seed{'s' * (len(self.seeds) > 1)} {', '.join(map(str, self.seeds))}"
        table = Table(title=Text(f"{self.recipe}, {seeds}"), title_justify="left")
        for key in self.grid:
            table.add_column(Text(key), justify="right")
        for name in ("dev", *["test average"] * tested):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("")
        best = self.best
        for point in self.points:
            cells = [*[shown(value) for value in point.settings.values()], _spread(point.dev) or "failed"]
            if tested:
                cells.append(_spread(point.averages) or "–")
            remarks = ["best"] if point is best else []
            remarks += [f"failed with seed {run.seed}: {run.reason}" for run in point.failed]
            cells.append("\n".join(remarks))
            table.add_row(*[Text(cell) for cell in cells], style="bold" if point is best else "")
        return table


def best_point(points: Sequence[SweepPoint]) -> SweepPoint | None:
    """By the mean dev score; a point at which runs failed stands behind those at which fewer did."""
    scored = [point for point in points if point.dev]
    return max(scored, key=lambda point: (len(point.dev), statistics.mean(point.dev)), default=None)


def write_account(path: Path, text: str) -> None:
    """Whole or not at all, in a folder that is made where there is none."""
    try:
        make_folder(path.parent)
        write_whole(path, text)
    except OSError as error:
        raise TrainingError(f"{path}: cannot be written ({error.strerror}).") from None


def _spread(values: Sequence[float]) -> str:
    """A single run has no deviation."""
    if not values:
        return ""
    return spread(values) if len(values) > 1 else f"{values[0]:.2f}"


def _summary(values: Sequence[float]) -> dict[str, Any] | None:
    if not values:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.mean(values), "sd": deviation, "runs": len(values)}
