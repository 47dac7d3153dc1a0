"""Tiny encoders of five architectures, each with something that a graph must get right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from nearer.encoder import Encoder
from nearer.encoder.parts import Dense, Norm
from nearer.export import OnnxEncoder, OnnxExport

KINDS = ("bert", "roberta", "distilbert", "mpnet", "mobilebert")
TRACED = ("bert", "roberta", "mobilebert")  # in every run of the tests; the slow ones trace all
POOLING = {"bert": "cls", "roberta": "mean", "mobilebert": "last_token"}


class Exported(NamedTuple):
    encoder: Encoder
    onnx: OnnxEncoder
    made: OnnxExport


def short_encoder(tiny_model: Callable[[str], Path], kind: str, pooling: str, layers: int = 2) -> Encoder:
    """The tiny model with its first blocks only: tracing takes seconds for each."""
    encoder = Encoder.load(tiny_model(kind), pooling=pooling, device="cpu")
    backbone: Any = encoder.backbone
    stack = backbone.transformer if kind == "distilbert" else backbone.encoder
    stack.layer = nn.ModuleList(list(stack.layer)[:layers])
    backbone.config.num_hidden_layers = layers
    return encoder


def special_encoder(tiny_model: Callable[[str], Path], kind: str) -> Encoder:
    """bert: head, length 1, token types; roberta: full stops, a prompt that is not pooled; mobilebert: padding
    that must follow, layers behind the pooling."""
    encoder = short_encoder(tiny_model, kind, POOLING[kind], layers=1)
    torch.manual_seed(3)
    if kind == "bert":
        # a fresh [CLS] hardly depends on the words: all cosines would be 1 to the sixth digit, and scores mere rounding
        with torch.no_grad():
            for weight in encoder.backbone.encoder.parameters():  # type: ignore[union-attr]
                weight.mul_(20 if weight.dim() == 2 else 1)
        encoder.tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
        encoder.head = Dense(32, 32)
        encoder.settings = replace(encoder.settings, normalize=True)
    if kind == "roberta":
        prompts = {"query": "rain and lunch: ", "other": "a fox "}
        encoder.tokenizer.model_input_names = ["input_ids", "attention_mask"]
        encoder.settings = replace(
            encoder.settings,
            text_normalisation="full_stop",
            prompts=prompts,
            default_prompt="query",
            pool_prompt=False,
        )
    if kind == "mobilebert":
        encoder.projections = nn.ModuleList([Dense(32, 24, activation="GELU"), Norm(24)])
    return encoder.eval()
