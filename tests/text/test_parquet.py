"""Parquet files."""

from __future__ import annotations

import datetime
import gzip
import os
import random
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from nearer.errors import InputError, NearerError
from nearer.text import (
    Fault,
    Pair,
    RankingList,
    Reading,
    Triplet,
    read_pairs,
    read_ranking_lists,
    read_sentences,
    read_triplets,
)

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

NOT_UTF_8 = arrow.array([b"one", b"ca\xe9", b"two"], arrow.binary()).view(arrow.string())


@pytest.fixture
def write(tmp_path: Path):
    def write(columns: dict[str, Any], **options: Any) -> Path:
        path = tmp_path / "a.parquet"
        parquet.write_table(arrow.table(columns), path, **options)
        return path

    return write


def read(reading: Reading) -> tuple[list, dict[Fault, list[int]]]:
    records = list(reading.located())
    assert reading.report.read == reading.report.kept + reading.report.dropped
    found = {fault: [line for line, _ in tally.examples] for fault, tally in reading.report.tallies.items()}
    return records, found


class TestRecords:
    def test_sentences(self, write) -> None:
        reading = read_sentences(write({"id": [1, 2], "text": ["one", "two"]}))
        assert read(reading) == ([(1, "one"), (2, "two")], {})

    def test_the_unit_is_the_row(self, write) -> None:
        reading = read_sentences(write({"text": ["one"]}))
        list(reading)
        assert (reading.report.unit, reading.report.notes) == ("row", ["columns used: text"])

    def test_pairs_with_scores(self, write) -> None:
        path = write({"score": [1, None], "sentence2": ["b", "d"], "sentence1": ["a", "c"]})
        assert list(read_pairs(path)) == [Pair("a", "b", 1.0), Pair("c", "d")]

    def test_triplets(self, write) -> None:
        path = write({"anchor": ["a"], "positive": ["b"], "negative": ["c"]})
        assert list(read_triplets(path)) == [Triplet("a", "b", "c")]

    def test_ragged_ranking_lists(self, write) -> None:
        path = write({"sentences": [["a", "b", "c"], ["d", "e"]]})
        assert list(read_ranking_lists(path)) == [RankingList(("a", "b", "c")), RankingList(("d", "e"))]

    @pytest.mark.parametrize("kind", ["string", "large_string", "binary", "large_binary", "dictionary"])
    def test_every_kind_of_text_column(self, kind: str, write) -> None:
        text = arrow.array(["one", "café"])
        column = text.dictionary_encode() if kind == "dictionary" else text.cast(getattr(arrow, kind)())
        assert list(read_sentences(write({"text": column}))) == ["one", "café"]

    def test_more_rows_than_a_batch_holds(self, write) -> None:
        sentences = [f"sentence {number}" for number in range(10_000)]
        reading = read_sentences(write({"text": sentences}, row_group_size=3000))
        assert read(reading) == (list(enumerate(sentences, start=1)), {})

    def test_named_columns(self, write) -> None:
        assert list(read_sentences(write({"text": ["one"], "body": ["two"]}), columns=["body"])) == ["two"]

    def test_the_first_of_two_columns_with_one_name(self, tmp_path: Path) -> None:
        table = arrow.Table.from_arrays([arrow.array(["a"]), arrow.array(["b"])], names=["text", "text"])
        parquet.write_table(table, tmp_path / "a.parquet")
        assert list(read_sentences(tmp_path / "a.parquet")) == ["a"]

    def test_one_column_named_twice(self, write) -> None:
        assert list(read_pairs(write({"text": ["a"]}), columns=["text", "text"])) == [Pair("a", "a")]

    def test_decimal_scores(self, write) -> None:
        path = write({"sentence1": ["a"], "sentence2": ["b"], "score": [Decimal("0.25")]})
        assert list(read_pairs(path)) == [Pair("a", "b", 0.25)]

    def test_no_rows(self, write) -> None:
        assert read(read_sentences(write({"text": arrow.array([], arrow.string())}))) == ([], {})


