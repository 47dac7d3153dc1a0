"""That a checkpoint's configuration asks for a model of about the size of its weights.

A number in `config.json` decides how many layers are made and how large they are, before any weight is read. One that
is wrong by a typing error, or meant to do harm, would take hours or all memory; the weights say what can be true.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from nearer.encoder.checkpoint_weights import stored_shapes
from nearer.errors import ModelError, first_line
from nearer.typed_files import read_json

# layers that share their weights (ALBERT) have fewer tensors than layers; no published model has a thousand
FEW_LAYERS = 1_000
COUNTS = re.compile(r"(layers?|blocks|depths?|stages|experts|heads|groups|group_num|repeats)$")
# what can be larger than the weights without harm: constants that a model makes for itself (positions, masks)
FREE_NUMBERS = 50_000_000
SMALL = 2**16


def check_numbers(folder: Path) -> bool:
    """Refuse more layers than there are weights for, in what `config.json` says before anything is made of it.

    Returns whether a number is larger than any dimension of the weights, so that `check_size` is worth its time.
    """
    shapes = stored_shapes(folder)
    most = max(FEW_LAYERS, len(shapes))
    largest = max([SMALL, *(size for shape in shapes.values() for size in shape)])
    suspicious = False
    for name, number in _numbers(read_json(folder / "config.json", dict[str, Any], error=ModelError)):
        if number > most and COUNTS.search(name):
            raise ModelError(
                f"{folder / 'config.json'}: says {name}: {number:,}, its weights are {len(shapes):,} tensors, "
                f"enough for {most:,} at most; get the model again, or mend the number."
            )
        suspicious = suspicious or number > largest
    return suspicious


def check_size(folder: Path, config: Any, family: Any, **options: Any) -> None:
    """Refuse a model that would be many times larger than its weights: made without memory, and counted."""
    try:
        with torch.device("meta"):
            model = family.from_config(config, **options)
    except Exception as error:  # transformers checks configurations in many ways
        raise ModelError(f"{folder}: config.json cannot be used ({first_line(error)}).") from error
    wanted = sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))
    stored = sum(math.prod(shape) for shape in stored_shapes(folder).values())
    if wanted > 2 * stored + FREE_NUMBERS:
        raise ModelError(
            f"{folder / 'config.json'}: describes a model of {wanted:,} numbers, its weights have {stored:,}; "
            "get the model again, or mend the sizes in it."
        )


def _numbers(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """All numbers of a configuration, each with the name of its setting."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _numbers(inner, str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _numbers(inner, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value
