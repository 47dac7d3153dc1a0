"""The choice of a token against the equation and against frequencies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from nearer.construct.engines.decoding import FAULTY, TokenSampling, directed, drawn
from nearer.construct.requests import Request


@given(seed=st.integers(0, 10_000), guidance=st.floats(0, 4))
def test_scores_are_equation_4_up_to_a_constant(seed: int, guidance: float) -> None:
    near, far = torch.randn(2, 3, 11, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 4
    printed = (1 + guidance) * near.log_softmax(-1) - guidance * far.log_softmax(-1)
    difference = directed(near, far, torch.full((3,), guidance, dtype=torch.float64)) - printed
    assert torch.allclose(difference, difference[:, :1].expand(-1, 11), atol=1e-9)


def test_greedy_takes_the_best() -> None:
    near, far = torch.tensor([[1.0, 2.0, 1.9]]), torch.tensor([[0.0, 2.0, 0.0]])
    assert TokenSampling().choose(near, far, torch.tensor([0.0])).tolist() == [1]
    assert TokenSampling().choose(near, far, torch.tensor([1.5])).tolist() == [2]


@pytest.mark.parametrize("choosing", [TokenSampling(), TokenSampling(0.7), TokenSampling(0.7, 0.9)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_without_guidance_the_far_context_is_not_needed(choosing: TokenSampling, dtype: torch.dtype) -> None:
    near, far = torch.randn(2, 8, 3000, generator=torch.Generator().manual_seed(0)).to(dtype) * 4
    draws, nobody = torch.linspace(0, 0.99, 8, dtype=torch.float64), torch.zeros(8)
    assert choosing.choose(near, None, nobody, draws).tolist() == choosing.choose(near, far, nobody, draws).tolist()


@pytest.mark.parametrize("settings", [{}, {"temperature": 1.0}, {"temperature": 1.0, "top_p": 0.5}])
def test_what_is_no_number_is_marked(settings: dict[str, float]) -> None:
    near = torch.tensor([[1.0, float("nan")], [3.0, 1.0]])
    tokens = TokenSampling(**settings).choose(near, near, torch.zeros(2), torch.tensor([0.5, 0.5], dtype=torch.float64))
    assert tokens.tolist() == [FAULTY, 0]


@pytest.mark.parametrize("top_p", [1.0, 0.7])
def test_draws_have_the_distribution(top_p: float) -> None:
    near, far = torch.tensor([[1.0, 0.2, -0.5, 0.8]]), torch.tensor([[0.0, 0.1, 0.0, 0.9]])
    choosing = TokenSampling(temperature=0.7, top_p=top_p, seed=1)
    draws = torch.from_numpy(np.concatenate([choosing.draws(Request(number, 2, ""), 50) for number in range(100)]))
    count = len(draws)
    tokens = choosing.choose(near.expand(count, -1), far.expand(count, -1), torch.full((count,), 0.5), draws)
    expected = torch.softmax((1.5 * near.log_softmax(-1) - 0.5 * far.log_softmax(-1)) / 0.7, -1)[0].double()
    order = expected.argsort(descending=True)
    kept = order[: int((expected[order].cumsum(0) < top_p).sum()) + 1]
    expected = torch.zeros(4, dtype=torch.float64).index_put((kept,), expected[kept])
    expected /= expected.sum()
    found = torch.bincount(tokens, minlength=4)
    assert found[expected == 0].sum() == 0
    alive = expected > 0
    assert chisquare(found[alive], expected[alive] * count).pvalue > 0.01


def test_draws_follow_from_the_request() -> None:
    choosing = TokenSampling(temperature=1.0, seed=3)
    assert (choosing.draws(Request(5, 1, ""), 8) == choosing.draws(Request(5, 1, ""), 20)[:8]).all()
    assert (choosing.draws(Request(5, 1, ""), 8) != choosing.draws(Request(5, 2, ""), 8)).any()
    assert (choosing.draws(Request(5, 1, ""), 8) != choosing.draws(Request(1, 5, ""), 8)).any()


@pytest.mark.parametrize("spread", [0.01, 1.0, 4.0])  # nearly uniform: a thousand tokens do not hold the mass
def test_a_long_vocabulary_gives_the_tokens_of_a_whole_sort(spread: float) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = (spread * torch.randn(6, 5000, generator=generator)).bfloat16().float()  # with many ties
    draws = torch.tensor([0.0, 0.1, 0.5, 0.9, 0.99, 0.999999], dtype=torch.float64)
    found = drawn(scores, draws, 0.8, 0.9)
    for row, number, token in zip(scores.double(), draws.tolist(), found.tolist(), strict=True):
        likely = torch.softmax(row / 0.8, dim=0).tolist()
        order = sorted(range(len(likely)), key=lambda one: (-likely[one], one))
        kept, mass = [], 0.0
        for one in order:
            if mass >= 0.9:
                break
            kept.append(one)
            mass += likely[one]
        passed, wanted = 0.0, kept[-1]
        for one in kept:
            passed += likely[one]
            if passed > number * mass:
                wanted = one
                break
        assert token == wanted


def test_a_greedy_request_is_greedy_beside_others() -> None:
    choosing = TokenSampling(1.0, 0.9, 3)
    scores = torch.tensor([[0.0, 1.0, 0.9], [0.0, 1.0, 0.9]]).expand(2, 3)
    requests = [Request(0, 0, "", greedy=True), Request(1, 0, "")]
    chosen = set()
    for number in range(30):
        draws = torch.from_numpy(np.array([choosing.draws(replace(one, number=number), 4)[0] for one in requests]))
        tokens = choosing.choose(scores, scores, torch.zeros(2), draws).tolist()
        assert tokens[0] == 1
        chosen.add(tokens[1])
    assert len(chosen) > 1
