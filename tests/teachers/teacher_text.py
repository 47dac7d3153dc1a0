"""Sentences of words that the tiny models tell apart, and a watch on what passes a model."""

from __future__ import annotations

import random
from pathlib import Path

WORDS = """
a man is eating lunch someone has meal the quick brown fox jumps over lazy dog again and until evening comes rain far
away why would anybody measure sentences by nearness of their meaning
"""


def different_sentences(count: int, seed: int = 0) -> list[str]:
    draw, words = random.Random(seed), WORDS.split()
    found: dict[str, None] = {}
    while len(found) < count:
        found[" ".join(draw.sample(words, draw.randint(2, 9)))] = None
    return list(found)


def write_lines(path: Path, sentences: list[str]) -> Path:
    path.write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")
    return path


SENTENCES = different_sentences(40)
OTHERS = [sentence for sentence in different_sentences(60, seed=1) if sentence not in SENTENCES][:40]
WINDOW = 8


class Watch:
    """How many sentences have passed any model; after `stop_after` of them the user interrupts."""

    def __init__(self) -> None:
        self.sentences = 0
        self.stop_after: int | None = None

    def see(self, count: int) -> None:
        if self.stop_after is not None and self.sentences + count > self.stop_after:
            raise KeyboardInterrupt
        self.sentences += count

    def since(self) -> int:
        """How many since this was last asked."""
        found, self.sentences = self.sentences, 0
        return found
