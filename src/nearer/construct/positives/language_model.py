"""A pretrained text generator from transformers: loaded strictly, run greedily in batches of like length."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nearer.construct.model_files import generator_folder
from nearer.encoder.backbone import longest_input, quiet
from nearer.encoder.batching import cut, longest_first
from nearer.encoder.tokenizer import load_tokenizer
from nearer.errors import ModelError, first_line
from nearer.extras import require
from nearer.text.tokenise import tokenizer_fingerprint

BATCH_TOKENS = {"cpu": 2048, "cuda": 65536}  # a GPU waits for launches until batches are large
# What a model says about its own decoding and still holds without sampling. The rest (sampling, lengths for
# summaries, a forced end that hides that there was none) is ours to say.
KEPT_SETTINGS = (
    "bos_token_id",
    "decoder_start_token_id",
    "forced_bos_token_id",
    "bad_words_ids",
    "suppress_tokens",
    "no_repeat_ngram_size",
    "repetition_penalty",
)
# Settings of a configuration that may differ between two copies of a model, or matter in training only.
_NOT_DECIDING = (
    "_",
    "output_",
    "transformers_version",
    "architectures",
    "dtype",
    "torch_dtype",
    "id2label",
    "label2id",
)


@dataclass(frozen=True)
class Generation:
    """What came of an input. fault: why the text is not whole ("input too long", "no end"), or None."""

    text: str
    fault: str | None = None


class LanguageModel:
    """A sequence-to-sequence or causal model by name or folder, told apart by its configuration.

    Computes in float32. Batches are padded, so an output is the input's own up to rounding: only where two tokens are
    equally likely within about 1e-6 can the other inputs of a call decide between them.
    """

    def __init__(self, name: str, device: torch.device | None = None, *, beams: int = 1) -> None:
        self.name = name
        self.device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.beams = beams
        folder = generator_folder(name)
        self.model, self.sequence_to_sequence = _load(folder)
        self.tokenizer: Any = _load_tokenizer(folder)
        self.settings = self._settings()
        self.ends = _as_list(self.model.generation_config.eos_token_id) or _as_list(self.tokenizer.eos_token_id)
        if not self.ends:
            raise ModelError(f"{name}: neither its configuration nor its tokenizer says which token ends a text.")
        padding = self.tokenizer.pad_token_id
        self.padding = int(padding if padding is not None else self.ends[0])
        self.longest = longest_input(self.model, self.tokenizer)
        self.model.eval().to(self.device)

    @cached_property
    def digest(self) -> str:
        """Of the weights, the tokenizer and the settings that decide an output."""
        digest = hashlib.blake2b(digest_size=16)
        config = {
            name: value
            for name, value in self.model.config.to_dict().items()
            if not name.startswith(_NOT_DECIDING) and "dropout" not in name and "layerdrop" not in name
        }
        described = [config, self.settings, self.ends, _tokenizer_digest(self.tokenizer)]
        digest.update(json.dumps(described, sort_keys=True, default=str).encode())
        kept = self.model.state_dict()
        for name in sorted(kept):
            tensor = kept[name].detach().cpu().contiguous()
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(tensor.flatten().view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def tokens(self, texts: Sequence[str], *, special: bool = True) -> list[list[int]]:
        """Not cut: what is too long is told by `generate`, not shortened."""
        if not texts:
            return []
        with quiet():  # a line for each text that is too long
            encoded = self.tokenizer(list(texts), add_special_tokens=special, return_attention_mask=False)
        return [list(ids) for ids in encoded["input_ids"]]

    def generate(
        self, inputs: Sequence[list[int]], limits: Sequence[int], ends: Sequence[int] = ()
    ) -> list[Generation]:
        """The model's text for each input (token ids), ended within its limit of new tokens.

        ends: tokens that end a text besides the model's own.
        """
        if self.sequence_to_sequence:  # the output has positions of its own
            limits = [min(limit, self.longest) for limit in limits]
        results = [Generation("", "input too long")] * len(inputs)
        fitting = [index for index, ids in enumerate(inputs) if ids and self._fits(len(ids), limits[index])]
        order = longest_first(np.array([len(inputs[index]) for index in fitting], dtype=np.int64))
        indices = [fitting[number] for number in order]
        start = 0
        budget = BATCH_TOKENS.get(self.device.type, BATCH_TOKENS["cpu"]) // self.beams
        for size in cut(np.array([len(inputs[index]) for index in indices], dtype=np.int64), budget):
            batch = indices[start : start + size]
            start += size
            limit = max(limits[index] for index in batch)
            for index, ids in zip(
                batch, self._new_tokens([inputs[index] for index in batch], limit, ends), strict=True
            ):
                results[index] = self._read(ids, limits[index], ends)
        return results

    def _fits(self, length: int, limit: int) -> bool:
        return (length if self.sequence_to_sequence else length + limit) <= self.longest

    def _new_tokens(self, inputs: list[list[int]], limit: int, ends: Sequence[int]) -> list[list[int]]:
        width = max(map(len, inputs))
        ids = torch.full((len(inputs), width), self.padding)  # (batch, width)
        mask = torch.zeros((len(inputs), width), dtype=torch.long)
        for row, tokens in enumerate(inputs):
            # a causal model goes on at the right end, so its padding is on the left
            columns = slice(0, len(tokens)) if self.sequence_to_sequence else slice(width - len(tokens), width)
            ids[row, columns] = torch.tensor(tokens)
            mask[row, columns] = 1
        with torch.inference_mode(), quiet():
            generated: Any = self.model.generate(
                input_ids=ids.to(self.device),
                attention_mask=mask.to(self.device),
                max_new_tokens=limit,
                eos_token_id=[*self.ends, *ends],
            )
        # in front: the token that starts a decoder, or a causal model's input
        return generated[:, 1 if self.sequence_to_sequence else width :].tolist()  # type: ignore[no-any-return]

    def _read(self, ids: list[int], limit: int, ends: Sequence[int]) -> Generation:
        stops = {*self.ends, *ends}
        end = next((index for index, token in enumerate(ids[:limit]) if token in stops), None)
        # the end itself too: one that stands for a line break may hold the last letters
        text = self.tokenizer.decode(ids[: limit if end is None else end + 1], skip_special_tokens=True)
        return Generation(text.strip(), "no end" if end is None else None)

    def _settings(self) -> dict[str, Any]:
        """Makes the model's own settings those that are kept, greedy; returns them."""
        from transformers import GenerationConfig

        told = self.model.generation_config
        kept = {name: getattr(told, name, None) for name in KEPT_SETTINGS}
        kept = {name: value for name, value in kept.items() if value is not None}
        self.model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
            **kept,
            do_sample=False,
            num_beams=self.beams,
            eos_token_id=told.eos_token_id,
            pad_token_id=told.pad_token_id if told.pad_token_id is not None else self.tokenizer.pad_token_id,
        )
        return {**kept, "beams": self.beams}


