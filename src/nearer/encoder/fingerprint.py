"""What a model is, as a short text: equal fingerprints, equal vectors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from nearer.encoder.encoder import Encoder
from nearer.encoder.parts import EncoderSettings
from nearer.text.tokenise import tokenizer_fingerprint


def encoder_fingerprint(encoder: Encoder) -> str:
    """A digest of the weights, the tokenizer and all settings that decide a sentence's vector at inference."""
    described = {
        "settings": _deciding_settings(encoder.settings),
        "config": deciding_config(encoder.backbone.config.to_dict()),  # type: ignore[operator,union-attr]
        "tokenizer": tokenizer_fingerprint(encoder.tokenizer),
        "projections": [_kind(layer) for layer in (encoder.head if encoder.keeps_head else None, *encoder.projections)],
    }
    weights = encoder.state_dict()
    if not encoder.keeps_head:
        weights = {name: tensor for name, tensor in weights.items() if not name.startswith("head.")}
    return digest_model(described, weights)


def digest_model(described: Mapping[str, Any], weights: Mapping[str, Tensor]) -> str:
    """A digest of what a model is told to be, and of its weights."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps(described, sort_keys=True, default=str).encode())
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _kind(layer: nn.Module | None) -> str:
    """What the names and shapes of its weights do not say."""
    return f"{type(layer).__name__} {getattr(layer, 'activation_name', '')}"


def _deciding_settings(settings: EncoderSettings) -> dict[str, Any]:
    """Without what changes no vector: then a model keeps the fingerprint that stores and indexes know it by."""
    described = asdict(settings)
    described["prompts"] = {name: text for name, text in settings.prompts.items() if text}
    if not settings.prompt(None):
        described["default_prompt"] = None
    if settings.truncate_dim is None:
        del described["truncate_dim"]
    if settings.template is None:
        del described["template"]
    return described


def deciding_config(config: dict[str, Any]) -> dict[str, Any]:
    """Without what may differ between two copies of a model, and without what matters in training only."""
    return {
        name: value
        for name, value in config.items()
        if not name.startswith("_")
        and not name.startswith("output_")  # a saved model is told to hand out its layers where they are pooled
        and name not in ("transformers_version", "architectures", "dtype", "torch_dtype")
        and "drop" not in name  # dropout, layerdrop, GPT-2's resid_pdrop
    }
