"""The records that methods learn from, and the rows that every format hands on.

Pairs in which one side contains the other, such as a text that begins with its own title, are told apart: matching such
a pair takes no understanding, since the words are the same. Reading counts these pairs, and can cut the shared words
out of the longer side.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from nearer.text.faults import Fault

WORD = re.compile(r"\w+")
# What may stand between the part that is cut out and the rest of the text
BETWEEN = re.compile(r"[\s.,;:!?|/–—-]*")
# One word says little: "rain" stands in many an answer
FEWEST_WORDS = 2


class Pair(NamedTuple):
    """Two sentences, with a similarity score where the data has one.

    Attributes:
        first: One sentence.
        second: The other.
        score: How similar they are, in the data's own units; None where it does not say.

    Examples:
        >>> import nearer
        >>> nearer.Pair("It rains.", "It is raining.", 5.0).score
        5.0
    """

    first: str
    second: str
    score: float | None = None


class LabelledPair(NamedTuple):
    """Two sentences, and the class that people gave to the pair, such as "entailment".

    Attributes:
        first: One sentence.
        second: The other.
        label: The class, as the data spells it.

    Examples:
        >>> from nearer.text import LabelledPair
        >>> LabelledPair("It rains.", "The sun shines.", "contradiction").label
        'contradiction'
    """

    first: str
    second: str
    label: str


class Triplet(NamedTuple):
    """An anchor, a sentence that follows from it, and one that contradicts it.

    Attributes:
        anchor: The sentence that the others are compared with.
        positive: Should be near the anchor.
        hard_negative: Looks near the anchor and should be far from it.

    Examples:
        >>> import nearer
        >>> nearer.Triplet("It rains.", "It is raining.", "It does not rain.").hard_negative
        'It does not rain.'
    """

    anchor: str
    positive: str
    hard_negative: str


class DebiasedSample(NamedTuple):
    """An anchor with sentences that mean the same in other words, and such that look like it but mean something else.

    All samples of one source have as many positives as its first one, and as many negatives.

    Attributes:
        anchor: The sentence that the others are compared with.
        positives: Mean the same in other words.
        negatives: Look like the anchor but mean something else.

    Examples:
        >>> import nearer
        >>> sample = nearer.DebiasedSample("It rains.", ("Rain is falling.",), ("It reigns.", "It trains."))
        >>> len(sample.negatives)
        2
    """

    anchor: str
    positives: tuple[str, ...]
    negatives: tuple[str, ...]


class RankingList(NamedTuple):
    """Sentences in descending similarity to the first one.

    Attributes:
        sentences: The list, its first sentence included.

    Examples:
        >>> import nearer
        >>> ranked = nearer.RankingList(("It rains.", "Rain is falling.", "The street is wet."))
        >>> ranked.sentences[0]
        'It rains.'
    """

    sentences: tuple[str, ...]


class ScoredList(NamedTuple):
    """A query, and passages with a score each: how well they answer it, by whoever judges.

    Attributes:
        query: What is looked for.
        passages: Texts that may answer it.
        scores: One for each passage, the higher the better; only comparable within the list.

    Examples:
        >>> from nearer.text import ScoredList
        >>> scored = ScoredList("Why is it wet?", ("It rains.", "A man is eating."), (4.5, -2.0))
        >>> dict(zip(scored.passages, scored.scores))["It rains."]
        4.5
    """

    query: str
    passages: tuple[str, ...]
    scores: tuple[float, ...]


def texts_of(record: Any) -> Sequence[str]:
    """A record's texts in order; one has as many as another of the same source."""
    if isinstance(record, str):
        return (record,)
    if isinstance(record, RankingList):
        return record.sentences
    if isinstance(record, DebiasedSample):
        return (record.anchor, *record.positives, *record.negatives)
    if isinstance(record, ScoredList):
        return (record.query, *record.passages)
    if isinstance(record, LabelledPair):
        return record[:2]
    return [value for value in record if isinstance(value, str)]


class Row(NamedTuple):
    """The raw values of one record in the order of the shape's fields, or the fault that spoils it."""

    line: int
    values: Sequence[object]
    fault: Fault | None = None
    detail: str = ""


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
