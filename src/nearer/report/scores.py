"""Scores on tasks: a column a model, a row a task; and figures that others published, marked as such, below.

Figures share a row only if task, split, measure and data are the same.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nearer.analysis.compare import PROTOCOLS
from nearer.evaluation.published import Published
from nearer.evaluation.task import TaskScore
from nearer.evaluation.tasks import kind_title
from nearer.report.markup import LACKING, Html, cell, element, figure, join, listed, note, paragraph, section, table
from nearer.report.subjects import Subject

UNTESTED = ("dev", "train")


@dataclass
class Row:
    """One task; scores by the series of the model."""

    sample: TaskScore
    name: str = ""
    scores: dict[int, TaskScore] = field(default_factory=dict)

    @property
    def averaged(self) -> bool:
        """What was selected on says nothing about the test."""
        return self.sample.split not in UNTESTED


@dataclass(frozen=True)
class Block:
    """Tasks of one kind and one layout of the data: those that can be averaged, the others after them."""

    kind: str
    layout: str
    rows: list[Row]

    @property
    def averaged(self) -> list[Row]:
        return [row for row in self.rows if row.averaged]

    def average(self, series: int) -> float | None:
        """A model's mean over the tasks; None where it lacks one, or one is undefined."""
        found = [row.scores[series].score for row in self.averaged if series in row.scores]
        known = [score for score in found if score is not None]
        return statistics.fmean(known) if len(known) == len(self.averaged) else None


def blocks(scores: Sequence[Sequence[TaskScore]]) -> list[Block]:
    """scores: those of each model. Blocks and rows in the order in which they first come."""
    rows: dict[tuple[str, ...], Row] = {}
    for series, own in enumerate(scores):
        for score in own:
            key = (score.kind, score.layout, score.task, score.split, score.measure, score.data_hash)
            rows.setdefault(key, Row(score)).scores[series] = score
    _name(list(rows.values()))
    found: dict[tuple[str, str], Block] = {}
    for row in rows.values():
        kind, layout = row.sample.kind, row.sample.layout
        found.setdefault((kind, layout), Block(kind, layout, [])).rows.append(row)
    for block in found.values():
        block.rows.sort(key=lambda row: not row.averaged)
    return list(found.values())


def _name(rows: Sequence[Row]) -> None:
    """The shortest names that tell rows apart: the task, then with its split, its data's layout, its data's digest."""
    forms = [
        (
            sample.task if sample.split in ("test", "file") else f"{sample.task} {sample.split}",
            f"{sample.task} {sample.split}, {sample.measure}",
            f"{sample.task} {sample.split}, {sample.measure}, {sample.layout}",
        )
        for sample in (row.sample for row in rows)
    ]
    for number, row in enumerate(rows):
        same_block = [n for n, other in enumerate(rows) if other.sample.kind == row.sample.kind]
        own = [name for form, name in enumerate(forms[number]) if [forms[n][form] for n in same_block].count(name) == 1]
        row.name = own[0] if own else f"{forms[number][-1]}, data {row.sample.data_hash[:8]}"


LAYOUTS = {"file": "from files", "senteval": "SentEval’s text", "raw": "raw text", "flat": "raw text, from the hub"}


def scores_section(
    subjects: Sequence[Subject],
    scores: Sequence[Sequence[TaskScore]],
    protocols: Mapping[str, Mapping[str, Any]],
    published: Sequence[Published],
) -> Html:
    """protocols: how each model was used, by label."""
    without = [subject.label for subject, own in zip(subjects, scores, strict=True) if not own]
    if len(without) == len(subjects):
        return section("scores", "Scores", paragraph("No test scores: none were measured, or none can be had yet."))
    parts: list[Html] = [note(f"Not scored: {listed(without)}.")] if without else []
    for block in blocks(scores):
        parts += _block(block, subjects, [row for row in published if row.kind == block.kind])
    return section("scores", "Scores", *parts, *_protocols(protocols))


def _block(block: Block, subjects: Sequence[Subject], published: Sequence[Published]) -> Iterator[Html]:
    title = kind_title(block.kind)
    measures = list(dict.fromkeys(row.sample.measure for row in block.rows))
    yield element("h3", f"{title}, {LAYOUTS.get(block.layout, block.layout)}")
    columns = list(_columns(subjects))
    rows = [_row(row, columns, several=len(measures) > 1) for row in block.rows]
    if len(block.averaged) > 1:
        rows.insert(len(block.averaged), _average(block, columns))
    caption = f"{listed([_measure(measure) for measure in measures])} × 100"
    yield table(caption, ["task", *(name for name, _ in columns)], rows)
    remarks = {f"{row.name}: {score.remark}" for row in block.rows for score in row.scores.values() if score.remark}
    yield from (paragraph(f"{remark}.", kind="quiet") for remark in sorted(remarks))
    beside = [(row, _comparable(row, block)) for row in published]
    beside = [(row, figures) for row, figures in beside if figures]
    if beside:
        yield _published(block, subjects, beside)


