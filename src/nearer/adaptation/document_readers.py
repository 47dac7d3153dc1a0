"""The documents of one file of any kind: a document a file, a document a line, or a document a row of a table."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from nearer.adaptation.document_files import (
    TABLES,
    TOO_LARGE,
    UTF_16,
    FileAccount,
    Found,
    Unreadable,
    decode,
    read_blocks,
    read_bytes,
)
from nearer.adaptation.markup import is_html, read_html, read_markdown
from nearer.adaptation.pdf import read_pdf
from nearer.errors import InputError, MissingExtraError, SettingError, did_you_mean
from nearer.text.faults import Fault, ReadReport
from nearer.text.reading import Reading, ReadOptions
from nearer.text.shapes import Clean, Field, Shape, Unusable
from nearer.typed_files import Unreadable as NotJson
from nearer.typed_files import parse_json

TxtRule = Literal["auto", "file", "line"]
TXT_RULES: tuple[TxtRule, ...] = get_args(TxtRule)
MAX_CHARACTERS = 4_000_000  # of one document in a table
LOOKED_AT = 100  # texts of a table, to see whether they are HTML
# Names under which tables keep what a document has, the surest first
NAMES = {
    "text": (
        *(
            "text",
            "body",
            "content",
            "contents",
            "document",
            "passage",
            "article",
            "markdown",
            "abstract",
            "description",
        ),
        *(
            "answer",
            "post",
            "message",
            "comment",
            "review",
            "summary",
            "code",
            "function",
            "paragraph",
            "sentence",
            "html",
        ),
    ),
    "title": ("title", "headline", "subject", "heading", "name", "question", "func_name"),
    "id": ("_id", "id", "doc_id", "docid", "document_id", "pid", "uuid", "url", "key"),
}


class RawDocument(NamedTuple):
    """A document as its file has it. id: the file's own, or ""; line: where it begins, 0 for a whole file."""

    title: str
    text: str
    id: str = ""
    line: int = 0


class ReaderOptions(NamedTuple):
    """columns: by "text", "title" and "id", the names of a table's columns. txt: what a document is in plain text."""

    columns: Mapping[str, str] = {}
    encoding: str = "utf-8"
    txt: TxtRule = "auto"

    def check(self) -> None:
        for part in self.columns:
            if part not in NAMES:
                raise SettingError(
                    f"columns: {part!r} is not one of text, title and id.{did_you_mean(part, NAMES)}",
                    argument="columns",
                )
        if self.txt not in TXT_RULES:
            raise SettingError(f"txt: {self.txt!r} is not one of {', '.join(TXT_RULES)}.", argument="txt")
        ReadOptions(encoding=self.encoding)  # which knows the encodings


def read_file(found: Found, options: ReaderOptions, account: FileAccount) -> Iterator[RawDocument]:
    """The documents of a file, with what went otherwise in its account; raises `Unreadable` if there are none."""
    try:
        if found.kind in TABLES:
            yield from _read_table(found, options, account)
        else:
            yield from _read_text(found, options, account)
    except (InputError, MissingExtraError) as error:  # of a file among many: told, and the others are read
        if "columns" in (error.argument or "") and options.columns:
            raise
        told = str(error).removeprefix(f"{found.path}: ").rstrip(".")
        if error.argument == "columns":  # reading in general has columns in an order, here they have names
            told = told.replace("or name them in order by columns", "or name them with columns (text=…,title=…)")
        raise Unreadable(told) from None


def _read_text(found: Found, options: ReaderOptions, account: FileAccount) -> Iterator[RawDocument]:
    if found.kind == "txt":
        yield from _read_txt(found.path, options, account)
        return
    data = read_bytes(found.path)
    if found.kind == "pdf":
        yield RawDocument(*read_pdf(data, account))
        return
    text = decode(data, options.encoding, account)
    if found.kind == "html":
        yield RawDocument(*read_html(text))
    else:
        yield RawDocument(*read_markdown(text))


def _read_txt(path: Path, options: ReaderOptions, account: FileAccount) -> Iterator[RawDocument]:
    """A file with a document on each line may be of any size; it is read in blocks."""
    blocks = read_blocks(path)
    block, following = next(blocks), next(blocks, None)
    if following is not None and block.startswith(UTF_16):  # in which lines do not end where their bytes say so
        raise Unreadable(f"{TOO_LARGE}, in UTF-8")
    text = decode(block, options.encoding, account)
    if options.txt == "file" or (options.txt == "auto" and not has_a_document_a_line(text)):
        if following is not None:
            raise Unreadable(TOO_LARGE)
        yield RawDocument(*_titled(text))
        return
    if options.txt == "auto":
        account.notes.append("read as one document a line; txt='file' (--txt file) makes it one document")
    before = 0
    while True:
        lines = text.split("\n")
        for number, line in enumerate(lines, before + 1):
            if line.strip():
                yield RawDocument("", line.strip(), "", number)
        if following is None:
            return
        before += len(lines) - 1  # a block ends with a line's end
        noted = list(account.notes)
        text, following = decode(following, options.encoding, account), next(blocks, None)
        account.notes[:] = list(dict.fromkeys([*noted, *account.notes]))


