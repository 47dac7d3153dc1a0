"""The sentences that are being generated, token by token, and where each ends: on the host, for all engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from nearer.construct.requests import Generated, Request

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
    """Places for `places` requests at a time. A place keeps its number as long as its request lasts."""

    def __init__(self, places: int, texts: TokenTexts, decode: Callable[[list[int]], str]) -> None:
        self._texts, self._decode = texts, decode
        self._requests: list[Request | None] = [None] * places
        self._tokens = np.zeros((places, 128), dtype=np.int64)
        self._draws = np.zeros((places, 128))
        self._counts = np.zeros(places, dtype=np.int64)
        self._limits = np.zeros(places, dtype=np.int64)
        self._one_line = np.zeros(places, dtype=bool)
        self._has_text = np.zeros(places, dtype=bool)
        self._by_model = np.zeros(places, dtype=bool)

    def free(self) -> list[int]:
        return [place for place, request in enumerate(self._requests) if request is None]

    def begin(self, place: int, request: Request, draws: npt.NDArray[np.float64]) -> None:
        """draws: one random number for each token it may have; as many as there are is its limit."""
        if (limit := len(draws)) > self._tokens.shape[1]:
            wider = ((0, 0), (0, limit - self._tokens.shape[1]))
            self._tokens, self._draws = np.pad(self._tokens, wider), np.pad(self._draws, wider)
        self._requests[place] = request
        self._draws[place, :limit] = draws
        self._counts[place], self._limits[place] = 0, limit
        self._one_line[place] = request.one_line
        self._has_text[place] = self._by_model[place] = False

    def draws(self, places: Ids) -> npt.NDArray[np.float64]:
        """The random numbers for the next token of each."""
        drawn: npt.NDArray[np.float64] = self._draws[places, self._counts[places]]
        return drawn

    def take(self, places: Ids, tokens: Ids) -> Ids:
        """One more token for each of the places; returns those that have ended with it."""
        self._tokens[places, self._counts[places]] = tokens
        self._counts[places] += 1
        texts = self._texts
        has_text = self._has_text[places]
        line_ends = texts.breaks[tokens] & (has_text | texts.visible_before_break[tokens]) & self._one_line[places]
        by_model = texts.ends[tokens] | line_ends
        self._has_text[places] = has_text | texts.visible[tokens]
        self._by_model[places] = by_model
        ended: Ids = places[by_model | (self._counts[places] >= self._limits[places])]
        return ended

    def finish(self, place: int) -> Generated:
        """The answer of an ended place, which is free from here on."""
        request = self._requests[place]
        assert request is not None
        self._requests[place] = None
        ids = self._tokens[place, : self._counts[place]].tolist()
        by_model = bool(self._by_model[place])
        text = self._decode(ids[:-1] if self._texts.ends[ids[-1]] else ids).strip()
        if request.one_line and text:
            text = text.splitlines()[0].rstrip()
        return Generated(request, text, len(ids), "model" if by_model else "limit")
