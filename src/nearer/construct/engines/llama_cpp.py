"""Directional decoding with llama.cpp: GGUF files on the CPU, as they are packed.

A request has one or two of llama.cpp's sequences. Sequence 0 holds what all prompts begin with, and is copied; the
sequence of a sentence's own prompt rests when the sentence ends, since the next one moves away from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from nearer.construct.engines.answers import Answers, TokenTexts
from nearer.construct.engines.chat import REMEMBERED, rendered
from nearer.construct.engines.choosing import Choosing, check_tokens
from nearer.construct.engines.llama_file import LlamaFile, Token
from nearer.construct.engines.prompts import SHARED_FROM, Context, common_beginning
from nearer.construct.engines.sources import digest
from nearer.construct.requests import Generated, Request
from nearer.errors import ModelError

BEGINNING = 0  # the sequence of the common beginning


class LlamaCppEngine:
    """batch: requests at once."""

    def __init__(self, file: LlamaFile, choosing: Choosing, batch: int, max_new_tokens: int) -> None:
        self.file, self.choosing, self.batch, self.max_new_tokens = file, choosing, batch, max_new_tokens
        self._digest: str | None = None
        self._pieces = [file.piece(token) for token in range(file.size)]
        self._texts = TokenTexts([piece.decode(errors="replace") for piece in self._pieces], file.ends())
        self._ids = lru_cache(REMEMBERED)(self._prompt_ids)

    @classmethod
    def load(cls, path: Path, choosing: Choosing, batch: int, max_new_tokens: int) -> LlamaCppEngine:
        if path.is_dir():
            raise ModelError(
                f"{path}: is a folder; llama.cpp reads GGUF files, folders are for the engine transformers."
            )
        return cls(LlamaFile(path, 1 + 2 * batch, torch.get_num_threads()), choosing, batch, max_new_tokens)

    def identity(self) -> dict[str, str]:
        self._digest = self._digest or digest(self.file.path)
        return {
            "engine": "llama.cpp",
            "model": self._digest,
            "precision": "as in the file",
            "choosing": self.choosing.described(),
            "max_new_tokens": str(self.max_new_tokens),
        }

    def answer(self, requests: deque[Request]) -> Iterator[Generated]:
        for sequence in range(1 + 2 * self.batch):
            self.file.clear(sequence)
        return _Batch(self, requests).answers()

    def ids(self, request: Request) -> list[Context]:
        """The token ids of its prompts, near first."""
        if request.away_from is None or request.guidance == 0:
            return [self._ids(request.prompt)]
        return [self._ids(request.prompt), self._ids(request.away_from)]

    def text(self, ids: list[int]) -> str:
        return b"".join(self._pieces[token] for token in ids).decode(errors="replace")

    def places(self) -> Answers:
        return Answers(self.batch, self._texts, self.text)

    def _prompt_ids(self, prompt: str) -> Context:
        if (template := self.file.chat_template) is None:
            return self.file.ids(prompt, special=True)
        return self.file.ids(rendered(template, prompt, str(self.file.path), self.file.special_tokens()), special=False)


@dataclass
class _Running:
    """A request that is being answered. prompts, sequences: near first; waiting: tokens to decode, for each."""

    place: int
    guidance: float
    prompts: list[Context]
    sequences: list[int]
    waiting: list[list[Token]]
    generated: int = 0


class _Batch:
    """One queue's way through the model."""

    def __init__(self, engine: LlamaCppEngine, requests: deque[Request]) -> None:
        self.engine, self.file, self.requests = engine, engine.file, requests
        self.answered = engine.places()
        self.running: list[_Running] = []
        self.beginning: Context | None = None
        self.free = list(range(1, 1 + 2 * engine.batch))
        self.resting: dict[Context, int] = {}  # whole prompts whose sequences nobody uses now, the oldest first

    def answers(self) -> Iterator[Generated]:
        while self.running or self.requests:
            while self.requests and len(self.running) < self.engine.batch:
                request = self.requests.popleft()
                prompts = self.engine.ids(request)
                if max(map(len, prompts)) < self.file.window:
                    self._start(request, prompts)
                else:
                    yield Generated(request, "", 0, "no room")
            if self.running:
                for one in self._step():
                    self._rest(one)
                    yield self.answered.finish(one.place)

    def _start(self, request: Request, prompts: list[Context]) -> None:
        self._find_beginning(prompts)
        engine = self.engine
        limit = min(request.max_new_tokens or engine.max_new_tokens, self.file.window - max(map(len, prompts)))
        place = self.answered.free()[0]
        self.answered.begin(place, request, engine.choosing.draws(request.number, request.step, limit))
        taken = [self._sequence(prompt) for prompt in prompts]
        waiting = [
            [Token(token, sequence, n, n == len(prompt) - 1) for n, token in enumerate(prompt) if n >= known]
            for prompt, (sequence, known) in zip(prompts, taken, strict=True)
        ]
        sequences = [sequence for sequence, _ in taken]
        self.running.append(_Running(place, request.guidance, prompts, sequences, waiting))

    def _find_beginning(self, prompts: list[Context]) -> None:
        """What the first two different prompts share is computed once and copied into other sequences."""
        if self.beginning is not None:
            return
        others = [self.engine.ids(request)[0] for request in list(self.requests)[:8]]
        different = [other for other in (*prompts, *others) if other != prompts[0]]
        if not different:
            return
        length = min(common_beginning(prompts[0], other) for other in different)
        self.beginning = prompts[0][:length] if length >= SHARED_FROM else ()
        if self.beginning:
            self.file.decode([Token(token, BEGINNING, n, False) for n, token in enumerate(self.beginning)])

    def _sequence(self, prompt: Context) -> tuple[int, int]:
        """A sequence for a prompt, and how many of its tokens are in there already."""
        if prompt in self.resting:
            sequence = self.resting.pop(prompt)
            self.file.clear(sequence, from_position=len(prompt) - 1)  # the last one again: its scores are needed
            return sequence, len(prompt) - 1
        if not self.free:
            self.free.append(self.resting.pop(next(iter(self.resting))))
        sequence = self.free.pop()
        self.file.clear(sequence)
        if not self.beginning or prompt[: len(self.beginning)] != self.beginning or prompt == self.beginning:
            return sequence, 0
        self.file.copy(BEGINNING, sequence)
        return sequence, len(self.beginning)

    def _rest(self, one: _Running) -> None:
        near, *far = one.sequences
        self.free += far
        if one.prompts[0] in self.resting:
            self.free.append(near)
        else:
            self.resting[one.prompts[0]] = near

    def _step(self) -> list[_Running]:
        """One token for all; those whose answers have ended."""
        engine, running = self.engine, self.running
        scores = torch.from_numpy(self.file.decode([token for one in running for row in one.waiting for token in row]))
        ends = np.cumsum([len(one.sequences) for one in running])
        near, far = ends - [len(one.sequences) for one in running], ends - 1
        places = np.array([one.place for one in running])
        guidance = torch.tensor([one.guidance for one in running])
        draws = None if engine.choosing.greedy else torch.from_numpy(self.answered.draws(places))
        tokens = engine.choosing.choose(scores[near], scores[far], guidance, draws).numpy()
        check_tokens(tokens, str(self.file.path))
        ended = set(self.answered.take(places, tokens).tolist())
        for one, token in zip(running, tokens.tolist(), strict=True):
            one.waiting = [
                [Token(token, sequence, len(prompt) + one.generated, True)]
                for sequence, prompt in zip(one.sequences, one.prompts, strict=True)
            ]
            one.generated += 1
        self.running = [one for one in running if one.place not in ended]
        return [one for one in running if one.place in ended]
