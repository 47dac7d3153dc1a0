"""Documents that are code: whether a text is, what people wrote in it for people, and the code without it.

In a search for code, the docstring is to the code what a title is to a text: what somebody may ask for it by.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import warnings
from collections.abc import Iterator
from typing import NamedTuple

LOOKED_AT = 60  # lines
_CODE_LINE = re.compile(
    r"^\s*(?:def |class |return\b|import |from \S+ import |@\w|(?:if|for|while|elif) .*[:{]$|(?:else|try)\s*[:{]$"
    r"|except\b.*:$|with .*:$|raise |yield |public |private |static |void |int |var |let |const |function\b|func |fn "
    r"|package |#include|using |namespace |//|/\*|\*/|[})\]]+[;,]?$|[\w.\[\]\"']+\s*[-+*/|]?=\s*\S|[\w.]+\(.*\)?[;:]?$)"
    r"|[;{]\s*$|->|=>"
)
_STRING = re.compile(r"[rRuU]?(\"\"\"|''')(.*?)\1", re.DOTALL)
_BLOCK_COMMENT = re.compile(r"/\*\*?(.*?)\*/", re.DOTALL)
_LINE_COMMENTS = re.compile(r"(?:^[ \t]*(?:#(?!!)|//)[^\n]*\n?)+", re.MULTILINE)
_FIELD = re.compile(
    r"^\s*(?:[:@]\w+|(?:args|arguments|parameters|params|returns?|raises|yields|examples?|notes?)\s*:?\s*$|>>>)", re.I
)
_RULE = re.compile(r"^\s*[-=~*]{3,}\s*$")


class SplitCode(NamedTuple):
    """prose: the docstring's words; code: the rest, with nothing in the docstring's place."""

    prose: str
    code: str


def is_code(text: str) -> bool:
    """Whether most lines look like those of a programming language; docstrings and comments do not count."""
    if "\n" not in text or "```" in text:
        return False
    bare = _BLOCK_COMMENT.sub("", _STRING.sub("", text[:8000]))
    lines = [line for line in bare.split("\n")[:LOOKED_AT] if line.strip() and not line.lstrip().startswith("#")]
    return len(lines) > 1 and sum(_CODE_LINE.search(line) is not None for line in lines) >= 0.6 * len(lines)


def split_docstring(text: str) -> SplitCode | None:
    """A function's (class's, file's) docstring apart from its code; None where it has none or either is empty."""
    found = _python_docstring(text) or _first_match(text)
    if found is None or not found.prose.strip() or not found.code.strip():
        return None
    return found


def prose_of_code(text: str) -> Iterator[str]:
    """What is written for people: paragraphs of docstrings and comments, without lists of arguments and examples."""
    rest = text
    for pattern in (_STRING, _BLOCK_COMMENT):
        for match in pattern.finditer(rest):
            yield from _paragraphs(match[match.lastindex or 1])
        rest = pattern.sub("", rest)
    for match in _LINE_COMMENTS.finditer(rest):
        yield from _paragraphs(re.sub(r"^[ \t]*(?:#+|//+)[ \t]?", "", match[0], flags=re.MULTILINE))


def _paragraphs(comment: str) -> Iterator[str]:
    paragraph: list[str] = []
    for line in inspect.cleandoc(comment).split("\n"):
        line = line.strip().removeprefix("*").strip()
        if _FIELD.match(line):
            break
        if line and not _RULE.match(line):
            paragraph.append(line)
        elif paragraph:
            yield " ".join(paragraph)
            paragraph = []
    if paragraph:
        yield " ".join(paragraph)


def _python_docstring(text: str) -> SplitCode | None:
    source = textwrap.dedent(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in other people's strings
            module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    node: ast.AST = module.body[0] if len(module.body) == 1 else module
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module) or not node.body:
        return None
    first = node.body[0]
    if not (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    ):
        return None
    lines = source.split("\n")
    code = lines[: first.lineno - 1] + lines[first.end_lineno or first.lineno :]
    return SplitCode(inspect.cleandoc(first.value.value), "\n".join(code).strip("\n"))


def _first_match(text: str) -> SplitCode | None:
    """Code that Python cannot parse, or of another language: the first long string or block comment."""
    match = _STRING.search(text) or _BLOCK_COMMENT.search(text)
    if match is None:
        return None
    prose = "\n".join(line.strip().removeprefix("*").strip() for line in match[match.lastindex or 1].split("\n"))
    return SplitCode(
        prose.strip(), (text[: match.start()].rstrip() + "\n" + text[match.end() :].lstrip("\n")).strip("\n")
    )
