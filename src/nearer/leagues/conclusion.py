"""From run folders to standings: averages, differences, ranks and flips of all methods of a division."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearer.evaluation.evaluate import Results
from nearer.evaluation.published import Published, all_published
from nearer.leagues.entries import Entry
from nearer.leagues.outcome import RESAMPLES, Division, LeagueOutcome, SeedRun, Standing, Trial
from nearer.leagues.plan import LeagueFile
from nearer.leagues.runs import ITEMS, read_cost, read_items, read_results
from nearer.leagues.statistics import (
    Difference,
    difference_of_resamples,
    difference_over_seeds,
    find_ranks,
    flip_share,
    kendall,
    resampled_averages,
)
from nearer.runs.folder import METRICS, read_metrics
from nearer.sweeps.results import SweepPoint, SweepRun


@dataclass(frozen=True)
class Played:
    """An entry with all that it ran. scored: runs of the chosen setting that have met the tests."""

    entry: Entry
    trials: list[SweepRun]
    chosen: SweepPoint | None
    finals: list[SweepRun]
    scored: list[SweepRun]


def conclude(folder: Path, file: LeagueFile, played: Sequence[Played]) -> LeagueOutcome:
    """What is known by now: a method without a scored run stands below, with the reason."""
    divisions = []
    for backbone in file.plan.backbones:
        own = [each for each in played if each.entry.backbone == backbone]
        divisions.append(_divide(folder, file, backbone, own))
    runs = {run.folder: run for each in played for run in (*each.trials, *each.finals)}
    ended = [run for run in runs.values() if run.state in ("finished", "failed")]
    return LeagueOutcome(folder, file, divisions, len(ended), sum(run.seconds for run in ended))


def _divide(folder: Path, file: LeagueFile, backbone: str, played: Sequence[Played]) -> Division:
    scored = [each for each in played if each.scored]
    results = {each.entry.method: [read_results(run.folder) for run in each.scored] for each in scored}
    first = next(iter(results.values()), [None])[0]
    kinds, measures = ({}, {}) if first is None else _tests(first)
    comparing = _Comparing(scored, results, kinds, file.plan.baseline_method)
    standings = {
        each.entry.method: _stand(folder, file, each, results.get(each.entry.method, []), comparing) for each in played
    }
    placed = comparing.order
    flips = {
        kind: {
            one: {other: flip_share(by_method[one], by_method[other]) for other in by_method if other != one}
            for one in by_method
        }
        for kind, by_method in comparing.values.items()
    }
    return Division(
        backbone=backbone,
        model=file.plan.backbones[backbone],
        kinds=kinds,
        measures=measures,
        standings=[standings[method] for method in placed],
        unplaced=[standing for method, standing in standings.items() if method not in placed],
        flips=flips,
        seed_agreement={kind: comparing.agreement_of_seeds(kind) for kind in comparing.values},
        agreement=comparing.agreement_of_kinds(),
    )


def _tests(results: Results) -> tuple[dict[str, list[str]], dict[str, str]]:
    kinds: dict[str, list[str]] = {}
    measures = {}
    for name, score in zip(results.by_name(), results.scores, strict=True):
        kinds.setdefault(score.kind, []).append(name)
        measures[name] = score.measure
    return kinds, measures


class _Comparing:
    """Averages of all methods of a division, by kind of test; and their differences."""

    def __init__(
        self,
        scored: Sequence[Played],
        results: dict[str, list[Results]],
        kinds: dict[str, list[str]],
        baseline: str,
    ) -> None:
        self.by_seed: dict[str, dict[str, dict[int, float]]] = {}  # kind, method, seed
        for kind in kinds:
            found = {each.entry.method: _averages(each, results[each.entry.method], kind) for each in scored}
            self.by_seed[kind] = {method: by_seed for method, by_seed in found.items() if by_seed}
        self.values = {
            kind: {method: list(by_seed.values()) for method, by_seed in by_method.items()}
            for kind, by_method in self.by_seed.items()
        }
        self.ranks = {kind: find_ranks(by_method) for kind, by_method in self.by_seed.items() if by_method}
        self.drawn = {kind: _resample(scored, kind, kinds, by_method) for kind, by_method in self.by_seed.items()}
        primary = self.values.get(next(iter(kinds), ""), {})
        self.order = sorted(primary, key=lambda method: -statistics.fmean(primary[method]))
        self.baseline = baseline

    def differences(self, method: str, *, baseline: bool) -> dict[str, Difference]:
        """By kind: less the baseline, or less the best of the kind."""
        found = {}
        for kind, values in self.values.items():
            if method not in values:
                continue
            best = max(values, key=lambda other: statistics.fmean(values[other]))
            other = self.baseline if baseline else best
            if other == method or other not in values:
                continue
            drawn = self.drawn[kind]
            difference = statistics.fmean(values[method]) - statistics.fmean(values[other])
            found[kind] = (
                difference_over_seeds(values[method], values[other])
                if drawn is None
                else difference_of_resamples(difference, drawn[method], drawn[other])
            )
        return found

    def agreement_of_seeds(self, kind: str) -> float | None:
        by_method = self.by_seed[kind]
        if len(by_method) < 2:
            return None
        shared = sorted(set.intersection(*(set(by_seed) for by_seed in by_method.values())))
        orders = [[by_seed[seed] for by_seed in by_method.values()] for seed in shared]
        found = [kendall(one, other) for number, one in enumerate(orders) for other in orders[number + 1 :]]
        known = [tau for tau in found if tau is not None]
        return statistics.fmean(known) if known else None

    def agreement_of_kinds(self) -> list[tuple[str, str, float | None]]:
        names = list(self.values)
        found = []
        for number, first in enumerate(names):
            for second in names[number + 1 :]:
                both = [method for method in self.values[first] if method in self.values[second]]
                orders = [[statistics.fmean(self.values[kind][method]) for method in both] for kind in (first, second)]
                found.append((first, second, kendall(*orders) if len(both) > 1 else None))
        return found


def _averages(played: Played, results: Sequence[Results], kind: str) -> dict[int, float]:
    """By seed; a seed with an undefined figure has none."""
    found = {run.seed: each.averages.get(kind) for run, each in zip(played.scored, results, strict=True)}
    return {seed: average for seed, average in found.items() if average is not None}


def _resample(
    scored: Sequence[Played], kind: str, kinds: dict[str, list[str]], by_method: dict[str, dict[int, float]]
) -> dict[str, Any] | None:
    """All methods' averages in every resample; None where a test of the kind is not made of items."""
    tests = [name for names in kinds.values() for name in names]
    tasks: list[dict[str, list[Any]]] = [{} for _ in kinds[kind]]
    for each in scored:
        by_seed = by_method.get(each.entry.method, {})
        for run in each.scored:
            if run.seed in by_seed:
                items = read_items(run.folder / ITEMS, len(tests))
                for task, name in zip(tasks, kinds[kind], strict=True):
                    task.setdefault(each.entry.method, []).append(items[tests.index(name)])
    if not all(tasks) or any(items is None for task in tasks for seeds in task.values() for items in seeds):
        return None
    return dict(resampled_averages(tasks, resamples=RESAMPLES))


