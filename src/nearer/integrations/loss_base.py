"""What the losses for sentence-transformers share: settings, checked; how text columns become embeddings; and how these
and the labels become the student's and the teacher's lists of scores, with every fault of labels named."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nearer.errors import InputError, SettingError
from nearer.extras import require
from nearer.objectives.similarity import at_least_float32, similarities

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
