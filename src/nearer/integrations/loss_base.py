"""What the losses for sentence-transformers share: settings, checked, and how text columns become embeddings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nearer.errors import InputError, SettingError
from nearer.extras import require

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
