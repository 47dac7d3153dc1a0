"""The arithmetic of a step, counted by hand and by torch."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.floor import LayerSizes, floor_seconds

LENGTHS = np.array([2, 3])


def test_by_hand() -> None:
    sizes = LayerSizes(layers=2, width=4, intermediate=8)
    # a token: query, key, value and output 4 × (4 · 4), up and down 2 × (4 · 8), two operations each
    linear = 2 * (4 * 16 + 2 * 32) * (2 + 3)
    # a sentence: each token's product with each, and as many weighted values
    attention = 2 * 2 * 4 * (2 * 2 + 3 * 3)
    assert sizes.forward_operations(LENGTHS) == 2 * (linear + attention)
    # ten sentences, two views, forward and twice that backward
    assert floor_seconds(sizes, LENGTHS, 10, rate=1e6) == pytest.approx(3 * 2 * 10 * (linear + attention) / 1e6)


def test_as_torch_counts_them() -> None:
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96)
    config._attn_implementation = "eager"
    model = BertModel(config, add_pooling_layer=False).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        for length in LENGTHS:
            model(input_ids=torch.ones(1, int(length), dtype=torch.long))
    sizes = LayerSizes.of(config)
    assert sizes is not None
    assert sizes.forward_operations(LENGTHS) == counter.get_total_flops()


def test_layers_of_another_kind_are_not_counted() -> None:
    assert LayerSizes.of(SimpleNamespace(model_type="mobilebert")) is None
