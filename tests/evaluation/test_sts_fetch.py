"""Fetching the STS sets, with the real data set library on a mirror folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from nearer.errors import InputError
from nearer.evaluation import evaluate
from nearer.evaluation import sts_data as sts_fetch
from nearer.evaluation.sts_data import HOSTED, SUMS, fetch_sts, load_sts, verify
from nearer.evaluation.sts_sets import expected_pairs
from nearer.text import Pair

pytest.importorskip("datasets")

FILES = [f"{hosted.set_name}.{hosted.split}.jsonl" for hosted in HOSTED]


@pytest.fixture(autouse=True)
def _offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    import datasets
    import huggingface_hub.constants

    # The variables are read when the libraries are first imported, which may have been before this test.
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


@pytest.fixture
def mirror(mini_sts, tmp_path: Path) -> Path:
    """A folder with miniature copies of the hub's data sets, in files named by their splits."""
    for hosted in HOSTED:
        folder = tmp_path / "mirror" / hosted.repository
        folder.mkdir(parents=True, exist_ok=True)
        pairs = mini_sts.pairs(f"{hosted.set_name} {hosted.split}", expected_pairs(hosted.set_name, hosted.split))
        mini_sts.write_flat(folder / f"{hosted.hub_split}.jsonl", pairs)
    return tmp_path / "mirror"


@pytest.fixture
def one_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sts_fetch, "HOSTED", HOSTED[4:5])


def fetch(folder: Path, mirror: Path) -> list[str]:
    said: list[str] = []
    fetch_sts(folder, mirror=mirror, report=said.append)
    return said


def test_every_file_is_written_with_its_sum(mini_sts, mirror: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "sts"
    said = fetch(folder, mirror)
    assert said[0] == "STS12.test.jsonl: 5 pairs"
    assert [line.partition(":")[0] for line in said] == FILES
    assert sorted(path.name for path in folder.iterdir()) == sorted([*FILES, SUMS])
    lines = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}" for name in sorted(FILES)]
    assert (folder / SUMS).read_text(encoding="utf-8").splitlines() == lines


def test_what_was_fetched_is_what_the_mirror_holds(mini_sts, mirror: Path, tmp_path: Path) -> None:
    fetch(tmp_path / "sts", mirror)
    [stsb, sick] = load_sts(["stsb-dev", "sick-r-all"], tmp_path / "sts")
    assert (stsb.layout, stsb.pairs) == ("flat", mini_sts.pairs("STS-B dev", 2))
    assert sick.pairs == mini_sts.pairs("SICK-R all", 9)


def test_an_evaluation_runs_on_it(mini_sts, mirror: Path, tmp_path: Path, length_scorer) -> None:
    fetch(tmp_path / "sts", mirror)
    results = evaluate(length_scorer(), ["sts12", "stsb", "sick-r-all"], data=tmp_path / "sts")
    assert [(score.task, score.layout, score.count) for score in results.scores] == [
        ("STS12", "flat", 5),
        ("STS-B", "flat", 3),
        ("SICK-R", "flat", 9),
    ]


@pytest.mark.usefixtures("one_set")
class TestAgain:
    @pytest.fixture
    def folder(self, mirror: Path, tmp_path: Path) -> Path:
        fetch(tmp_path / "sts", mirror)
        return tmp_path / "sts"

    def test_what_is_here_is_not_fetched(self, folder: Path, tmp_path: Path) -> None:
        assert fetch(folder, tmp_path / "no mirror") == ["STS16.test.jsonl: already here"]

    def test_a_changed_file_is_noticed_and_fetched_again(self, folder: Path, mirror: Path) -> None:
        path = folder / "STS16.test.jsonl"
        before = path.read_bytes()
        assert verify(path)
        path.write_bytes(before.replace(b"STS16", b"STS61", 1))
        assert not verify(path)
        assert fetch(folder, mirror) == ["STS16.test.jsonl: 2 pairs"]
        assert path.read_bytes() == before
        assert verify(path)

    @pytest.mark.parametrize("sums", [None, b"", b"\xff\xfe nonsense\n"])
    def test_a_file_without_its_sum_is_fetched_again(self, sums: bytes | None, folder: Path, mirror: Path) -> None:
        (folder / SUMS).unlink()
        if sums is not None:
            (folder / SUMS).write_bytes(sums)
        assert not verify(folder / "STS16.test.jsonl")
        assert fetch(folder, mirror) == ["STS16.test.jsonl: 2 pairs"]
        assert verify(folder / "STS16.test.jsonl")

    def test_a_missing_file_is_fetched_again(self, folder: Path, mirror: Path) -> None:
        (folder / "STS16.test.jsonl").unlink()
        assert fetch(folder, mirror) == ["STS16.test.jsonl: 2 pairs"]


