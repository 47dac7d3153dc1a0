"""The `label` column by which a teacher speaks to a loss that sees tokens only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nearer.encoder.comparing import unit_rows
from nearer.errors import InputError, SettingError
from nearer.extras import require

if TYPE_CHECKING:
    from datasets import Dataset

LABEL = "label"  # one of the names by which sentence-transformers' trainer finds labels


class Teacher(Protocol):
    """`nearer.Encoder`, `SentenceTransformer`, or anything else that encodes."""

    def encode(self, sentences: list[str], /) -> Any: ...


def teacher_labels(
    dataset: Dataset,
    teacher: Teacher | list[Teacher] | tuple[Teacher, ...],
    column: str | Sequence[str] = "sentence",
    *,
    weights: Sequence[float] | None = None,
) -> Dataset:
    """The data set with a column `label`: the teacher's embedding of each row's sentence, as a unit vector.

    Each unique sentence is encoded once; the labels are held in memory. column: the name of the text column, or of two
    (anchor, positive), whose embeddings then stand in the label one after the other. Of several teachers the embeddings
    are joined so that the cosine of two labels is the weighted mean of the teachers' cosines (RankCSE, §4.4: weights
    α and 1 − α, with α = 1/3 for the smaller teacher). Without weights all teachers count alike.
    """
    require("datasets", "hub", "teacher_labels")
    columns = [column] if isinstance(column, str) else list(column)
    texts = _texts(dataset, columns)
    # other iterables are not taken apart: a SentenceTransformer is one itself, of its modules
    teachers: list[Any] = list(teacher) if isinstance(teacher, list | tuple) else [teacher]
    shares = _shares(weights, len(teachers))
    row_of = {text: row for row, text in enumerate(dict.fromkeys(text for part in texts for text in part))}
    vectors = np.concatenate(
        [np.sqrt(share) * _encoded(one, list(row_of)) for share, one in zip(shares, teachers, strict=True)], axis=1
    ).astype(np.float32)
    rows = [vectors[[row_of[text] for text in part]] for part in texts]
    labels = list(rows[0]) if len(rows) == 1 else [list(pair) for pair in zip(*rows, strict=True)]
    return dataset.add_column(LABEL, labels)


def _texts(dataset: Dataset, columns: list[str]) -> list[list[str]]:
    from datasets import Dataset

    if not isinstance(dataset, Dataset):
        raise InputError(f"dataset: must be a datasets.Dataset, held whole; {type(dataset).__name__} given.")
    if len(columns) not in (1, 2):
        raise SettingError(f"column: must be one text column or two (anchor, positive); {len(columns)} given.")
    if missing := [name for name in columns if name not in dataset.column_names]:
        raise SettingError(
            f"column: {missing[0]!r} is not in the data set, which has {', '.join(dataset.column_names)}."
        )
    if LABEL in dataset.column_names:
        raise InputError(f"dataset: has a column {LABEL!r} already; dataset.remove_columns({LABEL!r}) takes it away.")
    if not len(dataset):
        raise InputError("dataset: has no rows.")
    texts = [list(dataset[name]) for name in columns]
    for name, part in zip(columns, texts, strict=True):
        for row, text in enumerate(part):
            if not isinstance(text, str):
                raise InputError(f"dataset: column {name!r}, row {row}: no text but {text!r}.")
    return texts


def _shares(weights: Sequence[float] | None, teachers: int) -> NDArray[np.float64]:
    given = np.ones(teachers) if weights is None else np.asarray(weights, dtype=np.float64)
    if teachers == 0 or given.shape != (teachers,):
        raise SettingError(f"weights: one for each teacher; {given.size} given for {teachers} teachers.")
    if not (np.isfinite(given) & (given > 0)).all():
        raise SettingError(f"weights: must be numbers above 0; {list(given.tolist())} given.")
    shares: NDArray[np.float64] = given / given.sum()
    return shares


def _encoded(teacher: Any, sentences: list[str]) -> NDArray[Any]:
    if isinstance(teacher, str | Path):
        raise SettingError(
            f"teacher: {str(teacher)!r} is a name; nearer.Encoder.load({str(teacher)!r}) loads the model."
        )
    if not callable(getattr(teacher, "encode", None)):
        raise SettingError(f"teacher: {type(teacher).__name__} has no encode(sentences).")
    found = teacher.encode(sentences)
    vectors = found.detach().float().cpu().numpy() if isinstance(found, Tensor) else np.asarray(found)
    if vectors.ndim != 2 or len(vectors) != len(sentences):
        expected = f"({len(sentences)}, dimension)"
        raise InputError(f"teacher: embeddings must be {expected}; {type(teacher).__name__} gave {vectors.shape}.")
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(broken):
        raise InputError(f"teacher: its embedding of {sentences[broken[0]][:60]!r} holds values that are not finite.")
    return unit_rows(vectors)
