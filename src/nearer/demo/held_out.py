"""Documents to learn from and a search to judge by, from the same docstrings, with nothing of one in the other.

The search: a function's summary line is the query, and what its docstring says below that line is the answer, to be
found among those of all functions that were held out.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nearer.demo.docstrings import SHORTEST, Docstring
from nearer.errors import InputError

LONGEST_SUMMARY = 30  # words
SHORTEST_BODY = 8  # words, of what is to be found

Words = tuple[str, ...]


@dataclass(frozen=True)
class SummarySearch:
    """Query i is the summary line above the text `answers[i]`."""

    queries: list[str]
    answers: list[str]


@dataclass(frozen=True)
class DemoDocument:
    """A docstring as a document: its summary line is the title."""

    id: str
    title: str
    text: str


@dataclass(frozen=True)
class DemoText:
    """What there is to learn from, and the search.

    `leaking` counts the sentences that were left out of the documents because they stand in held-out docstrings.
    """

    documents: list[DemoDocument]
    search: SummarySearch
    leaking: int


def hold_out(docstrings: Sequence[Docstring], count: int, *, seed: int = 0) -> DemoText:
    """Draw `count` functions for the search; the other docstrings, less what the search has in it, are the documents.

    The right answer must be the only one: a summary line or text that occurs twice is not drawn. Sentences that
    differ in case and punctuation only count as one. Documents without anything below their summary line teach nothing
    and are left out.
    """
    drawn = _draw(docstrings, count, seed)
    held_out = [docstrings[index] for index in drawn]
    guard = _Runs(words for docstring in held_out for words in (key(docstring.summary), key(" ".join(docstring.body))))
    chosen = set(drawn)
    documents: dict[Words, DemoDocument] = {}
    leaking: set[Words] = set()
    for index, docstring in enumerate(docstrings):
        if index in chosen:
            continue
        words = {sentence: key(sentence) for sentence in (docstring.summary, *docstring.body)}
        found = {sentence for sentence, of_it in words.items() if of_it in guard}
        leaking |= {words[sentence] for sentence in found}
        body = " ".join(sentence for sentence in docstring.body if sentence not in found)
        if docstring.summary not in found and body:
            document = DemoDocument(f"{docstring.package}/{docstring.location}", docstring.summary, body)
            documents.setdefault(words[docstring.summary] + key(body), document)
    search = SummarySearch([docstring.summary for docstring in held_out], [" ".join(each.body) for each in held_out])
    return DemoText(list(documents.values()), search, len(leaking))


def key(sentence: str) -> Words:
    """The words of a sentence without case and punctuation: what makes two sentences the same."""
    return tuple(re.findall(r"\w+", sentence.lower()))


def _draw(docstrings: Sequence[Docstring], count: int, seed: int) -> list[int]:
    if count < 1:
        raise InputError(f"held-out functions: {count} is below 1.")
    summaries = [key(docstring.summary) for docstring in docstrings]
    bodies = [key(" ".join(docstring.body)) for docstring in docstrings]
    summary_counts, body_counts = Counter(summaries), Counter(bodies)
    fit = [
        index
        for index, (docstring, summary, body) in enumerate(zip(docstrings, summaries, bodies, strict=True))
        if docstring.is_function
        and summary_counts[summary] == body_counts[body] == 1
        and len(summary) <= LONGEST_SUMMARY
        and len(body) >= SHORTEST_BODY
    ]
    if len(fit) < count:
        raise InputError(
            f"held-out functions: {count:,} asked for, but only {len(fit):,} of {len(docstrings):,} docstrings are of "
            "functions with a unique summary line and text below it."
        )
    return sorted(random.Random(seed).sample(fit, count))


class _Runs:
    """Whether a sentence stands, word for word, inside one of some texts; found by its first words."""

    def __init__(self, texts: Iterable[Words]) -> None:
        self.starts: defaultdict[Words, list[tuple[Words, int]]] = defaultdict(list)
        for text in texts:
            for start in range(len(text)):
                self.starts[text[start : start + SHORTEST]].append((text, start))

    def __contains__(self, words: Words) -> bool:
        return any(text[start : start + len(words)] == words for text, start in self.starts.get(words[:SHORTEST], ()))
