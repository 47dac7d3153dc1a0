"""The analyses drawn by matplotlib: each on axes that are given, and all of them by name (`gallery`).

Numbers come from the other files; nothing is computed here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from nearer.analysis.analyse import Analysis, TaskAnalysis
from nearer.analysis.bias import Bin, FrequencyBias, PairBias
from nearer.analysis.bootstrap import Comparison
from nearer.analysis.figures import COLOURS, INK, figure_of, panels
from nearer.analysis.geometry import PathPoint
from nearer.analysis.rank_space import Gain, RankSpace
from nearer.analysis.ratings import Distributions, GroupScores
from nearer.analysis.side_by_side import SideBySide, short_labels
from nearer.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


LEAST_COSINES, LEAST_RANKS = 0.1, 0.2
MOST_LABELS = 12  # points of a longer path than this are named at its two ends alone


def draw_path(axes: Axes, points: Sequence[PathPoint], *, arrows: bool = True) -> None:
    """Alignment over uniformity, lower left is best (SimCSE, Figure 2); without arrows as in its Figure 3."""
    drawn = [point for point in points if point.alignment is not None]
    if not drawn:
        raise InputError("path: no point has an alignment; `draw_uniformity` draws uniformity over steps.")
    across, up = [point.uniformity for point in drawn], [point.alignment or 0.0 for point in drawn]
    for number, (x, y) in enumerate(zip(across, up, strict=True)):
        colour = COLOURS[0] if arrows else COLOURS[number % len(COLOURS)]
        axes.plot([x], [y], "o", color=colour, markersize=6)
        if arrows and number:
            begin = (across[number - 1], up[number - 1])
            style = {"arrowstyle": "->", "color": colour, "shrinkA": 4.0, "shrinkB": 4.0}
            axes.annotate("", (x, y), begin, arrowprops=style)
    named = range(len(drawn)) if len(drawn) <= MOST_LABELS else (0, len(drawn) - 1)
    for number in named:
        score = drawn[number].score
        text = drawn[number].label if score is None else f"{drawn[number].label} ({score:.1f})"
        # inwards: what stands at the right edge is named to its left
        left = across[number] > (min(across) + max(across)) / 2
        axes.annotate(
            text,
            (across[number], up[number]),
            xytext=(-6 if left else 6, 5),
            textcoords="offset points",
            ha="right" if left else "left",
            fontsize="small",
        )
    axes.margins(0.15)
    axes.set_xlabel("uniformity (lower is better)")
    axes.set_ylabel("alignment (lower is better)")


def draw_uniformity(axes: Axes, points: Sequence[PathPoint]) -> None:
    """Uniformity over a run's steps."""
    stepped = [(point.step, point.uniformity) for point in points if point.step is not None]
    if not stepped:
        raise InputError("uniformity: no point has a step; `draw_path` draws models without one.")
    axes.plot([step for step, _ in stepped], [value for _, value in stepped], "o-", color=COLOURS[0], markersize=3)
    axes.grid(axis="y")
    axes.set_xlabel("step")
    axes.set_ylabel("uniformity (lower is better)")


def draw_spectra(axes: Axes, spectra: Mapping[str, Sequence[float]]) -> None:
    """Singular values of one or more models, the largest set to 1 (SimCSE, Figure F.1)."""
    for number, (label, values) in enumerate(spectra.items()):
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(range(1, len(values) + 1), values, color=colour, label=label)
    axes.set_ylim(0, 1.02)
    axes.grid(axis="y")
    axes.set_xlabel("singular value, by size")
    axes.set_ylabel("value (largest = 1)")
    if len(spectra) > 1:
        axes.legend(fontsize="small")


