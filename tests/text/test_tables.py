"""Plain text, tab-separated and comma-separated files."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.errors import InputError, SettingError
from nearer.text import (
    Fault,
    Pair,
    RankingList,
    Reading,
    ReadReport,
    Triplet,
    read_pairs,
    read_ranking_lists,
    read_sentences,
    read_triplets,
)


@pytest.fixture
def write(tmp_path: Path):
    def write(name: str, content: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def faults(report: ReadReport) -> dict[Fault, list[int]]:
    """Where each fault was met; and the report adds up."""
    assert report.read == report.kept + report.dropped
    return {fault: [line for line, _ in tally.examples] for fault, tally in report.tallies.items()}


def read(reading: Reading) -> tuple[list, dict[Fault, list[int]]]:
    return list(reading.located()), faults(reading.report)


class TestPlainText:
    def test_each_line_is_a_sentence(self, write) -> None:
        assert read(read_sentences(write("a.txt", b"one\ntwo\nthree"))) == ([(1, "one"), (2, "two"), (3, "three")], {})

    def test_crlf(self, write) -> None:
        assert list(read_sentences(write("a.txt", b"one\r\ntwo\r\n"))) == ["one", "two"]

    def test_mixed_endings(self, write) -> None:
        assert list(read_sentences(write("a.txt", b"one\r\ntwo\nthree\r"))) == ["one", "two", "three"]

    def test_byte_order_mark(self, write) -> None:
        assert list(read_sentences(write("a.txt", b"\xef\xbb\xbfone\n"))) == ["one"]

    @pytest.mark.parametrize("character", ["\r", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e"])
    def test_no_other_character_ends_a_line(self, character: str, write) -> None:
        sentence = f"one{character}two"
        assert list(read_sentences(write("a.txt", f"{sentence}\n".encode()))) == [sentence]

    def test_empty_lines_are_dropped(self, write) -> None:
        reading = read_sentences(write("a.txt", "one\n\n \t \u3000\r\ntwo\n\n".encode()))
        assert read(reading) == ([(1, "one"), (4, "two")], {Fault.EMPTY: [2, 3, 5]})

    def test_space_around_a_sentence_goes(self, write) -> None:
        assert list(read_sentences(write("a.txt", b"  one two\t\n"))) == ["one two"]

    def test_invalid_utf_8_is_dropped(self, write) -> None:
        reading = read_sentences(write("a.txt", b"one\nca\xe9\ntwo\n"))
        assert read(reading) == ([(1, "one"), (3, "two")], {Fault.INVALID_TEXT: [2]})
        assert reading.report.tallies[Fault.INVALID_TEXT].examples == [(2, "byte 3")]

    def test_nul_bytes_are_removed(self, write) -> None:
        reading = read_sentences(write("a.txt", b"one\nt\x00wo\x00\n"))
        assert read(reading) == ([(1, "one"), (2, "two")], {Fault.NUL: [2]})

    def test_a_line_of_nul_bytes_is_empty(self, write) -> None:
        reading = read_sentences(write("a.txt", b"\x00\x00\none\n"))
        assert read(reading) == ([(2, "one")], {Fault.NUL: [1], Fault.EMPTY: [1]})

    def test_over_long_lines_are_dropped(self, write) -> None:
        reading = read_sentences(write("a.txt", b"12345\n123456\n"), max_characters=5)
        assert read(reading) == ([(1, "12345")], {Fault.OVER_LONG: [2]})

    def test_commas_and_quotes_are_ordinary(self, write) -> None:
        assert list(read_sentences(write("a.txt", b'"one, two\n'))) == ['"one, two']


class TestTabSeparated:
    def test_pairs_without_a_header(self, write) -> None:
        reading = read_pairs(write("a.tsv", b"one\ttwo\nthree\tfour\n"))
        assert read(reading) == ([(1, Pair("one", "two")), (2, Pair("three", "four"))], {})

    def test_scores(self, write) -> None:
        reading = read_pairs(write("a.tsv", b"a\tb\t0.5\nc\td\t 3 \ne\tf\t-1e2\n"))
        assert [pair.score for pair in reading] == [0.5, 3.0, -100.0]

    @pytest.mark.parametrize("score", ["nan", "inf", "-Infinity", "1e999", "high", "", "0x10", "1,5"])
    def test_a_score_that_is_no_finite_number_drops_its_line(self, score: str, write) -> None:
        reading = read_pairs(write("a.tsv", f"a\tb\t1\nc\td\t{score}\ne\tf\t2\n".encode()))
        assert read(reading) == ([(1, Pair("a", "b", 1.0)), (3, Pair("e", "f", 2.0))], {Fault.BAD_SCORE: [2]})

    def test_quotes_are_ordinary(self, write) -> None:
        assert list(read_pairs(write("a.tsv", b'"one\ttwo"\n'))) == [Pair('"one', 'two"')]

    def test_plain_text_with_columns_is_tab_separated(self, write) -> None:
        assert list(read_triplets(write("a.txt", b"a\tb\tc\n"))) == [Triplet("a", "b", "c")]

    def test_wrong_column_counts_are_dropped(self, write) -> None:
        reading = read_triplets(write("a.tsv", b"a\tb\tc\na\tb\na\tb\tc\td\nd\te\tf\n"))
        kept = [(1, Triplet("a", "b", "c")), (4, Triplet("d", "e", "f"))]
        assert read(reading) == (kept, {Fault.WRONG_COLUMNS: [2, 3]})
        details = [detail for _, detail in reading.report.tallies[Fault.WRONG_COLUMNS].examples]
        assert details == ["2 found, 3 expected", "4 found, 3 expected"]

    def test_an_empty_cell_drops_its_line(self, write) -> None:
        reading = read_pairs(write("a.tsv", b"a\tb\n \tb\na\t\nc\td\n"))
        assert read(reading) == ([(1, Pair("a", "b")), (4, Pair("c", "d"))], {Fault.EMPTY: [2, 3]})

    def test_a_line_of_empty_cells_is_empty(self, write) -> None:
        reading = read_pairs(write("a.tsv", b"\t\t\na\tb\n\t\t\t\nc\td\n"))
        assert read(reading) == ([(2, Pair("a", "b")), (4, Pair("c", "d"))], {Fault.EMPTY: [1, 3]})


class TestColumns:
    CONTENT = b"id\tSentence2\tSentence1\tscore\n7\tb\ta\t0.5\n"

    def test_a_header_is_known_by_its_names(self, write) -> None:
        reading = read_pairs(write("a.tsv", self.CONTENT))
        assert read(reading) == ([(2, Pair("a", "b", 0.5))], {})

    def test_the_header_is_noted_and_not_counted(self, write) -> None:
        reading = read_pairs(write("a.tsv", self.CONTENT))
        list(reading)
        assert reading.report.read == 1
        assert reading.report.notes == ["line 1 is the header; columns used: Sentence1, Sentence2, score"]

    def test_a_header_after_empty_and_faulty_lines(self, write) -> None:
        reading = read_sentences(write("a.csv", b"\n\xff\nid,text\n1,one\n"))
        assert read(reading) == ([(4, "one")], {Fault.EMPTY: [1], Fault.INVALID_TEXT: [2]})

    def test_a_file_with_only_a_header(self, write) -> None:
        reading = read_pairs(write("a.csv", b"sentence1,sentence2\n"))
        assert read(reading) == ([], {})

    def test_named_columns(self, write) -> None:
        reading = read_pairs(write("a.tsv", self.CONTENT), columns=["Sentence2", "id"])
        assert read(reading) == ([(2, Pair("b", "7"))], {})

    def test_numbered_columns_mean_no_header(self, write) -> None:
        reading = read_pairs(write("a.tsv", b"text\tx\ta\nb\ty\tc\n"), columns=["2", "0"])
        assert read(reading) == ([(1, Pair("a", "text")), (2, Pair("c", "b"))], {})

    def test_an_unknown_name_lists_those_there(self, write) -> None:
        with pytest.raises(InputError, match=r"a\.csv: has no column 'txt'; its columns are 'id', 'text'\.$"):
            list(read_sentences(write("a.csv", b"id,text\n1,one\n"), columns=["txt"]))

    def test_a_number_beyond_the_row(self, write) -> None:
        with pytest.raises(InputError, match="column 2 asked for, the first row has 2"):
            list(read_sentences(write("a.csv", b"a,b\n"), columns=["2"]))

    def test_too_few_named(self, write) -> None:
        with pytest.raises(SettingError, match="columns: 1 named, a pair has 2 or 3"):
            list(read_pairs(write("a.csv", b"a,b\n"), columns=["0"]))

    def test_columns_that_cannot_be_told(self, write) -> None:
        with pytest.raises(InputError, match=r"cannot tell which columns make a sentence; found 'a', 'b'\."):
            list(read_sentences(write("a.csv", b"a,b\nc,d\n")))

    def test_the_message_stays_short_and_on_one_line(self, write) -> None:
        path = write("a.tsv", b"\t".join([b"\xc2\x85very" * 100] * 1000))
        for columns in (None, ["text"]):
            with pytest.raises(InputError) as caught:
                list(read_sentences(path, columns=columns))
            assert len(str(caught.value)) < 1000 + len(str(path))
            assert len(str(caught.value).splitlines()) == 1

    def test_a_ranking_list_has_no_columns(self, write) -> None:
        with pytest.raises(SettingError, match="whole row"):
            list(read_ranking_lists(write("a.tsv", b"a\tb\n"), columns=["0"]))


class TestCommaSeparated:
    def test_quoted_cells(self, write) -> None:
        reading = read_pairs(write("a.csv", b'"one, two","say ""three"""\nfour,"five"\n'))
        assert list(reading) == [Pair("one, two", 'say "three"'), Pair("four", "five")]

    def test_a_quoted_cell_over_several_lines(self, write) -> None:
        reading = read_pairs(write("a.csv", b'"one\r\n\r\ntwo",three\nfour,five\n'))
        assert read(reading) == ([(1, Pair("one\n\ntwo", "three")), (4, Pair("four", "five"))], {})

    def test_a_stray_quote_inside_a_cell_is_ordinary(self, write) -> None:
        assert list(read_pairs(write("a.csv", b'5" disk,a "b" c\n'))) == [Pair('5" disk', 'a "b" c')]

    def test_text_after_a_closing_quote_drops_its_line(self, write) -> None:
        reading = read_pairs(write("a.csv", b'a,b\n"c" d,e\nf,g\n'))
        assert read(reading) == ([(1, Pair("a", "b")), (3, Pair("f", "g"))], {Fault.BAD_QUOTES: [2]})

    def test_a_quote_never_closed_costs_its_line_only(self, write) -> None:
        lines = [f"a{number},b{number}" for number in range(1, 301)]
        lines[9] = '"a10,b10'
        reading = read_pairs(write("a.csv", "\n".join(lines).encode()))
        records, found = read(reading)
        assert [line for line, _ in records] == [number for number in range(1, 301) if number != 10]
        assert found == {Fault.BAD_QUOTES: [10]}

    @pytest.mark.parametrize(("lines", "found"), [(100, {}), (101, {Fault.BAD_QUOTES: [1]})])
    def test_a_quote_may_stay_open_for_a_hundred_lines(self, lines: int, found: dict, write) -> None:
        content = '"first\n' + "".join(f"{number}\n" for number in range(2, lines)) + 'last"\n'
        assert read(read_sentences(write("a.csv", content.encode())))[1] == found

    def test_a_quote_never_closed_near_the_end(self, write) -> None:
        reading = read_pairs(write("a.csv", b'a,b\n"c,d\ne,f'))
        assert read(reading) == ([(1, Pair("a", "b")), (3, Pair("e", "f"))], {Fault.BAD_QUOTES: [2]})

    def test_a_quote_never_closed_before_long_lines(self, write) -> None:
        """Longer in all than a cell may be, before the hundred lines are over."""
        content = b'"a,b\n' + b"".join(b"%d%s,d\n" % (number, b"c" * 100_000) for number in range(60))
        reading = read_pairs(write("a.csv", content), max_characters=200_000)
        records, found = read(reading)
        assert (len(records), found) == (60, {Fault.BAD_QUOTES: [1]})

    def test_a_faulty_line_inside_quotes_breaks_them(self, write) -> None:
        reading = read_pairs(write("a.csv", b'a,b\n"c\nd,e\n\xff\nf",g\nh,i\n'))
        kept = [(1, Pair("a", "b")), (3, Pair("d", "e")), (5, Pair('f"', "g")), (6, Pair("h", "i"))]
        assert read(reading) == (kept, {Fault.BAD_QUOTES: [2], Fault.INVALID_TEXT: [4]})

    def test_faulty_lines_between_records(self, write) -> None:
        reading = read_pairs(write("a.csv", b"a,b\n\xff\n\xfe\nc,d\n\xff"))
        assert read(reading) == ([(1, Pair("a", "b")), (4, Pair("c", "d"))], {Fault.INVALID_TEXT: [2, 3, 5]})

    def test_empty_lines_between_records(self, write) -> None:
        reading = read_pairs(write("a.csv", b"a,b\n\n,\nc,d\n"))
        assert read(reading) == ([(1, Pair("a", "b")), (4, Pair("c", "d"))], {Fault.EMPTY: [2, 3]})

    def test_a_carriage_return_inside_a_line_becomes_a_space(self, write) -> None:
        assert list(read_pairs(write("a.csv", b"a\rb,c\n"))) == [Pair("a b", "c")]

    def test_a_cell_as_long_as_max_characters_allows(self, write) -> None:
        reading = read_sentences(write("a.csv", b"a" * 500_000), max_characters=500_000)
        assert [len(sentence) for sentence in reading] == [500_000]

    def test_a_byte_order_mark_before_a_quote(self, write) -> None:
        assert list(read_pairs(write("a.csv", b'\xef\xbb\xbf"a,b",c\n'))) == [Pair("a,b", "c")]


