"""Which token comes next: Eq. 4 of the paper on ranking sentences, then the best one or a draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nearer.errors import ModelError, SettingError
from nearer.units import LARGEST_SEED

FAULTY = -1  # in place of a token where the model gave no numbers


@dataclass(frozen=True)
class Choosing:
    """temperature 0: the best token (greedy). Otherwise one is drawn, from the likeliest with `top_p` of the mass."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise SettingError(f"temperature: {self.temperature} cannot be used, take 0 (greedy) or a positive number.")
        if not 0 < self.top_p <= 1:
            raise SettingError(f"top_p: {self.top_p} is not within (0, 1].")
        if not 0 <= self.seed <= LARGEST_SEED:
            raise SettingError(f"seed: {self.seed} is not from 0 to {LARGEST_SEED}.")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    def described(self) -> str:
        if self.greedy:
            return "greedy"
        return f"sampled, temperature {self.temperature:g}, top_p {self.top_p:g}, seed {self.seed}"

    def draws(self, number: int, step: int, tokens: int) -> npt.NDArray[np.float64]:
        """Numbers in [0, 1), one for each token of a request, that follow from seed, number and step alone."""
        if self.greedy:
            return np.zeros(tokens)
        return np.random.default_rng([self.seed, number, step]).random(tokens)

    def choose(self, near: Tensor, far: Tensor, guidance: Tensor, draws: Tensor | None = None) -> Tensor:
        """Logits (requests, vocabulary) under both contexts, guidance (requests) → tokens (requests).

        FAULTY where the scores are not numbers.
        """
        scores = directed(near, far, guidance)
        if draws is None or self.greedy:
            best = scores.max(dim=-1)
            return torch.where(best.values.isnan(), FAULTY, best.indices)
        return drawn(scores, draws, self.temperature, self.top_p)


def directed(near: Tensor, far: Tensor, guidance: Tensor) -> Tensor:
    """(1 + λ) log p_near − λ log p_far (Eq. 4), up to a constant for each request, in float32 (or float64).

    The normalisers of both softmaxes are such constants, so logits do: neither the best token nor the distribution
    over tokens depends on them.
    """
    if near.dtype != torch.float64:
        near, far, guidance = near.float(), far.float(), guidance.float()
    return near + guidance[:, None] * (near - far)


def drawn(scores: Tensor, draws: Tensor, temperature: float, top_p: float) -> Tensor:
    """The token at which the cumulated probability passes the draw; in float64, since 10⁵ small numbers are summed."""
    faulty = scores.amax(dim=-1).isnan()
    likely = torch.softmax(scores.double() / temperature, dim=-1)
    order = None
    if top_p < 1:
        likely, order = likely.sort(dim=-1, descending=True, stable=True)
        before = likely.cumsum(dim=-1) - likely
        likely = likely.masked_fill(before >= top_p, 0.0)  # the first always stays
    mass = likely.cumsum(dim=-1)
    at = torch.searchsorted(mass, (draws[:, None] * mass[:, -1:]), right=True)
    at = at.clamp(max=scores.shape[-1] - 1)
    tokens = at[:, 0] if order is None else order.gather(1, at)[:, 0]
    return torch.where(faulty, FAULTY, tokens)


def check_tokens(tokens: npt.NDArray[np.int64], model: str) -> None:
    if (tokens == FAULTY).any():
        raise ModelError(
            f"{model}: gave NaN instead of scores for the next token; its weights are damaged, or the precision is too "
            "low for it (try float32)."
        )
