"""The analyses drawn, each on axes that are given. Numbers come from the other files; nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nearer.analysis.bias import Bin, FrequencyBias, PairBias
from nearer.analysis.bootstrap import Comparison
from nearer.analysis.distributions import Distributions
from nearer.analysis.figures import COLOURS
from nearer.analysis.neighbours import Gain
from nearer.analysis.path import PathPoint
from nearer.analysis.rank_space import RankSpace
from nearer.analysis.rating_groups import GroupScores
from nearer.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST_COSINES, LEAST_RANKS = 0.1, 0.2
MOST_LABELS = 12  # points of a longer path than this are named at its two ends alone


def draw_path(axes: Axes, points: Sequence[PathPoint], *, arrows: bool = True) -> None:
    """Alignment over uniformity, lower left is best (SimCSE, Figure 2); without arrows as in its Figure 3."""
    placed = [point for point in points if point.alignment is not None]
    if not placed:
        raise InputError("path: no point has an alignment; `draw_uniformity` draws uniformity over steps.")
    across, up = [point.uniformity for point in placed], [point.alignment or 0.0 for point in placed]
    for place, (x, y) in enumerate(zip(across, up, strict=True)):
        colour = COLOURS[0] if arrows else COLOURS[place % len(COLOURS)]
        axes.plot([x], [y], "o", color=colour, markersize=6)
        if arrows and place:
            begin = (across[place - 1], up[place - 1])
            style = {"arrowstyle": "->", "color": colour, "shrinkA": 4.0, "shrinkB": 4.0}
            axes.annotate("", (x, y), begin, arrowprops=style)
    named = range(len(placed)) if len(placed) <= MOST_LABELS else (0, len(placed) - 1)
    for place in named:
        score = placed[place].score
        text = placed[place].label if score is None else f"{placed[place].label} ({score:.1f})"
        # inwards: what stands at the right edge is named to its left
        left = across[place] > (min(across) + max(across)) / 2
        axes.annotate(
            text,
            (across[place], up[place]),
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
    for place, (label, values) in enumerate(spectra.items()):
        colour = COLOURS[place % len(COLOURS)]
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
    for place, group in enumerate(found.groups):
        highest = max(group.histogram, default=0)
        if not highest or group.quantiles is None:
            continue
        tops = [place + 0.85 * count / highest for count in group.histogram]
        axes.fill_between(centres, place, tops, step="mid", color=COLOURS[0], alpha=0.45, linewidth=0)
        _, quarter, median, three_quarters, _ = group.quantiles
        axes.plot([quarter, three_quarters], [place, place], color=COLOURS[1], linewidth=3, solid_capstyle="butt")
        axes.plot([median], [place], "o", color=COLOURS[1], markersize=5)
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
        bars = [(place, group.scores[name]) for place, group in enumerate(groups)]
        drawn = [(place - 0.4 + (number + 0.5) * width, score) for place, score in bars if score is not None]
        places, heights = [place for place, _ in drawn], [score for _, score in drawn]
        axes.bar(places, heights, width * 0.92, color=COLOURS[number % len(COLOURS)], label=name)
    axes.set_xticks(range(len(groups)), [f"{group.low:.3g}–{group.high:.3g}\n({group.count:,})" for group in groups])
    axes.grid(axis="y")
    axes.set_xlabel("rating (pairs)")
    axes.set_ylabel("Spearman × 100")
    if len(names) > 1:
        axes.legend(fontsize="small")


def draw_gain(axes: Axes, found: Gain) -> None:
    """Gain in Spearman as a line, shared neighbours as bars, by base similarity (RankEncoder, Figure 6)."""
    places = range(len(found.groups))
    axes.bar(places, [group.shared for group in found.groups], 0.7, color=COLOURS[1], alpha=0.5)
    axes.set_ylabel(f"shared of {found.neighbours} neighbours (bars)")
    axes.set_xticks(places, [f"{group.low:.2f}–{group.high:.2f}" for group in found.groups], fontsize="small")
    axes.set_xlabel("base similarity")
    beside = axes.twinx()
    beside.spines["right"].set_visible(True)
    known = [(place, group.gain) for place, group in enumerate(found.groups) if group.gain is not None]
    beside.plot([place for place, _ in known], [gain for _, gain in known], "o-", color=COLOURS[0])
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
    for place, (label, found) in enumerate(comparisons.items()):
        face = COLOURS[0] if found.significant else "none"
        axes.plot([found.low, found.high], [place, place], color=COLOURS[0], linewidth=2)
        axes.plot([found.difference], [place], "o", color=COLOURS[0], markerfacecolor=face, label=label)
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
