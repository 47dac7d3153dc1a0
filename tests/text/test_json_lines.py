"""JSON lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.errors import SettingError
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


@pytest.fixture
def write(tmp_path: Path):
    def write(*lines: str) -> Path:
        path = tmp_path / "a.jsonl"
        path.write_bytes("".join(f"{line}\n" for line in lines).encode())
        return path

    return write


def read(reading: Reading) -> tuple[list, dict[Fault, list[int]]]:
    records = list(reading.located())
    assert reading.report.read == reading.report.kept + reading.report.dropped
    str(reading.report).encode()  # can be printed, whatever the data held
    found = {fault: [line for line, _ in tally.examples] for fault, tally in reading.report.tallies.items()}
    return records, found


class TestRecords:
    def test_objects(self, write) -> None:
        reading = read_sentences(write('{"text": "one", "id": 7}', '{"sentence": "two"}'))
        assert read(reading) == ([(1, "one"), (2, "two")], {})

    def test_queries_are_sentences_unless_there_is_a_text(self, write) -> None:
        reading = read_sentences(write('{"query": "how", "passage": "p1"}', '{"query": "how", "text": "so"}'))
        assert read(reading) == ([(1, "how"), (2, "so")], {})

    def test_field_names_in_any_case(self, write) -> None:
        assert list(read_pairs(write('{"Premise": "a", "Hypothesis": "b", "LABEL": 1}'))) == [Pair("a", "b", 1.0)]

    def test_arrays_in_the_fields_order(self, write) -> None:
        reading = read_pairs(write('["a", "b"]', '["c", "d", 0.5]', '["e", "f", null]'))
        assert list(reading) == [Pair("a", "b"), Pair("c", "d", 0.5), Pair("e", "f")]

    def test_bare_strings(self, write) -> None:
        assert list(read_sentences(write('"one"', '"two"'))) == ["one", "two"]

    def test_triplets(self, write) -> None:
        assert list(read_triplets(write('{"anchor": "a", "positive": "b", "negative": "c"}'))) == [
            Triplet("a", "b", "c")
        ]

    def test_ragged_ranking_lists(self, write) -> None:
        reading = read_ranking_lists(write('["a", "b", "c"]', '{"sentences": ["d", "e"]}'))
        assert list(reading) == [RankingList(("a", "b", "c")), RankingList(("d", "e"))]

    def test_escapes(self, write) -> None:
        assert list(read_sentences(write(r'"caf\u00e9 \ud83d\ude00 one\ntwo"'))) == ["café 😀 one\ntwo"]

    def test_a_byte_order_mark_and_crlf(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        path.write_bytes(b'\xef\xbb\xbf"one"\r\n"two"\r\n')
        assert list(read_sentences(path)) == ["one", "two"]

    @pytest.mark.parametrize("name", ["a.json", "a.ndjson", "a.JSONL"])
    def test_other_endings(self, name: str, tmp_path: Path) -> None:
        (tmp_path / name).write_bytes(b'"one"\n')
        assert list(read_sentences(tmp_path / name)) == ["one"]


class TestColumns:
    def test_named(self, write) -> None:
        reading = read_pairs(write('{"q": "a", "d": "b", "score": 1}'), columns=["q", "d"])
        assert list(reading) == [Pair("a", "b")]

    def test_a_line_without_them_is_dropped(self, write) -> None:
        reading = read_pairs(write('{"q": "a"}', '{"q": "a", "d": "b"}'), columns=["q", "d"])
        assert read(reading) == ([(2, Pair("a", "b"))], {Fault.WRONG_FIELDS: [1]})
        assert reading.report.tallies[Fault.WRONG_FIELDS].examples == [(1, "no field 'd', those there are 'q'")]

    def test_a_named_list(self, write) -> None:
        assert list(read_ranking_lists(write('{"ranked": ["a", "b"]}'), columns=["ranked"])) == [
            RankingList(("a", "b"))
        ]

    def test_numbered_items_of_arrays(self, write) -> None:
        assert list(read_pairs(write('[7, "a", "b"]'), columns=["2", "1"])) == [Pair("b", "a")]

    def test_names_do_not_fit_arrays(self, write) -> None:
        assert read(read_sentences(write('["a"]', '"b"'), columns=["text"])) == ([], {Fault.WRONG_FIELDS: [1, 2]})

    def test_a_wrong_number_of_them(self, write) -> None:
        with pytest.raises(SettingError, match="columns: 2 named, a sentence has 1"):
            list(read_sentences(write('"a"'), columns=["a", "b"]))


class TestFaults:
    @pytest.mark.parametrize(
        ("line", "fault"),
        [
            ("", Fault.EMPTY),
            ("   ", Fault.EMPTY),
            ("{", Fault.BAD_JSON),
            ("not json", Fault.BAD_JSON),
            ('"a" "b"', Fault.BAD_JSON),
            ('"one\ttwo"', Fault.BAD_JSON),
            ("1" * 5000, Fault.BAD_JSON),
            ("[" * 100_000, Fault.BAD_JSON),
            ('{"a":' * 100_000, Fault.BAD_JSON),
            ("17", Fault.WRONG_FIELDS),
            ("null", Fault.WRONG_FIELDS),
            ("true", Fault.WRONG_FIELDS),
            ("NaN", Fault.WRONG_FIELDS),
            ("{}", Fault.WRONG_FIELDS),
            ('{"other": "a"}', Fault.WRONG_FIELDS),
            ('{"text": 7}', Fault.WRONG_FIELDS),
            ('{"text": true}', Fault.WRONG_FIELDS),
            ('{"text": ["a"]}', Fault.WRONG_FIELDS),
            ('{"text": {"text": "a"}}', Fault.WRONG_FIELDS),
            ('{"text": null}', Fault.EMPTY),
            ('{"text": " "}', Fault.EMPTY),
            ('""', Fault.EMPTY),
            ("[]", Fault.WRONG_COLUMNS),
            ('["a", "b"]', Fault.WRONG_COLUMNS),
            (r'"\ud800"', Fault.INVALID_TEXT),
            (r'"a\udfffb"', Fault.INVALID_TEXT),
            (json.dumps("a" * 10_001), Fault.OVER_LONG),
        ],
        ids=range(27),
    )
    def test_sentences(self, line: str, fault: Fault, write) -> None:
        reading = read_sentences(write('"before"', line, '"after"'))
        assert read(reading) == ([(1, "before"), (3, "after")], {fault: [2]})

    @pytest.mark.parametrize(
        "score",
        [
            *("NaN", "Infinity", "-Infinity", "1e999", "1" + "0" * 400),
            *("true", "false", "[]", "{}", '""', '"high"', '"\\n"', r'"\ud800"'),
        ],
    )
    def test_scores(self, score: str, write) -> None:
        reading = read_pairs(write(f'["a", "b", {score}]'))
        assert read(reading) == ([], {Fault.BAD_SCORE: [1]})

    def test_a_score_in_quotes(self, write) -> None:
        assert list(read_pairs(write('["a", "b", "0.5"]'))) == [Pair("a", "b", 0.5)]

    @pytest.mark.parametrize(
        ("line", "fault"),
        [
            ('["a"]', Fault.WRONG_COLUMNS),
            ('"a"', Fault.WRONG_COLUMNS),
            ("[]", Fault.WRONG_COLUMNS),
            ('{"sentences": []}', Fault.WRONG_COLUMNS),
            ('{"sentences": "ab"}', Fault.WRONG_FIELDS),
            ('{"sentences": null}', Fault.WRONG_FIELDS),
            ('["a", 7]', Fault.WRONG_FIELDS),
            ('["a", ["b"]]', Fault.WRONG_FIELDS),
            ('["a", null]', Fault.EMPTY),
            ('["a", ""]', Fault.EMPTY),
        ],
    )
    def test_ranking_lists(self, line: str, fault: Fault, write) -> None:
        assert read(read_ranking_lists(write(line))) == ([], {fault: [1]})

    def test_escaped_nul_is_removed_and_counted(self, write) -> None:
        assert read(read_sentences(write(r'"a\u0000b"'))) == ([(1, "ab")], {Fault.NUL: [1]})

    def test_escaped_nul_in_a_list_is_counted_too(self, write) -> None:
        reading = read_ranking_lists(write(r'["a\u0000b", "c"]'))
        assert read(reading) == ([(1, RankingList(("ab", "c")))], {Fault.NUL: [1]})

    def test_bad_json_says_where_on_its_line(self, write) -> None:
        reading = read_sentences(write('"one"', '"two'))
        list(reading)
        (where,) = reading.report.tallies[Fault.BAD_JSON].examples
        assert where == (2, "Unterminated string starting at, character 1")


steady = settings(derandomize=True, deadline=None)
printable = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1).filter(
    lambda text: text == text.strip()
)
numbers = st.none() | st.floats(allow_nan=False, allow_infinity=False)


class TestRoundTrip:
    @steady
    @given(
        pairs=st.lists(st.builds(Pair, printable, printable, numbers)),
        ascii_only=st.booleans(),
        as_object=st.booleans(),
    )
    def test_pairs(
        self, pairs: list[Pair], ascii_only: bool, as_object: bool, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        path = tmp_path_factory.getbasetemp() / "round-trip-pairs.jsonl"
        names = ("sentence1", "sentence2", "score")
        values = [dict(zip(names, pair, strict=True)) if as_object else list(pair) for pair in pairs]
        path.write_bytes(b"\n".join(json.dumps(value, ensure_ascii=ascii_only).encode() for value in values))
        assert list(read_pairs(path)) == pairs

    @steady
    @given(lists=st.lists(st.lists(printable, min_size=2).map(tuple)))
    def test_ranking_lists(self, lists: list[tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory) -> None:
        path = tmp_path_factory.getbasetemp() / "round-trip-lists.jsonl"
        path.write_bytes(b"\n".join(json.dumps(sentences).encode() for sentences in lists))
        assert [ranking.sentences for ranking in read_ranking_lists(path)] == lists
