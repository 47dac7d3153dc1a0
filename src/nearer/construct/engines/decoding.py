"""Decoding, the same for all engines: which token comes next (Eq. 4 of the paper on ranking sentences, then the best
one or a draw), and where a sentence that is being generated ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nearer.construct.requests import Generated, Request
from nearer.errors import ModelError, SettingError
from nearer.units import LARGEST_SEED

FAULTY = -1  # instead of a token where the model gave no numbers
NUCLEUS = 1024  # tokens among which those of top_p are looked for first
NO_DRAW = -1.0  # instead of a random number where the likeliest token is taken


@dataclass(frozen=True)
class TokenSampling:
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

    def draws(self, request: Request, tokens: int) -> npt.NDArray[np.float64]:
        """Numbers in [0, 1), one for each token of a request, that follow from seed, number and step alone; NO_DRAW
        where none is drawn."""
        if self.greedy or request.greedy:
            return np.full(tokens, NO_DRAW)
        return np.random.default_rng([self.seed, request.number, request.step]).random(tokens)

    def choose(self, near: Tensor, far: Tensor | None, guidance: Tensor, draws: Tensor | None = None) -> Tensor:
        """Logits (requests, vocabulary) under both contexts, guidance (requests) → tokens (requests).

        far: None where nobody is guided. FAULTY where the scores are not numbers.
        """
        scores = (
            near.to(torch.promote_types(near.dtype, torch.float32)) if far is None else directed(near, far, guidance)
        )
        best = scores.max(dim=-1)
        likeliest = torch.where(best.values.isnan(), FAULTY, best.indices)
        if draws is None or self.greedy:
            return likeliest
        return torch.where(draws == NO_DRAW, likeliest, drawn(scores, draws, self.temperature, self.top_p))


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
    order = None
    if top_p < 1:
        likely, order = _likeliest(scores, temperature, top_p)
        before = likely.cumsum(dim=-1) - likely
        likely = likely.masked_fill(before >= top_p, 0.0)  # the first always stays
    else:
        likely = torch.softmax(scores.double() / temperature, dim=-1)
    mass = likely.cumsum(dim=-1)
    at = torch.searchsorted(mass, (draws[:, None] * mass[:, -1:]), right=True)
    at = at.clamp(max=likely.shape[-1] - 1)
    tokens = at[:, 0] if order is None else order.gather(1, at)[:, 0]
    return torch.where(faulty, FAULTY, tokens)


def _likeliest(scores: Tensor, temperature: float, top_p: float) -> tuple[Tensor, Tensor]:
    """Probabilities in falling order, equal ones by their index, and whose they are: as many as hold `top_p`.

    A vocabulary of 150 000 is long to sort in every step, and to compute with in float64; a thousand tokens nearly
    always hold the mass.
    """
    if scores.shape[-1] > NUCLEUS:
        values, tokens = scores.topk(NUCLEUS, dim=-1, sorted=False)
        best = values.amax(dim=-1, keepdim=True)
        mass = ((scores - best) / temperature).exp_().sum(dim=-1, keepdim=True, dtype=torch.float64)
        likely = ((values - best).double() / temperature).exp() / mass
        if bool((likely.sum(dim=-1) >= top_p).all()):
            tokens, by_index = tokens.sort(dim=-1)
            likely, by_value = likely.gather(-1, by_index).sort(dim=-1, descending=True, stable=True)
            return likely, tokens.gather(-1, by_value)
    likely = torch.softmax(scores.double() / temperature, dim=-1)
    likely, tokens = likely.sort(dim=-1, descending=True, stable=True)
    return likely, tokens


def check_tokens(tokens: npt.NDArray[np.int64], model: str) -> None:
    if (tokens == FAULTY).any():
        raise ModelError(
            f"{model}: gave NaN instead of scores for the next token; its weights are damaged, or the precision is too "
            "low for it (try float32)."
        )


Ids = npt.NDArray[np.int64]


class TokenTexts:
    """What tokens mean for the end of a sentence, as tables over the vocabulary.

    texts: of each token alone; ends: the tokens by which the model itself ends.
    """

    def __init__(self, texts: Sequence[str], ends: Iterable[int]) -> None:
        self.ends = np.zeros(len(texts), dtype=bool)
        self.ends[[token for token in ends if 0 <= token < len(texts)]] = True
        self.visible = np.array([bool(text) and not text.isspace() for text in texts])
        self.breaks = np.zeros(len(texts), dtype=bool)
        self.visible_before_break = np.zeros(len(texts), dtype=bool)
        for token, text in enumerate(texts):
            first, *others = f"{text}|".splitlines()  # the bar: a break at the very end counts too
            if others:
                self.breaks[token] = True
                self.visible_before_break[token] = bool(first.strip())


class Answers:
    """Slots for `slots` requests at a time. A slot keeps its number as long as its request lasts."""

    def __init__(self, slots: int, texts: TokenTexts, decode: Callable[[list[int]], str]) -> None:
        self._texts, self._decode = texts, decode
        self._requests: list[Request | None] = [None] * slots
        self._tokens = np.zeros((slots, 128), dtype=np.int64)
        self._draws = np.zeros((slots, 128))
        self._counts = np.zeros(slots, dtype=np.int64)
        self._limits = np.zeros(slots, dtype=np.int64)
        self._one_line = np.zeros(slots, dtype=bool)
        self._has_text = np.zeros(slots, dtype=bool)
        self._by_model = np.zeros(slots, dtype=bool)

    def free(self) -> list[int]:
        return [slot for slot, request in enumerate(self._requests) if request is None]

    def begin(self, slot: int, request: Request, draws: npt.NDArray[np.float64]) -> None:
        """draws: one random number for each token it may have; as many as there are is its limit."""
        if (limit := len(draws)) > self._tokens.shape[1]:
            wider = ((0, 0), (0, limit - self._tokens.shape[1]))
            self._tokens, self._draws = np.pad(self._tokens, wider), np.pad(self._draws, wider)
        self._requests[slot] = request
        self._draws[slot, :limit] = draws
        self._counts[slot], self._limits[slot] = 0, limit
        self._one_line[slot] = request.one_line
        self._has_text[slot] = self._by_model[slot] = False

    def draws(self, slots: Ids) -> npt.NDArray[np.float64]:
        """The random numbers for the next token of each."""
        drawn: npt.NDArray[np.float64] = self._draws[slots, self._counts[slots]]
        return drawn

    def take(self, slots: Ids, tokens: Ids) -> Ids:
        """One more token for each of the slots; returns those that have ended with it."""
        self._tokens[slots, self._counts[slots]] = tokens
        self._counts[slots] += 1
        texts = self._texts
        has_text = self._has_text[slots]
        line_ends = texts.breaks[tokens] & (has_text | texts.visible_before_break[tokens]) & self._one_line[slots]
        by_model = texts.ends[tokens] | line_ends
        self._has_text[slots] = has_text | texts.visible[tokens]
        self._by_model[slots] = by_model
        ended: Ids = slots[by_model | (self._counts[slots] >= self._limits[slots])]
        return ended

    def finish(self, slot: int) -> Generated:
        """The answer of an ended slot, which is free from here on."""
        request = self._requests[slot]
        assert request is not None
        self._requests[slot] = None
        ids = self._tokens[slot, : self._counts[slot]].tolist()
        by_model = bool(self._by_model[slot])
        text = self._decode(ids[:-1] if self._texts.ends[ids[-1]] else ids).strip()
        if request.one_line and text:
            text = text.splitlines()[0].rstrip()
        return Generated(request, text, len(ids), "model" if by_model else "limit")
