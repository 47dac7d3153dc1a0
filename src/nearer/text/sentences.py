"""Cutting running text into sentences by rules: good enough for European languages, Chinese and Japanese."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ABBREVIATIONS = frozenset(
    {
        "e.g.",
        "i.e.",
        "vs.",
        "cf.",
        "fig.",
        "eq.",
        "al.",
        "sec.",
        "ref.",
        "approx.",
        "resp.",
        "dr.",
        "mr.",
        "mrs.",
        "no.",
    }
)
_END = re.compile(r"[.!?][\"')\]]*\s+(?=[\"'(]?[A-ZÀ-ÞА-ЯΑ-Ω0-9])|[。！？]+[」』）]*")


def split_sentences(text: str) -> Iterator[str]:
    """Split after `.`, `!` or `?` before a capital or digit, but not after an abbreviation or a single letter."""
    start = 0
    for end in _END.finditer(text):
        last_word = text[start : end.start() + 1].rpartition(" ")[2].lower().lstrip("(\"'")
        if last_word in _ABBREVIATIONS or re.fullmatch(r"[a-z]\.", last_word):
            continue
        yield text[start : end.end()].strip()
        start = end.end()
    if text[start:].strip():
        yield text[start:].strip()
