"""Models side by side as tables for a terminal: scores with published rows below them, and differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from nearer.analysis.compare import Compared, Difference
from nearer.analysis.side_by_side import short_labels
from nearer.errors import SettingError
from nearer.evaluation.published import Published, all_published
from nearer.evaluation.results import Results
from nearer.evaluation.task import KIND_NAMES, Task, TaskScore

# which published rows can stand beside a layout's figures
PROTOCOLS = {"senteval": "SentEval", "raw": "MTEB", "flat": "MTEB"}
USUAL_BACKBONES = ("", "BERT-base")
AUTO, ALL, NONE = "auto", "all", "none"


def rows_beside(tasks: Sequence[Task], wanted: str) -> list[Published]:
    """Published rows of the tasks' kinds, on the same text.

    wanted: `auto` (BERT-base's, and those without a backbone), `all`, `none`, or backbones, sources or models.
    """
    if wanted == NONE:
        return []
    kinds = {getattr(task, "kind", "") for task in tasks}
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


def _same_text(row: Published, tasks: Sequence[Task]) -> bool:
    """Whether it was measured on the text and by the rules of one of these tasks."""
    layouts = {getattr(task, "layout", "") for task in tasks if getattr(task, "kind", "") == row.kind}
    if row.kind != "sts":
        return True
    return any(row.protocol.startswith(PROTOCOLS.get(layout, "-")) for layout in layouts)


def comparison_tables(compared: Compared, beside: Sequence[Published]) -> Iterator[Group]:
    """One table of scores for each kind of task, then the differences."""
    labels = short_labels([results.model for results in compared.results])
    for kind in compared.results[0].kinds:
        yield _scores(kind, compared.results, labels, [row for row in beside if row.kind == kind])
    yield _differences(compared.differences, dict(zip([r.model for r in compared.results], labels, strict=True)))


def _scores(kind: str, results: Sequence[Results], labels: Sequence[str], beside: Sequence[Published]) -> Group:
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
    title = f"{KIND_NAMES.get(kind, kind)}: {scores[0].measure} × 100"
    notes = ["published: as printed there, not measured here; " + _protocols(rows)] if rows else []
    return Group(Text(title, style="italic"), table, *(Text(note, style="dim") for note in notes))


def _published_name(score: TaskScore) -> str:
    """The task as the papers have it: a ranking task is named after its STS set. No dev set was published on."""
    return "" if score.split in ("dev", "train", "file") else score.task.removesuffix(" ranking")


def _protocols(rows: Sequence[Published]) -> str:
    return "; ".join(dict.fromkeys(row.protocol for row in rows))


def _differences(differences: Sequence[Difference], labels: dict[str, str]) -> Group:
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
