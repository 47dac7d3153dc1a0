"""Word vectors from a text file: a word and its numbers on each line, as GloVe, word2vec and fastText write them."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearer.errors import InputError
from nearer.progress import progress_bar
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
