"""The words that texts are compared by in BM25: any language, lower case, names of programs also by their parts.

Scripts that write no spaces (Chinese, Japanese, Thai …) are taken by pairs of letters.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache

# Han, Kana, Thai, Lao, Burmese, Khmer: there is no space between words
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Between the parts of snake_case, camelCase and HTTPServer2
BETWEEN = re.compile(r"_+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})|(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)")
NAME = re.compile(r"[^\W_]_+[^\W_]|[a-z][A-Z]|[A-Z]{2}[a-z]{2}")
ASCII = re.compile(r"\w+")


def find_words(text: str) -> list[str]:
    """In their order, each as often as it stands there."""
    if text.isascii():
        pattern, spaced = ASCII, True
    else:
        text = unicodedata.normalize("NFKC", text)
        spaced = not _unspaced().search(text)
        pattern = _pattern(spaced)
    if spaced and not NAME.search(text):
        return pattern.findall(text.lower())  # most texts: nothing is to be taken apart
    words: list[str] = []
    for word in pattern.findall(text):
        if not spaced and _unspaced().match(word):
            words += [word] if len(word) == 1 else [word[at : at + 2] for at in range(len(word) - 1)]
            continue
        words.append(word.lower())
        if NAME.search(word):
            words += [part.lower() for part in BETWEEN.split(word) if part]
    return words


@cache
def _pattern(spaced: bool) -> re.Pattern[str]:
    """Letters of many scripts are followed by marks (vowel signs, accents), which are no letters for Python."""
    if spaced:
        return re.compile(rf"[\w{_marks()}]+")
    return re.compile(rf"[{UNSPACED}]+|(?:(?![{UNSPACED}])[\w{_marks()}])+")


@cache
def _unspaced() -> re.Pattern[str]:
    return re.compile(f"[{UNSPACED}]")


@cache
def _marks() -> str:
    """All combining marks as ranges of a regular expression's class."""
    numbers = [number for number in range(0x300, 0x1F000) if unicodedata.category(chr(number))[0] == "M"]
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    assert numbers[-1] <= sys.maxunicode
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