class TestRankingLists:
    def test_rows_of_any_length(self, write) -> None:
        reading = read_ranking_lists(write("a.tsv", b"a\tb\na\tb\tc\td\n"))
        assert list(reading) == [RankingList(("a", "b")), RankingList(("a", "b", "c", "d"))]

    def test_fewer_than_two_are_dropped(self, write) -> None:
        reading = read_ranking_lists(write("a.csv", b"a,b\nc\n\nd,e\n"))
        kept = [(1, RankingList(("a", "b"))), (4, RankingList(("d", "e")))]
        assert read(reading) == (kept, {Fault.WRONG_COLUMNS: [2], Fault.EMPTY: [3]})

    def test_faulty_lines_keep_their_fault(self, write) -> None:
        reading = read_ranking_lists(write("a.tsv", b"a\tb\n\xff\n"))
        assert read(reading) == ([(1, RankingList(("a", "b")))], {Fault.INVALID_TEXT: [2]})

    def test_an_empty_cell_drops_the_list(self, write) -> None:
        reading = read_ranking_lists(write("a.tsv", b"a\t\tb\nc\td\n"))
        assert read(reading) == ([(2, RankingList(("c", "d")))], {Fault.EMPTY: [1]})


steady = settings(derandomize=True, deadline=None)
printable = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1).filter(
    lambda text: text == text.strip()
)
# Of one table: all rows equally long, and the first one never a header by chance.
rows_of = {width: st.lists(st.tuples(*[printable] * width), min_size=1) for width in (2, 3)}


