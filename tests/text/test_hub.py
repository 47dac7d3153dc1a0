"""Hugging Face data sets by name, with the real library on local folders."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearer.errors import InputError, MissingExtraError
from nearer.text import Fault, Pair, RankingList, read_pairs, read_ranking_lists, read_sentences

pytest.importorskip("datasets")


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    import datasets
    import huggingface_hub.constants

    # The variables are read when the libraries are first imported, which may have been before this test.
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


@pytest.fixture
def folder(tmp_path: Path):
    def folder(**files: bytes) -> str:
        """A data set's name: `train_jsonl=b"..."` makes its file train.jsonl."""
        (tmp_path / "data").mkdir()
        for name, content in files.items():
            (tmp_path / "data" / name.replace("_", ".")).write_bytes(content)
        return f"hf:{tmp_path / 'data'}"

    return folder


class TestFolders:
    def test_json_lines(self, folder) -> None:
        reading = read_sentences(folder(train_jsonl=b'{"text": "one"}\n{"text": "two"}\n'))
        assert list(reading.located()) == [(1, "one"), (2, "two")]
        assert (reading.report.unit, reading.report.notes) == ("row", ["columns used: text"])

    def test_csv(self, folder) -> None:
        assert list(read_pairs(folder(train_csv=b"sentence1,sentence2,score\na,b,0.5\n"))) == [Pair("a", "b", 0.5)]

    def test_parquet(self, folder, tmp_path: Path) -> None:
        parquet = pytest.importorskip("pyarrow.parquet")
        arrow = pytest.importorskip("pyarrow")
        name = folder()
        parquet.write_table(arrow.table({"sentences": [["a", "b"], ["c", "d", "e"]]}), tmp_path / "data/train.parquet")
        assert list(read_ranking_lists(name)) == [RankingList(("a", "b")), RankingList(("c", "d", "e"))]

    def test_split(self, folder) -> None:
        name = folder(train_jsonl=b'{"text": "one"}\n', test_jsonl=b'{"text": "two"}\n')
        assert list(read_sentences(f"{name}?split=test")) == ["two"]

    def test_named_columns(self, folder) -> None:
        name = folder(train_jsonl=b'{"text": "one", "body": "two"}\n')
        assert list(read_sentences(name, columns=["body"])) == ["two"]

    def test_faults_are_counted_by_row(self, folder) -> None:
        lines = [b'{"text": "one"}', b'{"text": null}', b'{"text": "t\\u0000wo"}', b'{"text": " "}', b'{"text": "one"}']
        reading = read_sentences(folder(train_jsonl=b"\n".join(lines)), duplicates="drop")
        assert list(reading) == ["one", "two"]
        report = reading.report
        assert (report.read, report.kept, report.dropped) == (5, 2, 3)
        assert {fault: [row for row, _ in tally.examples] for fault, tally in report.tallies.items()} == {
            Fault.EMPTY: [2, 4],
            Fault.NUL: [3],
            Fault.DUPLICATE_DROPPED: [5],
        }

    def test_the_fingerprint_is_of_the_records(self, folder, tmp_path: Path) -> None:
        name = folder(train_jsonl=b'{"text": "one"}\n')
        before = read_sentences(name).fingerprint()
        assert read_sentences(name).fingerprint() == before
        (tmp_path / "data" / "train.jsonl").write_bytes(b'{"text": "two"}\n')
        assert read_sentences(name).fingerprint() != before


class TestWhatCannotBeLoaded:
    @pytest.mark.parametrize("name", ["hf:no/such-data", "hf:/no/such/folder", "hf:nothing?config=a&revision=b"])
    def test_a_name_that_does_not_exist(self, name: str) -> None:
        with pytest.raises(InputError, match="cannot be loaded") as caught:
            list(read_sentences(name))
        assert str(caught.value).startswith(f"{name}: ")
        assert "\n" not in str(caught.value)

    def test_no_name(self) -> None:
        with pytest.raises(InputError, match="write hf:owner/name"):
            list(read_sentences("hf:?split=train"))

    @pytest.mark.parametrize("option", ["splits=train", "splits=", "splits"])
    def test_an_unknown_option(self, option: str, folder) -> None:
        with pytest.raises(InputError, match="unknown option 'splits'; config, split and revision can be given"):
            list(read_sentences(f"{folder()}?{option}"))

    @pytest.mark.parametrize("split", ["test", ""])
    def test_an_unknown_split(self, split: str, folder) -> None:
        name = folder(train_jsonl=b'{"text": "one"}\n')
        with pytest.raises(InputError, match=f"Bad split: {split}. Available splits"):
            list(read_sentences(f"{name}?split={split}"))

    def test_an_empty_folder(self, folder) -> None:
        with pytest.raises(InputError, match="cannot be loaded"):
            list(read_sentences(folder()))

    def test_wrong_columns(self, folder) -> None:
        with pytest.raises(InputError, match=r"cannot tell which columns make a pair; found 'text'\."):
            list(read_pairs(folder(train_jsonl=b'{"text": "one"}\n')))

    def test_files_that_the_library_refuses(self, folder) -> None:
        with pytest.raises(InputError, match="cannot be loaded"):
            list(read_sentences(folder(train_jsonl=b'{"text": "one"}\n\xff\xfe\n')))

    def test_a_stream_that_breaks_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def rows() -> Iterator[dict[str, str]]:
            yield {"text": "one"}
            raise ConnectionError("the line is dead\nvery dead")

        serve(rows, monkeypatch)
        reading = iter(read_sentences("hf:owner/name"))
        assert next(reading) == "one"
        with pytest.raises(InputError, match=r"broke off after row 1 \(the line is dead\)"):
            next(reading)

    def test_rows_without_the_column(self, monkeypatch: pytest.MonkeyPatch) -> None:
        serve(lambda: iter([{"text": "one"}, {"sentence": "two"}, {"text": "three"}]), monkeypatch)
        reading = read_sentences("hf:owner/name")
        assert list(reading) == ["one", "three"]
        assert reading.report.tallies[Fault.WRONG_FIELDS].examples == [(2, "no field 'text'")]

    def test_the_library_is_not_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "datasets", None)
        with pytest.raises(MissingExtraError, match=r"pip install .*\[hub\]'"):
            list(read_sentences("hf:owner/name"))


def serve(rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any name gives these rows."""
    import datasets

    data = datasets.IterableDataset.from_generator(rows)
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: data)
