"""What many documents share and none is about: heads, feet, navigation, licences. Found by counting, cut out, shown.

A block is a line of a document. It counts as boilerplate where it recurs in many documents, up to its numbers, and
either stands at a document's beginning or end with nothing but boilerplate before or behind it, or is as long as a
paragraph. So what recurs inside texts, such as `return None` in functions, stays.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import xxhash

SHARE_AT_EDGES, FEWEST_AT_EDGES = 0.1, 4  # of the documents that have the line at their edge
SHARE_OF_PARAGRAPHS, FEWEST_OF_PARAGRAPHS = 0.01, 5
WORDS_OF_PARAGRAPH = 12
EDGE = 30  # lines that are looked at from either end
SHOWN = 3
FENCE = "```"
_DIGITS = re.compile(r"\d+")


@dataclass
class Boilerplate:
    """blocks: what was cut out, and of how many documents; whole: documents that are nothing else, which are kept."""

    blocks: Counter[str] = field(default_factory=Counter)
    documents: int = 0
    words: int = 0
    whole: int = 0

    def to_dict(self) -> dict[str, object]:
        return {
            "documents": self.documents,
            "words": self.words,
            "whole": self.whole,
            "blocks": dict(self.blocks.most_common(100)),
        }

    def __str__(self) -> str:
        shown = ", ".join(f"{_short(block)!r} ({count:,})" for block, count in self.blocks.most_common(SHOWN))
        more = ", …" if len(self.blocks) > SHOWN else ""
        kept = f"; {self.whole:,} documents that are nothing else are kept" if self.whole else ""
        return (
            f"{len(self.blocks):,} blocks that recur were cut out of {self.documents:,} documents "
            f"({self.words:,} words): {shown}{more}{kept}"
        )


def remove_boilerplate(texts: Sequence[str]) -> tuple[list[str], Boilerplate]:
    """The texts without what recurs in them. A text that is nothing else stays as it is."""
    at_edges, anywhere = array("Q"), array("Q")  # keys of lines, as often as documents have them
    for text in texts:
        lines = text.split("\n")
        if len(lines) == 1:
            continue  # what has one line has nothing around it
        edge = {_key(line) for line in (*lines[:EDGE], *lines[-EDGE:]) if _is_text(line)}
        at_edges.extend(edge)
        anywhere.extend({_key(line) for line in lines if len(line.split()) >= WORDS_OF_PARAGRAPH})
    edges = _frequent(at_edges, max(FEWEST_AT_EDGES, SHARE_AT_EDGES * len(texts)))
    paragraphs = _frequent(anywhere, max(FEWEST_OF_PARAGRAPHS, SHARE_OF_PARAGRAPHS * len(texts)))
    found = Boilerplate()
    if not edges and not paragraphs:
        return list(texts), found
    return [_cut(text, edges, paragraphs, found) for text in texts], found


def _frequent(keys: array[int], least: float) -> set[int]:
    """Those that are there so often. Counted by sorting: a dictionary of all lines takes ten times the memory."""
    found, counts = np.unique(np.frombuffer(keys, dtype=np.uint64), return_counts=True)
    return set(found[counts >= least].tolist())


def _cut(text: str, edges: set[int], paragraphs: set[int], found: Boilerplate) -> str:
    lines = text.split("\n")
    if len(lines) == 1:
        return text
    recurs = [not _is_text(line) or (key := _key(line)) in edges or key in paragraphs for line in lines]
    begin, end = 0, len(lines)
    while begin < min(end, EDGE) and recurs[begin]:
        begin += 1
    while end > max(begin, len(lines) - EDGE) and recurs[end - 1]:
        end -= 1
    kept = [
        number
        for number in range(begin, end)
        if not (recurs[number] and _is_text(lines[number]) and _key(lines[number]) in paragraphs)
    ]
    cut = sorted(set(range(len(lines))) - set(kept))
    if not any(_is_text(lines[number]) for number in cut):
        return text
    if not any(_is_text(lines[number]) for number in kept):
        found.whole += 1
        return text
    gone = {_DIGITS.sub("0", lines[number].strip()) for number in cut if _is_text(lines[number])}
    found.blocks.update(gone)
    found.documents += 1
    found.words += sum(len(lines[number].split()) for number in cut)
    return _with_whole_fences([lines[number] for number in kept])


def _with_whole_fences(lines: list[str]) -> str:
    """A fence whose other half was cut off goes too."""
    if sum(line.startswith(FENCE) for line in lines) % 2:
        at = [number for number, line in enumerate(lines) if line.startswith(FENCE)]
        lines.pop(at[0] if len(at) == 1 or not any(map(_is_text, lines[: at[0]])) else at[-1])
    return "\n".join(lines).strip("\n")


def _is_text(line: str) -> bool:
    return any(map(str.isalnum, line))


def _key(line: str) -> int:
    return xxhash.xxh3_64_intdigest(_DIGITS.sub("0", " ".join(line.lower().split())).encode(errors="surrogatepass"))


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"
