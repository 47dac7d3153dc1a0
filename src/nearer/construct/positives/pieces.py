"""The pieces in which noise works: words between spaces, or characters where a language writes without spaces."""

from __future__ import annotations

import re

# Thai and Lao, Burmese, Khmer, kana, Han. Their vowel signs and tone marks belong to the character before.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff"
)
_MARKS = (
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ecd\u102b-\u103e\u17b4-\u17d3\u3099\u309a\uff9e\uff9f"
)
UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED}]")
# A space behind a piece belongs to it, so that pieces joined give the sentence again.
UNSPACED_PIECE = re.compile(rf"[{_UNSPACED}][{_MARKS}]*\s*|[^\s{_UNSPACED}]+\s*")
OTHER_WORD = re.compile(rf"[^\W{_UNSPACED}]+")
WORD_CHARACTER = re.compile(r"\w")


def is_unspaced(sentence: str) -> bool:
    """Whether it has more characters of scripts written without spaces between words than words of others."""
    characters = len(UNSPACED_CHARACTER.findall(sentence))
    return characters > 0 and characters > len(OTHER_WORD.findall(sentence))


def split(sentence: str) -> tuple[list[str], str]:
    """The pieces of a sentence, and what joins them again."""
    if is_unspaced(sentence):
        return UNSPACED_PIECE.findall(sentence.strip()), ""
    return sentence.split(), " "


def has_word(piece: str) -> bool:
    """False for punctuation alone."""
    return WORD_CHARACTER.search(piece) is not None
