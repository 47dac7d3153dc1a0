"""All figures of an analysis by name, ready to be saved or put on a page."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from nearer.analysis import plots
from nearer.analysis.analyse import Analysis, TaskAnalysis
from nearer.analysis.figures import INK, figure_of, panels
from nearer.analysis.side_by_side import SideBySide, short_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def gallery(
    analyses: Sequence[Analysis],
    compared: Sequence[SideBySide],
    *,
    arrows: bool = False,
    across: int = 2,
    ink: str = INK,
) -> dict[str, Figure]:
    """Figures named by task and subject: those of single models have a panel for each.

    compared: from `side_by_side` of the same analyses. arrows: the models are steps on one way.
    across: panels in a row.
    """
    labels = short_labels([analysis.model for analysis in analyses])
    figures: dict[str, Figure] = {}
    for place, common in enumerate(compared):
        tasks = {label: analysis.tasks[place] for label, analysis in zip(labels, analyses, strict=True)}
        shown = analyses[0].tasks[place].shown
        for subject, figure in _of_task(tasks, common, shown, arrows, across, ink).items():
            figures[f"{_slug(shown)}-{subject}"] = figure
    return figures


def _of_task(
    tasks: dict[str, TaskAnalysis], common: SideBySide, shown: str, arrows: bool, across: int, ink: str
) -> dict[str, Figure]:
    def each(draw: Callable[[Axes, TaskAnalysis], None], title: str) -> Figure:
        """A panel a model."""
        labels = list(tasks) if len(tasks) > 1 else [""]
        drawings = [
            partial(_named, label=label, draw=draw, task=task)
            for label, task in zip(labels, tasks.values(), strict=True)
        ]
        return panels(drawings, across=across, width=5.6, height=3.6, ink=ink, title=f"{shown}: {title}")

    def one(draw: Callable[[Axes], None], title: str) -> Figure:
        return figure_of(draw, ink=ink, title=f"{shown}: {title}")

    spectra = {label: task.geometry.spectrum for label, task in tasks.items()}
    figures = {
        "spectrum": one(partial(plots.draw_spectra, spectra=spectra), "singular values"),
        "distributions": each(_distributions, "similarity by rating"),
        "length": each(_length, "similarity by length difference"),
        "overlap": each(_overlap, "similarity by shared words, beyond gold"),
        "frequency": each(_frequency, "similarity by word frequency"),
        "ratings": one(partial(plots.draw_rating_scores, groups=common.rating_scores), "score by rating"),
    }
    if any(point.alignment is not None for point in common.points):
        drawing = partial(plots.draw_path, points=common.points, arrows=arrows)
        figures = {"alignment-uniformity": one(drawing, "alignment and uniformity"), **figures}
    if all(task.rank_space is not None for task in tasks.values()):
        figures["rank-space"] = each(_rank_space, "rank vectors and vectors")
        figures["gain"] = each(_gain, "gain by rank vectors, and shared neighbours")
    return figures


def _named(axes: Axes, *, label: str, draw: Callable[[Axes, TaskAnalysis], None], task: TaskAnalysis) -> None:
    draw(axes, task)
    if label:
        below = axes.get_title()
        axes.set_title(f"{label}\n{below}" if below else label, fontsize="small")


def _distributions(axes: Axes, task: TaskAnalysis) -> None:
    plots.draw_distributions(axes, task.distributions)


def _length(axes: Axes, task: TaskAnalysis) -> None:
    plots.draw_pair_bias(axes, task.length)


def _overlap(axes: Axes, task: TaskAnalysis) -> None:
    plots.draw_excess(axes, task.overlap)


def _frequency(axes: Axes, task: TaskAnalysis) -> None:
    plots.draw_frequency_bias(axes, task.frequency)


def _rank_space(axes: Axes, task: TaskAnalysis) -> None:
    if task.rank_space is not None:
        plots.draw_rank_space(axes, task.rank_space)


def _gain(axes: Axes, task: TaskAnalysis) -> None:
    if task.gain is not None:
        plots.draw_gain(axes, task.gain)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "task"
