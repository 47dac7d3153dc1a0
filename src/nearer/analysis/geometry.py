"""How vectors lie on the sphere: alignment, uniformity, anisotropy, singular values. Always of normalised vectors.

Squared distances are taken as 2 − 2·cosine, so that a vector of zeros, whose cosine is 0, counts as orthogonal to all.

Alignment and uniformity are also followed as a model changes: over checkpoints, or between models (SimCSE, Figures 2
and 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from nearer.analysis.encoded_task import EncodedTask, encode_tasks
from nearer.analysis.ratings import positive_threshold
from nearer.errors import InputError, first_line
from nearer.evaluation.measures import spearman
from nearer.evaluation.task import Scorer, Task
from nearer.typed_files import parse_json

Vectors = NDArray[Any] | Tensor
BLOCK = 1024  # rows whose cosines with all others are held at a time
THRESHOLD = 4.0  # of 5: "STS-B pairs with a score higher than 4" (SimCSE, footnote 3)


def unit(vectors: Vectors, what: str = "vectors", *, least: int = 1) -> Tensor:
    """Rows of length 1 in float64, where the vectors are; `what` names them if they cannot be used.

    A row of zeros has no direction and stays one: its cosine with everything is 0, as evaluation has it.
    """
    rows = vectors if isinstance(vectors, Tensor) else torch.from_numpy(np.ascontiguousarray(vectors))
    if rows.ndim != 2:
        raise InputError(f"{what}: of shape {tuple(rows.shape)}, one row a sentence is needed (sentences, dimension).")
    if len(rows) < least:
        raise InputError(f"{what}: {len(rows)} given, at least {least} are needed.")
    wrong = int((~rows.isfinite().all(dim=1)).sum())
    if wrong:
        raise InputError(
            f"{what}: {wrong:,} of {len(rows):,} are not finite numbers; the model that made them is broken."
        )
    return normalize(rows.double(), dim=-1, eps=1e-300)


@dataclass(frozen=True)
class Geometry:
    """One model's vectors of one text. Lower is better for alignment and uniformity.

    alignment: None where no pair is scored above the threshold. anisotropy: the mean cosine of two sentences.
    spectrum: singular values, the largest set to 1.
    """

    alignment: float | None
    uniformity: float
    anisotropy: float
    effective_rank: float
    spectrum: tuple[float, ...]
    sentences: int
    positives: int
    threshold: float


def measure_geometry(
    vectors: Vectors,
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    gold: NDArray[np.float64],
    *,
    threshold: float = THRESHOLD,
) -> Geometry:
    """vectors: of distinct sentences, each once; first, second: the rows of each pair's sentences."""
    points = unit(vectors, least=2)
    positive = gold > threshold
    spectrum = singular_spectrum(points)
    return Geometry(
        alignment=alignment(points[first[positive]], points[second[positive]]) if positive.any() else None,
        uniformity=uniformity(points),
        anisotropy=anisotropy(points),
        effective_rank=effective_rank(spectrum),
        spectrum=tuple(spectrum.tolist()),
        sentences=len(points),
        positives=int(positive.sum()),
        threshold=threshold,
    )


def positives(gold: NDArray[np.float64], threshold: float = THRESHOLD) -> NDArray[np.int64]:
    """Where the pairs stand that are scored above the threshold; that there are none is an error."""
    indices: NDArray[np.int64] = np.flatnonzero(gold > threshold)
    if not len(indices):
        highest = f"the highest gold score is {gold.max():g}" if len(gold) else "there are no pairs"
        raise InputError(f"alignment: no pair is scored above {threshold:g}, {highest}; set a lower threshold.")
    return indices


def alignment(first: Vectors, second: Vectors) -> float:
    """E ‖x − y‖² over positive pairs (SimCSE, Eq. 2), which are equal rows of `first` and `second`."""
    one, two = unit(first, "positive pairs"), unit(second, "positive pairs")
    if one.shape != two.shape:
        raise InputError(f"positive pairs: {tuple(one.shape)} beside {tuple(two.shape)}, equal shapes are needed.")
    return float((2 - 2 * (one * two).sum(dim=-1)).clamp(min=0).mean())


def uniformity(vectors: Vectors, *, block: int = BLOCK) -> float:
    """log E exp(−2 ‖x − y‖²) over all pairs of distinct rows (SimCSE, Eq. 3); 0 when all are alike, −4 at best.

    Exact, and never more than `block` rows of the matrix of cosines in memory.
    """
    points = unit(vectors, least=2).float()
    return uniformity_of(lambda rows, columns: points[rows] @ points[columns].T, len(points), block=block)


