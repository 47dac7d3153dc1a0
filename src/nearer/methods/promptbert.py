"""PromptBERT: a sentence in two templates, read at [MASK], predicts itself; what the templates alone say is taken off.

z_k = tanh(W (h_k − d_k) + b),  L = InfoNCE(z_1, z_2).  h_k is the state of [MASK] under template k, d_k the state of
[MASK] of that template without a sentence, its tokens at the positions that they have around the sentence ("template
denoising"). At inference the state of [MASK] under the first template is the vector, without head and denoising.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.encoder.parts import Dense
from nearer.errors import InputError
from nearer.methods.bounds import Temperature
from nearer.methods.contract import Batch, Inputs, Losses, Method, Modules, Outputs
from nearer.methods.facts import MethodFacts, Paper
from nearer.methods.prompt_views import PromptViews, TemplateText, training_head
from nearer.objectives import info_nce
from nearer.text.reading import Reading


class PromptBERTSettings(BaseModel):
    """What a PromptBERT recipe can set beside the loop's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    second_template: TemplateText = Field(
        "promptbert-untrained",
        description="template of the second view; that of the first is the model's (template)",
    )
    temperature: Temperature = Field(0.05, description="τ: the smaller, the more the nearest negatives count")
    denoising: bool = Field(True, description="take off what a template says without a sentence; false leaves it out")
    variant: Literal["paper", "released"] = Field(
        "paper",
        description="released: positions of the bare template count from 0, as in the released code; on RoBERTa they "
        "are then not those of the sentence",
    )


FACTS = MethodFacts(
    name="promptbert",
    title="PromptBERT",
    what="A sentence in one template, read at its [MASK], is to be nearer to itself in another than to the others.",
    needs="sentences, a model with a mask token",
    paper=Paper(
        "jiang2022promptbert",
        "PromptBERT: Improving BERT Sentence Embeddings with Prompts",
        (
            "Jiang, Ting",
            "Jiao, Jian",
            "Huang, Shaohan",
            "Zhang, Zihan",
            "Wang, Deqing",
            "Zhuang, Fuzhen",
            "Wei, Furu",
            "Huang, Haizhen",
            "Deng, Denvy",
            "Zhang, Qi",
        ),
        "Proceedings of the 2022 Conference on Empirical Methods in Natural Language Processing",
        2022,
    ),
    data=("sentences",),
    saves="an encoder with its template",
)


class PromptBERT(Method):
    """The method as the loop sees it."""

    facts = FACTS
    Settings = PromptBERTSettings
    settings: PromptBERTSettings
    views: PromptViews
    head: Dense

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any] | None = None,
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        self.views = PromptViews(encoder, self.settings.second_template, max_length)
        self.head = training_head(encoder)
        return []

    def modules(self) -> nn.ModuleDict:
        return nn.ModuleDict({"head": self.head})

    def inputs(self, batch: Batch) -> Inputs:
        if len(batch.fields) > 1:
            raise InputError("PromptBERT learns from sentences alone: set data=sentences.")
        first = self.views.in_first(batch.fields[0])
        second = self.views.in_second(batch.fields[0])
        passes = {"first": first, "second": second}
        if self.settings.denoising:
            from_zero = self.settings.variant == "released"
            passes["bare first"] = self.views.bare(self.views.first, first.rows, from_zero=from_zero)
            passes["bare second"] = self.views.bare(self.views.second, second.rows, from_zero=from_zero)
        return Inputs(passes)

    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        vectors = outputs.vectors
        first, second = vectors["first"], vectors["second"]
        if self.settings.denoising:
            first, second = first - vectors["bare first"], second - vectors["bare second"]
        head = modules["head"]
        contrastive = info_nce(head(first), head(second), temperature=self.settings.temperature)
        return Losses(contrastive, {"contrastive": contrastive})
