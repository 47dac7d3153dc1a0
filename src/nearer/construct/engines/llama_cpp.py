"""Directional decoding with llama.cpp: GGUF files on the CPU, as they are packed.

A request has one or two of llama.cpp's sequences. Sequence 0 holds what all prompts begin with, and is copied; the
sequence of a sentence's own prompt rests when the sentence ends, since the next one moves away from it. `LlamaFile` is
the file as llama.cpp opens it: its C functions as Python methods.
"""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from nearer.construct.engines.decoding import Answers, TokenSampling, TokenTexts, check_tokens
from nearer.construct.engines.prompts import REMEMBERED, SHARED_FROM, Context, common_beginning, rendered, without_turns
from nearer.construct.model_files import digest
from nearer.construct.requests import Generated, Request
from nearer.errors import ModelError, SettingError
from nearer.extras import require

BEGINNING = 0  # the sequence of the common beginning


class LlamaCppEngine:
    """batch: requests at once."""

    def __init__(self, file: LlamaFile, choosing: TokenSampling, batch: int, max_new_tokens: int) -> None:
        self.file, self.choosing, self.batch, self.max_new_tokens = file, choosing, batch, max_new_tokens
        self._digest: str | None = None
        self._pieces = [file.piece(token) for token in range(file.size)]
        self._texts = TokenTexts([piece.decode(errors="replace") for piece in self._pieces], file.ends())
        self._ids = lru_cache(REMEMBERED)(self._prompt_ids)

    @classmethod
    def load(cls, path: Path, choosing: TokenSampling, batch: int, max_new_tokens: int) -> LlamaCppEngine:
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

    def slots(self) -> Answers:
        return Answers(self.batch, self._texts, self.text)

    def _prompt_ids(self, prompt: str) -> Context:
        if (template := self.file.chat_template) is None:
            return self.file.ids(without_turns(prompt), special=True)
        return self.file.ids(rendered(template, prompt, str(self.file.path), self.file.special_tokens()), special=False)


@dataclass
class _Running:
    """A request that is being answered. prompts, sequences: near first; waiting: tokens to decode, for each."""

    slot: int
    guidance: float
    prompts: list[Context]
    sequences: list[int]
    waiting: list[list[Token]]
    generated: int = 0


class _Batch:
    """One queue's way through the model."""

    def __init__(self, engine: LlamaCppEngine, requests: deque[Request]) -> None:
        self.engine, self.file, self.requests = engine, engine.file, requests
        self.answered = engine.slots()
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
                    yield self.answered.finish(one.slot)

    def _start(self, request: Request, prompts: list[Context]) -> None:
        self._find_beginning(prompts)
        engine = self.engine
        limit = min(request.max_new_tokens or engine.max_new_tokens, self.file.window - max(map(len, prompts)))
        slot = self.answered.free()[0]
        self.answered.begin(slot, request, engine.choosing.draws(request, limit))
        taken = [self._sequence(prompt) for prompt in prompts]
        waiting = [
            [Token(token, sequence, n, n == len(prompt) - 1) for n, token in enumerate(prompt) if n >= known]
            for prompt, (sequence, known) in zip(prompts, taken, strict=True)
        ]
        sequences = [sequence for sequence, _ in taken]
        self.running.append(_Running(slot, request.guidance, prompts, sequences, waiting))

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
        slots = np.array([one.slot for one in running])
        guidance = torch.tensor([one.guidance for one in running])
        draws = None if engine.choosing.greedy else torch.from_numpy(self.answered.draws(slots))
        tokens = engine.choosing.choose(scores[near], scores[far], guidance, draws).numpy()
        check_tokens(tokens, str(self.file.path))
        ended = set(self.answered.take(slots, tokens).tolist())
        for one, token in zip(running, tokens.tolist(), strict=True):
            one.waiting = [
                [Token(token, sequence, len(prompt) + one.generated, True)]
                for sequence, prompt in zip(one.sequences, one.prompts, strict=True)
            ]
            one.generated += 1
        self.running = [one for one in running if one.slot not in ended]
        return [one for one in running if one.slot in ended]


WINDOW = 2048  # tokens of a sequence: memory for all of them is taken at once
TOGETHER = 512  # tokens in one call


class Token(NamedTuple):
    """A token for a sequence, at a position; `scored` if the scores behind it are wanted."""

    token: int
    sequence: int
    position: int
    scored: bool


