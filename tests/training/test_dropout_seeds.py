"""Seeds of dropout: each portion of a step keeps its own, also where a model has no dropout at all."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nearer.training.working_copy import Noise


def test_a_model_without_dropout_has_no_seeds_to_draw() -> None:
    noise = Noise(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.0)))
    noise.draw(0)
    noise.use(0)
    assert noise.dropouts == []


def test_the_seeds_of_a_portion_outlast_the_drawing_of_the_next() -> None:
    pytest.importorskip("triton", reason="the kernels of dropout need Triton")
    noise = Noise(nn.Sequential(nn.Dropout(0.1), nn.Linear(2, 2), nn.Dropout(0.2)))
    torch.manual_seed(0)
    noise.draw(0)
    first = [dropout.seed for dropout in noise.dropouts]
    kept = [int(seed) for seed in first]
    noise.draw(1)
    assert [int(seed) for seed in first] == kept
    assert [int(dropout.seed) for dropout in noise.dropouts] != kept
    noise.use(0)
    assert [int(dropout.seed) for dropout in noise.dropouts] == kept
