"""Readers of text: whatever a file holds, its records and its account, or an error in one line."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from mutations import damaged_bytes, tries

from nearer.errors import NearerError
from nearer.text.reading import Reading, ReadOptions
from nearer.text.shapes import SHAPES

PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": lambda data: gzip.compress(data, 1),
    ".xz": lambda data: lzma.compress(data, preset=0),
    ".zst": zstandard.ZstdCompressor().compress,
    ".bz2": bz2.compress,
}
LINES = {
    "txt": b'one sentence\nanother, "quoted"\n\xc3\xa9 and \xf0\x9f\x98\x80\n\nlast',
    "csv": b'anchor,positive,hard_negative\n"a ""b""",c,d\ne,"f\ng",h\n1,2,3\n',
    "tsv": b"sentence1\tsentence2\tscore\na b\tc d\t1.5\ne\tf\t2\n",
    "jsonl": b'{"anchor": "a", "positives": ["b", "c"], "negatives": ["d"]}\n["x", "y", 3]\n"\\ud83d\\ude00"\n5\n',
}
DEBIASED = {"anchor": ["a", "b"] * 9, "positives": [["c", None]] * 18, "negatives": [["d"], []] * 9}
FLAT = {"sentence1": ["one", "two", None] * 7, "sentence2": ["x" * 50] * 21, "score": [1.5, 2.0, None] * 7}


def written(columns: dict[str, Any], **options: Any) -> bytes:
    out = io.BytesIO()
    parquet.write_table(arrow.table(columns), out, **options)
    return out.getvalue()


PARQUET = {
    "flat": written(FLAT, row_group_size=10),
    "plain": written(FLAT, use_dictionary=False, compression="zstd", data_page_version="2.0"),
    "differences": written(
        {"text": FLAT["sentence2"]}, use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"}
    ),
    "lists": written(DEBIASED, compression="gzip"),
    "categories": written({"text": arrow.array(FLAT["sentence2"]).dictionary_encode()}),
}

shapes = st.sampled_from(sorted(SHAPES))


def read_all(path: Path, shape: str, options: dict[str, Any], bounded: Any) -> None:
    with bounded(), suppress(NearerError):
        reading: Reading[Any] = Reading(path, SHAPES[shape], ReadOptions(**options))
        list(reading.located())
        report = reading.report
        assert report.read == report.kept + report.dropped
        str(report)
        report.check_kept()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz-text")


@pytest.mark.parametrize("format", LINES)
@tries(40)
@given(draw=st.data())
def test_lines(format: str, place: Path, bounded: Any, draw: st.DataObject) -> None:
    packing = draw.draw(st.sampled_from(sorted(PACKED)))
    data = LINES[format]
    if draw.draw(st.booleans()):
        data = draw.draw(damaged_bytes(data))
    data = PACKED[packing](data)
    if packing and draw.draw(st.booleans()):
        data = draw.draw(damaged_bytes(data))
    path = place / f"a.{format}{packing}"
    path.write_bytes(data)
    columns = draw.draw(st.sampled_from([None, ("0",), ("9" * 5000,), ("1", "0"), ("score", "x"), ("\x00", "-1")]))
    encoding = draw.draw(st.sampled_from(["utf-8", "latin-1", "cp1252"]))
    read_all(path, draw.draw(shapes), {"columns": columns, "encoding": encoding}, bounded)


@pytest.mark.parametrize("kind", PARQUET)
@tries(40)
@given(draw=st.data())
def test_parquet(kind: str, place: Path, bounded: Any, draw: st.DataObject) -> None:
    data = draw.draw(damaged_bytes(PARQUET[kind]))
    packing = draw.draw(st.sampled_from(["", "", "", ".xz", ".gz"]))
    path = place / f"a.parquet{packing}"
    path.write_bytes(PACKED[packing](data))
    columns = draw.draw(st.sampled_from([None, ("text",), ("sentence2",), ("anchor", "positives")]))
    read_all(path, draw.draw(shapes), {"columns": columns}, bounded)
