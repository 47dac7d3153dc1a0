"""What follows from vectors and a similarity of them: comparing sentences, and ranking some by nearness to another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from nearer.errors import InputError, SettingError

Vectors = NDArray[np.float32]


class Ranked(NamedTuple):
    """One candidate of a ranking.

    Attributes:
        number: Which one it is of the list that was given, counted from 0.
        score: Its similarity to the query.
        sentence: The candidate itself.

    Examples:
        >>> import nearer
        >>> encoder = nearer.Encoder.load("wiki-mini", pooling="mean")
        >>> best, *others = encoder.rank("Somebody has lunch.", ["It rains.", "A man is eating."])
        >>> best.number, best.sentence
        (1, 'A man is eating.')
    """

    number: int
    score: float
    sentence: str


class Comparing(ABC):
    """A model that gives sentences vectors, and vectors a similarity."""

    @abstractmethod
    def encode(self, sentences: list[str]) -> Vectors:
        """(sentences, dimension), float32."""

    @abstractmethod
    def score_matrix(self, first: Vectors, second: Vectors) -> Vectors:
        """Similarities of all rows of `first` to all rows of `second` (first, second)."""

    @abstractmethod
    def pair_scores(self, first: Vectors, second: Vectors) -> NDArray[np.float64]:
        """Similarity of each row of `first` to the same row of `second`: what evaluation correlates with the gold."""

    @overload
    def similarity(self, first: str, second: str) -> float: ...
    @overload
    def similarity(self, first: str | Sequence[str], second: str | Sequence[str]) -> float | Vectors: ...

    def similarity(self, first: str | Sequence[str], second: str | Sequence[str]) -> float | Vectors:
        """One number for two sentences, else a matrix (first, second)."""
        firsts = [first] if isinstance(first, str) else listed(first, "first")
        seconds = [second] if isinstance(second, str) else listed(second, "second")
        vectors = self.encode([*firsts, *seconds])
        scores = self.score_matrix(vectors[: len(firsts)], vectors[len(firsts) :])
        return float(scores[0, 0]) if isinstance(first, str) and isinstance(second, str) else scores

    def rank(self, query: str, candidates: Iterable[str], *, top: int | None = None) -> list[Ranked]:
        """The candidates by falling similarity to the query; equal ones keep their order."""
        if top is not None and top < 1:
            raise SettingError(f"top: {top} is below 1.")
        if not isinstance(query, str):
            raise InputError(f"query: is {_a(query)}, one string is needed; ask for several one by one.")
        candidates = listed(candidates, "candidates")
        if not candidates:
            return []
        # equal candidates share one score: equal rows of a matrix product can differ in the last bit
        unique = {candidate: index for index, candidate in enumerate(dict.fromkeys(candidates))}
        matrix = np.asarray(self.similarity(query, list(unique)))
        scores = matrix[0, [unique[candidate] for candidate in candidates]]
        order = np.argsort(-scores, kind="stable")[:top]
        return [Ranked(int(index), float(scores[index]), candidates[index]) for index in order]


class ByCosine(Comparing):
    """A model whose vectors are compared by their cosine."""

    def pair_scores(self, first: Vectors, second: Vectors) -> NDArray[np.float64]:
        one, two = (unit_rows(side.astype(np.float64)) for side in (first, second))
        cosines: NDArray[np.float64] = (one * two).sum(-1)
        return cosines

    def score_matrix(self, first: Vectors, second: Vectors) -> Vectors:
        cosines: Vectors = unit_rows(first) @ unit_rows(second).T
        return cosines


def listed(sentences: Any, argument: str) -> list[str]:
    """Sentences that were given as a list or another iterable; what only looks like one is an error."""
    if isinstance(sentences, str):
        raise InputError(f"{argument}: is one string; give a list of sentences, as [{sentences[:20]!r}].")
    if hasattr(sentences, "column_names") or (hasattr(sentences, "columns") and hasattr(sentences, "to_dict")):
        raise InputError(f"{argument}: is {_a(sentences)} of columns; give one of them, as {argument}['text'].")
    if isinstance(sentences, (bytes, Mapping)) or not isinstance(sentences, Iterable):
        raise InputError(f"{argument}: is {_a(sentences)}; give a list of sentences.")
    return list(sentences)


def _a(value: object) -> str:
    return f"a {type(value).__name__}"


def unit_rows(vectors: NDArray[Any]) -> NDArray[Any]:
    """Rows of length 1; a row of zeros stays one."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(lengths == 0, 1, lengths)
