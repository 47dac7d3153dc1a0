"""Sources that are in memory: they are read as the same records in a file are."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.errors import InputError, SettingError
from nearer.text import (
    DebiasedSample,
    Fault,
    Pair,
    RankingList,
    Reading,
    ReadOptions,
    Triplet,
    read_debiased,
    read_pairs,
    read_ranking_lists,
    read_sentences,
    read_triplets,
)
from nearer.text.reading_filters import EqualLists, ListedSentences
from nearer.text.shapes import SHAPES

CELLS = st.one_of(st.text(max_size=8), st.none(), st.integers(-3, 3), st.booleans(), st.floats())
KEYS = st.sampled_from(["text", "sentence1", "sentence2", "score", "anchor", "positive", "negative", "x"])
RECORDS = st.one_of(
    CELLS,
    st.lists(CELLS, max_size=4),
    st.dictionaries(KEYS, CELLS, max_size=4),
    st.fixed_dictionaries({"anchor": st.text(max_size=5), "positives": st.lists(CELLS), "negatives": st.lists(CELLS)}),
)


def account(reading: Reading[Any]) -> tuple[list[Any], int, dict[Fault, list[tuple[int, str]]]]:
    located = list(reading.located())
    assert reading.report.read == reading.report.kept + reading.report.dropped
    faults = {fault: tally.examples for fault, tally in reading.report.tallies.items()}
    return located, reading.report.read, faults


@settings(deadline=None)
@given(
    records=st.lists(RECORDS, max_size=12),
    kind=st.sampled_from(sorted(SHAPES)),
    duplicates=st.sampled_from(["keep", "drop"]),
)
def test_a_list_is_read_as_the_same_records_in_json_lines_are(records: list[Any], kind: str, duplicates: str) -> None:
    options = ReadOptions(duplicates=duplicates, max_characters=6)  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        expected = account(Reading(path, SHAPES[kind], options))
    assert account(Reading(records, SHAPES[kind], options)) == expected
    assert account(Reading(tuple(records), SHAPES[kind], options)) == expected
    assert account(Reading((record for record in records), SHAPES[kind], options)) == expected


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(st.text(max_size=6), st.one_of(st.none(), st.text(max_size=6))), max_size=10),
    columns=st.sampled_from([None, ("sentence2", "sentence1")]),
)
def test_a_data_set_and_data_frames_are_read_as_the_same_rows_in_a_parquet_file(
    rows: list[tuple[str, str | None]], columns: tuple[str, ...] | None
) -> None:
    arrow, datasets, pandas = (pytest.importorskip(name) for name in ("pyarrow", "datasets", "pandas"))
    import pyarrow.parquet as parquet

    data = {"x": [1] * len(rows), "sentence1": [row[0] for row in rows], "sentence2": [row[1] for row in rows]}
    table = arrow.table(data, schema=arrow.schema({"x": arrow.int64(), "sentence1": "string", "sentence2": "string"}))
    with tempfile.TemporaryDirectory() as folder:
        parquet.write_table(table, Path(folder) / "rows.parquet")
        expected = account(read_pairs(Path(folder) / "rows.parquet", columns=columns))
    for source in (table, datasets.Dataset(table), table.to_pandas(), FrameOfPolars(data), pandas.DataFrame(data)):
        assert account(read_pairs(source, columns=columns)) == expected, type(source)


@dataclass
class FrameOfPolars:
    """What polars' DataFrame offers, as far as reading uses it."""

    data: dict[str, list[Any]]

    @property
    def columns(self) -> list[str]:
        return list(self.data)

    def iter_rows(self) -> Iterator[tuple[Any, ...]]:
        return zip(*self.data.values(), strict=True)


def test_polars_itself() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"text": ["one", None, "two"], "n": [1, 2, 3]})
    reading = read_sentences(frame)
    assert list(reading) == ["one", "two"]
    assert reading.report.count(Fault.EMPTY) == 1
    assert list(read_sentences(frame["text"])) == ["one", "two"]


def test_missing_values_of_pandas_are_empty_and_its_numbers_are_scores() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"a": ["one", None, "two", pandas.NA], "b": list("wxyz"), "score": np.float32([1, 2, 3, 4])}
    )
    reading = read_pairs(frame, columns=["a", "b", "score"])
    assert list(reading) == [Pair("one", "w", 1.0), Pair("two", "y", 3.0)]
    assert reading.report.tallies[Fault.EMPTY].examples == [(2, ""), (4, "")]
    assert reading.report.unit == "row"
    series = read_sentences(frame["a"])
    assert list(series) == ["one", "two"]
    assert series.report.count(Fault.EMPTY) == 2


def test_a_stream_of_a_data_set_is_read_as_often_as_asked() -> None:
    datasets = pytest.importorskip("datasets")
    stream = datasets.Dataset.from_dict({"text": ["one", "two"]}).to_iterable_dataset()
    reading = read_sentences(stream)
    assert list(reading) == list(reading) == ["one", "two"]


