"""What lies behind the scores: figures of all models by task, in tables and drawings; rankings of single queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nearer.analysis import Comparison, RankingExample, TaskAnalysis
from nearer.report import drawings
from nearer.report.chart import figures, legend
from nearer.report.markup import (
    LACKING,
    Html,
    cell,
    count,
    element,
    figure,
    join,
    note,
    paragraph,
    section,
    sentence,
    signed,
    table,
)
from nearer.report.subjects import Measured, Subject

Value = Callable[[TaskAnalysis], float | None]
# name, explanation, value
GEOMETRY: tuple[tuple[str, str, Value], ...] = (
    ("STS: Spearman × 100", "correlation with the gold scores", lambda task: task.score),
    ("alignment", "mean squared distance of pairs people call alike; lower is better", lambda t: t.geometry.alignment),
    ("uniformity", "how evenly sentences fill the sphere; lower is better", lambda task: task.geometry.uniformity),
    ("mean cosine", "of any two sentences; near 0 is better", lambda task: task.geometry.anisotropy),
    ("effective rank", "how many directions the vectors use", lambda task: task.geometry.effective_rank),
    (
        "length bias",
        "how far a difference in length changes similarity, at equal gold scores; 0 is best",
        lambda t: t.length.partial,
    ),
    (
        "word bias",
        "how far shared words change similarity, at equal gold scores; 0 is best",
        lambda task: task.overlap.partial,
    ),
    (
        "frequency bias",
        "how far the frequency of words changes the mean cosine; 0 is best",
        lambda task: task.frequency.with_cosine,
    ),
)


def behind_section(measured: Measured) -> Html:
    remarks = [note(remark) for remark in measured.remarks]
    if not measured.analyses:
        reason = paragraph("There is no model, or there are no scored pairs, to analyse.")
        return section("behind", "Behind the scores", *remarks, reason)
    first, *others = range(len(measured.compared))
    names = [task.shown for task in measured.analyses[0].tasks]
    parts = [element("h3", names[first]), *_task(first, measured)]
    parts += [element("details", element("summary", names[number]), *_task(number, measured)) for number in others]
    return section("behind", "Behind the scores", *remarks, *parts)


def _task(number: int, measured: Measured) -> Iterator[Html]:
    subjects, compared = measured.analysed, measured.compared[number]
    tasks = [analysis.tasks[number] for analysis in measured.analyses]
    one = tasks[0]
    shape = one.geometry
    yield paragraph(
        f"{count(len(one.encoded.pairs), 'pair')}, {count(shape.sentences, 'sentence')}; "
        f"{shape.positives:,} pairs rated above {shape.threshold:g} count as alike.",
        kind="quiet",
    )
    for subject, task in zip(subjects, tasks, strict=True):
        yield from (note(element("strong", f"{subject.label}: "), remark, ".") for remark in task.remarks)
    yield table(
        "Geometry and biases",
        ["", *(subject.label for subject in subjects)],
        _rows(tasks),
        foot=_difference_rows(subjects, measured.differences[number]),
    )
    yield legend(subjects)
    yield figures(*drawings.drawn(subjects, tasks, compared))


def _rows(tasks: Sequence[TaskAnalysis]) -> Iterator[list[str]]:
    for name, explanation, value in GEOMETRY:
        heading = join([name, element("small", explanation)])
        digits = 1 if name == "effective rank" else 2
        yield [heading, *(figure(value(task), digits) for task in tasks)]


def _difference_rows(subjects: Sequence[Subject], differences: Sequence[Comparison | None]) -> list[list[str]]:
    """How far the others lie from the first model, and whether that is more than chance."""
    if not differences:
        return []
    heading = join([f"difference from {subjects[0].label}", element("small", _interval_words(differences))])
    return [[heading, LACKING, *(_difference(found) for found in differences)]]


def _interval_words(differences: Sequence[Comparison | None]) -> str:
    known = next((found for found in differences if found is not None), None)
    if known is None:
        return "undefined"
    return f"STS: Spearman × 100, with {100 * known.confidence:g} % intervals of {known.resamples:,} resamples"


def _difference(found: Comparison | None) -> Html:
    if found is None:
        return join([LACKING])
    interval = f"{signed(found.low)} … {signed(found.high)}"
    return join([signed(found.difference), element("small", interval)])


def rankings_section(measured: Measured) -> Html:
    if not measured.compared:
        return Html()
    several = len(measured.analysed) > 1
    which = "that the models order most differently" if several else "that the model orders worst"
    opening = paragraph(
        f"The queries {which}, judged by Kendall’s correlation with people’s order. "
        "After each figure comes its rank: 1 is the most similar."
    )
    parts = [part for common in measured.compared for part in _examples(common.examples, measured.analysed)]
    parts += [paragraph(common.remark, kind="quiet") for common in measured.compared if common.remark]
    return section("rankings", "Rankings of single queries", opening, *parts)


def _examples(examples: Sequence[RankingExample], subjects: Sequence[Subject]) -> Iterator[Html]:
    for example in examples:
        names = list(example.kendall)  # in the order of the models
        rows = [
            [
                sentence(partner.sentence),
                _ranked(partner.gold, partner.gold_rank),
                *(_ranked(partner.scores[name], partner.ranks[name], partner.gold_rank) for name in names),
            ]
            for partner in example.partners
        ]
        foot = [["Kendall’s correlation", "", *(_ranked(example.kendall[name]) for name in names)]]
        head = ["compared with", "people", *(subject.label for subject in subjects)]
        yield table(join([element("small", "query"), sentence(example.query)], " "), head, rows, foot=foot)


def _ranked(score: float, rank: int | None = None, gold_rank: int | None = None) -> Html:
    """A score and its rank, if it has one; ranks that are not people's stand out."""
    elsewhere = gold_rank is not None and rank != gold_rank
    shown = element("b" if elsewhere else "span", "" if rank is None else str(rank), class_="rank")
    return cell(figure(score), " ", shown)