def _load(folder: Path) -> tuple[Any, bool]:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    try:
        config = AutoConfig.from_pretrained(folder)
    except Exception as error:
        raise ModelError(f"{folder}: config.json cannot be used ({first_line(error)}).") from error
    both = bool(getattr(config, "is_encoder_decoder", False))
    family: Any = AutoModelForSeq2SeqLM if both else AutoModelForCausalLM
    decoder = both or not _is_encoder(config)
    if type(config) not in family._model_mapping or not decoder:
        raise ModelError(
            f"{folder}: a {config.model_type!r} model generates no text; name a causal LM or a seq2seq one."
        )
    try:
        with quiet():
            # pickled weights are read by torch's restricted reader, which runs no code
            model, info = family.from_pretrained(
                folder, dtype=torch.float32, output_loading_info=True, weights_only=True
            )
    except Exception as error:
        raise ModelError(f"{folder}: its weights cannot be loaded ({first_line(error)}).") from error
    amiss = [*info["missing_keys"], *info["mismatched_keys"]]
    if amiss:
        raise ModelError(f"{folder}: the weight {amiss[0]!r} is missing or misshapen ({len(amiss)} such in all).")
    return model, both


def _is_encoder(config: Any) -> bool:
    """BERT and its kin can be built as causal LMs, but only those trained so say that they are decoders."""
    from transformers import AutoModelForMaskedLM

    return type(config) in AutoModelForMaskedLM._model_mapping and not getattr(config, "is_decoder", False)


def _load_tokenizer(folder: Path) -> Any:
    if any(folder.glob("*.spm")):
        require("sentencepiece", "translation", f"{folder}: a Marian model's tokenizer")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*sacremoses")  # recommended by transformers, but never called
        return load_tokenizer(folder)


def _tokenizer_digest(tokenizer: Any) -> str:
    """As `tokenizer_fingerprint`; Marian's, whose settings hold the folder's path, by its vocabulary and two models."""
    if not hasattr(tokenizer, "spm_source"):
        return tokenizer_fingerprint(tokenizer)
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps([sorted(tokenizer.encoder.items()), sorted(tokenizer.decoder.items())]).encode())
    for pieces in (tokenizer.spm_source, tokenizer.spm_target):
        digest.update(pieces.serialized_model_proto())
    return digest.hexdigest()


def _as_list(ids: int | list[int] | None) -> list[int]:
    return [] if ids is None else [ids] if isinstance(ids, int) else list(ids)
