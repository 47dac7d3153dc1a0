"""A cross-encoder: reads a query and a passage together and says how well the passage answers. Slow, and a good judge.

Pairs are sorted by length, and a batch has a bounded number of tokens. Passages that are scored again and again can be
tokenised once for all (`CrossEncoder.tokenise`): on a GPU this takes longer than scoring.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nearer.encoder.backbone import (
    check_model_folder,
    check_numbers,
    check_size,
    check_weight_files,
    longest_input,
    quiet,
    trailing_padding,
)
from nearer.encoder.batching import OF_THIS_PROCESS, CutCounter, CutTexts, Tokenised, check_batches, cut, longest_first
from nearer.encoder.checkpoint_weights import CONSTANTS
from nearer.encoder.comparing import Ranked, listed
from nearer.encoder.encoder import chosen_device
from nearer.encoder.fingerprint import deciding_config, digest_model
from nearer.encoder.precision import lower_classifier
from nearer.encoder.sources import model_folder
from nearer.encoder.tokenizer import load_tokenizer
from nearer.errors import InputError, ModelError, SettingError, first_line
from nearer.storage.checksums import check_folder
from nearer.teachers.pair_tokens import PairRows, find_template, tokenise_many
from nearer.terminal import progress_bar
from nearer.text.tokenise import tokenizer_fingerprint

# Padded tokens that pass the model together. On a CPU larger batches leave its caches, and are slower.
TOKENS_ON_CPU, TOKENS_ON_GPU = 512, 65_536
LOWER = {"bf16": torch.bfloat16, "fp16": torch.float16}
PRECISIONS = ("float32", *LOWER)
KIND = "ForSequenceClassification"
WANTED = "a cross-encoder is a sequence-classification model with one label, such as ms-marco-MiniLM-L-12-v2"


class ScoredPairs(NamedTuple):
    """scores: the logits; tokens: that each pair has; cut: whether more of it was left out. Each is (n,)."""

    scores: NDArray[np.float32]
    tokens: NDArray[np.int64]
    cut: NDArray[np.bool_]


class CrossEncoder:
    """Scores pairs of a query and a passage.

    Load one with `CrossEncoder.load`. Several threads may ask at once; they are answered one by one.

    Attributes:
        name: The folder or name that it was loaded from.
        max_length: Tokens of a pair that are read; the rest of a passage is cut, and counted in `cut_pairs`.
        precision: What it computes in: float32, on a GPU also bf16 or fp16. The last layer is float32 always.

    Examples:
        >>> import nearer
        >>> nearer.CrossEncoder.load("wiki-mini")  # has no layer that scores
        Traceback (most recent call last):
        nearer.errors.ModelError: ...wiki-mini: is no cross-encoder (it is a BertForMaskedLM); ...
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        name: str,
        *,
        max_length: int | None = None,
        precision: str | None = None,
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.name = name
        self.device = next(model.parameters()).device
        self.precision = precision or ("bf16" if self.device.type == "cuda" else "float32")
        if self.precision not in PRECISIONS:
            raise SettingError(f"precision: {precision!r} is not one of {', '.join(PRECISIONS)}.")
        if self.precision != "float32" and self.device.type != "cuda":
            raise SettingError(f"precision: {self.precision} is for a GPU, the cross-encoder is on {self.device}.")
        self.template = find_template(tokenizer, name)
        longest = longest_input(model, tokenizer)
        shortest = self.template.special + 2
        if max_length is not None and not shortest <= max_length <= longest:
            raise SettingError(
                f"max_length: {max_length} is not between {shortest} and {longest}, what {name} can take."
            )
        self.max_length = max_length or longest
        self.cut_counter = CutCounter()
        self._trailing = trailing_padding(_backbone(model))
        self._padding = tokenizer.pad_token_id
        self._lock = threading.RLock()
        accepted = inspect.signature(model.forward).parameters
        self._has_types = "token_type_ids" in accepted and "token_type_ids" in tokenizer.model_input_names
        lower = LOWER.get(self.precision)
        self._computing = self.model if lower is None else lower_classifier(self.model, lower)

    @classmethod
    def load(
        cls,
        source: str | Path,
        *,
        device: str | torch.device | None = "auto",
        precision: str | None = None,
        max_length: int | None = None,
    ) -> CrossEncoder:
        """Load a sequence-classification model with one label, as the hub has them or sentence-transformers saves them.

        Args:
            source: Its folder or hub name. Weights are read from safetensors alone, and no code of a model is run.
            device: Where it computes; auto takes a GPU if there is one.
            precision: float32, bf16 or fp16; None is bf16 on a GPU and float32 elsewhere.
            max_length: Tokens of a pair that are read; None is as many as the model takes.
        """
        folder = _folder_of(source)
        chosen = chosen_device(None if device == "auto" else device)
        model = _load_model(folder)
        tokenizer = load_tokenizer(folder)
        if tokenizer.pad_token_id is None:
            raise ModelError(f"{folder}: its tokenizer has no padding token, so pairs cannot be scored together.")
        return cls(model.to(chosen), tokenizer, str(source), max_length=max_length, precision=precision)

    def tokenise(self, texts: Sequence[str]) -> Tokenised:
        """Passages as tokens, to be scored as often as one likes."""
        _check_texts(texts, range(len(texts)), "passages")
        return self._tokenised(texts)

    def score(
        self,
        queries: Sequence[str],
        passages: Sequence[str] | Tokenised,
        pairs: NDArray[Any] | Sequence[tuple[int, int]],
        *,
        progress: bool = False,
        batch_tokens: int | None = None,
    ) -> NDArray[np.float32]:
        """The model's raw score (logit) of each pair, in the order given.

        Args:
            queries: Texts.
            passages: Texts, or what `tokenise` made of them.
            pairs: For each pair the index of its query and the index of its passage.
            progress: Show a bar.
            batch_tokens: Tokens, padding included, that pass the model together; None chooses by the device.

        Shapes:
            pairs: (n, 2). Returns (n,).
        """
        return self.score_and_count(queries, passages, pairs, progress=progress, batch_tokens=batch_tokens).scores

    def score_and_count(
        self,
        queries: Sequence[str],
        passages: Sequence[str] | Tokenised,
        pairs: NDArray[Any] | Sequence[tuple[int, int]],
        *,
        progress: bool = False,
        batch_tokens: int | None = None,
    ) -> ScoredPairs:
        """As `score`, with the tokens of each pair and whether it was cut."""
        check_batches(batch_tokens, None)
        numbers = _checked_pairs(pairs, len(queries), len(passages))
        if not len(numbers):
            return ScoredPairs(np.empty(0, np.float32), np.empty(0, np.int64), np.empty(0, np.bool_))
        with self._lock, torch.inference_mode():
            rows = self._rows(queries, passages, numbers)
            scores = self._score_rows(rows, batch_tokens, progress)
        if not np.isfinite(scores).all():
            hint = "" if self.precision == "float32" else f" in {self.precision}; use another precision"
            raise ModelError(f"{self.name}: gives scores that are not finite numbers{hint}.")
        return ScoredPairs(scores, rows.lengths, rows.cut)

    def rank(self, query: str, passages: Iterable[str], *, top: int | None = None) -> list[Ranked]:
        """The passages by falling score; equal ones keep their order."""
        if top is not None and top < 1:
            raise SettingError(f"top: {top} is below 1.")
        given = listed(passages, "passages")
        unique = {passage: number for number, passage in enumerate(dict.fromkeys(given))}
        pairs = np.stack([np.zeros(len(unique), dtype=np.int64), np.arange(len(unique))], axis=1)
        scores = self.score([query], list(unique), pairs)[[unique[passage] for passage in given]]
        order = np.argsort(-scores, kind="stable")[:top]
        return [Ranked(int(index), float(scores[index]), given[index]) for index in order]

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all that decides a score: weights, tokenizer, settings."""
        described = {
            "config": deciding_config(cast(Any, self.model.config).to_dict()),
            "tokenizer": tokenizer_fingerprint(self.tokenizer),
            "max_length": self.max_length,
        }
        return digest_model(described, self.model.state_dict())

    @property
    def cut_pairs(self) -> CutTexts:
        """How many pairs it scored so far, and how many of them were too long."""
        return self.cut_counter.found(self.max_length)

    def _rows(self, queries: Sequence[str], passages: Sequence[str] | Tokenised, pairs: NDArray[np.int64]) -> PairRows:
        one, first = self._used(queries, pairs[:, 0], "queries")
        two, second = passages, pairs[:, 1]
        if not isinstance(two, Tokenised):
            two, second = self._used(two, second, "passages")
        numbers = np.stack([first, second], axis=1)
        left = self.tokenizer.truncation_side == "left"
        rows = PairRows.of(self.template, one, two, numbers, max_length=self.max_length, left=left)
        for counter in (self.cut_counter, OF_THIS_PROCESS):
            counter.add(self.max_length, len(numbers), int(rows.cut.sum()))
        return rows

    def _used(self, texts: Sequence[str], numbers: NDArray[np.int64], name: str) -> tuple[Tokenised, NDArray[np.int64]]:
        """The tokens of those texts that are asked for, and which of these each pair has."""
        used, which = np.unique(numbers, return_inverse=True)
        chosen = [texts[number] for number in used.tolist()]
        _check_texts(chosen, used.tolist(), name)
        return self._tokenised(chosen), which.reshape(-1)

    def _tokenised(self, texts: Sequence[str]) -> Tokenised:
        # one token more than could be read, so that it is seen that a text is cut
        with self._lock:
            return tokenise_many(self.tokenizer, texts, self.max_length + 1)

    def _score_rows(self, rows: PairRows, batch_tokens: int | None, progress: bool) -> NDArray[np.float32]:
        on_gpu = self.device.type == "cuda"
        multiple = 8 if on_gpu else 1  # matrix products are faster so
        lengths = rows.lengths
        order = longest_first(lengths)
        widths = np.minimum(-(-lengths[order] // multiple) * multiple, self.max_length) + self._trailing
        found = torch.empty(len(order), dtype=torch.float32, device=self.device)
        start = 0
        with progress_bar("scoring", len(order), "pairs", shown=progress) as advance:
            for count in cut(widths, batch_tokens or (TOKENS_ON_GPU if on_gpu else TOKENS_ON_CPU)):
                filled = rows.fill(order[start : start + count], int(widths[start]), self._padding)
                found[start : start + count] = self._logits(*filled)
                start += count
                advance(count)
        scores = np.empty(len(order), dtype=np.float32)
        scores[order] = found.cpu().numpy()
        return scores

    def _logits(self, ids: NDArray[np.int32], mask: NDArray[np.int32], types: NDArray[np.int32]) -> Tensor:
        given = {"input_ids": ids, "attention_mask": mask}
        if self._has_types:
            given["token_type_ids"] = types
        logits: Tensor = self._computing(**{name: self._on_device(array) for name, array in given.items()}).logits
        return logits.reshape(len(ids)).float()

    def _on_device(self, array: NDArray[np.int32]) -> Tensor:
        tensor = torch.from_numpy(array)
        if self.device.type == "cuda":  # the host goes on at once and makes the next batch
            tensor = tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor.long()


def _checked_pairs(pairs: NDArray[Any] | Sequence[tuple[int, int]], queries: int, passages: int) -> NDArray[np.int64]:
    found = np.asarray(pairs)
    if not found.size:
        return np.empty((0, 2), dtype=np.int64)
    if found.ndim != 2 or found.shape[1] != 2 or not np.issubdtype(found.dtype, np.integer):
        raise InputError(f"pairs: {found.dtype} of shape {found.shape} given, whole numbers (n, 2) are needed.")
    for column, (count, name) in enumerate(((queries, "queries"), (passages, "passages"))):
        least, most = int(found[:, column].min()), int(found[:, column].max())
        if least < 0 or most >= count:
            raise InputError(f"pairs: {name} {least} to {most} are asked for, there are 0 to {count - 1}.")
    return found.astype(np.int64)


def _check_texts(texts: Sequence[str], numbers: Iterable[int], name: str) -> None:
    for number, text in zip(numbers, texts, strict=True):
        if not isinstance(text, str):
            raise InputError(f"{name}: item {number} is {type(text).__name__}, a string is needed.")


def _backbone(model: nn.Module) -> nn.Module:
    inner: nn.Module = getattr(model, getattr(model, "base_model_prefix", ""), model)
    return inner


def _folder_of(source: str | Path) -> Path:
    try:
        return model_folder(source)
    except ModelError as error:
        if "/" in str(source) or Path(source).exists():
            raise
        try:  # sentence-transformers' own cross-encoders go by their short names too
            return model_folder(f"cross-encoder/{source}")
        except ModelError:
            raise error from None


def _load_model(folder: Path) -> nn.Module:
    from transformers import AutoConfig, AutoModelForSequenceClassification

    check_folder(folder, "get the model again, from where it came")
    check_model_folder(folder)
    check_weight_files(folder)
    suspicious = check_numbers(folder)
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:
        raise ModelError(f"{folder}: config.json cannot be used ({first_line(error)}).") from error
    _check_kind(folder, config)
    family: Any = AutoModelForSequenceClassification
    if suspicious:
        check_size(folder, config, family)
    try:
        with quiet():
            model, info = family.from_pretrained(
                folder,
                config=config,
                dtype=torch.float32,
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
    except Exception as error:
        raise ModelError(f"{folder}: its weights cannot be loaded ({first_line(error)}).") from error
    for keys, what in (("missing_keys", "is missing"), ("unexpected_keys", "is not expected")):
        wrong = sorted(key for key in info[keys] if key.rpartition(".")[2] not in CONSTANTS)
        if wrong:
            more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
            raise ModelError(f"{folder}: the weight {wrong[0]!r} {what}{more}; {WANTED}.")
    module: nn.Module = model
    return module


def _check_kind(folder: Path, config: Any) -> None:
    """That it is a classifier with one label: transformers would make one of any model, with random weights."""
    named = getattr(config, "architectures", None)
    others = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    if others and not any(KIND in name for name in others):
        raise ModelError(f"{folder}: is no cross-encoder (it is a {others[0]}); {WANTED}.")
    labels = int(getattr(config, "num_labels", 0) or 0)
    if labels != 1:
        some = ", ".join(str(label) for label in list(config.id2label.values())[:4])
        raise ModelError(f"{folder}: is no cross-encoder (it has {labels} labels: {some}); {WANTED}.")