def uniformity_of(cosines: Callable[[slice, slice], Tensor], count: int, *, block: int = BLOCK) -> float:
    """The same from a function that gives the cosines (rows, columns) of any two ranges of `count` sentences."""
    totals = []
    for start in range(0, count, block):
        rows = slice(start, min(start + block, count))
        nearness = torch.exp(4 * cosines(rows, slice(start, count)).clamp(max=1) - 4)  # −2 (2 − 2 cos)
        size = rows.stop - rows.start
        own = nearness[:, :size].triu(diagonal=1)  # each pair once, no sentence beside itself
        totals.append(own.sum(dtype=torch.float64) + nearness[:, size:].sum(dtype=torch.float64))
    return math.log(float(torch.stack(totals).sum()) / (count * (count - 1) / 2))


def anisotropy(vectors: Vectors) -> float:
    """The mean cosine over all pairs of distinct rows: ‖Σ u‖² holds them all, and each row beside itself."""
    points = unit(vectors, least=2)
    total, own = points.sum(dim=0).square().sum(), points.square().sum()
    return float((total - own) / (len(points) * (len(points) - 1)))


def singular_spectrum(vectors: Vectors) -> NDArray[np.float64]:
    """Singular values of the matrix of unit vectors, not centred, falling, divided by the largest (SimCSE, F.1)."""
    values = torch.linalg.svdvals(unit(vectors)).cpu().numpy()
    if not values.max(initial=0) > 0:
        raise InputError("vectors: all are zero; they have no singular spectrum.")
    spectrum: NDArray[np.float64] = values / values[0]
    return spectrum


def effective_rank(spectrum: NDArray[np.float64]) -> float:
    """exp of the entropy of the singular values' shares (Roy and Vetterli, 2007): 1 for a line, k for k equal ones."""
    shares = spectrum[spectrum > 0] / spectrum.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


METRICS_FILE = "metrics.jsonl"


@dataclass(frozen=True)
class PathPoint:
    """One model on the way. score: Spearman's correlation in percent on the same pairs, None where undefined."""

    label: str
    alignment: float | None
    uniformity: float
    score: float | None = None
    step: int | None = None


def trace_path(
    models: Iterable[tuple[str, Scorer]],
    task: Task,
    *,
    threshold: float | None = None,
    batch_size: int | None = None,
    progress: bool = False,
) -> list[PathPoint]:
    """A point for each (label, model), in their order; they may be loaded as they are asked for.

    threshold: pairs scored above it are the positives; None for four fifths of the scale (4 of 5).
    """
    points = []
    for label, model in models:
        [encoded] = encode_tasks(model, [task], batch_size=batch_size, progress=progress)
        points.append(path_point(label, encoded, threshold))
    if not points:
        raise InputError("path: no models given, at least one is needed.")
    return points


def path_point(label: str, task: EncodedTask, threshold: float | None = None) -> PathPoint:
    chosen = positives(task.gold, positive_threshold(task.gold) if threshold is None else threshold)
    found = spearman(task.similarities, task.gold)
    return PathPoint(
        label=label,
        alignment=alignment(task.vectors[task.first[chosen]], task.vectors[task.second[chosen]]),
        uniformity=uniformity(task.vectors),
        score=None if found is None else 100 * found,
    )


def run_path(run: str | Path) -> list[PathPoint]:
    """What a run noted at each dev evaluation; alignment only where the run noted it too.

    A run keeps the weights of its last and its best step alone, so the way between is known from its metrics.
    """
    file = Path(run) / METRICS_FILE
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{run}: is not the folder of a run (no {METRICS_FILE}).") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read ({first_line(error)}).") from None
    lines = text.split("\n")[:-1]  # what follows the last line feed is still being written, or was when the run died
    noted = [_noted(line, file, number) for number, line in enumerate(lines, start=1)]
    points = [point for point in noted if point is not None]
    if not points:
        raise InputError(f"{file}: holds no uniformity; the run had no dev task (select_on).")
    return points


def _noted(line: str, file: Path, number: int) -> PathPoint | None:
    """The point of a line that was written at an evaluation; other lines hold losses."""
    try:
        values = parse_json(line)
        step = int(values["step"])
        if "uniformity" not in values:
            return None
        known = {name: float(values[name]) for name in ("alignment", "uniformity", "dev") if name in values}
    except (ValueError, KeyError, TypeError, OverflowError):
        raise InputError(f"{file}: line {number} is not what a run writes (a step and numbers, as JSON).") from None
    return PathPoint(f"step {step}", known.get("alignment"), known["uniformity"], known.get("dev"), step)
