"""Loading a tokenizer from whatever files a checkpoint has it in: the same one before saving and after."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from nearer.encoder.backbone import quiet
from nearer.errors import ModelError, first_line, shown, tell
from nearer.typed_files import parsed_file

# Files that a tokenizer can be made of, besides those that its own class names.
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model")
# Files with the ids of tokens
ID_FILES = ("tokenizer.json", "vocab.json", "added_tokens.json", "tokenizer_config.json")
LARGEST_ID = 9_999_999  # vocabularies of published models have up to a million tokens
LONG_NUMBER = re.compile(rb"\d{8,}")
SAMPLE = "Naïve café: 東京, 3.5 %!"


def load_tokenizer(folder: Path, *, trust_remote_code: bool = False) -> Any:
    from transformers import AutoTokenizer

    for name in ID_FILES:
        check_token_ids(folder / name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code)
        if not tokenizer.model_max_length >= 1:
            raise ValueError(f"model_max_length: {tokenizer.model_max_length}")
        tokenizer(SAMPLE)
    except Exception as error:
        if not _tokenizer_files(folder):
            raise ModelError(f"{folder}: has no tokenizer ({', '.join(TOKENIZER_FILES[:3])} …).") from error
        raise ModelError(f"{folder}: its tokenizer cannot be loaded ({first_line(error)}).") from error
    # transformers makes an empty tokenizer of a class that needs files where there are none; bytes need none (ByT5)
    if type(tokenizer).vocab_files_names and not _tokenizer_files(folder, type(tokenizer).vocab_files_names.values()):
        raise ModelError(f"{folder}: has no tokenizer ({', '.join(TOKENIZER_FILES[:3])} …).")
    return tokenizer if (folder / "tokenizer.json").exists() else _as_it_will_be_saved(folder, tokenizer)


def save_tokenizer(tokenizer: Any, folder: Path, padding: Iterable[str] = (), *, templated: bool = False) -> None:
    """With the padding token that is used here: a tokenizer without one leaves sentence-transformers unable to pad.

    The backbone's configuration stays as it is: its padding token's embedding learns nothing in training.
    padding: the kinds of tokens that pad where there is none for it, the best first. templated: whether it has a
    template.
    """
    if tokenizer.pad_token_id is not None:
        tokenizer.save_pretrained(folder)
    else:
        stand_in = next((token for name in padding if (token := getattr(tokenizer, f"{name}_token", None))), None)
        try:
            tokenizer.pad_token = stand_in
            tokenizer.save_pretrained(folder)
        finally:
            tokenizer.pad_token = None
    if templated:
        _keep_as_it_is(tokenizer, folder)


def _keep_as_it_is(tokenizer: Any, folder: Path) -> None:
    """Let a tokenizer be loaded from tokenizer.json alone: the classes of single families make some parts anew, and a
    template is in these parts."""
    path = folder / "tokenizer_config.json"
    config = parsed_file(path, error=ModelError)
    for name in ("add_bos_token", "add_eos_token", "add_prefix_space", "tokenizer_object", "backend"):
        config.pop(name, None)
    config |= {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": list(tokenizer.model_input_names)}
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    again = load_tokenizer(folder)
    if again(SAMPLE)["input_ids"] != tokenizer(SAMPLE)["input_ids"]:
        raise ModelError(
            f"{type(tokenizer).__name__}: transformers does not load this tokenizer's template as it was saved."
        )


def check_token_ids(path: Path) -> None:
    """The tokenizers library makes a list as long as the largest id, and ends the process if it gets no memory."""
    if not path.exists() or not LONG_NUMBER.search(path.read_bytes()):
        return
    largest = max(_token_ids(path.name, parsed_file(path, error=ModelError)), default=0)
    if largest > LARGEST_ID:
        raise ModelError(f"{path}: has a token with the id {shown(largest)}; ids up to {LARGEST_ID:,} can be used.")


def _token_ids(file: str, content: Any) -> Iterator[int]:
    """Of content that may have any form; only whole numbers where ids stand count."""
    facts: dict[str, Any] = content if isinstance(content, dict) else {}
    if file == "tokenizer_config.json":
        added = facts.get("added_tokens_decoder")
        yield from (int(key) for key in (added if isinstance(added, dict) else ()) if key.isascii() and key.isdigit())
        return
    vocabulary: Any = facts
    if file == "tokenizer.json":
        model = facts.get("model")
        vocabulary = model.get("vocab") if isinstance(model, dict) else None
        tokens = facts.get("added_tokens")
        listed = tokens if isinstance(tokens, list) else []
        yield from (token["id"] for token in listed if isinstance(token, dict) and type(token.get("id")) is int)
    if isinstance(vocabulary, dict):
        yield from (value for value in vocabulary.values() if type(value) is int)


def _as_it_will_be_saved(folder: Path, tokenizer: Any) -> Any:
    """The tokenizer, or the one that transformers saves instead where that is another one.

    RemBERT's, made of its `sentencepiece.model`, puts no tokens around a sentence until it was saved once. A model
    must not change when it is saved.
    """
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        return tokenizer
    from transformers import AutoTokenizer

    with tempfile.TemporaryDirectory(prefix="nearer-") as saved, quiet():
        tokenizer.save_pretrained(saved)
        if (folder / "config.json").exists():  # transformers looks for the tokenizer's kind there too
            shutil.copy(folder / "config.json", saved)
        again = AutoTokenizer.from_pretrained(saved)
    if again(SAMPLE)["input_ids"] == tokenizer(SAMPLE)["input_ids"]:
        return tokenizer
    tell(f"{folder}: transformers saves its tokenizer as one that gives other tokens; that one is used.")
    return again


def _tokenizer_files(folder: Path, named: Iterable[str] = ()) -> list[str]:
    return [name for name in (*TOKENIZER_FILES, *named) if (folder / name).exists()]
