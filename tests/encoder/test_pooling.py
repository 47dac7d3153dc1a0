"""Each pooling against an obvious version of itself: one sentence at a time, no masks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nearer.encoder.pooling import POOLINGS, check_pooling, pool
from nearer.errors import SettingError

LENGTHS = [5, 1, 3]


def by_hand(name: str, layers: list[Tensor]) -> Tensor:
    """layers: the states of one sentence without padding, (tokens, hidden) each."""
    last = layers[-1].double()
    if name in ("cls", "cls_before_head"):
        return last[0]
    if name == "last_token":
        return last[-1]
    if name == "max":
        return last.max(dim=0).values
    if name == "mean":
        return sum(last) / len(last)
    if name == "mean_sqrt_length":
        return sum(last) / len(last) ** 0.5
    if name == "weighted_mean":
        weights = [position + 1 for position in range(len(last))]
        return sum(weight * state for weight, state in zip(weights, last, strict=True)) / sum(weights)
    other = {"first_last_mean": 1, "embedding_last_mean": 0, "last_two_mean": len(layers) - 2}[name]
    return ((layers[other].double() + last) / 2).mean(dim=0)


def batch(padding: float) -> tuple[list[list[Tensor]], list[Tensor], Tensor]:
    """Three sentences of 4 layers: each without padding, all padded, and the mask."""
    generator = torch.Generator().manual_seed(3)
    alone = [[torch.randn(n, 6, generator=generator) for _ in range(4)] for n in LENGTHS]
    longest = max(LENGTHS) + 2
    padded = [torch.full((len(LENGTHS), longest, 6), padding) for _ in range(4)]
    for row, layers in enumerate(alone):
        for layer, states in enumerate(layers):
            padded[layer][row, : len(states)] = states
    mask = (torch.arange(longest) < torch.tensor(LENGTHS)[:, None]).long()
    return alone, padded, mask


@pytest.mark.parametrize("name", POOLINGS)
@pytest.mark.parametrize("padding", [0.0, 100.0, -100.0])
def test_equals_the_obvious_version_whatever_stands_in_the_padding(name: str, padding: float) -> None:
    alone, padded, mask = batch(padding)
    pooled = pool(name, padded[-1], padded, mask)
    for row, layers in enumerate(alone):
        torch.testing.assert_close(pooled[row].double(), by_hand(name, layers), atol=1e-5, rtol=1e-5)


def test_joined_poolings_stand_side_by_side_in_the_order_named() -> None:
    _, padded, mask = batch(0.0)
    joined = pool("mean+cls", padded[-1], None, mask)
    torch.testing.assert_close(joined[:, :6], pool("mean", padded[-1], None, mask))
    torch.testing.assert_close(joined[:, 6:], pool("cls", padded[-1], None, mask))


def test_sums_are_taken_in_float32_under_lower_precision() -> None:
    states = torch.full((1, 4096, 2), 1.0, dtype=torch.bfloat16)
    pooled = pool("mean", states, None, torch.ones(1, 4096, dtype=torch.long))
    torch.testing.assert_close(pooled.float(), torch.ones(1, 2))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("maen", "Did you mean 'mean'?"),
        ("", "is not one of"),
        ("mean+first_last_mean", "cannot be joined"),
        ("cls_before_head+mean", "cannot be joined"),
        ("mean+mean", "cannot be joined"),
    ],
)
def test_wrong_names_are_refused_with_a_hint(name: str, message: str) -> None:
    with pytest.raises(SettingError, match="pooling") as error:
        check_pooling(name)
    assert message in str(error.value)
