"""Sentences of few words, so that a tiny tokenizer knows them and some are equal."""

from __future__ import annotations

import random
from pathlib import Path

WORDS = """the quick brown fox jumps over a lazy dog and rain comes
until someone has lunch far away""".split()  # noqa: SIM905
QUERIES = ["a quick fox", "someone has lunch", "rain", "the dog"]


def sentences(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(2, 9))) for _ in range(count)]


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
