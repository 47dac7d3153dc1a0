"""Are ranking lists in descending order? Each sentence's similarity to the first of its list, and what follows from it
for all lists: the paper's Table 5 and Figure 1 with any encoder as the judge, for a terminal and as heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nearer.analysis.figures import HEAT_COLOURS
from nearer.encoder.comparing import Vectors, unit_rows
from nearer.errors import InputError
from nearer.evaluation.measures import kendall

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Group
    from rich.table import Table


FIGURE_SIZE = 16  # sentences of a list that Figure 1 compares
DIGITS = 6  # cosines that differ by less are equal: those of equal sentences may differ in their last bits

Cosines = NDArray[np.float64]


class Judge(Protocol):
    """What is needed of an encoder."""

    def encode(self, sentences: list[str], *, progress: bool = ...) -> Vectors: ...


@dataclass(frozen=True)
class JudgedList:
    """cosines: of each sentence to the first, beginning with the second."""

    sentences: tuple[str, ...]
    cosines: tuple[float, ...]

    @property
    def out_of_order(self) -> tuple[bool, ...]:
        """Which stand higher than a sentence before them: the others are in descending order."""
        lowest = np.minimum.accumulate((2.0, *self.cosines))[:-1]  # of those before
        return tuple(bool(own > low) for own, low in zip(self.cosines, lowest, strict=True))

    @property
    def descending(self) -> bool:
        """Each one lower than the one before; a list of two sentences has nothing to compare."""
        return all(later < earlier for earlier, later in zip(self.cosines, self.cosines[1:], strict=False))

    @property
    def order(self) -> float | None:
        """Kendall's tau of similarity with nearness in the list: 1 in descending order, −1 in ascending."""
        if len(self.cosines) < 2:
            return None
        return kendall(np.array(self.cosines), -np.arange(len(self.cosines), dtype=np.float64))


@dataclass(frozen=True)
class Inspection:
    """Measures over all lists. Neighbouring pairs are those of x(i), x(i+1) from x(1) on, by similarity to x(0)."""

    name: str
    lists: tuple[JudgedList, ...]
    descending_pairs: float | None
    descending_lists: float
    order: float | None
    undefined: int
    by_position: tuple[float, ...]
    counts: tuple[int, ...]
    matrix: NDArray[np.float64]

    @property
    def sentences(self) -> int:
        return sum(len(judged.sentences) for judged in self.lists)


def inspect_lists(
    name: str, lists: Sequence[Sequence[str]], judge: Judge, *, size: int = FIGURE_SIZE, progress: bool = False
) -> Inspection:
    """Judge lists by an encoder's cosines. size: sentences of each list in the average matrix."""
    if not lists:
        raise InputError(f"{name}: has no lists.")
    unique = {sentence: row for row, sentence in enumerate(dict.fromkeys(s for some in lists for s in some))}
    vectors = unit_rows(judge.encode(list(unique), progress=progress).astype(np.float64))
    rows_of_lists = [np.array([unique[sentence] for sentence in sentences]) for sentences in lists]
    judged = tuple(
        JudgedList(tuple(sentences), tuple(np.round(vectors[rows[1:]] @ vectors[rows[0]], DIGITS).tolist()))
        for sentences, rows in zip(lists, rows_of_lists, strict=True)
    )
    pairs = [later < earlier for one in judged for earlier, later in zip(one.cosines, one.cosines[1:], strict=False)]
    orders = [one.order for one in judged]
    defined = [order for order in orders if order is not None]
    sums, counts = _by_position(judged)
    return Inspection(
        name=name,
        lists=judged,
        descending_pairs=float(np.mean(pairs)) if pairs else None,
        descending_lists=float(np.mean([one.descending for one in judged])),
        order=float(np.mean(defined)) if defined else None,
        undefined=len(orders) - len(defined),
        by_position=tuple((sums / counts).tolist()),
        counts=tuple(counts.tolist()),
        matrix=_average_matrix(vectors, rows_of_lists, size),
    )


def _by_position(judged: Sequence[JudgedList]) -> tuple[Cosines, NDArray[np.int64]]:
    longest = max(len(one.cosines) for one in judged)
    sums, counts = np.zeros(longest), np.zeros(longest, dtype=np.int64)
    for one in judged:
        sums[: len(one.cosines)] += one.cosines
        counts[: len(one.cosines)] += 1
    return sums, counts


def _average_matrix(vectors: Cosines, rows_of_lists: Sequence[NDArray[np.int64]], size: int) -> Cosines:
    """Mean cosine of the i-th and j-th sentences (size, size), over the lists that have both."""
    size = min(size, max(len(rows) for rows in rows_of_lists))
    sums, counts = np.zeros((size, size)), np.zeros((size, size))
    for rows in rows_of_lists:
        own = vectors[rows[:size]]
        sums[: len(own), : len(own)] += own @ own.T
        counts[: len(own), : len(own)] += 1
    matrix: Cosines = sums / counts
    return matrix


