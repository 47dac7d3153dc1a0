"""The folder of a sweep: its account of itself, what is known of each run in it, and what of the runs is kept."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from nearer.errors import SettingError
from nearer.storage.sealed import read_sealed, sealed_json
from nearer.sweeps.grid import PlannedRun, folder_name, plain, shown
from nearer.sweeps.results import SweepPoint, SweepRun, best_point, write_account
from nearer.typed_files import FileFacts

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
