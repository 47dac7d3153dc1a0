"""Decoded lines of a file: the layer that deals with encodings, NUL bytes, over-long lines and damage."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nearer.errors import SettingError, first_line
from nearer.text.faults import Fault, ReadReport
from nearer.text.sources import LINE_LIMIT, DamagedStream, RawLine, iter_lines, open_bytes


class TextLine(NamedTuple):
    """One decoded line, or the fault for which it has to be dropped."""

    number: int
    text: str
    fault: Fault | None = None
    detail: str = ""


def check_encoding(encoding: str) -> str:
    """The encoding's name, if lines can be cut before decoding (UTF-16 and UTF-32 cannot)."""
    try:
        cuttable = "\n".encode(encoding) == b"\n"
    except (LookupError, ValueError):  # ValueError: not a name at all, or a codec that refuses everything
        raise SettingError(f"encoding: {encoding!r} is not known; utf-8 and latin-1 are common ones.") from None
    if not cuttable:
        raise SettingError(
            f"encoding: {encoding} cannot be read line by line; convert the file: iconv -f {encoding} -t utf-8."
        )
    return encoding


def iter_text_lines(path: str | Path, encoding: str, report: ReadReport, limit: int = LINE_LIMIT) -> Iterator[TextLine]:
    """The lines of a file; those over `limit` bytes come as faults and are never held."""
    with open_bytes(path) as (stream, compression):
        suffix = Path(path).suffix.lower().lstrip(".")
        if compression is None and suffix in ("gz", "xz", "zst", "bz2"):
            report.note(f"named .{suffix} but not compressed: read as it is")
        try:
            for line in iter_lines(stream, limit):
                if line.number == 1 and line.data and line.data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    report.note("looks like UTF-16: convert it with iconv -f utf-16 -t utf-8")
                yield _decode(line, encoding, report)
        except DamagedStream as damage:
            report.add(Fault.DAMAGED, damage.line, str(damage))


def _decode(line: RawLine, encoding: str, report: ReadReport) -> TextLine:
    data = line.data
    if data is None:
        return TextLine(line.number, "", Fault.OVER_LONG, f"{line.length:,} bytes")
    if b"\x00" in data:
        report.add(Fault.NUL, line.number)
        data = data.replace(b"\x00", b"")
    try:
        return TextLine(line.number, data.decode(encoding))
    except UnicodeDecodeError as error:
        return TextLine(line.number, "", Fault.INVALID_TEXT, f"byte {error.start + 1}")
    except UnicodeError as error:  # some codecs do not say where
        return TextLine(line.number, "", Fault.INVALID_TEXT, first_line(error))
