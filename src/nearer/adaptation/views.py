"""Views of a passage that somebody may ask for it by: its title, heading, docstring, opening, questions and sentences.

A view is a query whose answer is known: the passage it was cut out of, without it. Each kind is biased in its own way,
so they are never mixed up; and since a copied sentence favours whatever matches words, each view says how many of its
rarer words the rest of its passage has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nearer.adaptation.code import is_code, prose_of_code, split_docstring
from nearer.adaptation.passages import Passage, count_words
from nearer.search.words import find_words
from nearer.text.sentences import split_sentences

KINDS = ("title", "heading", "docstring", "question", "opening", "sentence")
ASKED = KINDS[:4]  # what somebody may have asked; openings and sentences are what somebody said
FEWEST_WORDS, MOST_WORDS = 4, 60  # of a view
FEWEST_LEFT = 8  # words of the passage without it
COMMON = 0.2  # of the passages have a word: it says nothing of any
QUESTION_MARKS = ("?", "？", "؟")


@dataclass(frozen=True, slots=True)
class View:
    """A query and its answer.

    Attributes:
        kind: One of `KINDS`.
        query: What stands in the passage.
        passage: The passage's number.
        rest: The passage without it.
        overlap: Which share of its rarer words the rest has.
    """

    kind: str
    query: str
    passage: int
    rest: str
    overlap: float


class RareWords:
    """The words of a text that few passages have: those by which one can be told from the others."""

    def __init__(self, texts: Iterable[str]) -> None:
        counts: Counter[str] = Counter()
        total = 0
        for text in texts:
            counts.update(set(find_words(text)))
            total += 1
        self._common = {word for word, count in counts.items() if count > max(1, COMMON * total)}

    def of(self, text: str) -> set[str]:
        return set(find_words(text)) - self._common

    def share(self, query: str, text: str) -> float:
        """Which share of the query's rarer words the text has."""
        rare = self.of(query)
        return len(rare & self.of(text)) / max(1, len(rare))


def find_views(passages: Sequence[Passage], numbers: Sequence[int], words: RareWords) -> list[View]:
    """All views of these passages (by their numbers), in their order."""
    found = []
    for number in numbers:
        for kind, query, rest in _cut_out(passages[number]):
            if len(words.of(query)) < 2 or count_words(rest) < FEWEST_LEFT:
                continue
            found.append(View(kind, query, number, rest, words.share(query, rest)))
    return found


def may_be_asked(passage: Passage) -> bool:
    """Whether it may have a view of a kind in `ASKED`, told without cutting it up."""
    is_titled = bool(passage.headings) or (passage.number == 0 and bool(passage.title))
    return is_titled or any(mark in passage.text for mark in QUESTION_MARKS) or is_code(passage.text)


def _cut_out(passage: Passage) -> Iterator[tuple[str, str, str]]:
    """Kind, query and rest of each view."""
    if passage.number == 0 and _is_long_enough(passage.title):
        yield "title", passage.title, _joined("", passage.headings, passage.text)
    if passage.headings and _is_long_enough(passage.headings[-1]):
        yield "heading", passage.headings[-1], _joined(passage.title, passage.headings[:-1], passage.text)
    if is_code(passage.text):
        yield from _cut_out_of_code(passage)
        return
    sentences = [part for part in split_sentences(passage.text) if _is_long_enough(part)]
    for number, sentence in enumerate(sentences):
        rest = passage.titled.replace(sentence, " ")
        if number == 0:
            yield "opening", sentence, rest
        if sentence.endswith(QUESTION_MARKS):
            yield "question", sentence, rest
        yield "sentence", sentence, rest


def _cut_out_of_code(passage: Passage) -> Iterator[tuple[str, str, str]]:
    apart = split_docstring(passage.text)
    if apart is None:
        return
    prose = [part for text in prose_of_code(f'"""{apart.prose}"""') for part in split_sentences(text)]
    if prose and _is_long_enough(prose[0]):
        yield "docstring", prose[0], _joined(passage.title, passage.headings, apart.code)
    for sentence in prose:
        if _is_long_enough(sentence) and sentence in passage.text:
            yield "sentence", sentence, passage.titled.replace(sentence, " ")


def _is_long_enough(text: str) -> bool:
    return FEWEST_WORDS <= count_words(text) <= MOST_WORDS


def _joined(title: str, headings: Sequence[str], text: str) -> str:
    return Passage("", 0, title, tuple(headings), text).titled
