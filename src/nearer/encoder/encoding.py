"""Sentences to vectors in bulk: each unique sentence once, batches of like length, order kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearer.errors import InputError, SettingError
from nearer.progress import progress_bar
from nearer.text.normalise import normalisation
from nearer.text.tokenise import tokenise

if TYPE_CHECKING:
    from nearer.encoder.encoder import Encoder

# Sentences tokenised at a time: enough to keep all cores busy, little enough to show progress.
TOKENISED_AT_ONCE = 10_000
BATCH_ON_CPU, BATCH_ON_GPU = 64, 512


def encode_sentences(
    encoder: Encoder, sentences: Sequence[str], *, batch_size: int | None, normalize: bool, prompt: str, progress: bool
) -> NDArray[np.float32]:
    """Vectors of `sentences` (sentences, dimension), float32, in their order."""
    if batch_size is None:
        batch_size = BATCH_ON_GPU if encoder.device.type == "cuda" else BATCH_ON_CPU
    if batch_size < 1:
        raise SettingError(f"batch_size: {batch_size} is below 1.")
    check_sentences(sentences)
    places: dict[str, int] = {}
    inverse = np.fromiter((places.setdefault(s, len(places)) for s in sentences), dtype=np.int64, count=len(sentences))
    unique = list(places)
    vectors = np.empty((len(unique), encoder.dimension), dtype=np.float32)
    was_training = encoder.training
    encoder.eval()
    try:
        with torch.inference_mode(), progress_bar("encoding", len(unique), "sentences", shown=progress) as advance:
            tokens = _tokenised(encoder, unique, prompt)
            prompt_length, trailing = _prompt_length(encoder, prompt), encoder.trailing_padding
            # the longest first: what does not fit in memory fails at once
            order = sorted(range(len(unique)), key=lambda place: -len(tokens[place]))
            for start in range(0, len(order), batch_size):
                batch = order[start : start + batch_size]
                ids, mask = pad([tokens[place] for place in batch], encoder.padding_id, encoder.device, trailing)
                vectors[batch] = _encode_batch(encoder, ids, mask, prompt_length, normalize)
                advance(len(batch))
    finally:
        encoder.train(was_training)
    return vectors if len(unique) == len(sentences) else vectors[inverse]


def check_sentences(sentences: Sequence[str]) -> None:
    for place, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise InputError(f"sentences: item {place} is {type(sentence).__name__}, a string is needed.")
        if not sentence.isascii() and any("\ud800" <= character <= "\udfff" for character in sentence):
            raise InputError(f"sentences: item {place} holds half a surrogate pair, which is not text.")


def pad(
    tokens: Sequence[Sequence[int] | NDArray[np.int64]], padding: int, device: torch.device, trailing: int = 0
) -> tuple[Tensor, Tensor]:
    """Token ids and their mask, both (batch, longest + trailing), padded on the right."""
    lengths = np.array([len(ids) for ids in tokens])
    mask = np.arange(lengths.max() + trailing) < lengths[:, None]
    ids = np.full(mask.shape, padding, dtype=np.int64)
    ids[mask] = np.concatenate([np.asarray(row, dtype=np.int64) for row in tokens])
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask.astype(np.int64)).to(device)


def _tokenised(encoder: Encoder, sentences: Sequence[str], prompt: str) -> list[list[int]]:
    normalise = normalisation(encoder.settings.text_normalisation)
    tokens: list[list[int]] = []
    for start in range(0, len(sentences), TOKENISED_AT_ONCE):
        part = [prompt + normalise(sentence) for sentence in sentences[start : start + TOKENISED_AT_ONCE]]
        tokens += tokenise(encoder.tokenizer, part, encoder.settings.max_length)
    return tokens


def _prompt_length(encoder: Encoder, prompt: str) -> int:
    """How many leading tokens stay out of the pooling."""
    if not prompt or encoder.settings.pool_prompt:
        return 0
    ids = tokenise(encoder.tokenizer, [prompt], encoder.settings.max_length)[0]
    return len(ids) - (ids[-1] in encoder.tokenizer.all_special_ids)


def _encode_batch(
    encoder: Encoder, ids: Tensor, mask: Tensor, prompt_length: int, normalize: bool
) -> NDArray[np.float32]:
    pooled_mask = mask
    if prompt_length:
        pooled_mask = mask.clone()
        pooled_mask[:, :prompt_length] = 0
    vectors = encoder(ids, mask, pooled_mask).float()
    if normalize:
        vectors = torch.nn.functional.normalize(vectors, dim=-1)
    return np.asarray(vectors.cpu().numpy(), dtype=np.float32)
