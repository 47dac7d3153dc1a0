"""What a generated sentence must be to stand in a ranking list, and the names of what it may break.

Appendix A checks lists by rule, so that they are complete and without redundancy: all sentences there, none empty, none
with a line break, none three times. The released code also drops a list whose last sentences repeat.
`parse_numbered` finds the sentences in one answer that holds a whole numbered list (single-step generation).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, get_args

Rules = Literal["paper", "released"]
RULES: tuple[Rules, ...] = get_args(Rules)

EMPTY = "empty sentence"
LINE_BREAK = "line break in a sentence"
REPEATED = "sentence repeated three times"
REPEATED_END = "last sentence repeated"
CUT_OFF = "cut off at the limit of new tokens"
NO_ROOM = "prompt longer than the model's window"
ANNOUNCED = "announcement instead of a sentence"  # "Here is the sentence:", and then another line
INCOMPLETE = "too few sentences"

MOST_OFTEN = 2
_LABEL = re.compile(r"^(?:\**\s*(?:result|rewrite|rewritten(?: sentence)?)\s*:\s*\**\s*)+", re.IGNORECASE)
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "„": "“", "`": "`"}


def cleaned(text: str) -> str:
    """Without what models put around an answer: space, the label of the prompt's end, quotation marks."""
    before = None
    while before != text:
        before = text
        text = _unquoted(_LABEL.sub("", text.strip()))
    return text


def fault_of(sentence: str, before: Sequence[str]) -> str | None:
    """The rule that a (cleaned) sentence breaks behind those before it."""
    if not sentence:
        return EMPTY
    if len(sentence.splitlines()) > 1:
        return LINE_BREAK
    if sum(_alike(sentence, other) for other in before) >= MOST_OFTEN:
        return REPEATED
    return None


def without_repeated_end(sentences: Sequence[str]) -> list[str]:
    """Cut so that the last two sentences differ (the released code's rule)."""
    kept = list(sentences)
    while len(kept) > 1 and _alike(kept[-1], kept[-2]):
        kept.pop()
    return kept


def _alike(first: str, second: str) -> bool:
    return first == second or first.split() == second.split()


def _unquoted(text: str) -> str:
    """Quotation marks around the whole go; those of a quotation at its beginning or end stay."""
    if len(text) >= 2 and _QUOTES.get(text[0]) == text[-1]:
        inside = text[1:-1]
        if text[0] not in inside and text[-1] not in inside:
            return inside.strip()
    return text


# "1. …", "1) …", "(1) …", "1: …", "**1.** …", "- 1. …", with or without space in front
_NUMBERED = re.compile(r"^\s*(?:[-*•]\s+)?\**\(?(\d{1,4})\s*[.):](?!\d)\s*\**\s*(.*)$")


def parse_numbered(text: str) -> list[str]:
    """The numbered sentences from 1 on, as long as numbers go up by one.

    A line without a number belongs to the sentence above it, with its line break; behind an empty line it is a remark
    of the model's and left out, and so is what comes before the first number.
    """
    found: list[str] = []
    open_sentence = False
    for line in text.splitlines():
        if not line.strip():
            open_sentence = False
            continue
        numbered = _NUMBERED.match(line)
        if numbered is None:
            if open_sentence:
                found[-1] += "\n" + line.strip()
            continue
        if int(numbered[1]) != len(found) + 1:
            if found:
                break  # it begins anew, or leaves some out
            continue
        found.append(numbered[2].strip())
        open_sentence = True
    return found
