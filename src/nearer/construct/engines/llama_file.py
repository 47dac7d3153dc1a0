"""A GGUF file opened by llama.cpp, for several sequences at a time: its C functions as Python methods."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearer.errors import ModelError, SettingError
from nearer.extras import require

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
