"""The part of a text that says why it was found, for people who look at many."""

from __future__ import annotations

import re

CHARACTERS = 200
SENTENCES = re.compile(r"(?<=[.!?…。！？])\s+")
WORDS = re.compile(r"\w+")
SHORT = 3  # words of up to so many letters are in every text


def snippet(text: str, query: str, characters: int = CHARACTERS) -> str:
    """The sentences that share the most words with the query, and what follows them, in about so many characters.

    Without a shared word it is the text's beginning. What is left out is shown by `…`.
    """
    text = " ".join(text.split())
    if len(text) <= characters:
        return text
    wanted = _words(query)
    start, most, place = 0, (0, 0), 0
    for sentence in SENTENCES.split(text):
        begin = text.index(sentence, place)
        place = begin + len(sentence)
        shared = len(wanted & _words(sentence)), len(wanted & _words(text[begin : begin + characters]))
        if shared > most:
            start, most = begin, shared
    start = min(start, max(0, len(text) - characters))
    start = start if start == 0 or text[start - 1] == " " else text.rfind(" ", 0, start) + 1
    end = start + characters
    if end < len(text):
        end = max(text.rfind(" ", start, end + 1), start) if " " in text[start : end + 1] else end
    return ("… " if start else "") + text[start:end].strip() + (" …" if end < len(text) else "")


def _words(text: str) -> set[str]:
    """In lower case, by their first letters: `wings` is a `wing`."""
    return {word[:6] for word in WORDS.findall(text.lower()) if len(word) > SHORT}
