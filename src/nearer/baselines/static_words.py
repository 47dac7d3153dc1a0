"""A sentence as the mean of its words' vectors: the GloVe baseline of the papers.

Saved as a folder:

    static_words.json   the settings, and where the vectors come from
    words.txt           a word a line, in the order of the rows
    vectors.npy         (words, dimension), float32
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from nearer.encoder.comparing import ByCosine, Vectors, listed, unit_rows
from nearer.encoder.encoding import check_sentences
from nearer.encoder.parts import EncoderSettings
from nearer.errors import InputError, ModelError, first_line
from nearer.storage.checksums import check_folder
from nearer.storage.whole import whole_folder
from nearer.terminal import progress_bar
from nearer.text.sources import DamagedStream, RawLine, iter_lines, open_bytes

AT_ONCE = 2**14  # lines between two moves of the progress bar, and rows of one block


@dataclass(frozen=True, eq=False)
class WordVectors:
    """words: row by word; vectors: (words, dimension), float32. repeated: lines of words that came before, left out."""

    words: dict[str, int]
    vectors: NDArray[np.float32]
    repeated: int


def read_word_vectors(
    path: str | Path, *, needed: Collection[str] | None = None, progress: bool = False
) -> WordVectors:
    """Read line by line, from plain or compressed files of any size.

    needed: keep these words only. A first line with two whole numbers (word2vec, fastText) is taken for a heading.
    Words may hold spaces, as some of GloVe's do: the last `dimension` columns are the numbers.
    """
    wanted = None if needed is None else set(needed)
    words: dict[str, int] = {}
    blocks: list[NDArray[np.float32]] = []
    rows: list[NDArray[np.float32]] = []
    dimension = repeated = 0
    with open_bytes(path) as (stream, _), progress_bar("word vectors", None, "lines", shown=progress) as advance:
        try:
            for line in iter_lines(stream):
                if line.number % AT_ONCE == 0:
                    advance(AT_ONCE)
                data = _data(line, path)
                if line.number == 1 and _is_heading(data):
                    continue
                dimension = dimension or data.count(b" ")
                word, numbers = _split(data, dimension, path, line.number)
                if wanted is not None and word not in wanted:
                    continue
                if word in words:
                    repeated += 1
                    continue
                words[word] = len(words)
                rows.append(_numbers(numbers, dimension, path, line.number))
                if len(rows) == AT_ONCE:
                    blocks.append(np.stack(rows))
                    rows = []
        except DamagedStream as damage:
            raise InputError(f"{path}: line {damage.line}: the compressed data is damaged ({damage}).") from None
    if not words:
        found = "none of the words asked for" if dimension else "no lines with a word and numbers"
        raise InputError(f"{path}: holds {found}.")
    if rows:
        blocks.append(np.stack(rows))
    return WordVectors(words, np.concatenate(blocks), repeated)


def _data(line: RawLine, path: str | Path) -> bytes:
    if line.data is None:
        raise InputError(f"{path}: line {line.number} has {line.length:,} bytes; that is no word with its vector.")
    return line.data.rstrip(b" ")


def _is_heading(data: bytes) -> bool:
    fields = data.split(b" ")
    return len(fields) == 2 and all(field.isdigit() for field in fields)


def _split(data: bytes, dimension: int, path: str | Path, number: int) -> tuple[str, bytes]:
    """The word, and the text of its numbers."""
    spaces = data.count(b" ")
    if not dimension or spaces < dimension:
        wanted = f"a word and {dimension} numbers" if dimension else "a word and numbers with spaces between them"
        raise InputError(f"{path}: line {number} has {spaces + 1} columns, {wanted} are needed.")
    if spaces == dimension:
        word, _, numbers = data.partition(b" ")
    else:
        parts = data.rsplit(b" ", dimension)
        word, numbers = parts[0], b" ".join(parts[1:])
    try:
        text = word.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path}: line {number}: its word is not UTF-8.") from None
    if not text:
        raise InputError(f"{path}: line {number} has no word before its numbers.")
    return text, numbers


def _numbers(text: bytes, dimension: int, path: str | Path, number: int) -> NDArray[np.float32]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # numpy's word for text that breaks off; counted below
        try:
            values = np.fromstring(text.decode("ascii"), dtype=np.float32, sep=" ")
        except ValueError:
            values = np.zeros(0, dtype=np.float32)
    if len(values) != dimension or not np.isfinite(values).all():
        raise InputError(f"{path}: line {number}: {dimension} finite numbers are needed behind the word.")
    return values


FACTS_FILE, WORDS_FILE, VECTORS_FILE = "static_words.json", "words.txt", "vectors.npy"
FORMAT = 1
MAX_WORDS = 10_000
WINDOW = 2**12  # sentences taken at a time
# "don't" is "do" and "n't", "John's" is "John" and "'s", as in the text that GloVe learned from
TOKEN = re.compile(
    r"""\w+(?=n['’]t\b) | n['’]t\b | ['’](?:s|re|ve|ll|d|m)\b   # contractions
    | (?:[^\W\d_]\.){2,} | \d+(?:[.,]\d+)+                     # U.S., 1,000
    | \w+(?:-\w+)* | [^\w\s]                                   # well-known, and a mark of punctuation""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True)
class Coverage:
    """How much of a text the vectors know."""

    words: int
    unknown: int
    sentences: int
    without_any: int


@dataclass(eq=False)
class StaticWords(ByCosine):
    """A model without context, with the calls of `Encoder` that evaluation, analysis and ranking use.

    Each word is looked up as it is written, then in lower case. Unknown words are left out of the mean; a sentence of
    unknown words alone has a vector of zeros, whose cosine with everything is 0 (`coverage` counts them).
    """

    words: dict[str, int]
    vectors: NDArray[np.float32]
    name: str = "static words"
    max_words: int = MAX_WORDS
    provenance: dict[str, Any] = field(default_factory=dict)

    scoring: ClassVar[str] = "cosine"
    precision: ClassVar[str] = "float32"
    head: ClassVar[None] = None
    device: ClassVar[torch.device] = torch.device("cpu")

    def __post_init__(self) -> None:
        if self.vectors.ndim != 2 or len(self.vectors) != len(self.words) or not len(self.words):
            raise InputError(f"word vectors: of shape {self.vectors.shape} for {len(self.words):,} words.")

    @classmethod
    def read(cls, path: str | Path, *, needed: Iterable[str] | None = None, progress: bool = False) -> StaticWords:
        """From a text file of word vectors (GloVe's, word2vec's, fastText's; compressed or not).

        needed: sentences; of a file too big for memory only their words are kept.
        """
        wanted = None if needed is None else _all_forms(needed)
        read = read_word_vectors(path, needed=wanted, progress=progress)
        facts = {"file": str(path), "words": len(read.words), "repeated": read.repeated, "subset": wanted is not None}
        return cls(read.words, read.vectors, name=str(path), provenance=facts)

    @classmethod
    def load(cls, folder: str | Path) -> StaticWords:
        path = Path(folder)
        check_folder(path, "save it anew")
        try:
            facts = json.loads((path / FACTS_FILE).read_text(encoding="utf-8"))
            if facts["format"] != FORMAT:
                raise ModelError(f"{path}: format {facts['format']!r}, this version reads {FORMAT}; update nearer.")
            # bytes, since a carriage return may be a word
            listed = (path / WORDS_FILE).read_bytes().decode("utf-8").split("\n")[:-1]
            vectors = np.load(path / VECTORS_FILE, mmap_mode="r")
            words = {word: row for row, word in enumerate(listed)}
            if vectors.dtype != np.float32 or vectors.ndim != 2 or not len(words) == len(listed) == len(vectors):
                raise ValueError(f"{len(words):,} words, vectors {vectors.shape} of {vectors.dtype}")
            return cls(words, vectors, str(folder), int(facts["max_words"]), dict(facts["provenance"]))
        except FileNotFoundError as error:
            raise ModelError(f"{path}: is no folder of static words (no {Path(str(error.filename)).name}).") from None
        except ModelError:
            raise
        except Exception as error:  # numpy and json complain of damage in many ways
            raise ModelError(f"{path}: cannot be used ({first_line(error)}); save it anew.") from None

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Written beside its path and moved there whole."""
        path = Path(folder)
        facts = {"format": FORMAT, "max_words": self.max_words, "provenance": self.provenance}
        with whole_folder(path, overwrite=overwrite) as built:
            (built / FACTS_FILE).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
            listed = sorted(self.words, key=self.words.__getitem__)
            (built / WORDS_FILE).write_bytes("".join(f"{word}\n" for word in listed).encode("utf-8"))
            np.save(built / VECTORS_FILE, np.ascontiguousarray(self.vectors, dtype=np.float32))

    @cached_property
    def settings(self) -> EncoderSettings:
        return EncoderSettings(pooling="mean", max_length=self.max_words)

    @property
    def dimension(self) -> int:
        return int(self.vectors.shape[1])

    def encode(
        self,
        sentences: str | Iterable[str],
        *,
        batch_size: int | None = None,
        normalize: bool = False,
        progress: bool = False,
    ) -> Vectors:
        """Vectors of sentences, float32: (dimension,) for one string, (sentences, dimension) for several."""
        if isinstance(sentences, str):
            one: Vectors = self.encode([sentences], normalize=normalize)[0]
            return one
        texts = listed(sentences, "sentences")
        check_sentences(texts)
        window = batch_size or WINDOW
        found = np.zeros((len(texts), self.dimension), dtype=np.float32)
        with progress_bar("encoding", len(texts), "sentences", shown=progress) as advance:
            for start in range(0, len(texts), window):
                rows = [self._rows(sentence) for sentence in texts[start : start + window]]
                known = np.flatnonzero([len(some) for some in rows])
                if len(known):
                    counts = np.array([len(rows[number]) for number in known])
                    together = np.concatenate([rows[number] for number in known])
                    sums = np.add.reduceat(self.vectors[together], np.cumsum(counts) - counts, axis=0)
                    found[start + known] = sums / counts[:, None]
                advance(len(rows))
        chosen: Vectors = unit_rows(found) if normalize else found
        return chosen

    def coverage(self, sentences: Iterable[str]) -> Coverage:
        words = unknown = count = without_any = 0
        for sentence in sentences:
            found, known = len(tokens(sentence)[: self.max_words]), len(self._rows(sentence))
            words, unknown, count = words + found, unknown + found - known, count + 1
            without_any += not known
        return Coverage(words, unknown, count, without_any)

    def _rows(self, sentence: str) -> NDArray[np.int64]:
        """The rows of the words that are known."""
        found = (self._row(word) for word in tokens(sentence)[: self.max_words])
        return np.array([row for row in found if row is not None], dtype=np.int64)

    def _row(self, word: str) -> int | None:
        return next((self.words[form] for form in forms(word) if form in self.words), None)


def tokens(sentence: str) -> list[str]:
    """Words and punctuation marks, as nearly as a pattern can say. Tokenised text stays as it is."""
    return TOKEN.findall(sentence)


def forms(word: str) -> Collection[str]:
    """The spellings that a word is looked up by, in order."""
    plain = word.replace("’", "'")
    return dict.fromkeys((word, plain, plain.lower()))


def _all_forms(sentences: Iterable[str]) -> set[str]:
    return {form for sentence in sentences for word in tokens(sentence) for form in forms(word)}
