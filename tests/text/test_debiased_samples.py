"""Debiased samples: an anchor with lists of positives and negatives, as many in each record."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nearer.errors import InputError, SettingError
from nearer.text import DebiasedSample, Fault, Reading, read_debiased
from nearer.text.token_store import open_store

Write = Callable[..., Path]
ONE = {"anchor": "a", "positives": ["b", "c"], "negatives": ["d", "e"]}
TWO = {"anchor": "f", "positives": ["g", "h"], "negatives": ["i", "j"]}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(*records: Any) -> Path:
        path = tmp_path / "data.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return path

    return write


def faults(reading: Reading[DebiasedSample]) -> dict[Fault, list[tuple[int, str]]]:
    report = reading.report
    assert report.read == report.kept + report.dropped
    return {fault: tally.examples for fault, tally in report.tallies.items()}


def test_json_objects_and_arrays(write: Write) -> None:
    other_keys = {"number": 3, "negative_cosines": [0.3, 0.4], **ONE}
    reading = read_debiased(write(other_keys, ["f", ["g", "h"], ["i", "j"]]))
    assert list(reading) == [DebiasedSample("a", ("b", "c"), ("d", "e")), DebiasedSample("f", ("g", "h"), ("i", "j"))]
    assert faults(reading) == {}


def test_parquet(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "data.parquet"
    parquet.write_table(arrow.table({name: [ONE[name], TWO[name]] for name in ONE}), path)
    assert list(read_debiased(path)) == [
        DebiasedSample("a", ("b", "c"), ("d", "e")),
        DebiasedSample("f", ("g", "h"), ("i", "j")),
    ]


def test_columns_by_name(write: Write) -> None:
    path = write({"x": "a", "p": ["b"], "n": ["c"]})
    assert list(read_debiased(path, columns=["x", "p", "n"])) == [DebiasedSample("a", ("b",), ("c",))]
    with pytest.raises(SettingError, match="columns: 2 named, a debiased sample has 3"):
        list(read_debiased(path, columns=["x", "p"]))


@pytest.mark.parametrize(("side", "other"), [("positives", "negatives"), ("negatives", "positives")])
def test_one_side_may_be_empty_in_all_records(side: str, other: str, write: Write) -> None:
    [sample] = read_debiased(write({**ONE, side: []}))
    assert getattr(sample, side) == ()
    assert len(getattr(sample, other)) == 2


def test_records_with_other_counts_than_the_first_are_dropped_and_told(write: Write) -> None:
    reading = read_debiased(
        write({**ONE, "positives": "b"}, ONE, {**TWO, "positives": ["g"]}, {**TWO, "negatives": []}, TWO)
    )
    assert [sample.anchor for sample in reading] == ["a", "f"]
    assert faults(reading) == {
        Fault.WRONG_FIELDS: [
            (1, "a list expected, str found"),
            (3, "1 positives and 2 negatives, the first sample has 2 positives and 2 negatives"),
            (4, "2 positives and 0 negatives, the first sample has 2 positives and 2 negatives"),
        ]
    }
    assert len(list(reading)) == 2  # each reading counts anew


@pytest.mark.parametrize(
    ("record", "fault", "detail"),
    [
        ({**ONE, "anchor": " "}, Fault.EMPTY, ""),
        ({**ONE, "positives": ["b", ""]}, Fault.EMPTY, ""),
        ({**ONE, "negatives": ["d", None]}, Fault.EMPTY, ""),
        ({**ONE, "negatives": None}, Fault.WRONG_FIELDS, "a list expected, NoneType found"),
        ({**ONE, "negatives": ["d", 4]}, Fault.WRONG_FIELDS, "text expected, int found"),
        ({**ONE, "positives": [], "negatives": []}, Fault.WRONG_FIELDS, "neither a positive nor a negative"),
        ({"anchor": "a", "positives": ["b"]}, Fault.WRONG_FIELDS, "no debiased sample in the fields"),
        (["a", ["b"]], Fault.WRONG_COLUMNS, "2 found, 3 expected"),
        ({**ONE, "positives": ["b", "x" * 10_001]}, Fault.OVER_LONG, "10,001 characters"),
    ],
    ids=str,
)
def test_spoilt_records_are_counted_with_their_reason(record: Any, fault: Fault, detail: str, write: Write) -> None:
    reading = read_debiased(write(record, TWO))
    assert [sample.anchor for sample in reading] == ["f"]
    [(line, found)] = faults(reading)[fault]
    assert line == 1
    assert found.startswith(detail)


def test_nul_bytes_and_duplicates(write: Write) -> None:
    reading = read_debiased(write(ONE, {**ONE, "positives": ["b\x00", "c"]}))
    assert list(reading) == [DebiasedSample("a", ("b", "c"), ("d", "e"))] * 2
    assert set(faults(reading)) == {Fault.NUL, Fault.DUPLICATE}
    assert len(list(read_debiased(write(ONE, ONE, {**ONE, "negatives": ["d", "x"]}), duplicates="drop"))) == 2


def test_a_table_has_no_lists(tmp_path: Path) -> None:
    path = tmp_path / "data.tsv"
    path.write_text("a\tb\tc\n")
    reading = read_debiased(path)
    assert list(reading) == []
    assert faults(reading) == {Fault.WRONG_FIELDS: [(1, "a list expected, str found")]}


def test_the_token_store_has_anchor_positives_and_negatives_in_a_row(
    write: Write, tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model("bert"))
    store = open_store(read_debiased(write(ONE, TWO)), tokenizer, max_length=8, folder=tmp_path / "stores")
    assert (len(store), store.fields) == (2, 5)
    wanted = [tokenizer(letter)["input_ids"] for letter in "abcdefghij"]
    assert [store[place].tolist() for place in range(10)] == wanted
    with pytest.raises(InputError, match="nothing in it could be used"):
        open_store(read_debiased(write({"anchor": "a"})), tokenizer, max_length=8, folder=tmp_path / "stores")
