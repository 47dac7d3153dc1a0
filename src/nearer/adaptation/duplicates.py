"""Documents that say the same: in the same words (up to case and white space), or nearly so.

Near duplicates share most of their shingles, runs of five words. Comparing all pairs would take the square of their
number, so documents are compared that share a band of MinHash values (Broder 1997; Leskovec et al., Mining of Massive
Datasets, ch. 3), and then by their shingles themselves. The time is linear in the number of words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import xxhash
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

NEAR = 0.8  # share of common shingles (Jaccard) from which on documents are near duplicates
WORDS_OF_SHINGLE = 5
FEWEST_WORDS = 12  # of a document: what is shorter resembles many
BANDS, ROWS = 12, 4  # a pair at 0.8 shares a band with probability 0.998, one at 0.3 with 0.09
AT_ONCE = 2**20  # shingles
NOBODY = -1
# Words, and each sign of scripts that are written without spaces
_WORD = re.compile(r"[぀-ヿ㐀-鿿豈-﫿ｦ-ﾟ]|[^\W぀-ヿ㐀-鿿豈-﫿ｦ-ﾟ]+")
_ASCII_WORD = re.compile(r"\w+")  # the same there, and three times as fast


def find_duplicates(texts: Sequence[str]) -> dict[int, int]:
    """By its number, each text that has the words of an earlier one, with the number of the first such."""
    first: dict[bytes, int] = {}
    found: dict[int, int] = {}
    for number, text in enumerate(texts):
        key = xxhash.xxh3_128_digest(" ".join(text.lower().split()).encode(errors="surrogatepass"))
        earlier = first.setdefault(key, number)
        if earlier != number:
            found[number] = earlier
    return found


def find_near_duplicates(texts: Sequence[str]) -> dict[int, int]:
    """By its number, each text that shares `NEAR` of its shingles with an earlier one, with that one's number.

    The earlier one is never itself a near duplicate, so groups have one first text each.
    """
    shingles, starts = _shingles(texts)
    bands = _number_bands(_minhash(shingles, starts))
    firsts = [np.full(len(texts), NOBODY, dtype=np.int32) for _ in range(BANDS)]  # of a band's number, the first text
    found: dict[int, int] = {}
    for number in range(len(texts)):
        own = shingles[starts[number] : starts[number + 1]]
        if not len(own):
            continue
        keys = bands[number].tolist()
        # one candidate a band: a band's first text. So many alike texts cost no more than few.
        candidates = sorted({int(first[key]) for first, key in zip(firsts, keys, strict=True)} - {NOBODY})
        for candidate in candidates:
            if _jaccard(own, shingles[starts[candidate] : starts[candidate + 1]]) >= NEAR:
                found[number] = candidate
                break
        else:
            for first, key in zip(firsts, keys, strict=True):
                if first[key] == NOBODY:
                    first[key] = number
    return found


def _shingles(texts: Sequence[str]) -> tuple[Hashes, NDArray[np.int64]]:
    """The different shingles of all texts one after the other, and where each text's begin (texts + 1)."""
    hashes: dict[str, int] = {}
    parts: list[Hashes] = [np.zeros(0, dtype=np.uint64)]
    counts = np.zeros(len(texts) + 1, dtype=np.int64)
    for number, text in enumerate(texts, start=1):
        words = (_ASCII_WORD if text.isascii() else _WORD).findall(text.lower())
        if len(words) < FEWEST_WORDS:
            continue
        for word in words:
            if word not in hashes:
                hashes[word] = xxhash.xxh3_64_intdigest(word.encode(errors="surrogatepass"))
        made = _of_words(np.fromiter(map(hashes.__getitem__, words), dtype=np.uint64, count=len(words)))
        parts.append(made)
        counts[number] = len(made)
    return np.concatenate(parts), np.cumsum(counts)


def _of_words(words: Hashes) -> Hashes:
    """Hashes of runs of words (words,) → (shingles,), each once, sorted."""
    count = len(words) - WORDS_OF_SHINGLE + 1
    return np.unique(_mix([words[offset : offset + count] for offset in range(WORDS_OF_SHINGLE)]))


def _mix(parts: Sequence[Hashes] | Hashes) -> Hashes:
    """One hash of several, whose order counts: (parts, n) → (n,)."""
    mixed = np.zeros(len(parts[0]), dtype=np.uint64)
    for part in parts:
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + part
        mixed ^= mixed >> np.uint64(29)
    return mixed


def _minhash(shingles: Hashes, starts: NDArray[np.int64]) -> Hashes:
    """(texts, BANDS · ROWS): of each text the least value of its shingles under as many hash functions."""
    draw = np.random.default_rng(0)
    factors = draw.integers(1, 2**63, size=BANDS * ROWS, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    offsets = draw.integers(0, 2**63, size=BANDS * ROWS, dtype=np.uint64)
    values = np.zeros((len(starts) - 1, BANDS * ROWS), dtype=np.uint64)
    filled = np.flatnonzero(np.diff(starts))
    for group in _groups(filled, starts):
        begin, end = starts[group[0]], starts[group[-1] + 1]
        part = shingles[begin:end]
        for number, (factor, offset) in enumerate(zip(factors, offsets, strict=True)):
            hashed = part * factor + offset
            hashed ^= hashed >> np.uint64(32)  # the low bits of a product are weak
            values[group, number] = np.minimum.reduceat(hashed * factor, starts[group] - begin)
    return values


def _number_bands(values: Hashes) -> NDArray[np.int32]:
    """(texts, BANDS · ROWS) → (texts, BANDS): equal numbers where all values of a band are equal.

    Dictionaries of bands would take gigabytes for a million texts.
    """
    numbers = np.empty((len(values), BANDS), dtype=np.int32)
    for band in range(BANDS):
        mixed = _mix(values[:, band * ROWS : (band + 1) * ROWS].T)
        numbers[:, band] = np.unique(mixed, return_inverse=True)[1].reshape(-1)
    return numbers


def _groups(filled: NDArray[np.int64], starts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Texts that are hashed together: about `AT_ONCE` shingles."""
    if not len(filled):
        return []
    cuts = np.flatnonzero(np.diff(starts[filled] // AT_ONCE)) + 1
    edges = [0, *cuts.tolist(), len(filled)]
    return [filled[begin:end] for begin, end in pairwise(edges)]


def _jaccard(one: Hashes, other: Hashes) -> float:
    """Of two sorted sets."""
    common = len(np.intersect1d(one, other, assume_unique=True))
    return common / (len(one) + len(other) - common)
