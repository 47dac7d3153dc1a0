"""Results as a table for a terminal: a section for each kind of task, the protocol above and below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from nearer.evaluation.task import KIND_NAMES, TaskScore

if TYPE_CHECKING:
    from nearer.evaluation.results import Results

IN_TITLE = ("correlation", "aggregation")


def results_table(results: Results) -> Group:
    """The measure is named above the table where all tasks have one, else beside each score."""
    one_measure = len({(score.kind, score.measure) for score in results.scores}) == 1
    table = Table()
    further = any(_further(score) for score in results.scores)
    columns = ("task", "split", "count", *([] if one_measure else ["measure"]), "score", *(["also"] if further else []))
    for column in columns:
        table.add_column(column, justify="right" if column in ("count", "score") else "left")
    for kind, scores in results.kinds.items():
        for score in scores:
            measure = [] if one_measure else [Text(f"{KIND_NAMES.get(kind, kind)}: {score.measure}")]
            count = f"{score.count:,} {score.unit}"
            also = [Text(_further(score))] if further else []
            table.add_row(Text(score.task), Text(score.split), count, *measure, _shown(score), *also)
        table.add_section()
        if len(scores) > 1:
            name = "average" if len(results.kinds) == 1 else f"{KIND_NAMES.get(kind, kind)} average"
            filling = [""] * (columns.index("score") - 1)
            table.add_row(name, *filling, _percent(results.averages[kind]), style="bold", end_section=True)
    title = f"{results.model}  ({_title(results.scores[0])})" if one_measure else results.model
    # beside the table, not its title and caption: those are folded to its width
    return Group(Text(title, style="italic"), table, Text(_caption(results, one_measure=one_measure), style="dim"))


def _further(score: TaskScore) -> str:
    """Its other figures; of STS they are the same correlation in other readings, which are in the JSON."""
    if score.kind == "sts":
        return ""
    others = {name: figure for name, figure in score.figures.items() if name != score.measure and figure is not None}
    return ", ".join(f"{name} {figure:.2f}" for name, figure in others.items())


def _shown(score: TaskScore) -> str:
    return (score.remark or "undefined") if score.score is None else _percent(score.score)


def _percent(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"


def _title(score: TaskScore) -> str:
    """`STS: Spearman × 100, all`; of tasks without an aggregation just `retrieval: ndcg@10 × 100`."""
    kind = KIND_NAMES.get(score.kind, score.kind)
    if "aggregation" in score.protocol:
        return f"{kind}: {score.protocol['correlation'].capitalize()} × 100, {score.protocol['aggregation']}"
    return f"{kind}: {score.measure} × 100"


def _caption(results: Results, *, one_measure: bool) -> str:
    """The protocol of the evaluation, and below it what kinds of tasks, or single ones, add to it."""
    common = {name: value for name, value in results.protocol.items() if (name, value) != ("similarity", "cosine")}
    lines = [f"{_facts(common)}; {results.sentences:,} unique sentences in {results.seconds:.1f} s"]
    named = dict(zip(results.by_name(), results.scores, strict=True))
    for kind in results.kinds:
        tasks_of: dict[str, list[str]] = {}
        for task, score in named.items():
            if score.kind == kind:
                own = {name: value for name, value in score.protocol.items() if not (one_measure and name in IN_TITLE)}
                tasks_of.setdefault(_facts(own), []).append(task)
        for facts, tasks in tasks_of.items():
            if facts:
                lines.append(f"{kind if len(tasks_of) == 1 else ', '.join(tasks)}: {facts}")
    lines += [f"{task}: {score.remark}" for task, score in named.items() if _says_more(score)]
    return "\n".join(lines)


def _says_more(score: TaskScore) -> bool:
    """Whether its remark is about what is shown: not about another figure's being undefined."""
    return score.score is not None and bool(score.remark) and not score.remark.startswith("undefined")


def _facts(protocol: dict[str, Any]) -> str:
    shown = {name: value for name, value in protocol.items() if value is not False}
    return ", ".join(name if value is True else f"{name} {value}" for name, value in shown.items())