class TestFaults:
    def test_nulls_are_empty(self, write) -> None:
        reading = read_sentences(write({"text": ["one", None, "", "two"]}))
        assert read(reading) == ([(1, "one"), (4, "two")], {Fault.EMPTY: [2, 3]})

    def test_nul_bytes(self, write) -> None:
        assert read(read_sentences(write({"text": ["o\x00ne"]}))) == ([(1, "one")], {Fault.NUL: [1]})

    def test_nul_bytes_in_lists(self, write) -> None:
        reading = read_ranking_lists(write({"list": [["a\x00", "b"]]}))
        assert read(reading) == ([(1, RankingList(("a", "b")))], {Fault.NUL: [1]})

    def test_columns_that_are_not_text(self, write) -> None:
        assert read(read_sentences(write({"text": [1, 2]}))) == ([], {Fault.WRONG_FIELDS: [1, 2]})

    def test_scores_that_are_not_finite(self, write) -> None:
        scores = [float("nan"), float("inf"), 0.5]
        reading = read_pairs(write({"sentence1": list("abc"), "sentence2": list("def"), "score": scores}))
        assert read(reading) == ([(3, Pair("c", "f", 0.5))], {Fault.BAD_SCORE: [1, 2]})

    def test_scores_that_are_truth_values(self, write) -> None:
        reading = read_pairs(write({"sentence1": ["a"], "sentence2": ["b"], "label": [True]}))
        assert read(reading) == ([], {Fault.BAD_SCORE: [1]})

    def test_text_that_is_not_utf_8(self, write) -> None:
        reading = read_sentences(write({"text": NOT_UTF_8}))
        assert read(reading) == ([(1, "one"), (3, "two")], {Fault.INVALID_TEXT: [2]})
        assert reading.report.tallies[Fault.INVALID_TEXT].examples == [(2, "byte 3")]

    def test_text_in_a_dictionary_that_is_not_utf_8(self, write) -> None:
        """pyarrow refuses, from some version on, the whole dictionary, which every row of the group points into."""
        column = arrow.DictionaryArray.from_arrays(arrow.array([0, 1, 2]), NOT_UTF_8)
        found = read(read_sentences(write({"text": column})))
        assert found in (([], {Fault.DAMAGED: [1]}), ([(1, "one"), (3, "two")], {Fault.INVALID_TEXT: [2]}))

    def test_text_in_a_list_that_is_not_utf_8(self, write) -> None:
        lists = arrow.ListArray.from_arrays(arrow.array([0, 2, 3], arrow.int32()), NOT_UTF_8)
        reading = read_ranking_lists(write({"list": lists}))
        assert read(reading) == ([], {Fault.INVALID_TEXT: [1], Fault.WRONG_COLUMNS: [2]})

    def test_a_date_that_python_does_not_know(self, write) -> None:
        dates = arrow.array([0, 2**55], arrow.timestamp("us"))
        reading = read_sentences(write({"text": dates}))
        assert read(reading) == ([], {Fault.WRONG_FIELDS: [1, 2]})

    def test_a_date_is_no_text(self, write) -> None:
        reading = read_sentences(write({"text": [datetime.date(2020, 1, 1)]}))
        list(reading)
        assert reading.report.tallies[Fault.WRONG_FIELDS].examples == [(1, "text expected, date found")]

    def test_wrong_column_names(self, write) -> None:
        with pytest.raises(InputError, match=r"cannot tell which columns make a pair; found 'a', 'b'\."):
            list(read_pairs(write({"a": ["x"], "b": ["y"]})))

    def test_an_unknown_column(self, write) -> None:
        with pytest.raises(InputError, match=r"a\.parquet: has no column 'body'; its columns are 'text'\.$"):
            list(read_sentences(write({"text": ["a"]}), columns=["body"]))


class TestFiles:
    def test_compressed_as_a_whole(self, write, tmp_path: Path) -> None:
        path = tmp_path / "b.parquet.gz"
        path.write_bytes(gzip.compress(write({"text": ["one"]}).read_bytes()))
        assert list(read_sentences(path)) == ["one"]

    def test_compressed_and_cut_off(self, write, tmp_path: Path) -> None:
        path = tmp_path / "b.parquet.gz"
        path.write_bytes(gzip.compress(write({"text": ["one"]}).read_bytes())[:-50])
        with pytest.raises(InputError, match=r"b\.parquet\.gz: cannot be decompressed \(the file ends in the middle"):
            list(read_sentences(path))

    def test_standard_input(self, write, monkeypatch: pytest.MonkeyPatch) -> None:
        out, into = os.pipe()  # which cannot be wound back, as Parquet needs it
        os.write(into, write({"text": ["one"]}).read_bytes())
        os.close(into)
        with open(out) as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            assert list(read_sentences("-", format="parquet")) == ["one"]

    @pytest.mark.parametrize("content", [b"", b"PAR1", b"text\nno parquet\n", bytes(1000), b"PAR1" * 100])
    def test_no_parquet(self, content: bytes, tmp_path: Path) -> None:
        path = tmp_path / "a.parquet"
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"a\.parquet: not a readable Parquet file \(.*\)\.$"):
            list(read_sentences(path))

    def test_cut_off(self, write) -> None:
        path = write({"text": ["one"] * 1000})
        path.write_bytes(path.read_bytes()[:-100])
        with pytest.raises(InputError, match="not a readable Parquet file"):
            list(read_sentences(path))

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such file"):
            list(read_sentences(tmp_path / "a.parquet"))

    def test_a_damaged_row_group_keeps_those_before_it(self, write) -> None:
        sentences = [f"sentence {number * 7919}" for number in range(3000)]
        path = write({"text": sentences}, row_group_size=1000, compression="zstd", use_dictionary=False)
        page = parquet.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset
        data = bytearray(path.read_bytes())
        data[page : page + 2000] = bytes(2000)
        path.write_bytes(data)
        reading = read_sentences(path)
        assert read(reading) == (list(enumerate(sentences[:1000], start=1)), {Fault.DAMAGED: [1001]})

    @pytest.mark.parametrize("seed", range(4))
    def test_random_damage(self, seed: int, write) -> None:
        chance = random.Random(seed)
        path = write(
            {
                "text": [f"sentence {number}" if number % 7 else None for number in range(60)],
                "list": [["a", "b"]] * 60,
                "sentence1": arrow.array(["a", "b", "c"] * 20).dictionary_encode(),
                "sentence2": ["d"] * 60,
                "score": [float(number) for number in range(60)],
            },
            compression="none" if seed % 2 else "snappy",
        )
        whole = path.read_bytes()
        for _ in range(100):
            data = bytearray(whole)
            for _ in range(chance.choice([1, 3, 20])):
                data[chance.randrange(len(data))] = chance.randrange(256)
            path.write_bytes(data)
            for reader in (read_sentences, read_pairs, read_ranking_lists):
                reading = reader(path)
                try:
                    list(reading)
                except NearerError:
                    continue
                assert reading.report.read == reading.report.kept + reading.report.dropped
