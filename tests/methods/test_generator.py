"""Tokens are drawn as the generator's shares say, by the numbers that came with the batch."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import pytest
import torch

from nearer.methods.contract import Tokens
from nearer.methods.generator import drawn


def tokens(uniform: list[float]) -> Tokens:
    count = len(uniform)
    labels = {"uniform": torch.tensor(uniform)}
    return Tokens(torch.zeros(count, 1), torch.zeros(count).long(), torch.ones(count).bool(), labels)


@pytest.mark.parametrize("vocabulary", [3, 128, 129, 1000])
@hypothesis.given(st.integers(0, 2**31), st.lists(st.floats(0, 1, exclude_max=True, width=32), min_size=1, max_size=8))
def test_they_are_those_of_all_shares_summed_up(vocabulary: int, seed: int, uniform: list[float]) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = 4 * torch.randn(len(uniform), vocabulary, generator=generator)
    found = drawn(logits, tokens(uniform))
    up_to = logits.double().softmax(dim=-1).cumsum(dim=-1)
    for row, (token, number) in enumerate(zip(found.tolist(), uniform, strict=True)):
        before = float(up_to[row, token - 1]) if token else 0.0
        assert before - 1e-5 <= number <= float(up_to[row, token]) + 1e-5


def test_what_has_no_share_is_never_drawn() -> None:
    logits = torch.full((4, 300), float("-inf"))
    logits[:, [5, 131]] = 0.0
    almost = float(torch.tensor(1.0).nextafter(torch.tensor(0.0)))
    assert drawn(logits, tokens([1e-6, 0.4999, 0.5001, almost])).tolist() == [5, 5, 131, 131]
