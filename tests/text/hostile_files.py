"""What tests of hostile files share: formats, compressions, and the faults that were found."""

from __future__ import annotations

import bz2
import gzip
import lzma

import pytest
import zstandard

from nearer.text import (
    ReadReport,
)

FORMATS = ("txt", "csv", "tsv", "jsonl")


COMPRESS = {
    "plain": bytes,
    "gz": lambda data: gzip.compress(data, 1),
    "xz": lambda data: lzma.compress(data, preset=0),
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
    "bz2": bz2.compress,
}


every_format = pytest.mark.parametrize("format", FORMATS)


every_compression = pytest.mark.parametrize("compression", COMPRESS)


def faults(report: ReadReport) -> dict[str, list[int]]:
    return {fault.name: [line for line, _ in tally.examples] for fault, tally in report.tallies.items()}
