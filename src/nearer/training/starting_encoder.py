"""The encoder that a run starts from, with dropout where it alone makes two views of a sentence differ.

Where views do not differ, contrast has nothing to teach.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from nearer.encoder import Encoder
from nearer.encoder.backbone import DROPOUT_RATES
from nearer.encoder.views import views_differ
from nearer.errors import ModelError, PoolingError, SettingError
from nearer.methods import Method
from nearer.training.settings import TrainingSettings

# SimCSE's rate, for checkpoints whose own is 0
VIEW_DROPOUT = 0.1
# Settings that decide how a checkpoint is read, beside its name and dropout
LOADED_BY = ("pooling", "template", "text_normalisation", "pooler_as_head", "allow_pickle")


def starting_encoder(
    settings: TrainingSettings, method: Method, device: torch.device
) -> tuple[Encoder, TrainingSettings, list[str]]:
    """The encoder to start from, with dropout where the method's views need it; settings as used, and remarks."""
    remarks: list[str] = []
    if method.relies_on_dropout(settings.data):

        def load(dropout: float | None) -> Encoder:
            return load_checkpoint(settings.model_copy(update={"dropout": dropout}), device)

        encoder, dropout, remarks = load_with_views(load, settings.model, settings.dropout)
        settings = settings.model_copy(update={"dropout": dropout})
    else:
        encoder = load_checkpoint(settings, device)
    if settings.head:
        encoder.add_head(torch.Generator().manual_seed(settings.seed))
    return encoder, settings, remarks


def load_checkpoint(settings: TrainingSettings, device: torch.device) -> Encoder:
    """As it is, with the pooling and template that the settings name."""
    try:
        encoder = Encoder.load(
            settings.model,
            device=device,
            dropout=settings.dropout,
            **{name: getattr(settings, name) for name in LOADED_BY},
        )
    except PoolingError:
        raise PoolingError(
            f"{settings.model}: a plain checkpoint, which does not say how its vectors are pooled; name the pooling "
            "(--set pooling=cls, or mean, first_last_mean …), or give a trained model (--model)."
        ) from None
    if encoder.is_static:
        raise ModelError(f"{settings.model}: has static embeddings, which are not trained here; it can be a teacher.")
    return encoder


def load_with_views(
    load: Callable[[float | None], Encoder], model: str, dropout: float | None
) -> tuple[Encoder, float | None, list[str]]:
    """An encoder whose dropout makes views differ, the rate it was loaded with (None: its own), and remarks.

    dropout: what the recipe asks for. One that leaves the views equal is an error, and so is a model without any.
    """
    encoder = load(dropout)
    if views_differ(encoder):
        return encoder, dropout, []
    if dropout == 0:
        raise SettingError(
            "dropout: 0 leaves both views of a sentence equal, and nothing is learnt from them; set "
            f"dropout={VIEW_DROPOUT} (or simcse's augmentation=word_deletion; fixed_masks=true asks for equal views)."
        )
    config: Any = encoder.backbone.config
    if dropout is None and any(hasattr(config, name) for name in DROPOUT_RATES):
        encoder = load(VIEW_DROPOUT)
        if views_differ(encoder):
            remark = (
                f"dropout: {model} has none of its own, and dropout alone tells two views of a sentence apart: set to "
                f"{VIEW_DROPOUT} (--set dropout=… for another rate)"
            )
            return encoder, VIEW_DROPOUT, [remark]
    raise ModelError(
        f"{model}: its architecture ({config.model_type}) has no dropout, so both views of a sentence are equal and "
        "nothing is learnt from them; use method simcse with augmentation=word_deletion, or learn from pairs."
    )
