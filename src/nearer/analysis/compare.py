"""Several models on the same tasks, and whether the differences from the first of them are more than chance.

    compare([first, second], load_tasks(["sts"], data))

Items of a task (pairs, queries) are resampled together for both models, see `bootstrap`. Tasks whose items do not make
the score by themselves, as a classifier trained on folds, are compared without an interval. Tables for a terminal
show published rows below the scores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from nearer.analysis.bootstrap import Comparison, MeanPair, Method, Paired, SpearmanPair, paired_bootstrap
from nearer.analysis.side_by_side import short_labels
from nearer.errors import InputError, SettingError
from nearer.evaluation.evaluate import Results, encode_once, score_tasks
from nearer.evaluation.published import Published, all_published
from nearer.evaluation.task import ItemScores, Scorer, Task, TaskScore
from nearer.evaluation.tasks import kind_name


@dataclass(frozen=True)
class Difference:
    """A later model less the first, on one task or on the average of a kind; `remark` says why there is no interval."""

    kind: str
    task: str
    model: str
    against: str
    difference: float | None
    interval: Comparison | None
    remark: str = ""


@dataclass(frozen=True)
class Compared:
    """results: one for each model, in their order; differences: from the first model, task by task, then averages."""

    results: list[Results]
    differences: list[Difference]

    def to_dict(self) -> dict[str, Any]:
        return {
            "results": [results.to_dict() for results in self.results],
            "differences": [asdict(difference) for difference in self.differences],
        }


def compare(
    models: Iterable[Scorer],
    tasks: Sequence[Task],
    *,
    resamples: int = 1000,
    confidence: float = 0.95,
    method: Method = "percentile",
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool = False,
) -> Compared:
    """Score all models, of which only one is looked at at a time: a generator may load them one by one."""
    results: list[Results] = []
    items: list[list[ItemScores | None]] = []
    for model in models:
        started = time.perf_counter()
        vectors = encode_once(model, tasks, batch_size=batch_size, progress=progress)
        found = score_tasks(model, tasks, vectors, started)
        results.append(found)
        scored = zip(tasks, found.scores, strict=True)
        items.append([task.item_scores(score.measure, model, vectors) for task, score in scored])
    if len(results) < 2:
        raise InputError(f"compare: {len(results)} model given, at least two are needed.")

    def bootstrap(parts: Sequence[Paired]) -> Comparison:
        return paired_bootstrap(parts, resamples=resamples, confidence=confidence, method=method, seed=seed)

    differences = []
    for later, of_later in zip(results[1:], items[1:], strict=True):
        differences += _differences(later, results[0], of_later, items[0], bootstrap)
    return Compared(results, differences)


def _differences(
    later: Results,
    first: Results,
    later_items: list[ItemScores | None],
    first_items: list[ItemScores | None],
    bootstrap: Callable[[Sequence[Paired]], Comparison],
) -> list[Difference]:
    found = []
    parts: dict[str, list[Paired | None]] = {}
    pairs_of = zip(later.scores, first.scores, later_items, first_items, strict=True)
    for (one, other, mine, theirs), name in zip(pairs_of, later.by_name(), strict=True):
        part, remark = _paired(one, other, mine, theirs)
        parts.setdefault(one.kind, []).append(part)
        difference = None if one.score is None or other.score is None else one.score - other.score
        interval = None if part is None else bootstrap([part])
        found.append(Difference(one.kind, name, later.model, first.model, difference, interval, remark))
    for kind, members in parts.items():
        if len(members) < 2:
            continue
        mean, base = later.averages[kind], first.averages[kind]
        whole = [part for part in members if part is not None]
        lacking = len(members) - len(whole)
        remark = f"no interval: {lacking} of its {len(members)} tasks have none" if lacking else ""
        interval = None if lacking else bootstrap(whole)
        difference = None if mean is None or base is None else mean - base
        found.append(Difference(kind, "average", later.model, first.model, difference, interval, remark))
    return found


def _paired(
    one: TaskScore, other: TaskScore, mine: ItemScores | None, theirs: ItemScores | None
) -> tuple[Paired | None, str]:
    """Both models on the task's items; None with the reason where there is nothing to resample."""
    if one.score is None or other.score is None:
        return None, "no interval: " + ((one.remark if one.score is None else other.remark) or "undefined")
    if mine is None or theirs is None:
        return None, f"no interval: {one.measure} is not made of the {one.unit} one by one"
    if mine.gold is not None:
        return SpearmanPair(mine.values, theirs.values, mine.gold, one.task), ""
    # a query without a figure by one model is left out for both
    both = np.isfinite(mine.values) & np.isfinite(theirs.values)
    return MeanPair(mine.values[both], theirs.values[both], one.task), ""


# which published rows can stand beside a layout's figures
PROTOCOLS = {"senteval": "SentEval", "raw": "MTEB", "flat": "MTEB"}
USUAL_BACKBONES = ("", "BERT-base")
AUTO, ALL, NONE = "auto", "all", "none"


class Scored(Protocol):
    """What published rows are chosen by: a task or its score."""

    @property
    def kind(self) -> str: ...

    @property
    def layout(self) -> str: ...


