"""From a docstring's markup to plain English sentences.

What counts as prose: running text, notes and list items. Code, doctests, tables, the lists of parameters and results,
and references are left out. Nothing here needs to be perfect: what slips through must still look like English.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# Sections whose entries are tables of names, code or citations, in the words of the NumPy and Google styles.
LEFT_OUT = re.compile(
    r"(?:keyword |optional )?(?:args|arguments)|attributes|examples?|inputs?|kwargs|methods|outputs?"
    r"|(?:other )?param(?:eter)?s|properties|raises|receives|references?|returns?|see also|shapes?|usage|warns|yields?",
    re.IGNORECASE,
)

_UNDERLINE = re.compile(r"^\s*([-=~^\"*#+_`])\1{2,}\s*$")
_GOOGLE_SECTION = re.compile(r"^([A-Z][A-Za-z ]{2,24}):{1,2}\s*$")
_FIELD = re.compile(r"^\s*(:[a-z]+[^:`]*:(\s|$)|@[a-z]+\b)")
_DIRECTIVE = re.compile(r"^\s*\.\.( +|$)(?P<name>[\w:-]*?)(::|\s|$)")
_PROSE_DIRECTIVES = frozenset({"note", "warning", "important", "tip", "caution", "attention", "hint", "admonition"})
_BULLET = re.compile(r"^\s*([-*+•]|\(?\w{1,2}[.)])\s+")
_SIGNATURE = re.compile(r"^[\w.]+\(.*\)(\s*->.*)?:?$")
_TABLE = re.compile(r"^\s*[|+]|\s\|\s|^\s*[=-]{2,}\s+[=-]{2,}")

_URL = re.compile(r"<?\b(?:https?|ftp)://[^\s>)]+>?|\bwww\.\S+")
_MARKUP = (
    (re.compile(r"!?\[([^\]]*)\]\([^)]*\)"), r"\1"),  # [text](address)
    (re.compile(r"(?::[a-z]+)*:?`([^`<]+?)\s*<[^>`]+>`_{0,2}"), r"\1"),  # `text <address>`_, :ref:`text <target>`
    (re.compile(r"(?::[a-z]+)+:`[~!]?(?:[\w.]*\.)?([^`]+)`"), r"\1"),  # :func:`~module.name`
    (re.compile(r"`{1,2}([^`]+)`{1,2}_{0,2}"), r"\1"),
    (re.compile(r"\s?\[[\w*#]+\]_"), ""),  # [1]_
    (re.compile(r"\[([^\]\s]+)\]"), r"\1"),  # [name], a link in Hugging Face's style
    (re.compile(r"(?<!\w)(\*{1,2}|__)(?=\S)(.+?)(?<=\S)\1(?!\w)"), r"\2"),
    (re.compile(r"</?[a-z]+[^>]*>"), ""),
)
_TYPOGRAPHY = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "…": "...", "\u00a0": " "})

_WORD = re.compile(r"^[\"'(]*[A-Za-z]+(?:['-][A-Za-z]+)*[\"')]*[.,;:!?]*[\"')]*$")
_COMMON_WORD = re.compile(
    r"\b(?:an?|all|and|any|are|as|at|be|been|but|by|can|do|does|for|from|has|have|if|in|into|is|its?|more|must|no|not|of"
    r"|on|one|only|or|other|should|so|than|that|the|their|then|there|these|this|those|to|used|was|when|where|whether"
    r"|which|while|will|with|without|you)\b",
    re.IGNORECASE,
)
SHORTEST, LONGEST = 4, 60  # words of a sentence


def paragraphs(docstring: str) -> Iterator[str]:
    """The paragraphs of prose in a docstring whose indentation is cleaned (`inspect.cleandoc`), without markup."""
    paragraph: list[str] = []
    for line in _prose_lines(docstring.translate(_TYPOGRAPHY).splitlines()):
        if paragraph and (not line or _BULLET.match(line)):
            yield plain(" ".join(paragraph))
            paragraph = []
        if line:
            paragraph.append(_BULLET.sub("", line))
    if paragraph:
        yield plain(" ".join(paragraph))


def plain(text: str) -> str:
    """One line of text without inline markup and addresses."""
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return " ".join(_URL.sub("", text).replace("\\", "").split())


def looks_english(sentence: str) -> bool:
    """4 to 60 words from a letter on, three quarters of them made of letters, and a common English word among them."""
    words = sentence.split()
    if not SHORTEST <= len(words) <= LONGEST or not words[0].lstrip("\"'(")[:1].isalpha():
        return False
    if not sentence.isprintable():  # control characters, and halves of surrogate pairs, which no tokenizer takes
        return False
    plain_words = sum(bool(_WORD.match(word)) for word in words)
    return 4 * plain_words >= 3 * len(words) and _COMMON_WORD.search(sentence) is not None


def _prose_lines(lines: list[str]) -> Iterator[str]:
    """The lines of prose, and an empty line wherever a paragraph ends."""
    number = 0
    while number < len(lines):
        line = lines[number]
        stripped, indent = line.strip(), _indent(line)
        following = lines[number + 1] if number + 1 < len(lines) else ""
        google = _GOOGLE_SECTION.match(line)
        number += 1
        if stripped.startswith("```"):
            yield ""
            while number < len(lines) and not lines[number].strip().startswith("```"):
                number += 1
            number += 1
        elif stripped.startswith(">>>"):
            yield ""
            while number < len(lines) and lines[number].strip():
                number += 1
        elif stripped and _UNDERLINE.match(following):  # a title, and its section if that is no prose
            yield ""
            number += 1
            if LEFT_OUT.fullmatch(stripped):
                number = _next_title(lines, number)
        elif google and LEFT_OUT.fullmatch(google[1]):
            yield ""
            number = _after_block(lines, number, indent)
        elif directive := _DIRECTIVE.match(line):
            yield ""
            if directive["name"].lower() not in _PROSE_DIRECTIVES:
                number = _after_block(lines, number, indent)
        elif _FIELD.match(line):
            yield ""
            number = _after_block(lines, number, indent)
        elif _SIGNATURE.match(stripped) or _TABLE.search(line) or _UNDERLINE.match(line):
            yield ""
        elif stripped.endswith("::"):  # what follows, indented, is code
            yield stripped[:-1]
            yield ""
            number = _after_block(lines, number, indent)
        else:
            yield stripped


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _after_block(lines: list[str], number: int, indent: int) -> int:
    """The next line that is neither empty nor indented further than `indent`."""
    while number < len(lines) and (not lines[number].strip() or _indent(lines[number]) > indent):
        number += 1
    return number


def _next_title(lines: list[str], number: int) -> int:
    """The next line with an underline below it, or the end."""
    while number < len(lines) and not (
        lines[number].strip() and number + 1 < len(lines) and _UNDERLINE.match(lines[number + 1])
    ):
        number += 1
    return number