def csv_by_hand(rows: list, **options: object) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, **options).writerows(rows)
    return text.getvalue().encode()


class TestRoundTrip:
    @steady
    @given(sentences=st.lists(printable))
    def test_plain_text(self, sentences: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
        path = tmp_path_factory.getbasetemp() / "round-trip.txt"
        path.write_bytes("\n".join(["first", *sentences]).encode())
        assert list(read_sentences(path)) == ["first", *sentences]

    @steady
    @given(rows=rows_of[3])
    def test_tab_separated_triplets(self, rows: list, tmp_path_factory: pytest.TempPathFactory) -> None:
        path = tmp_path_factory.getbasetemp() / "round-trip.tsv"
        path.write_bytes("\n".join("\t".join(row) for row in [("a", "b", "c"), *rows]).encode())
        assert list(read_triplets(path)) == [("a", "b", "c"), *rows]

    @steady
    @given(rows=rows_of[2], quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), ending=st.sampled_from("\r\n"))
    def test_comma_separated_pairs(
        self, rows: list, quoting: int, ending: str, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        path = tmp_path_factory.getbasetemp() / "round-trip.csv"
        ending = "\r\n" if ending == "\r" else "\n"
        path.write_bytes(csv_by_hand([("sentence1", "sentence2"), *rows], quoting=quoting, lineterminator=ending))
        assert [pair[:2] for pair in read_pairs(path)] == rows

    @steady
    @given(pieces=st.lists(st.lists(printable, min_size=1, max_size=5).map("\n".join), min_size=1))
    def test_comma_separated_sentences_over_several_lines(
        self, pieces: list[str], tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        path = tmp_path_factory.getbasetemp() / "round-trip-lines.csv"
        path.write_bytes(csv_by_hand([("id", "text"), *enumerate(pieces)]))
        assert list(read_sentences(path)) == pieces
