"""Sentences to vectors in bulk: each unique sentence once, batches of like length, order kept.

Sentences pass in windows: while one is computed, the next is tokenised. On a GPU nothing waits for a batch: a
window's tokens go there in one copy, its vectors come back in one, and that is waited for when the next window is
under way.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearer.encoder.batching import OF_THIS_PROCESS, Tokenised, check_batches, cut, longest_first, tokenise_and_count
from nearer.encoder.network import SentenceNetwork, at_inference, pad_tokens
from nearer.encoder.pooling import attended
from nearer.encoder.precision import check_precision
from nearer.errors import InputError, SettingError
from nearer.terminal import Advance, progress_bar
from nearer.text.tokenise import normalisation, tokenise

# Padded tokens that pass the model together.
TOKENS_ON_CPU, TOKENS_ON_GPU = 2048, 32_768
# Sentences of a window: many batches, so that they can be of like length; few, where the sentences came sorted.
WINDOW_ON_CPU, WINDOW_ON_GPU, SORTED_WINDOW = 8192, 32_768, 8192
# Sentences tokenised at a time: enough to keep all cores busy, and soon done when nobody wants them any more.
TOKENISED_AT_ONCE = 2048


class BulkEncoding:
    """One way of encoding many sentences; `encode`, `encode_file` and its workers use it.

    `windows` and `vectors` are for an encoder in evaluation mode (`at_inference`).
    """

    def __init__(
        self,
        encoder: SentenceNetwork,
        *,
        normalize: bool,
        precision: str = "float32",
        prompt: str = "",
        batch_tokens: int | None = None,
        batch_size: int | None = None,
    ) -> None:
        check_batches(batch_tokens, batch_size)
        self.encoder = encoder
        self.options = {  # for the same in another process
            "normalize": normalize,
            "precision": precision,
            "prompt": prompt,
            "batch_tokens": batch_tokens,
            "batch_size": batch_size,
        }
        self.precision = precision
        self.normalize = normalize
        self.prompt = prompt
        self.prompt_length = _prompt_length(encoder, prompt)
        self.batch_tokens = batch_tokens or (TOKENS_ON_GPU if encoder.device.type == "cuda" else TOKENS_ON_CPU)
        self.batch_size = batch_size
        self._stopped = False

    def encode(self, sentences: Sequence[str], *, progress: bool = False) -> NDArray[np.float32]:
        """Vectors (sentences, dimension), in the order of the sentences. Equal ones are computed once."""
        check_precision(self.precision, self.encoder.device)
        check_sentences(sentences)
        unique, inverse = once_each(sentences)
        # By characters, which is nearly by tokens: each window has sentences of like length, the longest come first
        order = longest_first(np.fromiter(map(len, unique), dtype=np.int64, count=len(unique)))
        windows = [order[start : start + SORTED_WINDOW] for start in range(0, len(order), SORTED_WINDOW)]
        texts = ([unique[index] for index in window] for window in windows)
        vectors = np.empty((len(unique), self.encoder.dimension), dtype=np.float32)
        with progress_bar("encoding", len(unique), "sentences", shown=progress) as advance, at_inference(self.encoder):
            for window, found in zip(windows, self.windows(texts, advance), strict=True):
                vectors[window] = found
        return vectors if inverse is None else vectors[inverse]

    def windows(
        self, windows: Iterable[Sequence[str]], advance: Advance | None = None
    ) -> Generator[NDArray[np.float32]]:
        """The vectors of each window of sentences, in order. Equal sentences of a window are computed once."""
        late: _OnItsWay | None = None
        with closing(one_ahead(self._tokenise_unique, windows, self._stop)) as coming:
            for tokenised, inverse in coming:
                vectors = _OnItsWay(self.vectors(tokenised, advance), inverse)
                if late is not None:
                    yield late.arrived()
                late = vectors
        if late is not None:
            yield late.arrived()

    def tokenise(self, sentences: Sequence[str]) -> Tokenised:
        normalise = normalisation(self.encoder.settings.text_normalisation)
        parts = []
        for start in range(0, max(1, len(sentences)), TOKENISED_AT_ONCE):
            if self._stopped:
                raise CancelledError
            part = [self.prompt + normalise(sentence) for sentence in sentences[start : start + TOKENISED_AT_ONCE]]
            longest, own = self.encoder.settings.max_length, self.encoder.cut_counter
            tokens = tokenise_and_count(self.encoder.tokenizer, part, longest, own, OF_THIS_PROCESS)
            parts.append(Tokenised.of(tokens, self.prompt_length))
        return Tokenised.joined(parts)

    def vectors(self, tokenised: Tokenised, advance: Advance | None = None) -> Tensor:
        """Vectors (sentences, dimension), float32, on the encoder's device; on a GPU they may still be under way."""
        device, padding = self.encoder.device, self.encoder.padding_id
        equal_lengths = len(tokenised) > 0 and self.encoder.needs_equal_lengths
        model = self.encoder.at_precision(self.precision)
        order = longest_first(tokenised.lengths)
        widths = np.maximum(tokenised.lengths[order], 1) + self.encoder.trailing_padding
        ids, targets = _moved(tokenised.ids, device), _moved(order, device)
        starts, lengths = _moved(tokenised.starts[order], device), _moved(tokenised.lengths[order], device)
        vectors = torch.empty(len(tokenised), self.encoder.dimension, dtype=torch.float32, device=device)
        done = 0
        while done < len(tokenised):
            try:
                for count in cut(widths[done:], self.batch_tokens, self.batch_size, equal_lengths=equal_lengths):
                    rows = slice(done, done + count)
                    batch = pad_tokens(ids, starts[rows], lengths[rows], int(widths[done]), padding)
                    vectors[targets[rows]] = self._pass(model, *batch, tokenised.prompt_length)
                    done += count
                    if advance is not None:
                        advance(count)
            except torch.OutOfMemoryError:
                pass  # the error holds on to memory as long as it is at hand
            if done < len(tokenised):
                self._use_less_memory(count, int(widths[done]))
        return vectors

    @torch.inference_mode()
    def _pass(self, model: SentenceNetwork, ids: Tensor, mask: Tensor, prompt_length: int) -> Tensor:
        pooled_mask = mask
        if prompt_length:
            pooled_mask = mask.clone()
            pooled_mask[:, :prompt_length] = 0
        vectors = model(ids, attended(mask), pooled_mask).float()
        return torch.nn.functional.normalize(vectors, dim=-1) if self.normalize else vectors

    def _use_less_memory(self, rows: int, width: int) -> None:
        if rows == 1:
            raise SettingError(
                f"max_length: one sentence of {width} tokens is more than the memory of {self.encoder.device} can take."
            )
        self.batch_tokens = rows * width // 2
        torch.cuda.empty_cache()
        warnings.warn(
            f"{rows} sentences of {width} tokens do not fit in the memory of {self.encoder.device}; going on with "
            f"batch_tokens {self.batch_tokens}.",
            stacklevel=2,
        )

    def _tokenise_unique(self, sentences: Sequence[str]) -> tuple[Tokenised, NDArray[np.int64] | None]:
        unique, inverse = once_each(sentences)
        return self.tokenise(unique), inverse

    def _stop(self) -> None:
        self._stopped = True


