"""What the losses for sentence-transformers share: settings, checked; how text columns become embeddings; and how these
and the labels become the student's and the teacher's lists of scores, with every fault of labels named.

A teacher speaks to a loss, which sees tokens only, by the column `label`: `teacher_labels` makes it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nearer.encoder.comparing import unit_rows
from nearer.errors import InputError, SettingError
from nearer.extras import require
from nearer.objectives.similarity import at_least_float32, similarities

if TYPE_CHECKING:
    from datasets import Dataset


require("sentence_transformers", "sentence-transformers", "nearer.integrations.sentence_transformers")

try:  # passes columns of like width together; newer than version 5 and not among the library's documented functions
    from sentence_transformers.base.losses.merged_forward import embed_columns
except ImportError:

    def embed_columns(
        model: nn.Module, features_list: Iterable[dict[str, Any]], separate_first: bool = True
    ) -> list[Tensor]:
        return [model(features)["sentence_embedding"] for features in features_list]


Loss = Tensor | dict[str, Tensor]  # parts by name are what the trainer adds up and logs one by one

CHOICES = {"labels": ("embeddings", "scores"), "ranking": ("list_net", "list_mle")}
CITATION = """
@inproceedings{liu-etal-2023-rankcse,
    title = "{R}ank{CSE}: Unsupervised Sentence Representations Learning via Learning to Rank",
    author = "Liu, Jiduan and Liu, Jiahao and Wang, Qifan and Wang, Jingang and Wu, Wei and Xian, Yunsen and
      Zhao, Dongyan and Chen, Kai and Yan, Rui",
    booktitle = "Proceedings of the 61st Annual Meeting of the Association for Computational Linguistics",
    year = "2023",
    pages = "13785--13802",
    url = "https://arxiv.org/abs/2305.16726",
}
"""


class LossBase(nn.Module):
    """A loss as sentence-transformers' trainer and model card want it; settings: the arguments that make it again."""

    columns_are_lists = False  # each row holds a query and its own candidates

    def __init__(self, model: nn.Module, **settings: Any) -> None:
        super().__init__()
        check_settings(**settings)
        self.model = model
        self.settings = settings

    def forward(self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None) -> Loss:
        embeddings = self.embed(list(sentence_features))
        # mixed precision would round cosines to 8 bits: steps of 0.004, where τ3 is 0.0125
        with torch.autocast(embeddings[0].device.type, enabled=False):
            return self.compute_loss_from_embeddings(embeddings, labels)

    def embed(self, columns: list[dict[str, Any]]) -> list[Tensor]:
        """The student's embeddings, each (batch, dimension): the two views, or a query's and its candidates'."""
        name, found = type(self).__name__, len(columns)
        if self.columns_are_lists and found < 3:
            raise InputError(
                f"{name}: {found} text columns found; labels='scores' needs a query and 2 candidates at least."
            )
        if not self.columns_are_lists and found not in (1, 2):
            raise InputError(
                f"{name}: {found} text columns found, it takes 1 (sentence) or 2 (anchor, positive); "
                "dataset.select_columns leaves others out."
            )
        if found == 1:
            return embed_columns(self.model, [columns[0], dict(columns[0])], separate_first=False)
        return embed_columns(self.model, columns)

    def compute_loss_from_embeddings(self, embeddings: Sequence[Tensor], labels: Tensor | None) -> Loss:
        raise NotImplementedError

    def get_config_dict(self) -> dict[str, Any]:
        return dict(self.settings)

    @property
    def citation(self) -> str:
        return CITATION


def check_settings(**settings: Any) -> None:
    for name, value in settings.items():
        if name in CHOICES and value not in CHOICES[name]:
            raise SettingError(f"{name}: {value!r} is not one of {', '.join(CHOICES[name])}.")
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if name.endswith("temperature") and not (number and value > 0):
            raise SettingError(f"{name}: must be a number above 0; {value!r} given.")
        if name.endswith("_weight") and not (number and value >= 0):
            raise SettingError(f"{name}: must be a number, 0 or above; {value!r} given.")
        if name == "seed" and not (number and isinstance(value, int)):
            raise SettingError(f"seed: must be a whole number; {value!r} given.")
        if name in ("keep_diagonal", "log_parts") and not isinstance(value, bool):
            raise SettingError(f"{name}: must be True or False; {value!r} given.")


def batch_scores(embeddings: Sequence[Tensor]) -> Tensor:
    """The student's cosines of all first against all second views: (batch, batch)."""
    first, second = embeddings
    if len(first) < 2:
        raise InputError(
            "batch: 1 sentence has no others to be ranked against; the trainer's dataloader_drop_last=True leaves out "
            "the rest of an epoch that is smaller than a batch."
        )
    return similarities(first, second)


def list_scores(embeddings: Sequence[Tensor]) -> Tensor:
    """The student's cosines of each query with its own candidates: (batch, candidates)."""
    query, *candidates = map(at_least_float32, embeddings)
    return torch.cosine_similarity(query[:, None], torch.stack(candidates, dim=1), dim=-1)


def teacher_scores(labels: Tensor | None, student: Tensor) -> Tensor:
    """The teacher's cosines (batch, batch) from labels that are its embeddings, in float32.

    Labels (batch, dimension) serve both views. Labels (batch, 2, dimension) are of anchors and of positives.
    """
    given = _checked(
        labels, student, "the teacher's embeddings of the sentences; teacher_labels(dataset, teacher) adds them"
    )
    if given.dim() == 3 and given.shape[1] == 2:
        return similarities(given[:, 0], given[:, 1])
    if given.dim() != 2:
        raise InputError(
            f"labels: the teacher's embeddings must be ({len(student)}, dimension), or ({len(student)}, 2, dimension) "
            f"for pairs; {tuple(given.shape)} found. (Scores of listed candidates need labels='scores'.)"
        )
    return similarities(given, given)


def given_scores(labels: Tensor | None, student: Tensor) -> Tensor:
    """The teacher's scores (batch, candidates) from labels that are scores."""
    given = _checked(labels, student, "the teacher's scores of each query's candidates")
    if given.shape != student.shape:
        raise InputError(
            f"labels: the teacher's scores must be {tuple(student.shape)}, one for each candidate column; "
            f"{tuple(given.shape)} found."
        )
    return given


def _checked(labels: Tensor | None, student: Tensor, meaning: str) -> Tensor:
    if labels is None:
        raise InputError(f"labels: none found; the data set needs a column 'label' with {meaning}.")
    given = labels.detach().to(student.device, torch.float32)
    if given.dim() == 0 or len(given) != len(student):
        raise InputError(f"labels: must have {len(student)} rows, one a sentence; {tuple(given.shape)} found.")
    # on a GPU the look makes the CPU wait, as sentence-transformers' trainer does at every step anyway
    if not bool(torch.isfinite(given).all()):
        raise InputError("labels: hold values that are not finite numbers; they should be " + meaning + ".")
    return given


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
