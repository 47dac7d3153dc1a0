"""A league from its file to its page, in one folder that can be gone on with.

OUT/league.json                     what it is, and a digest of each text
OUT/BACKBONE/METHOD/METHOD.yaml     the settings that its trials do not change
OUT/BACKBONE/METHOD/POINT/seed-N    a run (`runs.py`)
OUT/results.json, league.html       what was found

First the trials of all methods, with one seed each. What the dev set chose of a method's trials is then run with every
seed, as soon as a worker is free; these models alone meet the tests.
"""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from nearer.errors import SettingError
from nearer.evaluation import load_tasks
from nearer.leagues.conclusion import Played, conclude
from nearer.leagues.entries import Entry, count_runs, enter_methods
from nearer.leagues.outcome import LeagueOutcome
from nearer.leagues.page import write_outcome
from nearer.leagues.plan import LeagueFile, read_league
from nearer.leagues.runs import Job, data_hashes, is_scored, start_anew
from nearer.leagues.workers import Workers, make_workers
from nearer.storage.sealed import read_sealed, sealed_json
from nearer.storage.whole import write_whole
from nearer.sweeps.grid import PlannedRun, point_name
from nearer.sweeps.results import SweepPoint, SweepRun, best_point, find_runs, tidy, write_account
from nearer.sweeps.sweep import check_dev_tasks, check_models, check_one_process, text_digest
from nearer.training.loop import Interrupted
from nearer.typed_files import FileFacts
from nearer.units import as_seconds

LEAGUE = "league.json"
Say = Callable[[str], None]


class LeagueStopped(KeyboardInterrupt):
    """The user asked to stop; what was reached is kept."""


class LeagueAccount(FileFacts):
    """texts: a digest of what each entry learns from."""

    texts: dict[str, str]


@dataclass
class Progress:
    """How far an entry has come: its trials in their order, and its runs of the chosen one, if one could be chosen."""

    entry: Entry
    trials: list[SweepRun] = field(default_factory=list)
    finals: list[SweepRun] = field(default_factory=list)

    @property
    def points(self) -> list[SweepPoint]:
        return [SweepPoint(run.point, [run]) for run in self.trials]

    @property
    def chosen(self) -> SweepPoint | None:
        """By the dev set alone: nothing else is known of a trial."""
        return best_point(self.points)


def league(
    source: str | Path,
    out: str | Path,
    *,
    engine: str = "process",
    workers: int | None = None,
    keep_models: bool = True,
    run: bool = True,
    say: Say = lambda message: None,
    progress: bool = False,
) -> LeagueOutcome:
    """Let methods meet: the same text, steps, trials of tuning and tests for each.

    Called again with the same `out` it goes on: finished runs are kept, interrupted and failed ones resumed; methods,
    backbones, seeds, trials and tests may be added. A method that fails is told of, and the others go on.

    Args:
        source: The league's YAML file.
        out: The league's folder.
        engine: `process` trains on this machine; `ray` trains with Ray's workers, on any number of machines.
        workers: Runs at a time. None: one, in this very process; with Ray one for each GPU, or two.
        keep_models: Keep the models of the chosen settings; else they are removed when they are scored.
        run: False runs nothing: results and page are made of the runs that are done.
        say: Is told what is done, a line a run.
        progress: Show a bar.

    Examples:
        >>> import nearer, pathlib
        >>> things = ("boat", "horse", "kettle", "garden")
        >>> text = [f"The {one} is near the {other}.\\n" for one in things for other in things]
        >>> written = pathlib.Path("mine.txt").write_text("".join(text))
        >>> written = pathlib.Path("league.yaml").write_text('''
        ... corpus: mine.txt
        ... backbones: [wiki-mini]
        ... methods: {simcse: simcse-wiki-mini}
        ... settings: {batch_size: 4}
        ... seeds: [0]
        ... steps: 1
        ... trials: 1
        ... select_on: everyday
        ... evaluate_every: 1
        ... test_on: everyday
        ... ''')
        >>> found = nearer.league("league.yaml", "league")
        >>> [(standing.method, len(standing.seeds)) for standing in found.divisions[0].standings]
        [('simcse', 1)]
    """
    file = read_league(source)
    check_one_process("a league", "give the command without it; --engine ray trains on several GPUs")
    entries = enter_methods(file)
    texts, tests = check_sources(file, entries)
    folder = Path(out)
    _check_folder(folder)
    try:
        with FileLock(folder / ".league.lock", timeout=0):
            _open_folder(folder, texts)
            standings = [_known(folder, file, entry) for entry in entries]
            if run:
                _play(folder, file, standings, tests, engine, workers, keep_models, say, progress)
            played = [
                Played(each.entry, each.trials, each.chosen, each.finals, _scored(each, tests)) for each in standings
            ]
            outcome = conclude(folder, file, played)
            write_outcome(outcome)
            return outcome
    except Timeout:
        raise SettingError(f"{folder}: another league is running there; wait for it, or name another --out.") from None


