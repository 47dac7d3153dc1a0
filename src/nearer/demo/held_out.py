"""Training text and a held-out task from the same docstrings, with nothing of the task in the text.

The task: given what a function's docstring says after its summary line, find that summary line among all held-out
ones.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nearer.demo.docstrings import SHORTEST, Docstring
from nearer.errors import InputError
from nearer.text.records import Pair

LONGEST_SUMMARY = 30  # words
SHORTEST_QUERY, LONGEST_QUERY = 8, 40  # words; the longest fits into 64 tokens almost always

Words = tuple[str, ...]


@dataclass(frozen=True)
class SummaryTask:
    """Query i is the text below the summary line `candidates[right[i]]`."""

    queries: list[str]
    candidates: list[str]
    right: list[int]


@dataclass(frozen=True)
class DemoText:
    """What there is to train on, and the task.

    sentences: for unsupervised training; summaries: the summary lines among them, good to search in; pairs: a
    summary line with each sentence below it. `leaking` counts the training sentences that were removed because the
    held-out task contains them.
    """

    sentences: list[str]
    summaries: list[str]
    pairs: list[Pair]
    task: SummaryTask
    leaking: int


def hold_out(docstrings: Sequence[Docstring], count: int = 1_000, *, seed: int = 0) -> DemoText:
    """Draw `count` functions for the task; the other docstrings, less what the task contains, are training text.

    The right answer must be the only one: a summary line or query that occurs twice is not drawn. Sentences that
    differ in case and punctuation only count as one.
    """
    drawn = _draw(docstrings, count, seed)
    task = [docstrings[index] for index in drawn]
    guard = _Runs(words for docstring in task for words in (key(docstring.summary), key(" ".join(docstring.body))))
    chosen = set(drawn)
    sentences: dict[Words, str] = {}
    summaries: dict[Words, str] = {}
    pairs: dict[tuple[Words, Words], Pair] = {}
    leaking: set[Words] = set()
    for index, docstring in enumerate(docstrings):
        if index in chosen:
            continue
        kept = []
        for sentence in (docstring.summary, *docstring.body):
            words = key(sentence)
            if words in sentences:
                kept.append(sentence)
            elif words in guard:
                leaking.add(words)
            else:
                sentences[words] = sentence
                kept.append(sentence)
        if kept and kept[0] == docstring.summary:
            summaries.setdefault(key(kept[0]), kept[0])
            for sentence in kept[1:]:
                pairs.setdefault((key(kept[0]), key(sentence)), Pair(kept[0], sentence))
    queries, candidates = [_query(docstring) for docstring in task], [docstring.summary for docstring in task]
    return DemoText(
        list(sentences.values()),
        list(summaries.values()),
        list(pairs.values()),
        SummaryTask(queries, candidates, list(range(len(task)))),
        len(leaking),
    )


def key(sentence: str) -> Words:
    """The words of a sentence without case and punctuation: what makes two sentences the same."""
    return tuple(re.findall(r"\w+", sentence.lower()))


def _draw(docstrings: Sequence[Docstring], count: int, seed: int) -> list[int]:
    if count < 1:
        raise InputError(f"held-out functions: {count} is below 1.")
    summaries = [key(docstring.summary) for docstring in docstrings]
    queries = [key(_query(docstring)) for docstring in docstrings]
    summary_counts, query_counts = Counter(summaries), Counter(queries)
    fit = [
        index
        for index, (docstring, summary, query) in enumerate(zip(docstrings, summaries, queries, strict=True))
        if docstring.is_function
        and summary_counts[summary] == query_counts[query] == 1
        and len(summary) <= LONGEST_SUMMARY
        and len(query) >= SHORTEST_QUERY
    ]
    if len(fit) < count:
        raise InputError(
            f"held-out functions: {count:,} asked for, but only {len(fit):,} of {len(docstrings):,} docstrings are of "
            "functions with a unique summary line and text below it."
        )
    return sorted(random.Random(seed).sample(fit, count))


def _query(docstring: Docstring) -> str:
    """The first sentences below the summary line, as many as stay within the longest query, cut to it at worst."""
    words: list[str] = []
    for sentence in docstring.body:
        following = sentence.split()
        if words and len(words) + len(following) > LONGEST_QUERY:
            break
        words += following
    return " ".join(words[:LONGEST_QUERY])


class _Runs:
    """Whether a sentence stands, word for word, inside one of some texts; found by its first words."""

    def __init__(self, texts: Iterable[Words]) -> None:
        self.starts: defaultdict[Words, list[tuple[Words, int]]] = defaultdict(list)
        for text in texts:
            for start in range(len(text)):
                self.starts[text[start : start + SHORTEST]].append((text, start))

    def __contains__(self, words: Words) -> bool:
        return any(text[start : start + len(words)] == words for text, start in self.starts.get(words[:SHORTEST], ()))