class LlamaFile:
    """sequences: how many contexts it has room for. All keys and values are kept apart by sequence."""

    def __init__(self, path: Path, sequences: int, threads: int) -> None:
        self.path = path
        self._lib: Any = require("llama_cpp", "llama-cpp", f"{path}: reading it with llama.cpp")
        lib = self._lib
        lib.llama_log_set(_silence(lib), ctypes.c_void_p(0))
        if sequences > (most := lib.llama_max_parallel_sequences()):
            raise SettingError(f"batch: llama.cpp keeps at most {most} contexts; take {(most - 1) // 2} or less.")
        settings = lib.llama_model_default_params()
        # repacked weights are multiplied by AMX, and where a virtual machine forbids that the process would be killed
        settings.use_extra_bufts = False
        model = lib.llama_model_load_from_file(str(path).encode(), settings)
        if not model:
            raise ModelError(f"{path}: llama.cpp cannot load it; the file is damaged, or of a kind it does not know.")
        self._model = model
        self._vocabulary = lib.llama_model_get_vocab(model)
        self.window = min(WINDOW, lib.llama_model_n_ctx_train(model))
        self._context = self._opened(sequences, threads)
        self._memory = lib.llama_get_memory(self._context)
        self._batch = lib.llama_batch_init(TOGETHER, 0, 1)
        self.size = lib.llama_vocab_n_tokens(self._vocabulary)
        weakref.finalize(self, _close, lib, self._batch, self._context, model)

    def _opened(self, sequences: int, threads: int) -> Any:
        settings = self._lib.llama_context_default_params()
        settings.n_ctx, settings.n_seq_max = self.window * sequences, sequences
        settings.n_batch = settings.n_ubatch = TOGETHER
        settings.n_threads = settings.n_threads_batch = threads
        settings.kv_unified = False  # else each sequence would look at the cells of all
        if not (context := self._lib.llama_init_from_model(self._model, settings)):
            self._lib.llama_model_free(self._model)
            raise ModelError(
                f"{self.path}: no memory for {sequences} contexts of {self.window} tokens; take a smaller batch."
            )
        return context

    @property
    def chat_template(self) -> str | None:
        template = self._lib.llama_model_chat_template(self._model, None)
        return template.decode() if template else None

    def special_tokens(self) -> dict[str, str]:
        lib, vocabulary = self._lib, self._vocabulary
        ids = {"bos_token": lib.llama_vocab_bos(vocabulary), "eos_token": lib.llama_vocab_eos(vocabulary)}
        return {
            name: lib.llama_vocab_get_text(vocabulary, token).decode() if token >= 0 else ""
            for name, token in ids.items()
        }

    def ends(self) -> list[int]:
        """The tokens that end a turn or a text."""
        return [token for token in range(self.size) if self._lib.llama_vocab_is_eog(self._vocabulary, token)]

    def ids(self, text: str, *, special: bool) -> tuple[int, ...]:
        """special: add the tokens that begin a text. Those written out in it are read as such in any case."""
        raw = text.encode()
        found = (self._lib.llama_token * (len(raw) + 8))()
        count = self._lib.llama_tokenize(self._vocabulary, raw, len(raw), found, len(found), special, True)
        return tuple(found[:count])

    def piece(self, token: int) -> bytes:
        """What it stands for; nothing for special tokens."""
        buffer = ctypes.create_string_buffer(64)
        length = self._lib.llama_token_to_piece(self._vocabulary, token, buffer, len(buffer), 0, False)
        if length < 0:
            buffer = ctypes.create_string_buffer(-length)
            length = self._lib.llama_token_to_piece(self._vocabulary, token, buffer, len(buffer), 0, False)
        return bytes(buffer.raw[:length])

    def clear(self, sequence: int, *, from_position: int = 0) -> None:
        """Forget a sequence from a position on."""
        if not self._lib.llama_memory_seq_rm(self._memory, sequence, from_position, -1):
            raise ModelError(f"{self.path}: llama.cpp cannot cut its contexts short; use the engine transformers.")

    def copy(self, source: int, target: int) -> None:
        self._lib.llama_memory_seq_cp(self._memory, source, target, -1, -1)

    def decode(self, tokens: Sequence[Token]) -> npt.NDArray[np.float32]:
        """(scored tokens, vocabulary): the scores behind each of them, in their order."""
        scores = np.empty((sum(token.scored for token in tokens), self.size), dtype=np.float32)
        done = 0
        for first in range(0, len(tokens), TOGETHER):
            part = tokens[first : first + TOGETHER]
            self._fill(part)
            if failed := self._lib.llama_decode(self._context, self._batch):
                raise ModelError(f"{self.path}: llama.cpp gave up on {len(part)} tokens (code {failed}).")
            for number, token in enumerate(part):
                if token.scored:
                    row = self._lib.llama_get_logits_ith(self._context, number)
                    scores[done] = np.ctypeslib.as_array(row, (self.size,))
                    done += 1
        return scores

    def _fill(self, tokens: Sequence[Token]) -> None:
        batch = self._batch
        batch.n_tokens = len(tokens)
        for number, token in enumerate(tokens):
            batch.token[number], batch.pos[number] = token.token, token.position
            batch.n_seq_id[number], batch.seq_id[number][0] = 1, token.sequence
            batch.logits[number] = token.scored


@cache  # the library goes on calling it, also while it frees the last model: it must not be collected
def _silence(lib: Any) -> Any:
    return lib.llama_log_callback(lambda level, text, data: None)


def _close(lib: Any, batch: Any, context: Any, model: Any) -> None:
    lib.llama_batch_free(batch)
    lib.llama_free(context)
    lib.llama_model_free(model)
