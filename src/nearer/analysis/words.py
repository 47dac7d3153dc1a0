"""Words of a sentence, as far as counting them goes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

WORD = re.compile(r"\w+(?:['’]\w+)*")


def words(sentence: str) -> list[str]:
    """Lower-cased, without punctuation: "Don't stop, 東京!" is "don't", "stop" and "東京"."""
    return WORD.findall(sentence.lower())


def word_counts(sentences: Iterable[str]) -> Counter[str]:
    """How often each word occurs."""
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(words(sentence))
    return counts


def length_difference(first: Sequence[str], second: Sequence[str]) -> float:
    """By how many words one sentence is longer than the other."""
    return float(abs(len(first) - len(second)))


def lexical_overlap(first: Sequence[str], second: Sequence[str]) -> float:
    """Shared words divided by the longer sentence's number of words (DebCSE, Table 1); 0 without words."""
    longer = max(len(first), len(second))
    return (Counter(first) & Counter(second)).total() / longer if longer else 0.0
