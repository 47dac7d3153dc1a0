"""Words of sentences, as far as counting them goes, and what groups of sentences are about by their words."""

from __future__ import annotations

import math
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


WORDS = 3  # of a label
WITHOUT_WORDS = "(no words)"


def label_groups(texts: Sequence[str], groups: Sequence[int], count: int) -> list[str]:
    """For each of `count` groups its most characteristic words, the most characteristic first.

    A word counts by share · log³(share / share of all sentences): how often it is met in the group, and how much more
    often than elsewhere. The power keeps "which" and "are" behind "university", whose sentences are far fewer. Words
    that are everywhere count nothing; a lone group has its commonest words.
    """
    everywhere: Counter[str] = Counter()
    within: list[Counter[str]] = [Counter() for _ in range(count)]
    sizes = Counter(groups)
    for text, group in zip(texts, groups, strict=True):
        distinct = {word for word in words(text) if _tells(word)}
        everywhere.update(distinct)
        within[group].update(distinct)

    def weight(word: str, group: int) -> float:
        share = within[group][word] / sizes[group]
        return share * math.log(share * len(texts) / everywhere[word]) ** 3

    labels = []
    for group, met in enumerate(within):
        best = sorted(met, key=lambda word: (-weight(word, group), -met[word], word))[:WORDS]
        labels.append(", ".join(best) or WITHOUT_WORDS)
    return labels


def _tells(word: str) -> bool:
    """Numbers and one or two letters of the Latin alphabet say little; two signs of another script can be a word."""
    return not word.isdigit() and (len(word) > 2 or not word.isascii())
