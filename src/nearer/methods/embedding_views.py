"""Views of a sentence that differ by what is done to its embedded tokens, as ConSERT has them.

A share of the features is cut (the same for all tokens of a sentence), a share of the tokens is cut, the tokens'
positions are shuffled, or nothing is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, Field

from nearer.encoder import Encoder
from nearer.errors import SettingError
from nearer.methods.contract import Ids, Pass

Augmentation = Literal["none", "feature_cutoff", "token_cutoff", "shuffle"]


class EmbeddingViewSettings(BaseModel):
    """What a recipe can set of it."""

    first_view: Augmentation = Field("none", description="what is done to the embeddings of the first view")
    second_view: Augmentation = Field("none", description="what is done to the embeddings of the second view")
    cutoff_rate: float = Field(0.2, gt=0, lt=1, description="share of the features or tokens that are cut")

    @property
    def changes_embeddings(self) -> bool:
        """In one view at least."""
        return (self.first_view, self.second_view) != ("none", "none")


class EmbeddingViews:
    """Two views of each sentence, each with its own change."""

    def __init__(self, encoder: Encoder, settings: EmbeddingViewSettings) -> None:
        kinds = (settings.first_view, settings.second_view)
        family = type(encoder.backbone).__name__
        if any("cutoff" in kind for kind in kinds) and not hasattr(encoder.backbone, "embeddings"):
            raise SettingError(f"first_view, second_view: {family} has no layer of embeddings that could be cut.")
        config: Any = encoder.backbone.config
        if "shuffle" in kinds and not hasattr(getattr(encoder.backbone, "embeddings", None), "position_embeddings"):
            raise SettingError(
                f"first_view, second_view: shuffle needs position embeddings, and {family} ({config.model_type}) has "
                "none; set token_cutoff or feature_cutoff."
            )
        self.settings = settings
        self.width = encoder.width

    def passes(self, rows: Sequence[Ids], random: np.random.Generator) -> dict[str, Pass]:
        return {
            "first": self._view(self.settings.first_view, rows, random),
            "second": self._view(self.settings.second_view, rows, random),
        }

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
