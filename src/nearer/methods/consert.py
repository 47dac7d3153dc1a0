"""ConSERT: two views of a sentence differ by what is done to its embedded tokens, and contrast in both directions.

The paper's best pair is feature cut-off and shuffling; `embedding_views.py` has all of them.

The paper's adversarial noise follows the gradient of a supervised loss, so it is not for sentences alone and is left
out. The released code takes all test sentences for its text; which text is learnt from is the user's choice here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, Field
from torch import Tensor

from nearer.encoder import Encoder
from nearer.errors import InputError
from nearer.methods.bounds import Temperature
from nearer.methods.contract import Batch, Inputs, Losses, Method, Modules, Outputs
from nearer.methods.embedding_views import Augmentation, EmbeddingViews, EmbeddingViewSettings
from nearer.methods.facts import MethodFacts, Paper
from nearer.objectives import nt_xent
from nearer.text.reading import Reading


class ConSERTSettings(EmbeddingViewSettings):
    """What a ConSERT recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    temperature: Temperature = Field(0.1, description="τ: the smaller, the more the nearest negatives count")
    first_view: Augmentation = Field("feature_cutoff", description="what is done to the embeddings of the first view")
    second_view: Augmentation = Field("shuffle", description="what is done to the embeddings of the second view")


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
    views: EmbeddingViews

    def relies_on_dropout(self, data: str) -> bool:
        return not self.settings.changes_embeddings

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any] | None = None,
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        self.views = EmbeddingViews(encoder, self.settings)
        return []

    def inputs(self, batch: Batch) -> Inputs:
        if len(batch.fields) > 1:
            raise InputError("ConSERT learns from sentences alone: set data=sentences.")
        return Inputs(self.views.passes(batch.fields[0], batch.random))

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        vectors = outputs.vectors
        contrastive = nt_xent(vectors["first"], vectors["second"], temperature=self.settings.temperature)
        return Losses(contrastive, {"contrastive": contrastive})