def draw_distributions(axes: Axes, found: Distributions) -> None:
    """A histogram for each rating group, one above the other, with median and quartiles (SimCSE, Figure G.1)."""
    centres = [(low + high) / 2 for low, high in zip(found.bins, found.bins[1:], strict=False)]
    for level, group in enumerate(found.groups):
        highest = max(group.histogram, default=0)
        if not highest or group.quantiles is None:
            continue
        tops = [level + 0.85 * count / highest for count in group.histogram]
        axes.fill_between(centres, level, tops, step="mid", color=COLOURS[0], alpha=0.45, linewidth=0)
        _, quarter, median, three_quarters, _ = group.quantiles
        axes.plot([quarter, three_quarters], [level, level], color=COLOURS[1], linewidth=3, solid_capstyle="butt")
        axes.plot([median], [level], "o", color=COLOURS[1], markersize=5)
    labels = [f"{group.low:g}–{group.high:g}\n({group.count:,})" for group in found.groups]
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(-0.2, len(labels))
    shown = [centre for group in found.groups for centre, n in zip(centres, group.histogram, strict=True) if n]
    if shown:
        width = centres[1] - centres[0] if len(centres) > 1 else 1.0
        axes.set_xlim(min(shown) - width, max(shown) + width)
    axes.set_xlabel("similarity")
    axes.set_ylabel("rating (pairs)")


def draw_pair_bias(axes: Axes, found: PairBias) -> None:
    """Mean cosine of random pairs by the feature; level means without bias."""
    _draw_bins(axes, found.bins, LEAST_COSINES)
    axes.set_xlabel(found.feature)
    axes.set_ylabel("mean cosine of random pairs")
    axes.set_title(
        f"Spearman {_number(found.spearman)}, with gold held fixed {_number(found.partial)}", fontsize="small"
    )


def draw_excess(axes: Axes, found: PairBias) -> None:
    """By how much the task's pairs rank above what gold says, by the feature; level at 0 means without bias."""
    _draw_bins(axes, found.excess, LEAST_RANKS)
    axes.axhline(0, color=COLOURS[1], linewidth=1, linestyle="--")
    axes.set_xlabel(found.feature)
    axes.set_ylabel("rank above what gold says")


def draw_frequency_bias(axes: Axes, found: FrequencyBias) -> None:
    """Mean cosine to all other sentences by the mean log frequency of a sentence's words."""
    _draw_bins(axes, found.bins, LEAST_COSINES)
    axes.set_xlabel("mean log frequency of words")
    axes.set_ylabel("mean cosine to all others")
    norms = "" if found.with_norm is None else f", with the norm {_number(found.with_norm)}"
    axes.set_title(f"Spearman {_number(found.with_cosine)}{norms}", fontsize="small")


def draw_rating_scores(axes: Axes, groups: Sequence[GroupScores]) -> None:
    """Bars for each model within each rating group (RankEncoder, Figure 5)."""
    names = list(groups[0].scores) if groups else []
    width = 0.8 / max(1, len(names))
    for number, name in enumerate(names):
        bars = [(middle, group.scores[name]) for middle, group in enumerate(groups)]
        drawn = [(middle - 0.4 + (number + 0.5) * width, score) for middle, score in bars if score is not None]
        middles, heights = [middle for middle, _ in drawn], [score for _, score in drawn]
        axes.bar(middles, heights, width * 0.92, color=COLOURS[number % len(COLOURS)], label=name)
    axes.set_xticks(range(len(groups)), [f"{group.low:.3g}–{group.high:.3g}\n({group.count:,})" for group in groups])
    axes.grid(axis="y")
    axes.set_xlabel("rating (pairs)")
    axes.set_ylabel("Spearman × 100")
    if len(names) > 1:
        axes.legend(fontsize="small")


def draw_gain(axes: Axes, found: Gain) -> None:
    """Gain in Spearman as a line, shared neighbours as bars, by base similarity (RankEncoder, Figure 6)."""
    numbers = range(len(found.groups))
    axes.bar(numbers, [group.shared for group in found.groups], 0.7, color=COLOURS[1], alpha=0.5)
    axes.set_ylabel(f"shared of {found.neighbours} neighbours (bars)")
    axes.set_xticks(numbers, [f"{group.low:.2f}–{group.high:.2f}" for group in found.groups], fontsize="small")
    axes.set_xlabel("base similarity")
    beside = axes.twinx()
    beside.spines["right"].set_visible(True)
    known = [(number, group.gain) for number, group in enumerate(found.groups) if group.gain is not None]
    beside.plot([number for number, _ in known], [gain for _, gain in known], "o-", color=COLOURS[0])
    beside.axhline(0, color=COLOURS[0], linewidth=0.8, linestyle="--")
    beside.set_ylabel("gain in Spearman × 100 (line)")