def test_our_own_records_are_records() -> None:
    pair, triplet = Pair("a", "b", 0.5), Triplet("a", "b", "c")
    sample, ranking = DebiasedSample("a", ("b",), ("c", "d")), RankingList(("a", "b", "c"))
    assert list(read_pairs([pair])) == [pair]
    assert list(read_triplets([triplet])) == [triplet]
    assert list(read_debiased([sample])) == [sample]
    assert list(read_ranking_lists([ranking])) == [ranking]
    lists = EqualLists([ranking, ["a", "b"]], ReadOptions(), 2)
    assert list(lists) == [RankingList(("a", "b"))] * 2
    assert list(ListedSentences(lists)) == ["a", "b"] * 2


def test_arrays_of_numpy() -> None:
    assert list(read_sentences(np.array(["one", "two"]))) == ["one", "two"]
    assert list(read_pairs(np.array([["one", "two"]]))) == [Pair("one", "two")]


def test_an_iterator_is_read_once_and_kept() -> None:
    taken = []

    def sentences() -> Iterator[str]:
        for text in ("one", "two"):
            taken.append(text)
            yield text

    reading = read_sentences(sentences())
    assert list(reading) == list(reading) == ["one", "two"]
    assert reading.fingerprint() == reading.fingerprint()
    assert taken == ["one", "two"]


def test_equal_content_has_one_fingerprint_and_other_content_another() -> None:
    prints = {read_sentences(source).fingerprint() for source in (["a", "b"], ("a", "b"), iter(["a", "b"]))}
    assert len(prints) == 1
    others = [["a"], ["ab"], ["b", "a"], ["a", "b", ""], ["a", "\ud800"]]
    assert len({read_sentences(other).fingerprint() for other in others} | prints) == 6
    dropping = read_sentences(["a", "b"], duplicates="drop").fingerprint()
    assert dropping not in prints


def test_messages_name_the_argument_and_the_record() -> None:
    reading = read_sentences(["one", "", 3], argument="corpus")
    assert list(reading) == ["one"]
    assert str(reading.report).splitlines() == [
        "corpus (a list): 3 read, 1 kept, 2 dropped",
        "  1 empty (dropped): record 2",
        "  1 with missing or unusable fields (dropped): record 3 (an object, a list or a string expected, int found)",
    ]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"abstract": ["one"], 7: ["two"]})
    with pytest.raises(InputError, match=r"corpus \(a DataFrame\): has no column 'texts'; .* are 'abstract', '7'"):
        list(read_sentences(frame, columns=["texts"], argument="corpus"))
    with pytest.raises(InputError, match=r"corpus \(a DataFrame\): cannot tell which columns make a sentence"):
        list(read_sentences(frame, argument="corpus"))
    assert list(read_sentences(frame, columns="abstract")) == ["one"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"one", "corpus: is bytes"),
        ({"one", "two"}, r"corpus: is a set, whose order .* sorted\(corpus\)"),
        ({"text": ["one"]}, "corpus: a dict cannot be read; give a file's path, a list"),
        (3, "corpus: a int cannot be read"),
        (None, "corpus: a NoneType cannot be read"),
    ],
)
def test_what_cannot_be_a_source(source: object, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        read_sentences(source, argument="corpus")


def test_of_a_data_set_with_splits_one_has_to_be_given() -> None:
    datasets = pytest.importorskip("datasets")
    splits = datasets.DatasetDict(train=datasets.Dataset.from_dict({"text": ["one"]}))
    with pytest.raises(SettingError, match=r"corpus: has the splits train; give one, corpus\['train'\]"):
        read_sentences(splits, argument="corpus")


def test_a_format_is_a_files() -> None:
    with pytest.raises(SettingError, match=r"format: is for files; source \(a list\) has none"):
        read_sentences(["one"], format="csv")


def test_columns_of_a_list_are_as_many_as_the_record_has() -> None:
    with pytest.raises(SettingError, match="columns: 3 named, a sentence has 1"):
        list(read_sentences([{"a": "one"}], columns=["a", "b", "c"]))


def test_a_nest_without_end_is_one_record_dropped() -> None:
    nest: list[Any] = []
    nest.append(nest)
    reading = read_sentences([nest, "one"])
    assert list(reading) == ["one"]
    assert reading.report.count(Fault.WRONG_FIELDS) == 1


@pytest.mark.parametrize("kind", ["list", "jsonl", "csv", "tsv", "parquet", "hf", "pandas", "data set"])
def test_a_column_that_is_not_there_is_told_with_those_that_are(kind: str, tmp_path: Path) -> None:
    record = {"title": "one", "body": "two"}
    source: Any = tmp_path / f"records.{kind}"
    if kind == "list":
        source = [record]
    elif kind == "jsonl":
        source.write_text(json.dumps(record) + "\n")
    elif kind in ("csv", "tsv"):
        source.write_text("title,body\none,two\n".replace(",", "," if kind == "csv" else "\t"))
    elif kind == "pandas":
        source = pytest.importorskip("pandas").DataFrame([record])
    else:
        source = pytest.importorskip("datasets").Dataset.from_list([record])
        if kind in ("parquet", "hf"):
            source.to_parquet(tmp_path / "records.parquet")
            source = f"hf:{tmp_path}" if kind == "hf" else tmp_path / "records.parquet"
    reading = read_sentences(source, columns=["text"])

    def read_all() -> None:
        list(reading)
        reading.report.check_kept()

    with pytest.raises(InputError) as raised:
        read_all()
    for part in ("'text'", "'title', 'body'"):
        assert part in str(raised.value)