def _stand(
    folder: Path, file: LeagueFile, played: Played, results: Sequence[Results], comparing: _Comparing
) -> Standing:
    entry, settings = played.entry, played.entry.settings
    chosen = played.chosen
    trials = [
        Trial(
            run.point,
            run.state,
            run.dev,
            run.best_step,
            run.reason,
            chosen is not None and run.point == chosen.settings,
        )
        for run in played.trials
    ]
    failed = {run.folder: run for run in (*played.trials, *played.finals) if run.state == "failed"}
    waiting = sum(run.state in ("waiting", "started") for run in (*played.trials, *played.finals))
    failures = [f"seed {run.seed}, {run.folder.parent.name}: {run.reason}" for run in failed.values()]
    failures += [f"{waiting} runs are not done"] * bool(waiting)
    seeds = [
        SeedRun(
            seed=run.seed,
            folder=str(run.folder.relative_to(folder)),
            dev=run.dev,
            best_step=run.best_step,
            figures=each.by_name(),
            averages=each.averages,
            curve=list(zip(*read_metrics(run.folder / METRICS).series("dev"), strict=True)),
            cost=read_cost(run.folder),
        )
        for run, each in zip(played.scored, results, strict=True)
    ]
    teachers = settings.get("teachers") or []
    return Standing(
        method=entry.method,
        title=entry.facts.title,
        needs=entry.facts.needs,
        data=settings["data"],
        teachers=[str(each["model"] if isinstance(each, dict) else each) for each in teachers],
        starts_from=settings["model"],
        batch_size=settings["batch_size"],
        tuned={} if chosen is None else chosen.settings,
        trials=trials,
        seeds=seeds,
        failures=failures,
        against_baseline=comparing.differences(entry.method, baseline=True),
        against_best=comparing.differences(entry.method, baseline=False),
        ranks={kind: ranks[entry.method] for kind, ranks in comparing.ranks.items() if entry.method in ranks},
        published=find_published(file.plan.methods[entry.method].published or entry.facts.title, entry.backbone),
    )


def find_published(name: str, backbone: str) -> list[Published]:
    """Of each kind of task the row nearest to the method: by its name, then its backbone, then its own paper."""

    def distance(row: Published) -> tuple[bool, bool, bool, bool]:
        of_backbone = bool(row.backbone) and backbone.lower().startswith(row.backbone.lower())
        own = row.source.lower().startswith(name.partition(",")[0].lower())
        return row.model.lower() != name.lower(), not of_backbone, row.backbone != "BERT-base", not own

    called = [row for row in all_published() if f"{row.model.lower()},".startswith(f"{name.lower()},") and row.average]
    kinds = dict.fromkeys(row.kind for row in called)
    return [min((row for row in called if row.kind == kind), key=distance) for kind in kinds]
