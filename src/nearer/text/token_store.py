"""The token store: a corpus tokenised once, memory-mapped, found again by its content.

A store is a folder named by a digest of the text, the way it was read, the tokenizer and the maximum length:

    tokens.bin    all token ids, one sentence after the other (uint16, or uint32 for large vocabularies)
    offsets.bin   where each sentence begins (int64, one more than there are sentences)
    store.json    what it is, how large the files must be, and the account of the reading
    checksums.json  of these three; a store that is damaged is built anew

It is written under another name and renamed when complete, under a lock that the system releases if the
process dies. So a store is either whole or not there, however many processes build it or are killed. A text that
changes while it is read becomes no store: the digest would name what nobody has read.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from nearer.errors import DamagedError, InputError, ModelError, SettingError, tell
from nearer.storage.cache import cache_folder
from nearer.storage.checksums import check_folder
from nearer.storage.whole import clear_unfinished, make_folder, whole_folder
from nearer.terminal import progress_bar
from nearer.text.batches import chunks
from nearer.text.reading import Reading, changed
from nearer.text.records import texts_of
from nearer.text.shapes import RANKING_LISTS
from nearer.text.tokenise import normalisation, token_counts, tokenise_counting, tokenizer_fingerprint

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FORMAT = 1
RECORDS_AT_ONCE = 8192


class TokenStore:
    """Token ids of a corpus' sentences. A record of k sentences (a pair has 2) has k consecutive rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: dict[str, Any] = json.loads((folder / "store.json").read_text(encoding="utf-8"))
        self.fields: int = self.facts["fields"]
        self.tokens = _mapped(folder / "tokens.bin", np.dtype(self.facts["dtype"]), self.facts["tokens"])
        self.offsets = _mapped(folder / "offsets.bin", np.dtype(np.int64), self.facts["sentences"] + 1)

    @property
    def sentences(self) -> int:
        return len(self.offsets) - 1

    @property
    def cut(self) -> int | None:
        """How many sentences were cut at the maximum length; None for stores of versions that did not count."""
        counted: int | None = self.facts.get("cut")
        return counted

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens in each sentence (sentences,)."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        """The number of records."""
        return self.sentences // self.fields

    def __getitem__(self, sentence: int) -> NDArray[np.unsignedinteger[Any]]:
        """The token ids of one sentence; field f of record r is sentence r * fields + f."""
        if not 0 <= sentence < self.sentences:
            raise IndexError(f"sentence {sentence} of {self.sentences}")
        return self.tokens[self.offsets[sentence] : self.offsets[sentence + 1]]


def open_store(
    reading: Reading[Any],
    tokenizer: PreTrainedTokenizerBase,
    *,
    max_length: int,
    text_normalisation: str = "none",
    prompt: str = "",
    folder: str | Path | None = None,
    progress: bool = False,
) -> TokenStore:
    """The store of this text and tokenizer, built if it is not there yet.

    prompt: stands before every text. folder: where stores are kept.
    """
    if max_length < 3:
        raise SettingError(f"max_length: {max_length} leaves no room for a sentence (3 at least).")
    if (added := token_counts(tokenizer, [""])[0]) >= max_length:
        raise SettingError(
            f"max_length: {max_length} leaves no room for a sentence beside the {added} tokens that are added to each; "
            f"{added + 1} at least."
        )
    root = cache_folder("tokens") if folder is None else Path(folder)
    fingerprint = reading.fingerprint()
    path = root / _key(fingerprint, tokenizer, max_length, text_normalisation, prompt)
    if (store := _opened(path)) is not None:
        return store
    try:
        make_folder(root)
        with FileLock(root / f"{path.name}.lock"):
            if (store := _opened(path)) is not None:  # another process built it while this one waited
                return store
            if path.exists():
                tell(f"{path}: is damaged; the text is tokenised anew.")
            clear_unfinished(root, path.name)
            with whole_folder(path, overwrite=True) as building:
                _build(building, reading, tokenizer, max_length, text_normalisation, prompt, progress)
                if reading.fingerprint() != fingerprint:
                    raise changed(reading)
    except (OSError, ModelError) as error:
        if isinstance(error, InputError):
            raise
        reason = error.strerror or error if isinstance(error, OSError) else error
        raise InputError(f"{root}: the token store cannot be written ({reason}).") from error
    return TokenStore(path)


def _key(
    fingerprint: str, tokenizer: PreTrainedTokenizerBase, max_length: int, text_normalisation: str, prompt: str
) -> str:
    described = [FORMAT, fingerprint, tokenizer_fingerprint(tokenizer), max_length, text_normalisation]
    described += [prompt] if prompt else []  # stores of before there were prompts are found again
    return hashlib.blake2b(json.dumps(described).encode(), digest_size=16).hexdigest()


def _opened(path: Path) -> TokenStore | None:
    """The store, if it is there and whole."""
    try:
        check_folder(path, "it is built anew")
        return TokenStore(path)
    except (OSError, ValueError, KeyError, DamagedError):
        return None


def _build(
    folder: Path,
    reading: Reading[Any],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    text_normalisation: str,
    prompt: str,
    progress: bool,
) -> None:
    normalise = normalisation(text_normalisation)
    dtype = np.dtype(np.uint16 if len(tokenizer) <= 2**16 else np.uint32)
    offsets = [np.zeros(1, dtype=np.int64)]
    fields = total = cut = 0
    with (
        open(folder / "tokens.bin", "wb") as file,
        progress_bar("tokenising", None, "records", shown=progress) as advance,
    ):
        for records in chunks(reading.located(), RECORDS_AT_ONCE):
            texts = [texts_of(record) for _, record in records]
            fields = fields or len(texts[0])
            for (line, _), text in zip(records, texts, strict=True):
                if len(text) != fields:
                    raise _unequal(reading, line, len(text), fields)
            sentences = [prompt + normalise(sentence) for text in texts for sentence in text]
            rows, some_cut = tokenise_counting(tokenizer, sentences, max_length)
            cut += some_cut
            file.write(np.fromiter(itertools.chain.from_iterable(rows), dtype=dtype).tobytes())
            offsets.append(total + np.cumsum([len(row) for row in rows], dtype=np.int64))
            total = int(offsets[-1][-1])
            advance(len(records))
    reading.report.check_kept()
    joined = np.concatenate(offsets)
    joined.tofile(folder / "offsets.bin")
    facts = {
        "format": FORMAT,
        "fields": fields,
        "sentences": len(joined) - 1,
        "tokens": total,
        "dtype": dtype.name,
        "max_length": max_length,
        "cut": cut,
        "text_normalisation": text_normalisation,
        "report": reading.report.to_dict(),
    }
    (folder / "store.json").write_text(json.dumps(facts, indent=2), encoding="utf-8")


def _unequal(reading: Reading[Any], line: int, found: int, wanted: int) -> InputError:
    message = f"{reading.source}: {reading.report.unit} {line} has {found} sentences, those before it have {wanted}"
    if reading.shape is not RANKING_LISTS:
        return InputError(f"{message}; all must have as many.")
    shorter = min(found, wanted)
    return InputError(f"{message}; list_length={shorter} cuts longer lists to {shorter}, and leaves out shorter ones.")


def _mapped(path: Path, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """A file as an array; one of another size than it was written with is refused."""
    if path.stat().st_size != count * dtype.itemsize:
        raise ValueError(f"{path}: has another size than it was written with")
    # as a plain array: each slice of a memmap costs as much as the tokens in it
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=(count,))) if count else np.zeros(0, dtype)
