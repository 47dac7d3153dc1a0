"""Files with every fault that their format knows: each is found where it stands, whatever the compression."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hostile_files import COMPRESS, every_compression, every_format, faults

from nearer.text import (
    Pair,
    RankingList,
    Reading,
    Triplet,
    read_pairs,
    read_ranking_lists,
    read_sentences,
    read_triplets,
)


class Corpus(NamedTuple):
    """A file with every fault its format knows, one line an item, and what has to come of it."""

    reader: Callable[..., Reading[Any]]
    lines: list[bytes]
    kept: list[tuple[int, Any]]
    faults: dict[str, list[int]]


CORPORA = {
    "txt": Corpus(
        read_sentences,
        [
            b"\xef\xbb\xbffirst\r\n",
            b"\n",
            b"caf\xe9\n",
            b"se\x00cond\r\n",
            b"first\n",  # 5
            b"x" * 10_001 + b"\n",
            b" \t\r\n",
            b"th\rird\n",
            b"\x00\xff\n",
            b"y" * 5_000_000 + b"\n",  # 10
            "fo\u2028ur\x85th\n".encode(),
            b"second",
        ],
        [(1, "first"), (4, "second"), (8, "th\rird"), (11, "fo\u2028ur\x85th")],
        {
            "EMPTY": [2, 7],
            "INVALID_TEXT": [3, 9],
            "NUL": [4, 9],
            "DUPLICATE_DROPPED": [5, 12],
            "OVER_LONG": [6, 10],
        },
    ),
    "csv": Corpus(
        read_pairs,
        [
            b'\xef\xbb\xbf"a, 1",b,0.5\r\n',
            b"\r\n",
            b"c,\xff,1\n",
            b"c,d\n",
            b"c,d,1,2\n",  # 5
            b'c,"d\n',
            b'd",1\n',
            b'"c" d,e,1\n',
            b"c,d,nan\n",
            b"c,,1\n",  # 10
            b"c\x00,d,2\n",
            b'"a, 1",b,0.9\n',
            b"x" * 10_001 + b",d,1\n",
            b"z" * 5_000_000 + b"\n",
            b'"never closed,d,1\n',  # 15
            b"e,f,2\n",
            b'g,"h',
        ],
        [
            (1, Pair("a, 1", "b", 0.5)),
            (6, Pair("c", "d\nd", 1.0)),
            (11, Pair("c", "d", 2.0)),
            (16, Pair("e", "f", 2.0)),
        ],
        {
            "EMPTY": [2, 10],
            "INVALID_TEXT": [3],
            "WRONG_COLUMNS": [4, 5],
            "BAD_QUOTES": [8, 15, 17],
            "BAD_SCORE": [9],
            "NUL": [11],
            "DUPLICATE_DROPPED": [12],
            "OVER_LONG": [13, 14],
        },
    ),
    "tsv": Corpus(
        read_triplets,
        [
            b"\t\n",
            b"\xff\n",
            b"hard_negative\tanchor\tid\tpositive\r\n",
            b"c\ta\t1\tb\r\n",
            b"c\ta\t2\n",  # 5
            b"\n",
            b"c\x00\ta\t3\tb\n",
            b'"f\td\t4\te"\n',
            b"c\ta\t5\t\n",
            b"x" * 10_001 + b"\ta\t6\tb\n",  # 10
            b"i\tg\t\xc3\th\n",
        ],
        [(4, Triplet("a", "b", "c")), (8, Triplet("d", 'e"', '"f'))],
        {
            "EMPTY": [1, 6, 9],
            "INVALID_TEXT": [2, 11],
            "WRONG_COLUMNS": [5],
            "NUL": [7],
            "DUPLICATE_DROPPED": [7],
            "OVER_LONG": [10],
        },
    ),
    "jsonl": Corpus(
        read_ranking_lists,
        [
            b'\xef\xbb\xbf["a", "b"]\r\n',
            b"\n",
            b'["\xff", "b"]\n',
            b'["a"]\n',
            b'{"list": ["a", "b"]}\n',  # 5
            b'["a", "b"\n',
            b'["a", 7]\n',
            b'["\\ud800", "b"]\n',
            b'["a\\u0000", "c"]\n',
            b'["a\x00", "d"]\n',  # 10
            b"[" * 100_000 + b"\n",
            b'["a", " "]\n',
            b'["a", "' + b"x" * 10_001 + b'"]\n',
            b"null\n",
            b"y" * 5_000_000 + b"\n",  # 15
            b'["a", "e"]',
        ],
        [(line, RankingList(("a", second))) for line, second in ((1, "b"), (9, "c"), (10, "d"), (16, "e"))],
        {
            "EMPTY": [2, 12],
            "INVALID_TEXT": [3, 8],
            "WRONG_COLUMNS": [4],
            "DUPLICATE_DROPPED": [5],
            "BAD_JSON": [6, 11],
            "WRONG_FIELDS": [7, 14],
            "NUL": [9, 10],
            "OVER_LONG": [13, 15],
        },
    ),
}


class TestEveryFaultByHand:
    @every_compression
    @every_format
    def test_each_where_it_stands(self, format: str, compression: str, tmp_path: Path) -> None:
        corpus = CORPORA[format]
        path = tmp_path / "corpus"
        path.write_bytes(COMPRESS[compression](b"".join(corpus.lines)))
        reading = corpus.reader(path, format=format, duplicates="drop")
        assert list(reading.located()) == corpus.kept
        assert faults(reading.report) == corpus.faults
        assert reading.report.read == reading.report.kept + reading.report.dropped
