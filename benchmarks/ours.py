"""Our own training steps, as a run takes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from nearer.encoder import Encoder
from nearer.methods import METHODS, Method
from nearer.text.reading import Reading, ReadOptions
from nearer.text.scored_lists import ScoredLists
from nearer.text.shapes import SHAPES
from nearer.training.corpus import open_corpus
from nearer.training.settings import TrainingSettings
from nearer.training.trainer import Trainer


class Steps:
    """Optimiser steps of a method; `advance` returns before a GPU has done its work."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    @property
    def start_up_seconds(self) -> float:
        return self._trainer.start_up_seconds

    def advance(self) -> None:
        self._trainer.advance()

    def synchronize(self) -> None:
        if self._trainer.device.type == "cuda":
            torch.cuda.synchronize()

    def close(self) -> None:
        self._trainer.close()

    def tokens_a_step(self, steps: int = 16) -> float:
        """That pass the encoder, the mean over so many steps."""
        trainer = self._trainer
        batches = [trainer.method.inputs(trainer.feed.batch(number)) for number in range(steps)]
        rows = [row for inputs in batches for each in inputs.passes.values() for row in each.rows]
        return sum(map(len, rows)) / steps


def training_steps(
    encoder_folder: str | Path,
    corpus_path: str | Path,
    *,
    batch_size: int,
    max_length: int = 32,
    compile: bool = True,
    precision: str = "auto",
    piece: int | None = None,
    device: str | None = None,
    method: str = "simcse",
    method_settings: Mapping[str, Any] | None = None,
    data: str = "sentences",
) -> Steps:
    """Of SimCSE, or of another method, on sentences or on other `data`."""
    settings = TrainingSettings.model_validate(
        {
            "method": method,
            "model": str(encoder_folder),
            "pooling": "cls_before_head",
            "head": True,
            "data": data,
            "batch_size": batch_size,
            "max_length": max_length,
            "epochs": 1000,  # more steps than anybody measures
            "compile": compile,
            "precision": precision,
            "piece": piece,
        }
    )
    encoder = Encoder.load(encoder_folder, pooling=settings.pooling, device=device)
    encoder.add_head(torch.Generator().manual_seed(0))
    method_class = METHODS[method]
    made: Method = method_class(method_class.Settings.model_validate(dict(method_settings or {})))
    reading: Reading[Any] = Reading(corpus_path, SHAPES[data], ReadOptions())
    if data == "scored":
        reading = ScoredLists(corpus_path, ReadOptions())
    made.prepare(encoder, reading, max_length=max_length if data == "scored" else None)
    store, _ = open_corpus(reading, encoder, made, max_length, progress=False)
    return Steps(Trainer(encoder, made, store, settings))
