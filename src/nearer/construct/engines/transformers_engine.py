"""Directional decoding with any causal language model of transformers, many requests at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nearer.construct.engines.decoding import Answers, TokenSampling, check_tokens
from nearer.construct.engines.key_values import Rows
from nearer.construct.engines.language_model import LanguageModel, free_memory, load_language_model, next_logits
from nearer.construct.engines.prompts import ChatIds, Context, Prompts
from nearer.construct.engines.recorded_steps import RecordedSteps
from nearer.construct.model_files import digest
from nearer.construct.requests import Generated, Request

KEPT_FOR_EACH = 256  # tokens of prompts that are kept, for each slot
Prompt = tuple[int, ...]
CHUNK = {"cpu": 512, "cuda": 16384}  # tokens of prompts in one pass


@dataclass
class _Running:
    """A request that is being answered: its slot among the answers, and its rows, near first."""

    slot: int
    guidance: float
    rows: list[int]


class _Admitted(NamedTuple):
    prompts: list[tuple[Request, list[Prompt]]]
    without_room: list[Request]


class TransformersEngine:
    """batch: requests at once; each has two rows of the batch that the model sees, or one if there is no guidance."""

    def __init__(
        self, language: LanguageModel, path: Path, choosing: TokenSampling, batch: int, max_new_tokens: int
    ) -> None:
        self.language, self.choosing, self.batch, self.max_new_tokens = language, choosing, batch, max_new_tokens
        self.window = language.window
        self._path = path
        self._digest: str | None = None
        self._ids = ChatIds(language.tokenizer, language.name)
        self._texts = language.token_texts()
        self.spare: _Workspace | None = None  # of the last queue that ended

    @classmethod
    def load(
        cls,
        path: Path,
        choosing: TokenSampling,
        batch: int,
        max_new_tokens: int,
        device: torch.device,
        precision: str | None,
    ) -> TransformersEngine:
        return cls(load_language_model(path, device, precision), path, choosing, batch, max_new_tokens)

    def identity(self) -> dict[str, str]:
        self._digest = self._digest or digest(self._path)
        return {
            "engine": "transformers",
            "model": self._digest,
            "precision": self.language.precision,
            "choosing": self.choosing.described(),
            "max_new_tokens": str(self.max_new_tokens),
        }

    def answer(self, requests: deque[Request]) -> Iterator[Generated]:
        return _Batch(self, requests).answers()

    def free_buffers(self) -> None:
        """Give back all memory but that of the weights. The next queue takes new buffers."""
        self.spare = None
        free_memory()

    def ids(self, requests: Sequence[Request]) -> list[list[Prompt]]:
        """The token ids of each one's prompts, near first."""
        prompts = [
            [one.prompt] if one.away_from is None or one.guidance == 0 else [one.prompt, one.away_from]
            for one in requests
        ]
        ids = iter(self._ids([prompt for of_one in prompts for prompt in of_one]))
        return [[next(ids) for _ in of_one] for of_one in prompts]

    def answers(self) -> Answers:
        tokenizer = self.language.tokenizer
        return Answers(self.batch, self._texts, lambda ids: str(tokenizer.decode(ids, skip_special_tokens=True)))


class _Workspace:
    """The buffers that a queue is decoded in, with the steps that were recorded over them. The next queue takes them
    over; in new buffers, all steps would be recorded again."""

    def __init__(self, engine: TransformersEngine) -> None:
        language = engine.language
        self.rows = Rows(language.shapes, language.dtype, language.device)
        self.steps = RecordedSteps(language.model, self.rows, engine.window) if language.records else None
        self.prompts = Prompts(
            language.model.base_model,
            language.shapes,
            language.dtype,
            language.device,
            room=KEPT_FOR_EACH * engine.batch,
            chunk=CHUNK.get(language.device.type, CHUNK["cuda"]),
        )

    def clear(self) -> None:
        self.rows.clear()
        self.prompts.clear()