def check_sentences(sentences: Sequence[str]) -> None:
    for index, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise InputError(f"sentences: item {index} is {type(sentence).__name__}, a string is needed.")
        if not sentence.isascii() and any("\ud800" <= character <= "\udfff" for character in sentence):
            raise InputError(f"sentences: item {index} holds half a surrogate pair, which is not text.")


def once_each(sentences: Sequence[str]) -> tuple[list[str], NDArray[np.int64] | None]:
    """The unique sentences, and where each one given is among them; None where all are unique."""
    rows: dict[str, int] = {}
    inverse = np.fromiter((rows.setdefault(s, len(rows)) for s in sentences), dtype=np.int64, count=len(sentences))
    return list(rows), None if len(rows) == len(sentences) else inverse


class _OnItsWay:
    """Vectors that are copied to the host, from a GPU while it goes on with other things."""

    def __init__(self, vectors: Tensor, inverse: NDArray[np.int64] | None) -> None:
        self.inverse = inverse
        self.event: torch.cuda.Event | None = None
        self.vectors = vectors
        if vectors.is_cuda:
            self.vectors = torch.empty(vectors.shape, pin_memory=True).copy_(vectors, non_blocking=True)
            self.event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self.event.record(torch.cuda.current_stream(vectors.device))

    def arrived(self) -> NDArray[np.float32]:
        if self.event is not None:
            self.event.synchronize()
        vectors: NDArray[np.float32] = self.vectors.numpy()
        return vectors if self.inverse is None else vectors[self.inverse]


def _moved(array: NDArray[np.int32] | NDArray[np.int64], device: torch.device) -> Tensor:
    tensor = torch.from_numpy(array)
    # only from pinned memory can a GPU fetch while the host goes on
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def _prompt_length(encoder: SentenceNetwork, prompt: str) -> int:
    """How many leading tokens stay out of the pooling."""
    if not prompt or encoder.settings.pool_prompt:
        return 0
    ids = tokenise(encoder.tokenizer, [prompt], encoder.settings.max_length)[0]
    if encoder.settings.template is not None:
        return len(ids) - len(encoder.settings.template.after)
    return len(ids) - (ids[-1:] != [] and ids[-1] in encoder.tokenizer.all_special_ids)


Item = TypeVar("Item")
Made = TypeVar("Made")


def one_ahead(make: Callable[[Item], Made], items: Iterable[Item], stop: Callable[[], None]) -> Generator[Made]:
    """`make(item)` for each item, in order; while the caller uses one, the next is made in a thread.

    The items themselves are taken in the caller's thread, where a read that waits can be interrupted. What `make`
    raises is raised here. When the caller leaves early, `stop` is called: it should make `make` return soon.
    """
    remaining = iter(items)
    try:
        first = next(remaining)
    except StopIteration:
        return
    try:
        item = next(remaining)
    except StopIteration:  # only one: nothing to be ahead of
        yield make(first)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="nearer-ahead") as thread:
        try:
            coming = thread.submit(make, first)
            while True:
                made = coming.result()
                coming = thread.submit(make, item)
                yield made
                try:
                    item = next(remaining)
                except StopIteration:
                    break
            yield coming.result()
        except BaseException:
            stop()
            raise
