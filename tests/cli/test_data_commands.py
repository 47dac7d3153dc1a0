"""The commands that look into text and tokenise it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nearer.encoder.tokenizer import load_tokenizer
from nearer.text.token_store import TokenStore


class TestRead:
    @pytest.fixture
    def faulty(self, tmp_path: Path) -> Path:
        path = tmp_path / "faulty.tsv"
        path.write_bytes(b"sentence1\tsentence2\tscore\na\tb\t1\nc\td\n\nbad \xff\te\t2\nf\tg\tx\na\tb\t1\nh\ti\t2\n")
        return path

    def test_records_and_report(self, nearer, tmp_path: Path) -> None:
        path = tmp_path / "text.txt"
        path.write_text("one\n\ntwo\nthree\nfour\n", encoding="utf-8")
        outcome = nearer("data", "read", path)
        assert (outcome.code, outcome.out) == (0, "1\tone\n3\ttwo\n4\tthree\n")
        assert outcome.err == f"{path}: 5 read, 4 kept, 1 dropped\n  1 empty (dropped): line 2\n"

    @pytest.mark.parametrize("show", [0, 1, 99])
    def test_so_many_are_shown(self, show: int, nearer, tmp_path: Path) -> None:
        path = tmp_path / "text.txt"
        path.write_text("one\ntwo\n", encoding="utf-8")
        outcome = nearer("data", "read", path, "--show", show)
        assert len(outcome.out.splitlines()) == min(show, 2)
        assert "2 read, 2 kept" in outcome.err

    def test_every_fault_of_a_faulty_file(self, nearer, faulty: Path) -> None:
        outcome = nearer("data", "read", faulty, "--as", "pairs")
        assert outcome.code == 0
        assert outcome.out.splitlines()[0] == "2\tPair(first='a', second='b', score=1.0)"
        assert outcome.err.splitlines() == [
            f"{faulty}: 7 read, 3 kept, 4 dropped",
            "  1 with a wrong number of columns (dropped): line 3 (2 found, 3 expected)",
            "  1 empty (dropped): line 4",
            "  1 not valid in the stated encoding (dropped; name another with encoding (--encoding)): line 5 (byte 5)",
            "  1 with a score that is not a finite number (dropped): line 6 ('x')",
            "  1 duplicate (kept): line 7",
            "  note: line 1 is the header; columns used: sentence1, sentence2, score",
        ]

    @pytest.mark.parametrize(
        ("kind", "line", "record"),
        [
            ("sentences", "a\tb\tc", "a b c"),
            ("triplets", "a\tb\tc", "Triplet(anchor='a', positive='b', hard_negative='c')"),
            ("lists", "a\tb\tc\td", "RankingList(sentences=('a', 'b', 'c', 'd'))"),
        ],
    )
    def test_kinds(self, kind: str, line: str, record: str, nearer, tmp_path: Path) -> None:
        path = tmp_path / "text.txt"
        path.write_text(f"{line}\n", encoding="utf-8")
        assert nearer("data", "read", path, "--as", kind).out == f"1\t{record}\n"

    def test_a_record_stays_on_its_line(self, nearer, tmp_path: Path) -> None:
        path = tmp_path / "table.csv"
        path.write_text('text\n"two\nlines"\n', encoding="utf-8")
        assert nearer("data", "read", path).out == "2\ttwo lines\n"

    def test_columns_and_limits(self, nearer, tmp_path: Path) -> None:
        path = tmp_path / "table.csv"
        path.write_text("a,b,c\n1,short,x\n2,much too long,y\n", encoding="utf-8")
        outcome = nearer("data", "read", path, "--columns", "b", "--max-characters", 5)
        assert outcome.out == "2\tshort\n"
        assert "1 over-long (dropped; raise the limit" in outcome.err

    def test_nothing_usable(self, nearer, tmp_path: Path) -> None:
        path = tmp_path / "text.txt"
        path.write_text("\n \n", encoding="utf-8")
        outcome = nearer("data", "read", path)
        assert outcome.error == f"{path}: nothing in it could be used."
        assert "2 empty (dropped): lines 1, 2" in outcome.err

    @pytest.mark.parametrize(
        ("options", "error"),
        [
            (("--columns", "d"), "has no column 'd'; its columns are 'a', 'b', 'c', 'x'."),
            (("--as", "triplets"), "cannot tell which columns make a triplet; found 'a', 'b', 'c', 'x'."),
        ],
    )
    def test_columns_that_do_not_fit(self, options, error: str, nearer, tmp_path: Path) -> None:
        path = tmp_path / "table.csv"
        path.write_text("a,b,c,x\n1,2,3,4\n", encoding="utf-8")
        assert nearer("data", "read", path, *options).error.startswith(f"{path}: {error}")

    def test_no_such_file(self, nearer, tmp_path: Path) -> None:
        assert nearer("data", "read", tmp_path / "none").error == f"{tmp_path / 'none'}: no such file."

    def test_an_unknown_kind_is_wrong_usage(self, nearer, faulty: Path) -> None:
        assert nearer("data", "read", faulty, "--as", "poems").code == 2


class TestTokenize:
    @pytest.fixture
    def model(self, tiny_model) -> Path:
        return tiny_model("bert")

    @pytest.fixture
    def text(self, tmp_path: Path) -> Path:
        path = tmp_path / "text.txt"
        path.write_text("A man is eating lunch.\n\nrain\n", encoding="utf-8")
        return path

    @pytest.fixture
    def stores(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("NEARER_CACHE", str(tmp_path / "cache"))
        return tmp_path / "cache" / "tokens"

    def only(self, stores: Path) -> TokenStore:
        [folder] = [path for path in stores.iterdir() if path.is_dir()]
        return TokenStore(folder)

    def test_a_store_is_built(self, nearer, model: Path, text: Path, stores: Path) -> None:
        outcome = nearer("data", "tokenize", model, text)
        store = self.only(stores)
        tokenizer = load_tokenizer(model)
        assert [store[n].tolist() for n in range(len(store))] == tokenizer(["A man is eating lunch.", "rain"])[
            "input_ids"
        ]
        assert (outcome.code, outcome.out) == (0, "")
        assert "3 read, 2 kept, 1 dropped" in outcome.err
        mean = len(store.tokens) / 2
        told = (
            f"{store.folder}: 2 records (1 dropped), 2 sentences, {mean:.1f} tokens each, 0 cut at 32 (--max-length)\n"
        )
        assert outcome.err.endswith(told)

    def test_it_is_found_again(self, nearer, model: Path, text: Path, stores: Path) -> None:
        first = nearer("data", "tokenize", model, text).err.splitlines()[-1]
        built = (self.only(stores).folder / "store.json").stat().st_mtime_ns
        assert nearer("data", "tokenize", model, text).err == f"{first}\n"
        assert (self.only(stores).folder / "store.json").stat().st_mtime_ns == built

    def test_pairs_and_length(self, nearer, model: Path, stores: Path, tmp_path: Path) -> None:
        path = tmp_path / "pairs.jsonl"
        path.write_text(
            json.dumps({"sentence1": "a man is eating a meal", "sentence2": "rain"}) + "\n", encoding="utf-8"
        )
        outcome = nearer("data", "tokenize", model, path, "--as", "pairs", "--max-length", 4)
        assert "1 records (0 dropped), 2 sentences" in outcome.err
        assert self.only(stores).lengths.max() == 4

    def test_nothing_usable(self, nearer, model: Path, text: Path, stores: Path) -> None:
        text.write_text("\n", encoding="utf-8")
        outcome = nearer("data", "tokenize", model, text)
        assert (outcome.code, "Traceback" in outcome.err) == (1, False)
        assert f"error: {text}: nothing in it could be used." in outcome.err
        assert [path for path in stores.iterdir() if path.is_dir()] == []

    def test_standard_input_is_refused(self, nearer, model: Path) -> None:
        assert nearer("data", "tokenize", model, "-").error == "standard input can be read once only: name a file."

    def test_no_tokenizer(self, nearer, text: Path, tmp_path: Path) -> None:
        assert nearer("data", "tokenize", tmp_path, text).error.startswith(f"{tmp_path}: has no tokenizer")

    def test_a_cache_that_cannot_be_made(
        self, nearer, model: Path, text: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NEARER_CACHE", str(text))
        error = nearer("data", "tokenize", model, text).error
        assert error == f"{text}/tokens: cannot be made (Not a directory); name another folder with NEARER_CACHE."


class TestGet:
    def test_an_unknown_set(self, nearer) -> None:
        assert nearer("data", "get", "snli").error == "snli: not a data set that can be fetched; 'sts' is."


class TestCheck:
    def test_no_such_folder(self, nearer, tmp_path: Path) -> None:
        assert nearer("data", "check", tmp_path / "none").error == f"{tmp_path / 'none'}: no such folder."

    def test_an_empty_folder(self, nearer, tmp_path: Path) -> None:
        outcome = nearer("data", "check", tmp_path)
        assert outcome.error == f"{tmp_path}: holds none of the STS sets."
        assert outcome.out.count("missing (") == 12

    def test_a_name_that_looks_like_markup(self, nearer, tmp_path: Path) -> None:
        folder = tmp_path / "a[" / "bold]"
        folder.mkdir(parents=True)
        outcome = nearer("data", "check", folder)
        assert outcome.error == f"{folder}: holds none of the STS sets."
        assert outcome.out.splitlines()[0].rstrip() == str(folder)