def announce(source: str | Path, out: str | Path) -> list[str]:
    """What a league would run, in lines; everything is checked, nothing is trained."""
    file = read_league(source)
    entries = enter_methods(file)
    check_sources(file, entries)
    plan = file.plan
    folder = Path(out)
    standings = [_known(folder, file, entry) for entry in entries]
    done = sum(run.state == "finished" for each in standings for run in (*each.trials, *_beyond_trials(each)))
    trials, rest = count_runs(entries, plan.seeds, plan.tuning_seed)
    lines = [f"{entry.name}: {'; '.join(map(point_name, entry.trials))}" for entry in entries if entry.trials[0]]
    total = f"{trials} of tuning (seed {plan.tuning_seed}) and {rest} more of the chosen settings"
    return [*lines, f"{trials + rest} runs of {plan.steps:,} steps: {total}; {done} are done"]


def check_sources(file: LeagueFile, entries: Sequence[Entry]) -> tuple[dict[str, str], list[str]]:
    """Everything that the runs will read is there; a digest of each entry's text, and of the data of each test."""
    plan = file.plan
    try:
        check_dev_tasks(plan.select_on, plan.data)
    except SettingError as error:
        raise SettingError(f"{file.where('select_on')}: {str(error).removeprefix('select_on: ')}") from None
    try:
        tests = data_hashes(load_tasks(plan.test_on, plan.data))
    except SettingError as error:
        raise SettingError(f"{file.where('test_on')}: {str(error).removeprefix('tasks: ')}") from None
    read: dict[tuple[Any, ...], str] = {}
    texts = {}
    for entry in entries:
        recipe = entry.recipe
        way = (entry.corpus, tuple(entry.columns or ()), recipe.training.data, recipe.training.duplicates)
        if way not in read:
            read[way] = text_digest(recipe, entry.corpus, entry.columns, plan.reading)
        texts[str(entry.folder)] = read[way]
    check_models([entry.recipe.training for entry in entries])
    return texts, tests


def _check_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise SettingError(f"{folder}: cannot be used as a folder ({error.strerror}).") from None
    if found and LEAGUE not in found:
        raise SettingError(f"{folder}: holds something else than a league ({found[0]}); name another --out.")


def _open_folder(folder: Path, texts: dict[str, str]) -> None:
    """The league's account of itself, begun or gone on with; the runs of another text are refused."""
    path = folder / LEAGUE
    known: dict[str, str] = {}
    if path.exists():
        known = read_sealed(path, LeagueAccount, error=SettingError, mend="remove the folder to start anew").texts
    for entry, digest in texts.items():
        if known.get(entry, digest) != digest and (folder / entry).exists():
            raise SettingError(f"{folder / entry}: learned from another text; name another --out, or remove it.")
    write_account(path, sealed_json({"texts": {**known, **texts}}))


def _known(folder: Path, file: LeagueFile, entry: Entry) -> Progress:
    """What is known of an entry's runs by now."""
    plan = file.plan
    standing = Progress(entry, _find(folder, entry, [entry.plan(point, plan.tuning_seed) for point in entry.trials]))
    if standing.chosen is not None and all(run.state in ("finished", "failed") for run in standing.trials):
        standing.finals = _find(folder, entry, _final_plans(standing, plan.seeds))
    return standing


def _final_plans(standing: Progress, seeds: Sequence[int]) -> list[PlannedRun]:
    assert standing.chosen is not None
    return [standing.entry.plan(standing.chosen.settings, seed) for seed in seeds]


def _find(folder: Path, entry: Entry, plans: Sequence[PlannedRun]) -> list[SweepRun]:
    runs, _ = find_runs(folder / entry.folder, plans)
    for run in runs:
        if run.state == "waiting" and (run.folder / "config.yaml").exists():
            raise SettingError(
                f"{run.folder}: is a run of {entry.method} with other settings than now; name the method differently, "
                "or name another --out."
            )
    return runs


def _beyond_trials(standing: Progress) -> list[SweepRun]:
    tried = {run.folder for run in standing.trials}
    return [run for run in standing.finals if run.folder not in tried]


def _play(
    folder: Path,
    file: LeagueFile,
    standings: Sequence[Progress],
    tests: Sequence[str],
    engine: str,
    workers: int | None,
    keep_models: bool,
    say: Say,
    progress: bool,
) -> None:
    for standing in standings:
        _write_recipe(folder, standing.entry)
    with make_workers(engine, workers, progress=progress) as workforce:
        _Schedule(folder, file, standings, tests, say).work_off(workforce)
    if not keep_models:
        for standing in standings:
            for run in _scored(standing, tests):
                shutil.rmtree(run.folder / "model", ignore_errors=True)


@dataclass
class _Task:
    """A job, and whose it is. number: of the trial, or of the seed."""

    job: Job
    standing: Progress
    number: int
    is_trial: bool


