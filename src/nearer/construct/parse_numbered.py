"""The sentences of one answer that holds a whole numbered list (single-step generation, Appendix A)."""

from __future__ import annotations

import re

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
