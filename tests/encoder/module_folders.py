"""Folders of sentence-transformers to load, and the check that our vectors are theirs, both ways."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers import models as modules

from nearer.encoder import Encoder
from nearer.encoder.fingerprint import encoder_fingerprint

Tiny = Callable[[str], Path]


def saved(folder: Path, *steps: torch.nn.Module, **options: object) -> SentenceTransformer:
    theirs = SentenceTransformer(modules=list(steps), device="cpu", **options)
    theirs.save(str(folder))
    return theirs


def pooled(tiny_model: Tiny, mode: str = "mean", **config: object) -> list[torch.nn.Module]:
    return [modules.Transformer(str(tiny_model("bert")), config_kwargs=config), modules.Pooling(32, pooling_mode=mode)]


def check_both_ways(
    folder: Path, expected: np.ndarray, sentences: list[str], tmp_path: Path, **options: str
) -> Encoder:
    """That we give these vectors, also saved and loaded again, and sentence-transformers does of what we saved."""
    ours = Encoder.load(folder, device="cpu", **options)
    np.testing.assert_allclose(ours.encode(sentences), expected, atol=1e-5)
    assert ours.dimension == expected.shape[1]
    ours.save(tmp_path / "again")
    back = Encoder.load(tmp_path / "again", device="cpu")
    np.testing.assert_array_equal(back.encode(sentences), ours.encode(sentences))
    assert encoder_fingerprint(back) == encoder_fingerprint(ours)
    theirs = SentenceTransformer(str(tmp_path / "again"), device="cpu")
    np.testing.assert_allclose(theirs.encode(sentences), expected, atol=1e-5)
    return ours


def dense(size_in: int, size_out: int) -> modules.Dense:
    return modules.Dense(size_in, size_out, activation_function=torch.nn.GELU())