def _columns(subjects: Sequence[Subject]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """A column for each model; behind the last of several seeds one more, of all of them."""
    for subject in subjects:
        yield subject.label, (subject.series,)
        seeds = [other.series for other in subjects if other.group is not None and other.group == subject.group]
        if len(seeds) > 1 and subject.series == seeds[-1]:
            yield "mean ± sd", tuple(seeds)


def _row(row: Row, columns: Sequence[tuple[str, tuple[int, ...]]], *, several: bool) -> list[str]:
    sample = row.sample
    left_out = f", {sample.dropped:,} left out" if sample.dropped else ""
    facts = f"{sample.count:,} {sample.unit}{left_out}" + (f", {_measure(sample.measure)}" if several else "")
    found = {series: score.score for series, score in row.scores.items()}
    return [join([row.name, element("small", facts)]), *_cells(found, columns)]


def _average(block: Block, columns: Sequence[tuple[str, tuple[int, ...]]]) -> list[str]:
    all_series = {series for _, members in columns for series in members}
    name = f"average of {len(block.averaged)}"
    return [element("strong", name), *_cells({series: block.average(series) for series in all_series}, columns)]


def _cells(scores: Mapping[int, float | None], columns: Sequence[tuple[str, tuple[int, ...]]]) -> list[str]:
    """The best of a row is marked where there are several to compare."""
    known = [score for score in scores.values() if score is not None]
    best = max(known) if len(known) > 1 else None
    cells: list[str] = []
    for _, members in columns:
        if len(members) > 1:
            cells.append(_spread([scores.get(series) for series in members]))
            continue
        [series] = members
        score = scores.get(series)
        marked = score is not None and best is not None and round(score, 2) == round(best, 2)
        cells.append(cell(figure(score), kind="best" if marked else None))
    return cells


def _spread(scores: Sequence[float | None]) -> str:
    """`75.13 ± 0.21`; how many, where some are missing."""
    known = [score for score in scores if score is not None]
    if len(known) < 2:
        return LACKING
    of = "" if len(known) == len(scores) else f" ({len(known)} of {len(scores)})"
    return f"{statistics.fmean(known):.2f} ± {statistics.stdev(known):.2f}{of}"


def _comparable(row: Published, block: Block) -> dict[str, float]:
    """What a published row says of the block's tasks, by the rows' names; of dev sets nothing was published."""
    if block.kind == "sts" and not row.protocol.startswith(PROTOCOLS.get(block.layout, "-")):
        return {}
    figures = {}
    for own in block.averaged:
        task = own.sample.task.removesuffix(" ranking")
        # MTEB takes SICK-R whole, the papers its test split: two tasks of one name
        whole = row.protocol.startswith("MTEB")
        same_split = task != "SICK-R" or (own.sample.split == "all") == whole
        if task in row.figures and same_split and own.sample.measure.split(" ")[0] == row.measure:
            figures[own.name] = row.figures[task]
    return figures


def _published(block: Block, subjects: Sequence[Subject], beside: Sequence[tuple[Published, dict[str, float]]]) -> Html:
    """Rows as the papers have them, with the models of this page above."""
    names = [row.name for row in block.averaged]
    average = len(names) > 1
    rows: list[list[str]] = []
    for subject in subjects:
        own = [row.scores.get(subject.series) for row in block.averaged]
        if any(own):
            mean = [figure(block.average(subject.series))] if average else []
            cells = [figure(None if score is None else score.score) for score in own]
            heading = join([element("strong", subject.label), element("small", "measured")])
            rows.append([heading, *cells, *mean])
    for row, figures in beside:
        whole = set(figures) == set(names) and row.average is not None
        mean = [figure(row.average if whole else None)] if average else []
        heading = join([row.name, element("small", f"published: {row.source}")])
        cells = [cell(figure(figures.get(name)), kind="published") for name in [*names]]
        rows.append([heading, *cells, *(cell(value, kind="published") for value in mean)])
    protocols = listed(list(dict.fromkeys(row.protocol for row, _ in beside)))
    caption = f"Beside published figures, as printed there and not measured here (protocol: {protocols})"
    return table(caption, ["model", *names, *(["average"] if average else [])], rows)


def _protocols(protocols: Mapping[str, Mapping[str, Any]]) -> Iterator[Html]:
    """How the models turn sentences into vectors, which scores depend on as much as on their weights."""
    alike: dict[str, list[str]] = {}
    for label, protocol in protocols.items():
        alike.setdefault(_facts(protocol), []).append(label)
    for facts, labels in alike.items():
        whose = [element("strong", f"{listed(labels)}: ")] if len(protocols) > 1 else []
        yield paragraph(*whose, facts[:1].upper() + facts[1:] if not whose else facts, ".", kind="quiet")


def _facts(protocol: Mapping[str, Any]) -> str:
    """`pooling mean, max length 512`; what is not so is left out."""
    shown = {name.replace("_", " "): value for name, value in protocol.items() if value not in (False, None)}
    return ", ".join(name if value is True else f"{name} {value}" for name, value in shown.items())


def _measure(measure: str) -> str:
    """As people write them."""
    known = {"spearman": "Spearman", "pearson": "Pearson", "map": "MAP", "mrr": "MRR", "kendall": "Kendall's τ"}
    first, space, rest = measure.partition(" ")
    return known.get(first, first) + space + rest