class _Batch:
    """One queue's way through the model. Nothing here is under `inference_mode` while the caller has the word."""

    def __init__(self, engine: TransformersEngine, requests: deque[Request]) -> None:
        self.engine, self.requests = engine, requests
        self.answered = engine.answers()
        self.workspace, engine.spare = engine.spare or _Workspace(engine), None  # a second queue gets one of its own
        self.rows, self.prompts = self.workspace.rows, self.workspace.prompts
        self.running: list[_Running] = []
        self.idle_rows: list[int] = []  # of ended requests, not yet given away
        self.row_tokens = np.zeros(2 * engine.batch, dtype=np.int64)  # what each row is given next

    def answers(self) -> Iterator[Generated]:
        while self.running or self.requests:
            if self._worth_refilling():
                admitted = self._admitted()
                for request in admitted.without_room:
                    yield Generated(request, "", 0, "no room")
                if admitted.prompts or self.idle_rows:
                    self._start(admitted.prompts)
            if self.running:
                for slot in self._step():
                    yield self.answered.finish(slot)
        self.workspace.clear()
        self.engine.spare = self.workspace

    def _worth_refilling(self) -> bool:
        """A pass for prompts takes about as long as a step, so a few free slots are waited for."""
        free = self.engine.batch - len(self.running)
        return not self.running or not self.requests or free >= max(1, self.engine.batch // 8)

    def _admitted(self) -> _Admitted:
        engine = self.engine
        admitted = _Admitted([], [])
        while self.requests and (free := engine.batch - len(self.running) - len(admitted.prompts)):
            requests = [self.requests.popleft() for _ in range(min(free, len(self.requests)))]
            for request, prompts in zip(requests, engine.ids(requests), strict=True):
                if max(map(len, prompts)) < engine.window:
                    admitted.prompts.append((request, prompts))
                else:
                    admitted.without_room.append(request)
        return admitted

    @torch.inference_mode()
    def _start(self, admitted: list[tuple[Request, list[Prompt]]]) -> None:
        engine = self.engine
        unused = deque([*self.idle_rows, *range(self.rows.count, 2 * engine.batch)])
        contexts: dict[int, Context] = {}
        for (request, prompts), slot in zip(admitted, self.answered.free(), strict=False):
            limit = min(request.max_new_tokens or engine.max_new_tokens, engine.window - max(map(len, prompts)))
            self.answered.begin(slot, request, engine.choosing.draws(request, limit))
            rows = [unused.popleft() for _ in prompts]
            self.running.append(_Running(slot, request.guidance, rows))
            for row, prompt in zip(rows, prompts, strict=True):
                contexts[row], self.row_tokens[row] = prompt[:-1], prompt[-1]
        self._put(contexts)
        self._close_gaps([row for row in self.idle_rows if row not in contexts])
        self._arrange()

    def _put(self, contexts: dict[int, Context]) -> None:
        """Known contexts first: computing others may overwrite them."""
        fresh = [context for context in dict.fromkeys(contexts.values()) if context not in self.prompts]
        known = {row: context for row, context in contexts.items() if context in self.prompts}
        for part in (known, {row: context for row, context in contexts.items() if row not in known}):
            if part is not known and fresh:
                self.prompts.compute(fresh)
            self.rows.put(list(part), [self.prompts.tokens(context) for context in part.values()], self.prompts.layers)

    def _close_gaps(self, rows: list[int]) -> None:
        moves = self.rows.drop(rows)
        for source, target in moves.items():
            self.row_tokens[target] = self.row_tokens[source]
        for running in self.running if moves else ():
            running.rows = [moves.get(row, row) for row in running.rows]
        self.idle_rows = []

    def _arrange(self) -> None:
        """Where the rows of each running request are, on the device: what the steps use until one ends or begins."""
        device, running = self.engine.language.device, self.running
        self.slots = np.array([one.slot for one in running], dtype=np.int64)
        self.owner = np.zeros(self.rows.count, dtype=np.int64)  # of each row, among the running
        for number, one in enumerate(running):
            self.owner[one.rows] = number
        rows = [[one.rows[0] for one in running], [one.rows[-1] for one in running]]
        self.near, self.far = torch.tensor(rows, dtype=torch.long).to(device)
        self.guided = any(one.guidance for one in running)
        self.guidance = torch.tensor([one.guidance for one in running], dtype=torch.float64).to(device)
        self.owner_there = torch.from_numpy(self.owner).to(device)
        self.tokens = torch.from_numpy(self.row_tokens[: self.rows.count].copy()).to(device)

    @torch.inference_mode()
    def _step(self) -> list[int]:
        """One token for all; the slots whose answers have ended."""
        engine = self.engine
        logits = self._next_logits()
        far = logits[self.far] if self.guided else None
        chosen = engine.choosing.choose(logits[self.near], far, self.guidance, self._draws())
        self.tokens = chosen[self.owner_there]
        tokens = chosen.cpu().numpy()  # the one moment of a step in which the host waits
        check_tokens(tokens, engine.language.name)
        self.row_tokens[: self.rows.count] = tokens[self.owner]
        ended = set(self.answered.take(self.slots, tokens).tolist())
        if ended:
            self.idle_rows += [row for one in self.running if one.slot in ended for row in one.rows]
            self.running = [one for one in self.running if one.slot not in ended]
            self._arrange()
        return sorted(ended)

    def _next_logits(self) -> Tensor:
        language = self.engine.language
        steps = self.workspace.steps
        if steps is not None:
            try:
                return steps.next_logits(self.tokens)
            except RuntimeError:  # such as too little memory for a recording: the step is computed again without one
                steps.forget()
                self.workspace.steps = None
        return next_logits(language.model, self.rows, self.tokens, self.engine.window)

    def _draws(self) -> Tensor | None:
        if self.engine.choosing.greedy:
            return None
        return torch.from_numpy(self.answered.draws(self.slots)).to(self.engine.language.device)