@pytest.mark.usefixtures("one_set")
class TestFailures:
    @pytest.fixture
    def source(self, mirror: Path) -> Path:
        return mirror / "mteb/sts16-sts/test.jsonl"

    @pytest.mark.parametrize("count", [1, 3])
    def test_another_number_of_pairs(self, count: int, source: Path, mini_sts, mirror: Path, tmp_path: Path) -> None:
        mini_sts.write_flat(source, mini_sts.pairs("x", count))
        message = f"split=test: {count} usable pairs, 2 expected; nothing was written.\n"
        with pytest.raises(InputError, match=message):
            fetch(tmp_path / "sts", mirror)
        assert list((tmp_path / "sts").iterdir()) == []

    def test_an_unusable_row(self, source: Path, mini_sts, mirror: Path, tmp_path: Path) -> None:
        mini_sts.write_flat(source, [Pair("a", "b", 1.0), Pair(" ", "d", 2.0)])
        with pytest.raises(InputError, match=r"1 usable pairs, 2 expected(.|\n)*1 empty \(dropped\): row 2"):
            fetch(tmp_path / "sts", mirror)
        assert list((tmp_path / "sts").iterdir()) == []

    def test_rows_without_a_score(self, source: Path, mini_sts, mirror: Path, tmp_path: Path) -> None:
        source.write_text('{"sentence1": "a", "sentence2": "b", "score": null}\n' * 2, encoding="utf-8")
        with pytest.raises(InputError, match="0 usable pairs, 2 expected"):
            fetch(tmp_path / "sts", mirror)
        assert list((tmp_path / "sts").iterdir()) == []

    def test_no_such_column(self, source: Path, mini_sts, mirror: Path, tmp_path: Path) -> None:
        source.write_text(json.dumps({"sentence1": "a", "sentence2": "b", "gold": 1}) + "\n", encoding="utf-8")
        with pytest.raises(InputError, match=r"STS16 \(test\) cannot be fetched: .*has no column 'score'"):
            fetch(tmp_path / "sts", mirror)

    def test_no_mirror(self, mini_sts, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"STS16 \(test\) cannot be fetched: .*put SentEval's folders") as caught:
            fetch(tmp_path / "sts", tmp_path / "none")
        assert str(tmp_path / "none") in str(caught.value)

    def test_a_folder_that_cannot_be_made(self, mini_sts, mirror: Path, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(InputError, match=r"file/sts: cannot be made \(Not a directory\)"):
            fetch(tmp_path / "file/sts", mirror)

    def test_a_file_that_cannot_be_written(self, mini_sts, mirror: Path, tmp_path: Path) -> None:
        (tmp_path / "sts" / ".STS16.test.jsonl.partial").mkdir(parents=True)
        with pytest.raises(InputError, match=r"STS16.test.jsonl: cannot be written \(Is a directory\)"):
            fetch(tmp_path / "sts", mirror)

    def test_what_came_before_is_kept(
        self, mini_sts, mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sts_fetch, "HOSTED", HOSTED[3:5])
        mini_sts.write_flat(mirror / "mteb/sts16-sts/test.jsonl", mini_sts.pairs("x", 1))
        with pytest.raises(InputError):
            fetch(tmp_path / "sts", mirror)
        assert verify(tmp_path / "sts" / "STS15.test.jsonl")


def test_the_hub_is_asked_for_a_pinned_revision(
    mini_sts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_set: None
) -> None:
    asked = []
    monkeypatch.setattr("datasets.load_dataset", lambda *names, **options: asked.append((names, options)))
    with pytest.raises(InputError, match="cannot be fetched"):
        fetch_sts(tmp_path / "sts")
    [(names, options)] = asked
    assert names == ("mteb/sts16-sts", None)
    assert (options["split"], options["revision"]) == ("test", "4d8694f8f0e0100860b497b999b3dbed754a0513")