MARK = "↑"
POSITIONS = (1, 2, 4, 8, 16, 32, 64)


def measures_table(inspections: Sequence[Inspection]) -> Table:
    """A row a measure, a column for each set of lists."""
    from rich.table import Table
    from rich.text import Text

    table = Table()
    table.add_column("")
    for found in inspections:
        table.add_column(Text(found.name), justify="right", overflow="fold")
    table.add_row("lists", *[f"{len(found.lists):,}" for found in inspections])
    table.add_row("sentences", *[f"{found.sentences:,}" for found in inspections])
    table.add_row(
        "neighbouring pairs in descending order", *[_percent(found.descending_pairs) for found in inspections]
    )
    table.add_row("lists in descending order", *[_percent(found.descending_lists) for found in inspections])
    table.add_row("Kendall's tau of similarity and order", *[_figure(found.order) for found in inspections])
    table.add_section()
    longest = max(len(found.by_position) for found in inspections)
    for position in [wanted for wanted in POSITIONS if wanted <= longest]:
        row = [
            _figure(found.by_position[position - 1]) if position <= len(found.by_position) else "–"
            for found in inspections
        ]
        table.add_row(f"mean similarity of sentence {position} to the first", *row)
    return table


def lists_table(inspections: Sequence[Inspection], show: int) -> Group:
    """Lists with each sentence's similarity to the first (Table 5). Of several sets, lists that begin alike stand side
    by side, as far as there are such."""
    from rich.console import Group
    from rich.text import Text

    parts: list[Any] = []
    for row in _chosen(inspections, show):
        names = [name if len(inspections) > 1 else "sentence" for name, _ in row]
        judged = [one for _, one in row]
        parts += [Text(judged[0].sentences[0], style="bold"), _one_table(names, judged)]
    note = f"{MARK}: nearer to the first than a sentence above it, so out of descending order"
    return Group(*parts, Text(note, style="dim"))


def _chosen(inspections: Sequence[Inspection], show: int) -> list[list[tuple[str, JudgedList]]]:
    """What stands in each table: lists with the names of their sets."""
    by_first: list[dict[str, JudgedList]] = [{} for _ in inspections]
    for known, found in zip(by_first, inspections, strict=True):
        for judged in found.lists:
            known.setdefault(judged.sentences[0], judged)
    shared = [first for first in by_first[0] if all(first in other for other in by_first[1:])]
    if shared:
        names = [found.name for found in inspections]
        return [[(name, some[first]) for name, some in zip(names, by_first, strict=True)] for first in shared[:show]]
    return [[(found.name, judged)] for found in inspections for judged in found.lists[:show]]


def _one_table(names: Sequence[str], row: Sequence[JudgedList]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    table.add_column("", justify="right")
    for name in names:
        table.add_column("cosine", justify="right", no_wrap=True)
        table.add_column(Text(name), overflow="fold")
    for position in range(max(len(judged.cosines) for judged in row)):
        cells: list[Text] = []
        for judged in row:
            if position >= len(judged.cosines):
                cells += [Text(""), Text("")]
                continue
            marked = judged.out_of_order[position]
            cosine = f"{MARK + ' ' if marked else ''}{judged.cosines[position]:.4f}"
            cells += [Text(cosine, style="red" if marked else ""), Text(judged.sentences[position + 1])]
        table.add_row(str(position + 1), *cells)
    return table


def heat_maps(inspections: Sequence[Inspection], *, size: int = FIGURE_SIZE) -> Figure:
    """A panel for each set of lists, all with one scale of colours (Figure 1)."""
    from nearer.analysis.figures import panels

    matrices = [found.matrix[:size, :size] for found in inspections]
    # the diagonal is 1 everywhere and would take most of the scale
    beside = np.concatenate([matrix[~np.eye(len(matrix), dtype=bool)] for matrix in matrices])
    low, high = float(beside.min()), max(float(beside.max()), float(beside.min()) + 1e-3)
    draws = [
        partial(_draw, found=found, matrix=matrix, low=low, high=high)
        for found, matrix in zip(inspections, matrices, strict=True)
    ]
    return panels(draws, across=min(4, len(draws)), width=4.4, height=4.0)


def save_heat_maps(inspections: Sequence[Inspection], path: str | Path) -> Path:
    from nearer.analysis.figures import save_figure

    return save_figure(heat_maps(inspections), path)


def _draw(axes: Axes, *, found: Inspection, matrix: Any, low: float, high: float) -> None:
    image = axes.imshow(matrix, cmap=HEAT_COLOURS, vmin=low, vmax=high)
    ticks = range(0, len(matrix), 1 if len(matrix) <= 8 else 3)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.set_title(f"{Path(found.name).name or found.name} ({len(found.lists):,} lists)", fontsize="small")
    axes.set_xlabel("position in the list")
    axes.set_ylabel("position in the list")
    axes.figure.colorbar(image, ax=axes, label="mean cosine", shrink=0.8, extend="max")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{round(value, 3) + 0.0:.3f}"