def has_a_document_a_line(text: str) -> bool:
    """Lines without empty ones between them, which are not prose that was wrapped at some width.

    Wrapped lines are of like length and mostly end within a sentence; documents are of any length and mostly end with
    one, or some of them are longer than anybody wraps.
    """
    lines = text.strip().split("\n")
    filled = [line.strip() for line in lines if line.strip()]
    if len(filled) < 3 or len(filled) < 0.9 * len(lines):
        return False
    if sum(line[-1] in ".!?…。！？\"')”" for line in filled) >= 0.7 * len(filled):
        return True
    lengths = [len(line) for line in filled]
    words = statistics.median(len(line.split()) for line in filled)
    return words >= 4 and max(lengths) > 200 and statistics.median(lengths) < 0.8 * max(lengths)


_UNDERLINE = re.compile(r"([=\-~^\"*+#])\1{2,}\s*")


def _titled(text: str) -> tuple[str, str]:
    """A first line that stands alone, is short and is no sentence is a title."""
    first, _, rest = text.strip().partition("\n")
    second, _, below = rest.partition("\n")
    if _UNDERLINE.fullmatch(second):
        rest = below
    elif second.strip():
        return "", text.strip()
    if not rest.strip() or len(first.split()) > 12 or first.rstrip().endswith(tuple(".!;,:。！，：")):
        return "", text.strip()
    return first.strip(), rest.strip()


def _read_table(found: Found, options: ReaderOptions, account: FileAccount) -> Iterator[RawDocument]:
    source: Any = str(found.path)
    kind: str | None = found.kind
    if kind == "json":
        source, kind = _json_records(found, options, account)
    given = ReadOptions(encoding=options.encoding, format=kind, max_characters=MAX_CHARACTERS, allow_dropped=True)
    reading: Reading[RawDocument] = Reading(source, _shape(options.columns), given)
    seen, markup = 0, 0
    for line, record in reading.located():
        if seen < LOOKED_AT:
            seen, markup = seen + 1, markup + is_html(record.text)
        if 2 * markup > seen and is_html(record.text):
            title, text = read_html(record.text)
            record = record._replace(title=record.title or title, text=text)
        yield record._replace(line=line)
    report = reading.report
    if not report.kept and (tally := report.tallies.get(Fault.WRONG_FIELDS)):
        raise Unreadable(f"no column is known as a document's text ({tally.examples[0][1]}); name it with columns")
    _account(report, account)
    if 2 * markup > seen:
        account.notes.append("its texts are HTML and were read as such")


def _shape(columns: Mapping[str, str]) -> Shape:
    fields = [
        Field(
            (columns[part].strip().lower(),) if part in columns else NAMES[part],
            required=part in columns or part == "text",
        )
        for part in ("text", "title", "id")
    ]
    return Shape("document", "documents", tuple(fields), _build, unnamed_fields=1)


def _build(values: Sequence[Any], clean: Clean) -> RawDocument:
    text, title, own_id = (_cleaned(value, clean) for value in values)
    if not text:
        raise Unusable(Fault.EMPTY)
    return RawDocument(" ".join(title.split()), text, own_id)


def _cleaned(value: object, clean: Clean) -> str:
    """ "" where there is nothing. Numbers can be ids and titles."""
    if value is None or (isinstance(value, str) and not value.replace("\x00", "").strip()):
        return ""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else clean(value)


def _json_records(found: Found, options: ReaderOptions, account: FileAccount) -> tuple[Any, str | None]:
    """A JSON file's list of records, or its path if it has one record a line."""
    text = decode(read_bytes(found.path), options.encoding, account)
    try:
        value = parse_json(text)
    except NotJson as error:
        if len(text.strip().splitlines()) > 1:
            return str(found.path), "jsonl"
        raise Unreadable(str(error)) from None
    if isinstance(value, dict):
        lists = [item for item in value.values() if isinstance(item, list) and item and isinstance(item[0], dict)]
        value = lists[0] if len(lists) == 1 else [value]
    if not isinstance(value, list) or not value:
        raise Unreadable("holds no list of records")
    return value, None


def _account(report: ReadReport, account: FileAccount) -> None:
    for fault, tally in report.tallies.items():
        if fault is Fault.DUPLICATE:  # told for the whole collection, as are empty ones
            continue
        account.dropped[fault.label] += tally.count
        if fault is Fault.EMPTY:
            continue
        where = ", ".join(f"{line}{f' ({detail})' if detail else ''}" for line, detail in tally.examples[:2])
        account.notes.append(f"{tally.count:,} {fault.label} ({fault.rule}): {report.unit} {where}")
    account.notes += report.notes
