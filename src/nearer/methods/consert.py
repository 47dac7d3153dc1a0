"""ConSERT: two views of a sentence differ by what is done to its embedded tokens, and contrast in both directions.

Each view has one augmentation: a share of the features is cut (the same for all tokens of a sentence), a share of the
tokens is cut, the tokens' positions are shuffled, or nothing. The paper's best pair is feature cut-off and shuffling.

The paper's adversarial noise follows the gradient of a supervised loss, so it is not for sentences alone and is left
out. The released code takes all test sentences for its text; which text is learnt from is the user's choice here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.methods.bounds import Temperature
from nearer.methods.contract import Batch, Ids, Inputs, Losses, Method, Modules, Outputs, Pass
from nearer.methods.facts import MethodFacts, Paper
from nearer.objectives import nt_xent
from nearer.text.reading import Reading

Augmentation = Literal["none", "feature_cutoff", "token_cutoff", "shuffle"]


class ConSERTSettings(BaseModel):
    """What a ConSERT recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    temperature: Temperature = Field(0.1, description="τ: the smaller, the more the nearest negatives count")
    first_view: Augmentation = Field("feature_cutoff", description="what is done to the embeddings of the first view")
    second_view: Augmentation = Field("shuffle", description="what is done to the embeddings of the second view")
    cutoff_rate: float = Field(0.2, gt=0, lt=1, description="share of the features or tokens that are cut")


FACTS = MethodFacts(
    name="consert",
    title="ConSERT",
    what="Two views of a sentence, with features cut and with positions shuffled, are to be nearer than all others.",
    needs="sentences, a model with position embeddings",
    paper=Paper(
        "yan2021consert",
        "ConSERT: A Contrastive Framework for Self-Supervised Sentence Representation Transfer",
        ("Yan, Yuanmeng", "Li, Rumei", "Wang, Sirui", "Zhang, Fuzheng", "Wu, Wei", "Xu, Weiran"),
        "Proceedings of the 59th Annual Meeting of the Association for Computational Linguistics and the 11th "
        "International Joint Conference on Natural Language Processing (Volume 1: Long Papers)",
        2021,
    ),
    data=("sentences",),
)


class ConSERT(Method):
    """The method as the loop sees it."""

    facts = FACTS
    Settings = ConSERTSettings
    settings: ConSERTSettings
    width = 0

    def relies_on_dropout(self, data: str) -> bool:
        return self.settings.first_view == self.settings.second_view == "none"

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any] | None = None,
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        kinds = (self.settings.first_view, self.settings.second_view)
        family = type(encoder.backbone).__name__
        if any("cutoff" in kind for kind in kinds) and not hasattr(encoder.backbone, "embeddings"):
            raise SettingError(f"first_view, second_view: {family} has no layer of embeddings that could be cut.")
        config: Any = encoder.backbone.config
        if "shuffle" in kinds and not hasattr(getattr(encoder.backbone, "embeddings", None), "position_embeddings"):
            raise SettingError(
                f"first_view, second_view: shuffle needs position embeddings, and {family} ({config.model_type}) has "
                "none; set token_cutoff or feature_cutoff."
            )
        self.width = encoder.width
        return []

    def inputs(self, batch: Batch) -> Inputs:
        if len(batch.fields) > 1:
            raise InputError("ConSERT learns from sentences alone: set data=sentences.")
        rows = batch.fields[0]
        settings = self.settings
        return Inputs(
            {
                "first": self._view(settings.first_view, rows, batch.random),
                "second": self._view(settings.second_view, rows, batch.random),
            }
        )

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        vectors = outputs.vectors
        contrastive = nt_xent(vectors["first"], vectors["second"], temperature=self.settings.temperature)
        return Losses(contrastive, {"contrastive": contrastive})

    def _view(self, kind: Augmentation, rows: Sequence[Ids], random: np.random.Generator) -> Pass:
        rate = self.settings.cutoff_rate
        if kind == "feature_cutoff":
            return Pass(rows, kept_features=[_kept(self.width, rate, random) for _ in rows])
        if kind == "token_cutoff":
            return Pass(rows, kept_tokens=[_kept(len(ids), rate, random) for ids in rows])
        if kind == "shuffle":  # special tokens too, as in the released code
            return Pass(rows, positions=[random.permutation(len(ids)) for ids in rows])
        return Pass(rows)


def _kept(count: int, rate: float, random: np.random.Generator) -> np.ndarray:
    """Which of so many are kept: all but a share, and at least one."""
    kept = np.ones(count, dtype=bool)
    kept[random.permutation(count)[: min(int(rate * count), count - 1)]] = False
    return kept
