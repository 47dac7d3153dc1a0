"""Candidates by rewriting noised sentences: how often it is tried, and which outputs are of no use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from nearer.construct.positives.noise import DRAWS, Noise, has_word, split

# Different noise often ends in the same output; so often are those tried again that have too few.
ROUNDS = 3
LONGEST_LOOP = 8
REPEATS = 4

Rewrite = Callable[[list[str]], list[str | None]]


def rewritten(
    sentences: Sequence[str],
    count: int,
    seeds: Sequence[int],
    *,
    noise: Noise,
    rewrite: Rewrite,
    plain_first: bool,
    rejected: Counter[str],
) -> list[list[str]]:
    """Up to `count` outputs for each sentence that differ from it and from each other by more than case and spaces.

    rewrite: outputs for inputs, each by itself; None for one that is of no use (and was counted). plain_first: the
    first input is the sentence as it is. In each of up to ROUNDS rounds as many noised inputs are drawn as candidates
    are missing.
    """
    randoms = [Random(seed) for _, seed in zip(sentences, seeds, strict=True)]
    found: list[dict[str, str]] = [{} for _ in sentences]
    tried: list[set[str]] = [set() for _ in sentences]
    for first in (True, *[False] * (ROUNDS - 1)):
        asked = [
            (index, text)
            for index, sentence in enumerate(sentences)
            if has_word(sentence)
            for text in _inputs(
                sentence, count - len(found[index]), tried[index], noise, randoms[index], first and plain_first
            )
        ]
        if not asked:
            break
        outputs = rewrite([text for _, text in asked])
        for (index, _), output in zip(asked, outputs, strict=True):
            if output is None:
                continue
            key = _comparable(output)
            if key == _comparable(sentences[index]):
                rejected["equal to the sentence"] += 1
            elif key in found[index]:
                rejected["equal to another candidate"] += 1
            else:
                found[index][key] = output
    return [list(texts.values()) for texts in found]


def fault(output: str, sentence: str) -> str | None:
    """Why the output is of no use whatever it means, or None."""
    if not has_word(output):
        return "empty"
    if loops(output) and not loops(sentence):
        return "loops"
    return None


def loops(text: str) -> bool:
    """Whether one to LONGEST_LOOP pieces come REPEATS times in a row."""
    pieces = [piece.strip().casefold() for piece in split(text)[0]]
    for size in range(1, LONGEST_LOOP + 1):
        equal = 0  # pieces in a row that are as the one `size` before
        for earlier, later in zip(pieces, pieces[size:], strict=False):
            equal = equal + 1 if earlier == later else 0
            if equal == size * (REPEATS - 1):
                return True
    return False


def _inputs(sentence: str, number: int, tried: set[str], noise: Noise, random: Random, plain: bool) -> list[str]:
    """New inputs, which join those `tried`; fewer where the sentence has no other noises."""
    inputs = [sentence] if plain and number else []
    for _ in range(DRAWS * number):
        if len(inputs) >= number:
            break
        noised = noise(sentence, random)
        if noised not in tried:
            inputs.append(noised)
            tried.add(noised)
    return inputs


def _comparable(text: str) -> str:
    return " ".join(text.split()).casefold()