class _Schedule:
    """What is left to run, in the order of `jobs`.

    A method's runs of its chosen setting are added when its last trial has ended, so that no worker waits for the
    trials of other methods.
    """

    def __init__(
        self, folder: Path, file: LeagueFile, standings: Sequence[Progress], tests: Sequence[str], say: Say
    ) -> None:
        self.folder, self.file, self.tests, self.say = folder, file, tests, say
        self.jobs: deque[Job] = deque()
        self.tasks: dict[int, _Task] = {}  # by the job's id
        self.ended = 0
        self.expected = 0  # runs to come, of methods whose trials have not ended
        for standing in standings:
            for number, run in enumerate(standing.trials):
                if _is_left(run):
                    self._add(standing, number, run, is_trial=True)
        for standing in standings:
            if self._has_trials(standing):
                self.expected += len(file.plan.seeds)
            else:
                self._add_runs_of_chosen(standing)

    def work_off(self, workforce: Workers) -> None:
        """Tell of each job as it ends; Ctrl-C keeps what was reached."""
        started = time.monotonic()
        try:
            for job, run in workforce.do(self.jobs):
                task = self.tasks.pop(id(job))
                self.ended += 1
                self._end(task, run)
                came = f"dev {run.dev:.2f}" if run.state == "finished" else f"failed: {run.reason}"
                what = "trial" if task.is_trial else "run"
                left = _time_left(started, self.ended, self._total)
                self.say(f"{what} {self.ended} of {self._total}: {job.label}: {came}{left}")
                if task.is_trial and not self._has_trials(task.standing):
                    self.expected -= len(self.file.plan.seeds)
                    self._add_runs_of_chosen(task.standing)
        except KeyboardInterrupt as stop:
            step = f" after its step {stop.step}" if isinstance(stop, Interrupted) else ""
            raise LeagueStopped(
                f"stopped in run {self.ended + 1} of {self._total}{step}; the same command goes on from there"
            ) from None

    @property
    def _total(self) -> int:
        return self.ended + len(self.tasks) + self.expected

    def _has_trials(self, standing: Progress) -> bool:
        return any(task.is_trial and task.standing is standing for task in self.tasks.values())

    def _add(self, standing: Progress, number: int, run: SweepRun, *, is_trial: bool) -> None:
        tests = () if is_trial else tuple(self.file.plan.test_on)
        job = _job(self.folder, self.file, standing.entry, run, tests)
        self.tasks[id(job)] = _Task(job, standing, number, is_trial)
        self.jobs.append(job)

    def _add_runs_of_chosen(self, standing: Progress) -> None:
        if standing.chosen is None:
            self.say(f"{standing.entry.name}: all trials failed ({standing.trials[0].reason})")
            return
        plans = _final_plans(standing, self.file.plan.seeds)
        standing.finals = _find(self.folder, standing.entry, plans)
        for number, (run, plan) in enumerate(zip(standing.finals, plans, strict=True)):
            scored = is_scored(run.folder, self.tests)
            if run.state == "finished" and not scored and run.model is None:
                self.say(f"{standing.entry.name}, seed {run.seed}: its model was removed, and is trained again")
                standing.finals[number] = start_anew(run, plan)
            if not (run.state == "finished" and scored):
                self._add(standing, number, standing.finals[number], is_trial=False)

    @staticmethod
    def _end(task: _Task, run: SweepRun) -> None:
        standing = task.standing
        if task.is_trial:
            standing.trials[task.number] = run
            tidy([point for point in standing.points if point.ended], keep_models=False)
            return
        standing.finals[task.number] = run
        if run.state == "finished":
            shutil.rmtree(run.folder / "checkpoints", ignore_errors=True)


def _time_left(started: float, ended: int, jobs: int) -> str:
    """If the others take as long as those that have ended since then."""
    if ended == jobs:
        return ""
    return f"; about {as_seconds((time.monotonic() - started) / ended * (jobs - ended))} left"


def _is_left(run: SweepRun) -> bool:
    return run.state != "finished"


def _job(folder: Path, file: LeagueFile, entry: Entry, run: SweepRun, tests: tuple[str, ...]) -> Job:
    plan = file.plan
    return Job(
        run=run,
        label=", ".join([entry.name, *([point_name(run.point)] if run.point else []), f"seed {run.seed}"]),
        recipe=_recipe_file(folder, entry),
        settings=entry.plan(run.point, run.seed).settings,
        corpus=entry.corpus,
        columns=entry.columns,
        reading=plan.reading,
        data=plan.data,
        tests=tests,
        outside=entry.outside,
    )


def _recipe_file(folder: Path, entry: Entry) -> Path:
    return folder / entry.folder / f"{entry.method}.yaml"


def _write_recipe(folder: Path, entry: Entry) -> None:
    path = _recipe_file(folder, entry)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, yaml.safe_dump(entry.settings, sort_keys=False, allow_unicode=True))


def _scored(standing: Progress, tests: Sequence[str]) -> list[SweepRun]:
    """The runs of the chosen setting that have met the tests."""
    return [run for run in standing.finals if run.state == "finished" and is_scored(run.folder, tests)]
