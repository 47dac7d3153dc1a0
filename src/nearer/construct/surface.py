"""How alike sentences look: edit distance (DebCSE, Eq. 1) and shared words (its Table 1), whatever they mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nearer.analysis.words import lexical_overlap, words
from nearer.errors import SettingError
from nearer.extras import require

Distances = NDArray[np.float64]
EditLevel = Literal["characters", "words"]
EDIT_LEVELS = ("characters", "words")


def check_edit_level(level: str) -> None:
    """Also that the package is there: not only after a corpus was encoded."""
    if level not in EDIT_LEVELS:
        raise SettingError(f"edit_level: {level!r} is not one of {', '.join(EDIT_LEVELS)}.")
    require("rapidfuzz", "construct", "edit distances")


def edit_distances(
    anchors: Sequence[str], candidates: Sequence[Sequence[str]], level: EditLevel = "characters"
) -> Distances:
    """Levenshtein's distance of each anchor to its own candidates, divided by the longer one's length: from 0 to 1.

    (anchors, most candidates); 0 behind the end of a shorter list. Undivided, Eq. 1's softmax would give all weight to
    one candidate, since distances of tens and hundreds stand in an exponent there. level: what is inserted, deleted
    and replaced; words are compared lower-cased and without punctuation.
    """
    from rapidfuzz import process
    from rapidfuzz.distance import Levenshtein

    if level == "words":
        anchors, candidates = _letters_for_words(anchors, candidates)
    found = np.zeros((len(anchors), max(map(len, candidates), default=0)), dtype=np.float64)
    for place, (anchor, others) in enumerate(zip(anchors, candidates, strict=True)):
        if len(others):  # one call for all of them, which prepares the anchor once
            found[place, : len(others)] = process.cdist(
                [anchor], others, scorer=Levenshtein.normalized_distance, dtype=np.float64, workers=1
            )[0]
    return found


def overlaps(anchor: str, others: Sequence[str]) -> list[float]:
    """Which share of its words each sentence has in common with the anchor (of the longer one's words)."""
    own = words(anchor)
    return [lexical_overlap(own, words(other)) for other in others]


def _letters_for_words(
    anchors: Sequence[str], candidates: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """The sentences with one character for each word: strings are what edit distances are fast on."""
    alphabet: dict[str, str] = {}
    known: dict[str, str] = {}

    def spelt(sentence: str) -> str:
        found = known.get(sentence)
        if found is None:
            letters = [alphabet.setdefault(word, chr(len(alphabet))) for word in words(sentence)]
            found = known[sentence] = "".join(letters)
        return found

    return [spelt(anchor) for anchor in anchors], [[spelt(other) for other in others] for others in candidates]
