"""Our own training steps, as a run takes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from nearer.distributed import local_device
from nearer.methods import Method, known_methods
from nearer.text.reading import Reading, ReadOptions
from nearer.text.scored_lists import ScoredLists
from nearer.text.shapes import SHAPES
from nearer.training.corpus import open_corpus
from nearer.training.recipes import check_recipe
from nearer.training.starting_encoder import starting_encoder
from nearer.training.trainer import Trainer

SIMCSE = {"method": "simcse", "pooling": "cls_before_head", "head": True}


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
    model_folder: str | Path,
    corpus_path: str | Path,
    *,
    batch_size: int,
    max_length: int = 32,
    compile: bool = True,
    recipe: Mapping[str, Any] = SIMCSE,
) -> Steps:
    """Of SimCSE, or of any other recipe's method and data.

    max_length: tokens of a text with those that the tokenizer adds; the words of a template come on top.
    """
    bench = {
        "model": str(model_folder),
        "batch_size": batch_size,
        "max_length": max_length,
        "epochs": 1000,  # more steps than anybody measures
        "max_steps": None,
        "accumulation": 1,
        "compile": compile,
        "precision": "auto",
    }
    checked = check_recipe({**recipe, **bench}, "bench")
    method: Method = known_methods()[checked.training.method](checked.method)
    encoder, settings, _ = starting_encoder(checked.training, method, local_device())
    if (template := encoder.settings.template) is not None:
        settings = settings.model_copy(update={"max_length": max_length + template.size - sum(template.special)})
    reading: Reading[Any]
    if settings.data == "scored":
        reading = ScoredLists(corpus_path, ReadOptions())
    else:
        reading = Reading(corpus_path, SHAPES[settings.data], ReadOptions())
    store, _ = open_corpus(reading, encoder, method, settings.longest, progress=False)
    method.prepare(encoder, reading, max_length=settings.longest)
    return Steps(Trainer(encoder, method, store, settings))
