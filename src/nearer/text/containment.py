"""Pairs in which one side contains the other, such as a text that begins with its own title.

Matching such a pair takes no understanding: the words are the same. Reading counts these pairs, and can cut the shared
words out of the longer side.
"""

from __future__ import annotations

import re

from nearer.text.records import Pair

WORD = re.compile(r"\w+")
# What may stand between the part that is cut out and the rest of the text
BETWEEN = re.compile(r"[\s.,;:!?|/–—-]*")
# One word says little: "rain" stands in many an answer
FEWEST_WORDS = 2


def contains_the_other(pair: Pair) -> bool:
    """Whether all words of one side stand in the other, in order and without a gap; case and punctuation aside."""
    shorter, longer = sorted((plain_words(pair.first), plain_words(pair.second)), key=len)
    return len(shorter) >= FEWEST_WORDS and f" {' '.join(shorter)} " in f" {' '.join(longer)} "


def without_the_other(pair: Pair) -> Pair | None:
    """The pair with the shorter side's words cut out of the longer one; None where nothing would be left of it."""
    if len(plain_words(pair.first)) > len(plain_words(pair.second)):
        rest = _cut(pair.first, pair.second)
        return None if rest is None else pair._replace(first=rest)
    rest = _cut(pair.second, pair.first)
    return None if rest is None else pair._replace(second=rest)


def _cut(longer: str, shorter: str) -> str | None:
    found = list(WORD.finditer(longer))
    words, wanted = [match.group().casefold() for match in found], plain_words(shorter)
    starts = range(len(words) - len(wanted) + 1)
    start = next(start for start in starts if words[start : start + len(wanted)] == wanted)
    before = longer[: found[start].start()].strip()
    after = longer[found[start + len(wanted) - 1].end() :]
    between = BETWEEN.match(after)
    rest = f"{before} {after[between.end() if between else 0 :]}".strip()
    return rest if WORD.search(rest) else None


def plain_words(text: str) -> list[str]:
    """The words of a text without case and punctuation."""
    return [word.casefold() for word in WORD.findall(text)]
