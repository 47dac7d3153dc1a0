"""How alike positives and negatives are to their anchors, on the surface and in meaning (DebCSE, Tables 1 and 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearer.analysis.figures import COLOURS, panels, save_figure
from nearer.construct.debiased_sampler import DistinctSentences
from nearer.construct.propensity import overlaps
from nearer.errors import InputError
from nearer.teachers.vector_store import VectorStore
from nearer.text.reading import Reading
from nearer.text.records import Triplet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Group

Values = NDArray[np.float64]
MOST = 10_000  # anchors looked at: more move no mean by 0.01
BINS = 60
CONTRASTIVE, DEBIASED, SUPERVISED = "contrastive", "debiased", "supervised (NLI)"
FIGURE = "cosines"


@dataclass(frozen=True)
class Samples:
    """Shared words and cosines with the anchor, of positives and negatives that one way of sampling gives."""

    name: str
    positive_overlap: Values
    negative_overlap: Values
    positive_cosines: Values
    negative_cosines: Values

    def means(self) -> dict[str, float]:
        names = ("positive_overlap", "negative_overlap", "positive_cosines", "negative_cosines")
        return {name: round(float(getattr(self, name).mean()), 4) for name in names}


def chosen_anchors(count: int) -> NDArray[np.int64]:
    """Some, spread evenly."""
    return np.unique(np.linspace(0, count - 1, min(count, MOST)).astype(np.int64))


def survey(
    records: Iterable[tuple[int, Mapping[str, Any]]], anchors: NDArray[np.int64]
) -> tuple[Samples, Counter[str]]:
    """The similarities of the chosen anchors' samples, and over all records, what had to be made do with."""
    counts: Counter[str] = Counter()
    kept: dict[str, list[float]] = {
        name: [] for name in ("positive_overlap", "negative_overlap", "positive_cosines", "negative_cosines")
    }
    chosen = set(anchors.tolist())
    for number, record in records:
        missing = max(0, len(record["negatives"]) - record["negative_pool"])
        counts["negatives from below"] += missing
        counts["short pools"] += missing > 0
        counts["empty pools"] += record["negative_pool"] == 0
        candidates = record["positive_pool"]
        counts["without candidates"] += candidates == 0
        counts["repeated positives"] += max(0, len(record["positives"]) - candidates) if candidates else 0
        if number in chosen:
            for name, values in kept.items():
                values += record[name]
    return Samples(DEBIASED, **{name: np.array(values) for name, values in kept.items()}), counts


def contrastive_samples(
    corpus: DistinctSentences, store: VectorStore, anchors: NDArray[np.int64], seed: int
) -> Samples:
    """As SimCSE has them: the sentence itself (its dropout left aside), and a random other one."""
    draw = np.random.default_rng([seed, 1])
    others = (anchors + draw.integers(1, len(corpus), len(anchors))) % len(corpus)
    vectors = store.vectors()
    first, second = (_unit(vectors[corpus.rows[numbers]]) for numbers in (anchors, others))
    texts = corpus.sentences
    shared = [overlaps(texts[one], [texts[one], texts[two]]) for one, two in zip(anchors, others, strict=True)]
    own, other = np.array(shared).T
    return Samples(CONTRASTIVE, own, other, np.ones(len(anchors)), (first * second).sum(axis=1))


def supervised_samples(triplets: Reading[Triplet], store: VectorStore, seed: int) -> Samples:
    """Entailments and contradictions of NLI, by the same encoder."""
    found = list(triplets)
    triplets.report.check_kept()
    if len(found) > MOST:
        indices = np.sort(np.random.default_rng([seed, 2]).choice(len(found), MOST, replace=False))
        found = [found[index] for index in indices]
    columns = [[triplet[column] for triplet in found] for column in range(3)]
    texts = [text for column in columns for text in column]
    vectors = _unit(store.encoder.encode(texts, normalize=True, precision=store.precision))
    anchors, positives, negatives = np.split(vectors, 3)
    shared = [overlaps(anchor, others) for anchor, *others in zip(*columns, strict=True)]
    own, other = np.array(shared).T
    return Samples(SUPERVISED, own, other, (anchors * positives).sum(axis=1), (anchors * negatives).sum(axis=1))


def samples_table(samples: Sequence[Samples]) -> Group:
    """A row for each way of sampling."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for number, column in enumerate(
        ("samples", "positives: shared words", "cosine", "negatives: shared words", "cosine", "pairs")
    ):
        table.add_column(column, justify="right" if number else "left")
    for some in samples:
        means = some.means()
        order = ("positive_overlap", "positive_cosines", "negative_overlap", "negative_cosines")
        pairs = len(some.positive_overlap) + len(some.negative_overlap)
        table.add_row(some.name, *[f"{means[name]:.2f}" for name in order], f"{pairs:,}")
    caption = (
        "shared words: of the longer sentence's; DebCSE's Table 4 has positives 1.0 (contrastive), 0.56 (debiased), "
        "0.38 (supervised) and negatives 0.09, 0.21, 0.28"
    )
    return Group(table, Text(caption, style="dim"))


def write_figure(samples: Sequence[Samples], folder: Path) -> list[Path]:
    """The distributions of cosines, positives beside negatives (DebCSE, Figures 1 and 4), as SVG and PNG."""

    def drawing(side: str) -> Any:
        return lambda axes: _draw(axes, samples, side)

    figure = panels([drawing("positive"), drawing("negative")], across=2, width=4.8, height=3.2)
    return [save_figure(figure, folder / f"{FIGURE}.{kind}") for kind in ("svg", "png")]


def _draw(axes: Axes, samples: Sequence[Samples], side: str) -> None:
    drawn = [getattr(some, f"{side}_cosines") for some in samples]
    lowest = min(float(values.min()) for values in drawn)
    bounds = np.linspace(min(lowest, 0.0), 1.0, BINS + 1)
    for number, (some, values) in enumerate(zip(samples, drawn, strict=True)):
        colour = COLOURS[number % len(COLOURS)]
        if values.min() == values.max():  # a spike would hide the others
            axes.axvline(values[0], color=colour, linestyle="--", label=f"{some.name} (all {values[0]:g})")
            continue
        shares = np.histogram(np.clip(values, bounds[0], 1.0), bounds)[0] / len(values)
        axes.stairs(shares, bounds, color=colour, fill=False, label=some.name)
    axes.set_title(f"{side}s", fontsize="medium")
    axes.set_xlabel("cosine with the anchor")
    axes.set_ylabel("share of pairs")
    axes.legend(fontsize="small")


def _unit(vectors: NDArray[Any]) -> Values:
    wide = vectors.astype(np.float64)
    found: Values = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    if not np.isfinite(found).all():
        raise InputError("the encoder gives vectors of length 0, which have no cosine.")
    return found