def rows_beside(tasks: Sequence[Scored], wanted: str) -> list[Published]:
    """Published rows of the tasks' kinds, on the same text.

    wanted: `auto` (BERT-base's, and those without a backbone), `all`, `none`, or backbones, sources or models.
    """
    if wanted == NONE:
        return []
    kinds = {task.kind for task in tasks}
    rows = [row for row in all_published() if row.kind in kinds and _same_text(row, tasks)]
    if wanted == ALL:
        return rows
    if wanted == AUTO:
        return [row for row in rows if row.backbone in USUAL_BACKBONES]
    names = [name.strip().lower() for name in wanted.split(",") if name.strip()]
    for name in names:
        if not any(_is_called(row, name) for row in all_published()):
            known = sorted({row.backbone or row.model for row in all_published()})
            raise SettingError(f"--published: {name!r} is none of {', '.join(known)}, nor a source.")
    return [row for row in rows if any(_is_called(row, name) for name in names)]


def _is_called(row: Published, name: str) -> bool:
    return name in (row.backbone.lower(), row.model.lower()) or row.source.lower().startswith(name)


def _same_text(row: Published, tasks: Sequence[Scored]) -> bool:
    """Whether it was measured on the text and by the rules of one of these tasks."""
    layouts = {task.layout for task in tasks if task.kind == row.kind}
    if row.kind != "sts":
        return True
    return any(row.protocol.startswith(PROTOCOLS.get(layout, "-")) for layout in layouts)


def comparison_tables(compared: Compared, beside: Sequence[Published]) -> Iterator[Group]:
    """One table of scores for each kind of task, then the differences."""
    labels = short_labels([results.model for results in compared.results])
    for kind in compared.results[0].kinds:
        yield _scores_table(kind, compared.results, labels, [row for row in beside if row.kind == kind])
    yield _differences_table(compared.differences, dict(zip([r.model for r in compared.results], labels, strict=True)))


def _scores_table(kind: str, results: Sequence[Results], labels: Sequence[str], beside: Sequence[Published]) -> Group:
    scores = results[0].kinds[kind]
    names = [name for name, score in zip(results[0].by_name(), results[0].scores, strict=True) if score.kind == kind]
    averaged = len(names) > 1
    table = Table()
    for column in ("model", *names, *(["average"] if averaged else [])):
        table.add_column(Text(column), justify="left" if column == "model" else "right")
    for label, each in zip(labels, results, strict=True):
        shown = [_shown(score.score) for score in each.kinds[kind]]
        table.add_row(Text(label), *shown, *([_shown(each.averages[kind])] if averaged else []), style="bold")
    tasks = [_published_name(score) for score in scores]
    rows = [row for row in beside if row.measure == scores[0].measure and set(tasks) & set(row.figures)]
    table.add_section()
    for row in rows:
        whole = averaged and set(row.figures) == set(tasks)
        cells = [_shown(row.figures.get(task), lacking="") for task in tasks]
        average = [_shown(row.average, lacking="") if whole else ""] if averaged else []
        table.add_row(Text(f"published: {row.name} ({row.source})"), *cells, *average, style="dim italic")
    title = f"{kind_name(kind)}: {scores[0].measure} × 100"
    notes = ["published: as printed there, not measured here; " + _protocols(rows)] if rows else []
    return Group(Text(title, style="italic"), table, *(Text(note, style="dim") for note in notes))


def _published_name(score: TaskScore) -> str:
    """The task as the papers have it: a ranking task is named after its STS set. No dev set was published on."""
    return "" if score.split in ("dev", "train", "file") else score.task.removesuffix(" ranking")


def _protocols(rows: Sequence[Published]) -> str:
    return "; ".join(dict.fromkeys(row.protocol for row in rows))


def _differences_table(differences: Sequence[Difference], labels: dict[str, str]) -> Group:
    table = Table()
    for column in ("model", "against", "task", "difference", "interval", "p"):
        table.add_column(column, justify="left" if column in ("model", "against", "task") else "right")
    confidence = ""
    for each in differences:
        task = each.task if each.task != "average" else f"{each.kind} average"
        names = (labels[each.model], labels[each.against], task, _signed(each.difference))
        cells = [Text(name) for name in names]
        if each.interval is None:
            table.add_row(*cells, Text(each.remark), "")
            continue
        found = each.interval
        confidence = f"{100 * found.confidence:g} % intervals of a paired bootstrap ({found.resamples:,} resamples)"
        interval = f"{found.low:+.2f} … {found.high:+.2f}"
        style = "bold" if found.significant else ""
        table.add_row(*cells, interval, f"{found.p_value:.3f}", style=style)
    note = f"{confidence}; bold: 0 lies outside. One p-value for each row, not corrected for their number."
    return Group(Text("differences", style="italic"), table, *([Text(note, style="dim")] if confidence else []))


def _shown(value: float | None, *, lacking: str = "undefined") -> str:
    return lacking if value is None else f"{value:.2f}"


def _signed(value: float | None) -> str:
    return "undefined" if value is None else f"{value:+.2f}"
