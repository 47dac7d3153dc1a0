"""Two views of each sentence, for methods whose views are a setting: as SimCSE, ConSERT or PromptBERT have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
from pydantic import Field, model_validator
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.encoder.parts import Dense
from nearer.encoder.views import views_differ
from nearer.methods.contract import Ids, Modules, Pass
from nearer.methods.embedding_views import EmbeddingViews, EmbeddingViewSettings
from nearer.methods.prompt_views import PromptViews, TemplateText, training_head


class SentenceViewSettings(EmbeddingViewSettings):
    """What a recipe can set of the views."""

    second_template: TemplateText | None = Field(
        None,
        description="template of the second view; both views then pass a head that is for training only, as in "
        "PromptBERT. null: both are in the model's own template, if it has one",
    )

    @model_validator(mode="after")
    def _one_kind_of_views(self) -> Self:
        if self.second_template is not None and self.changes_embeddings:
            raise ValueError(
                "second_template: first_view and second_view are for views in one template; set one or the other"
            )
        return self

    @property
    def views_differ_by_dropout(self) -> bool:
        """And by nothing else."""
        return self.second_template is None and not self.changes_embeddings


class SentenceViews:
    """By dropout; by what is done to embeddings; or, with `second_template`, in two templates and through a head.

    may_be_one: where both views are the same, compute one pass and take it for both.
    """

    prompts: PromptViews | None = None
    embeddings: EmbeddingViews | None = None
    head: Dense | None = None
    one = False

    def __init__(
        self,
        encoder: Encoder,
        settings: SentenceViewSettings,
        max_length: int | None,
        *,
        may_be_one: bool = False,
    ) -> None:
        if settings.second_template is not None:
            self.prompts = PromptViews(encoder, settings.second_template, max_length)
            self.head = training_head(encoder)
        elif settings.changes_embeddings:
            self.embeddings = EmbeddingViews(encoder, settings)
        elif may_be_one:
            self.one = not views_differ(encoder)

    def modules(self) -> dict[str, nn.Module]:
        return {} if self.head is None else {"head": self.head}

    def passes(self, rows: Sequence[Ids], random: np.random.Generator) -> dict[str, Pass]:
        if self.prompts is not None:
            return {"first": self.prompts.in_first(rows), "second": self.prompts.in_second(rows)}
        if self.embeddings is not None:
            return self.embeddings.passes(rows, random)
        return {"first": Pass(rows)} if self.one else {"first": Pass(rows), "second": Pass(rows)}

    def vectors(self, of_passes: Mapping[str, Tensor], modules: Modules) -> tuple[Tensor, Tensor]:
        first = of_passes["first"]
        second = first if self.one else of_passes["second"]
        if self.head is None:
            return first, second
        head = modules["head"]
        return head(first), head(second)