def draw_rank_space(axes: Axes, found: RankSpace) -> None:
    """Each pair's correlation of rank vectors over its cosine."""
    axes.scatter(found.cosines, found.correlations, s=6, color=COLOURS[0], alpha=0.5, linewidths=0, rasterized=True)
    axes.set_xlabel("cosine")
    axes.set_ylabel(f"correlation of ranks ({found.corpus:,} sentences)")
    axes.set_title(f"agreement (Spearman) {_number(found.agreement)}", fontsize="small")


def draw_comparisons(axes: Axes, comparisons: Mapping[str, Comparison]) -> None:
    """Differences with their intervals, one below the other; those that leave out 0 are filled."""
    for number, (label, found) in enumerate(comparisons.items()):
        face = COLOURS[0] if found.significant else "none"
        axes.plot([found.low, found.high], [number, number], color=COLOURS[0], linewidth=2)
        axes.plot([found.difference], [number], "o", color=COLOURS[0], markerfacecolor=face, label=label)
    axes.axvline(0, color=COLOURS[1], linewidth=1, linestyle="--")
    axes.set_yticks(range(len(comparisons)), list(comparisons))
    axes.set_ylim(len(comparisons) - 0.5, -0.5)
    axes.set_xlabel("difference (first − second)")


def _draw_bins(axes: Axes, bins: Sequence[Bin], least: float) -> None:
    """least: how much of the axis is shown at least, so that next to nothing looks like it."""
    centres, means = [(some.low + some.high) / 2 for some in bins], [some.mean for some in bins]
    axes.plot(centres, means, "o-", color=COLOURS[0], markersize=4)
    for some in bins:
        axes.plot([some.low, some.high], [some.mean, some.mean], color=COLOURS[0], alpha=0.35, linewidth=4)
    axes.grid(axis="y")
    low, high = axes.get_ylim()
    missing = max(0.0, least - (high - low)) / 2
    axes.set_ylim(low - missing, high + missing)


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{round(value, 2) + 0.0:.2f}"  # no minus before 0.00


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
    for number, common in enumerate(compared):
        tasks = {label: analysis.tasks[number] for label, analysis in zip(labels, analyses, strict=True)}
        shown = analyses[0].tasks[number].shown
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
        "spectrum": one(partial(draw_spectra, spectra=spectra), "singular values"),
        "distributions": each(_distributions, "similarity by rating"),
        "length": each(_length, "similarity by length difference"),
        "overlap": each(_overlap, "similarity by shared words, beyond gold"),
        "frequency": each(_frequency, "similarity by word frequency"),
        "ratings": one(partial(draw_rating_scores, groups=common.rating_scores), "score by rating"),
    }
    if any(point.alignment is not None for point in common.points):
        drawing = partial(draw_path, points=common.points, arrows=arrows)
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
    draw_distributions(axes, task.distributions)


def _length(axes: Axes, task: TaskAnalysis) -> None:
    draw_pair_bias(axes, task.length)


def _overlap(axes: Axes, task: TaskAnalysis) -> None:
    draw_excess(axes, task.overlap)


def _frequency(axes: Axes, task: TaskAnalysis) -> None:
    draw_frequency_bias(axes, task.frequency)


def _rank_space(axes: Axes, task: TaskAnalysis) -> None:
    if task.rank_space is not None:
        draw_rank_space(axes, task.rank_space)


def _gain(axes: Axes, task: TaskAnalysis) -> None:
    if task.gain is not None:
        draw_gain(axes, task.gain)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "task"
