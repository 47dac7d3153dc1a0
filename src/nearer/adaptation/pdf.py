"""The text of PDF files, by pypdf: pages without their running heads and feet, lines joined into paragraphs."""

from __future__ import annotations

import io
import logging
import re
from collections import Counter
from itertools import pairwise

from nearer.adaptation.document_files import FileAccount, Unreadable
from nearer.errors import first_line
from nearer.extras import require

_DIGITS = re.compile(r"\d+")
_JUNK_TITLE = re.compile(
    r"^(?:untitled|microsoft word|document\d*|slide \d+)\b|\.(?:docx?|tex|dvi|pdf|indd|pptx?)$", re.I
)
WIDE = "⺀"  # from here on: Chinese and Japanese, which have no spaces
LEAST_PAGES = 3  # below that a line that recurs is no running head


def read_pdf(data: bytes, account: FileAccount) -> tuple[str, str]:
    """Title and text; raises `Unreadable`. Pages that cannot be read, or have no text, are counted in the account."""
    pypdf = require("pypdf", "documents", "reading PDF files")
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it remarks on every oddity of a file
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("encrypted; save it without its password")
        count = len(reader.pages)
        title = str((reader.metadata or {}).get("/Title") or "").strip()
    except Unreadable:
        raise
    except Exception as error:  # pypdf meets damaged files with errors of all kinds
        needs = "cryptography" in str(error).lower()
        why = "encrypted in a way that pypdf cannot read" if needs else f"not a readable PDF file ({first_line(error)})"
        raise Unreadable(why) from None
    pages = []
    for number in range(count):
        try:
            pages.append(reader.pages[number].extract_text() or "")
        except Exception:  # as above, for a page
            account.dropped["pages that cannot be read"] += 1
    empty = sum(not page.strip() for page in pages)
    if empty == len(pages):
        why = "scanned pictures?" if pages else "no page can be read"
        raise Unreadable(f"no text in its {count} pages ({why}); put it through text recognition first")
    if empty:
        account.dropped["pages without text"] += empty
    text = join_pages(pages, account)
    title = "" if _JUNK_TITLE.search(title) or len(title) > 200 else title
    return title, text


def join_pages(pages: list[str], account: FileAccount) -> str:
    """One text. A first or last line that most pages have, up to its numbers, is a running head or foot."""
    cut = [[line.strip() for line in page.split("\n") if line.strip()] for page in pages]
    edges: Counter[str] = Counter()
    for lines in cut:
        edges.update({_DIGITS.sub("0", line) for line in (*lines[:1], *lines[-1:])})
    filled = sum(bool(lines) for lines in cut)
    running = {line for line, count in edges.items() if filled >= LEAST_PAGES and count > filled / 2}
    kept: list[str] = []
    for lines in cut:
        before = len(lines)
        if lines and _DIGITS.sub("0", lines[0]) in running:
            lines = lines[1:]
        if lines and _DIGITS.sub("0", lines[-1]) in running:
            lines = lines[:-1]
        if before > len(lines):
            account.dropped["running heads and feet"] += before - len(lines)
        kept += lines
    return _join_lines(kept)


def _join_lines(lines: list[str]) -> str:
    """A line that ends a sentence well before the usual width ends its paragraph; a hyphen at a line's end goes."""
    if not lines:
        return ""
    widths = sorted(len(line) for line in lines)
    usual = widths[int(0.8 * (len(widths) - 1))]
    parts = [lines[0]]
    for before, line in pairwise(lines):
        if before[-1] == "-" and before[-2:-1].isalpha() and line[:1].islower():
            parts[-1] = parts[-1][:-1]
        elif before[-1] in ".!?:。！？" and len(before) < 0.8 * usual:
            parts.append("\n\n")
        elif before[-1] < WIDE or line[0] < WIDE:
            parts.append(" ")
        parts.append(line)
    return "".join(parts)
