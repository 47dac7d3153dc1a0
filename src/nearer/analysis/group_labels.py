"""What groups of sentences are about, in the words that set each apart from the rest."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from nearer.analysis.words import words

WORDS = 3
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
