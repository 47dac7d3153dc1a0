"""Docstrings of the standard library and the installed packages, read from their source by `ast`.

Nothing is imported or executed: a package's code is only parsed. Of a docstring's markup the prose is kept: running
text, notes and list items. Code, doctests, tables, the lists of parameters and results, and references are left out.
This need not be perfect: what slips through must still look like English.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import inspect
import os
import re
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from nearer.errors import InputError
from nearer.terminal import progress_bar
from nearer.text.sentences import split_sentences

# Tests say little in English; what lies in _vendor is another package's, often a second time.
SKIPPED_FOLDERS = frozenset({"test", "tests", "idle_test", "_vendor", "site-packages", "dist-packages", "__pycache__"})
# Of each package at most this many docstrings: keeps the largest ones from drowning the others, and bounds the time.
PER_PACKAGE = 1_500

_Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Docstring:
    """One docstring as plain English: its summary, the first sentence, and the sentences of prose after it."""

    package: str
    location: str  # file:line
    is_function: bool
    summary: str
    body: tuple[str, ...]


@dataclass
class SourceReport:
    """What was read and what was not: nothing is left out without being counted."""

    packages: int = 0
    files: int = 0
    files_beyond_limit: int = 0
    skipped_files: Counter[str] = field(default_factory=Counter)
    docstrings: int = 0
    without_english: int = 0

    def __str__(self) -> str:
        lines = [
            f"{self.files:,} files of {self.packages:,} packages read: {self.docstrings:,} docstrings with English "
            f"prose, {self.without_english:,} without"
        ]
        if self.files_beyond_limit:
            lines.append(f"{self.files_beyond_limit:,} files left unread: their packages had given enough")
        lines += [f"{count:,} files skipped: {reason}" for reason, count in sorted(self.skipped_files.items())]
        return "\n".join(lines)


def installed_folders() -> list[Path]:
    """The folders of the standard library and of the installed packages of the running Python."""
    paths = sysconfig.get_paths()
    folders = dict.fromkeys(Path(paths[name]).resolve() for name in ("stdlib", "purelib", "platlib"))
    return [folder for folder in folders if folder.is_dir()]


def read_docstrings(
    folders: Sequence[str | Path] | None = None, *, per_package: int = PER_PACKAGE, progress: bool = False
) -> tuple[list[Docstring], SourceReport]:
    """The docstrings in the Python files below `folders` (None: `installed_folders`), by package, file and line.

    A folder's direct children are its packages; the standard library counts as one. The order, and the choice of
    files where a package has more than `per_package` docstrings, follow from the files' names alone.
    """
    roots = installed_folders() if folders is None else [Path(folder) for folder in folders]
    packages = _packages(roots)
    if not packages:
        raise InputError(f"{', '.join(map(str, roots))}: no Python files found.")
    report = SourceReport(packages=len(packages))
    found: list[Docstring] = []
    total = sum(len(files) for files in packages.values())
    with progress_bar("reading docstrings", total, "files", shown=progress) as advance, _quick_parsing():
        for package, files in sorted(packages.items()):
            found += _read_package(package, files, per_package, report)
            advance(len(files))
    found.sort(key=lambda docstring: (docstring.package, docstring.location))
    return found, report


def _packages(roots: Sequence[Path]) -> dict[str, dict[str, Path]]:
    """Package: name of the file below its root: path."""
    library = Path(sysconfig.get_paths()["stdlib"]).resolve()
    packages: dict[str, dict[str, Path]] = {}
    for root in roots:
        if not root.is_dir():
            raise InputError(f"{root}: is not a folder.")
        for path in _python_files(root):
            relative = path.relative_to(root)
            package = "standard library" if root.resolve() == library else relative.parts[0].removesuffix(".py")
            packages.setdefault(package, {}).setdefault(relative.as_posix(), path)
    return packages


def _python_files(root: Path) -> Iterator[Path]:
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [name for name in subfolders if name not in SKIPPED_FOLDERS]
        for name in names:
            if name.endswith(".py") and not name.startswith("test_") and name != "conftest.py":
                yield Path(folder, name)


def _read_package(package: str, files: dict[str, Path], limit: int, report: SourceReport) -> list[Docstring]:
    # an order that is even over the package, the same on every machine
    order = sorted(files, key=lambda name: hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest())
    found: list[Docstring] = []
    for done, name in enumerate(order):
        if len(found) >= limit:
            report.files_beyond_limit += len(order) - done
            break
        try:
            tree = ast.parse(files[name].read_bytes())  # bytes: a coding cookie or a byte order mark is heeded
        except OSError:
            report.skipped_files["cannot be read"] += 1
            continue
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            report.skipped_files["cannot be parsed"] += 1
            continue
        report.files += 1
        for node in (tree, *_definitions(tree.body)):
            text = ast.get_docstring(node, clean=False)
            if text is None or not text.strip():
                continue
            docstring = _docstring(package, f"{name}:{getattr(node, 'lineno', 1):06}", node, text)
            if docstring is None:
                report.without_english += 1
            else:
                found.append(docstring)
    report.docstrings += len(found)
    return found


def _definitions(statements: Sequence[ast.stmt]) -> Iterator[_Definition]:
    """Classes and functions at any depth; expressions are not searched, which saves most of the walk."""
    waiting: list[ast.AST] = list(statements)  # no recursion: a long chain of elif is as deep as it is long
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, block, ())


def _docstring(package: str, location: str, node: _Definition, text: str) -> Docstring | None:
    """None unless the docstring opens with an English sentence."""
    sentences = [s for paragraph in paragraphs(inspect.cleandoc(text)) for s in split_sentences(paragraph)]
    if not sentences or not looks_english(sentences[0]):
        return None
    body = tuple(sentence for sentence in sentences[1:] if looks_english(sentence))
    is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    return Docstring(package, location, is_function, sentences[0], body)


@contextmanager
def _quick_parsing() -> Iterator[None]:
    """Without the garbage collector, which makes parsing twice as slow, and others' warnings of odd escapes.

    Syntax trees are trees: counting references frees them.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if collecting:
            gc.enable()


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
