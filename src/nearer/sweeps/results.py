"""What a sweep found: a figure for every run, mean ± sd for every point, as JSON, CSV and a table.

And its folder: its account of itself, what is known of each run in it, and what of the runs is kept.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from nearer.errors import SettingError, TrainingError
from nearer.storage.sealed import read_sealed, sealed_json
from nearer.storage.whole import make_folder, write_whole
from nearer.sweeps.grid import PlannedRun, folder_name, plain, shown
from nearer.training.seeds import spread
from nearer.typed_files import FileFacts

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
            cells = [*[shown(value) for value in point.settings.values()], spread(point.dev) if point.dev else "failed"]
            if tested:
                cells.append(spread(point.averages) if point.averages else "–")
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


def _summary(values: Sequence[float]) -> dict[str, Any] | None:
    if not values:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.mean(values), "sd": deviation, "runs": len(values)}


SWEEP = "sweep.json"
RECORD = "sweep-run.json"
FIGURES = ("state", "dev", "best_step", "tests", "average", "seconds", "reason")


class Account(FileFacts):
    settings: dict[str, Any]


class SweepAccount(Account):
    recipe: str
    corpus: str
    data: str | None = None
    texts: dict[str, str]
    keep_models: bool = False


class RunAccount(Account):
    state: Literal["waiting", "started", "finished", "failed"]
    dev: float | None = None
    best_step: int | None = None
    tests: dict[str, float | None] = Field(default_factory=dict)
    average: float | None = None
    seconds: float = 0.0
    reason: str = ""

    @model_validator(mode="after")
    def _finished_with_a_score(self) -> Self:
        if self.state == "finished" and self.dev is None:
            raise ValueError("a finished run has a dev score")
        return self


def check_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise SettingError(f"{folder}: cannot be used as a folder ({error.strerror}).") from None
    if found and SWEEP not in found:
        raise SettingError(f"{folder}: holds something else than a sweep ({found[0]}); name another --out.")


def open_folder(folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """The sweep's own account of itself, begun or gone on with; that of another sweep is refused."""
    path = folder / SWEEP
    if path.exists() and any(folder.glob(f"*/*/{RECORD}")):  # without a run there is nothing to contradict
        old = _read(path, SweepAccount)
        differences = [(key, old.get(key), facts[key]) for key in ("recipe", "data") if old.get(key) != facts[key]]
        differences += [("corpus", old["corpus"], facts["corpus"])] * (not _agree(old["texts"], facts["texts"]))
        differences += [(key, old["settings"][key], facts["settings"][key]) for key in _unlike(old, facts)]
        if differences:
            [key, before, now] = differences[0]
            change = f"({shown(before)} there, {shown(now)} now)" if before != now else "(its text has changed)"
            raise SettingError(f"{folder}: holds a sweep with another {key} {change}; name another --out.")
        # what a setting outside the grid was once stays so, and models that were to be kept are kept
        settings = {**facts["settings"], **old["settings"]}
        keep = old["keep_models"] or facts["keep_models"]
        facts = {**facts, "settings": settings, "texts": {**old["texts"], **facts["texts"]}, "keep_models": keep}
    write_account(path, sealed_json(facts))
    return facts


def _unlike(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    before, now = old["settings"], new["settings"]
    return [key for key in before if key in now and before[key] != now[key]]


def _agree(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Alike in what both have: a setting may have come into being since a record was written."""
    return all(first[key] == second[key] for key in first.keys() & second.keys())


def find_runs(folder: Path, planned: Sequence[PlannedRun]) -> tuple[list[SweepRun], int]:
    """The planned runs with what is known of them, and how many more there are. Known by their settings, not their
    folders: those are named by the grid of their time."""
    records = {path.parent: _read(path, RunAccount) for path in folder.glob(f"*/*/{RECORD}")}
    runs = []
    for plan in planned:
        wanted = plan.settings
        path = next((path for path, record in records.items() if _agree(record["settings"], wanted)), None)
        if path is None:
            runs.append(SweepRun(plan.point, plan.seed, folder / folder_name(plan.point) / f"seed-{plan.seed}"))
        else:
            known = records.pop(path)
            runs.append(SweepRun(plan.point, plan.seed, path, **{key: known[key] for key in FIGURES}))
    return runs, len(records)


def record(run: SweepRun, plan: PlannedRun) -> None:
    """Write down how far a run has come, and its figures."""
    known = {"settings": plan.settings, **{key: getattr(run, key) for key in FIGURES}}
    write_account(run.folder / RECORD, sealed_json(plain(known)))


def tidy(points: Sequence[SweepPoint], *, keep_models: bool) -> None:
    """Remove what no later call can need: finished runs' checkpoints, and models of points that are beaten."""
    ended = [point for point in points if point.ended]
    best = best_point(ended)
    for point in points:
        for run in point.runs:
            if run.state == "finished":
                shutil.rmtree(run.folder / "checkpoints", ignore_errors=True)
                if not keep_models and point in ended and point is not best:
                    shutil.rmtree(run.folder / "model", ignore_errors=True)


def _read(path: Path, kind: type[Account]) -> dict[str, Any]:
    mend = "remove its folder to start anew"
    return read_sealed(path, kind, error=SettingError, mend=mend).model_dump()
