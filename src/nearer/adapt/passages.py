"""Documents in pieces: passages by headings and paragraphs, and the sentences of a document's prose.

A passage belongs to one section, ends with a paragraph or a sentence where that can be had, and knows its headings.
Code is one block: it is cut between lines, and its prose is what is written about it (docstrings, comments).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nearer.adapt.code import is_code, prose_of_code
from nearer.adapt.documents import Document
from nearer.adapt.markup import FENCE, Heading, read_heading
from nearer.errors import SettingError
from nearer.text.sentences import split_sentences

LONGEST = 200  # words
# Words, and pairs of signs of scripts that are written without spaces: two of them say about what a word says
_WORDS = re.compile(r"[぀-ヿ㐀-鿿豈-﫿]{1,2}|[^\s぀-ヿ㐀-鿿豈-﫿]+")
_CLAUSE_END = ",;:，、；：)"


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document.

    Attributes:
        document: The document's id.
        number: Counted from 0 within the document.
        title: The document's.
        headings: Of the sections it stands in, the outermost first.
        text: Without headings and fences.

    Examples:
        >>> from nearer.adapt.passages import Passage
        >>> Passage("a.md", 0, "Rain", ("Norway",), "It rains in Bergen.").id
        'a.md#0'
    """

    document: str
    number: int
    title: str
    headings: tuple[str, ...]
    text: str

    @property
    def id(self) -> str:
        return f"{self.document}#{self.number}"

    @property
    def titled(self) -> str:
        """With title and headings in front, as an encoder should read it."""
        above = [part for part in (self.title, *self.headings) if part]
        return f"{' – '.join(above)}\n{self.text}" if above else self.text


def split_passages(document: Document, longest: int = LONGEST) -> list[Passage]:
    """A document's passages, each of at most about `longest` words; all its text is in them, in its order.

    A document without any text below its headings is one passage of them.
    """
    if longest < 8:
        raise SettingError(f"longest: {longest} words are too few for a passage (8 at least).", argument="longest")
    pieces: list[tuple[tuple[str, ...], str]] = []
    if is_code(document.text):
        pieces = [((), text) for text in _pack(_code_units(document.text, longest), longest)]
    else:
        for headings, body in _sections(document.text):
            pieces += [(headings, text) for text in _pack(list(_units(body, longest)), longest)]
    if not pieces:
        pieces = [((), _without_marks(document.text) or document.title)]
    return [
        Passage(document.id, number, document.title, headings, text) for number, (headings, text) in enumerate(pieces)
    ]


def count_words(text: str) -> int:
    """White space ends a word; in Chinese and Japanese two signs count as one."""
    return len(text.split()) if text.isascii() else len(_WORDS.findall(text))


def document_sentences(document: Document) -> list[str]:
    """The sentences of a document's prose: of code those of its docstrings and comments, of other text all but code."""
    if is_code(document.text):
        return [sentence for part in prose_of_code(document.text) for sentence in split_sentences(part)]
    return [
        " ".join(sentence.split())
        for _, body in _sections(document.text)
        for block, fenced in _blocks(body)
        if not fenced and not _is_table(block)
        for sentence in split_sentences(block)
    ]


def _sections(text: str) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Headings and lines of each section that has any text of its own."""
    path: list[Heading] = []
    lines: list[str] = []
    fenced = False
    for line in text.split("\n"):
        if FENCE.match(line):
            fenced = not fenced
        heading = None if fenced else read_heading(line)
        if heading is None:
            lines.append(line)
            continue
        if any(map(str.strip, lines)):
            yield tuple(name for _, name in path), lines
        lines = []
        path = [above for above in path if above.level < heading.level] + [heading]
    if any(map(str.strip, lines)):
        yield tuple(name for _, name in path), lines


def _blocks(lines: list[str]) -> Iterator[tuple[str, bool]]:
    """Paragraphs, and what stands between fences."""
    block: list[str] = []
    fenced = False
    for line in lines:
        if FENCE.match(line):
            if any(map(str.strip, block)):
                yield "\n".join(block).strip("\n"), fenced
            block, fenced = [], not fenced
        elif line.strip() or fenced:
            block.append(line)
        else:
            if block:
                yield "\n".join(block), False
            block = []
    if any(map(str.strip, block)):
        yield "\n".join(block).strip("\n"), fenced


def _is_table(block: str) -> bool:
    return all(" | " in line for line in block.split("\n"))


@dataclass(frozen=True, slots=True)
class _Unit:
    """What is not cut. before: what stands between it and the unit before it in the same passage."""

    text: str
    words: int
    before: str


def _units(lines: list[str], longest: int) -> Iterator[_Unit]:
    for block, fenced in _blocks(lines):
        words = count_words(block)
        if words <= longest:
            yield _Unit(block, words, "\n\n")
        elif fenced or _is_table(block):
            yield from _code_units(block, longest)
        else:
            before = "\n\n"
            for sentence in split_sentences(block):
                count = count_words(sentence)
                for piece in [sentence] if count <= longest else _cut_sentence(sentence, longest):
                    yield _Unit(piece, count_words(piece), before)
                    before = " "


def _code_units(text: str, longest: int) -> list[_Unit]:
    units = []
    for line in text.split("\n"):
        pieces = [line] if (words := count_words(line)) <= longest else list(_cut_sentence(line, longest))
        units += [_Unit(piece, count_words(piece) if len(pieces) > 1 else words, "\n") for piece in pieces]
    return units


def _cut_sentence(sentence: str, longest: int) -> Iterator[str]:
    """Pieces of at most `longest` words, at the last comma of the second half where there is one."""
    words = list(_WORDS.finditer(sentence))
    start = 0
    while start < len(words):
        end = min(start + longest, len(words))
        if end < len(words):
            clause = (n for n in range(end, start + longest // 2, -1) if words[n - 1].group()[-1] in _CLAUSE_END)
            end = next(clause, end)
        yield sentence[words[start].start() : words[end].start() if end < len(words) else len(sentence)].strip()
        start = end


def _pack(units: list[_Unit], longest: int) -> Iterator[str]:
    """As few passages as the units need, of about equal length, so that none is a small rest."""
    total = sum(unit.words for unit in units)
    if not total:
        return
    wanted = total / -(-total // longest)
    packed: list[_Unit] = []
    words = 0
    for unit in units:
        paragraph_ends = "\n" in unit.before and words >= wanted
        if packed and (words + unit.words > longest or paragraph_ends):
            yield _joined(packed)
            packed, words = [], 0
        packed.append(unit)
        words += unit.words
    if words:
        yield _joined(packed)


def _joined(units: list[_Unit]) -> str:
    return (units[0].text + "".join(unit.before + unit.text for unit in units[1:])).strip("\n").rstrip()


def _without_marks(text: str) -> str:
    return "\n".join(line.strip("#` ") for line in text.split("\n") if line.strip("#` "))
