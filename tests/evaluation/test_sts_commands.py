"""`nearer data check`, `nearer data get` and `nearer evaluate` on miniature STS folders."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from nearer.cli.main import app
from nearer.evaluation.sts_sets import TASKS

LAYOUTS = ["senteval", "raw", "flat"]


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout, result.stderr


def check(folder: Path) -> tuple[int, dict[str, list[str]], str]:
    """The exit code, the table's rows by task, and what was said besides."""
    code, out, err = run("data", "check", folder)
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    assert [row[0] for row in rows] == list(TASKS)  # one line a task
    return code, {row[0]: row[1:] for row in rows}, err


class TestCheck:
    @pytest.mark.parametrize("layout", ["senteval", "raw"])
    def test_complete(self, layout: str, mini_sts, tmp_path: Path) -> None:
        code, rows, err = check(mini_sts.write(tmp_path / "data", layout))
        assert (code, err) == (0, "")
        assert rows["sts12"] == [layout, "5", "complete"]
        assert rows["sick-r-all"] == [layout, "9", "complete"]
        assert {row[2] for row in rows.values()} == {"complete"}

    def test_missing(self, mini_sts, tmp_path: Path) -> None:
        folder = mini_sts.write(tmp_path / "data", "senteval")
        (folder / "STS/STS12-en-test/STS.gs.MSRvid.txt").unlink()
        (folder / "STS/STS13-en-test").rename(tmp_path / "elsewhere")
        (folder / "SICK/SICK_trial.txt").unlink()
        code, rows, err = check(folder)
        assert (code, err) == (0, "")  # a folder need not hold all sets
        assert rows["sts12"] == ["", "", "missing (STS/STS12-en-test/STS.gs.MSRvid.txt)"]
        assert rows["sts13"] == ["", "", "missing (STS/STS13-en-test)"]
        assert rows["sick-r-dev"] == rows["sick-r-all"] == ["", "", "missing (SICK/SICK_trial.txt)"]
        assert rows["sick-r"] == ["senteval", "3", "complete"]

    def test_damaged(self, mini_sts, tmp_path: Path) -> None:
        folder = mini_sts.write(tmp_path / "data", "raw")
        (folder / "STS12-en-test/STS.gs.MSRvid.txt").write_text("1\nx\n", encoding="utf-8")
        mini_sts.write_benchmark(folder / "STSBenchmark/sts-dev.csv", mini_sts.pairs("x", 1))
        (folder / "STS16.test.jsonl").write_text("{\n", encoding="utf-8")
        code, rows, err = check(folder)
        said = "damaged (STS12-en-test/STS.gs.MSRvid.txt: line 2 has the score 'x', which is not a number)"
        assert rows["sts12"] == ["", "", said]
        assert rows["stsb-dev"] == ["", "", "damaged (STS-B (dev) has 1 pairs, 2 are expected)"]
        assert rows["sts16"] == ["", "", "damaged (STS16.test.jsonl: is not as it was fetched; fetch it again)"]
        assert (code, err) == (1, f"error: {folder}: 3 of the sets are damaged or changed.\n")

    def test_nothing_but_damage_is_not_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "STS16.test.jsonl").write_text("{\n", encoding="utf-8")
        assert check(tmp_path)[2] == f"error: {tmp_path}: 1 of the sets are damaged or changed.\n"


class TestGet:
    @pytest.fixture
    def mirror(self, mini_sts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        datasets = pytest.importorskip("datasets")
        monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
        from nearer.evaluation import sts_data as sts_fetch

        monkeypatch.setattr(sts_fetch, "HOSTED", [sts_fetch.HOSTED[4], sts_fetch.HOSTED[8]])
        for hosted, count in zip(sts_fetch.HOSTED, (2, 9), strict=True):
            folder = tmp_path / "mirror" / hosted.repository
            folder.mkdir(parents=True)
            mini_sts.write_flat(folder / "test.jsonl", mini_sts.pairs(hosted.set_name, count))
        return tmp_path / "mirror"

    def test_fetch_check_change_and_fetch_again(self, mirror: Path, tmp_path: Path) -> None:
        out = tmp_path / "sts"
        code, _, err = run("data", "get", "sts", "--out", out, "--mirror", mirror)
        assert code == 0
        assert err.splitlines() == [
            "STS16.test.jsonl: 2 pairs",
            "SICK-R.all.jsonl: 9 pairs",
            f"ready: nearer evaluate MODEL --tasks sts12,sts13,sts14,sts15,sts16,stsb,sick-r-all --data {out}",
        ]
        code, rows, _ = check(out)
        assert (code, rows["sts16"], rows["sick-r-all"][2]) == (0, ["flat", "2", "complete"], "complete")
        assert rows["sick-r"] == ["", "", "missing (SICK/SICK_test_annotated.txt)"]

        path = out / "STS16.test.jsonl"
        path.write_bytes(path.read_bytes().replace(b"it's", b"it is", 1))
        code, rows, err = check(out)
        assert (code, rows["sts16"]) == (1, ["flat", "2", "changed since it was fetched"])
        assert err == f"error: {out}: 1 of the sets are damaged or changed.\n"

        assert "STS16.test.jsonl: 2 pairs" in run("data", "get", "sts", "--out", out, "--mirror", mirror)[2]
        assert check(out)[0] == 0
        assert "SICK-R.all.jsonl: already here" in run("data", "get", "sts", "--out", out, "--mirror", mirror)[2]

    def test_a_mirror_that_does_not_fit(self, mirror: Path, mini_sts, tmp_path: Path) -> None:
        mini_sts.write_flat(mirror / "mteb/sts16-sts/test.jsonl", mini_sts.pairs("x", 3))
        code, out, err = run("data", "get", "sts", "--out", tmp_path / "sts", "--mirror", mirror)
        assert (code, out) == (1, "")
        assert "3 usable pairs, 2 expected; nothing was written." in err.splitlines()[0]
        assert list((tmp_path / "sts").iterdir()) == []


class TestEvaluate:
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_tasks_of_a_folder(self, layout: str, mini_sts, tiny_model, tmp_path: Path) -> None:
        data = mini_sts.write(tmp_path / "data", layout)
        model = tiny_model("bert")
        code, out, _ = run(
            "evaluate", model, "--pooling", "mean", "--data", data, "--tasks", "sts12,stsb-dev,sick-r-all"
        )
        rows = [[cell.strip() for cell in line.split("│")[1:4]] for line in out.splitlines() if line.startswith("│")]
        assert code == 0
        assert rows == [
            ["STS12", "test", "5 pairs"],
            ["STS-B", "dev", "2 pairs"],
            ["SICK-R", "all", "9 pairs"],
            ["average", "", ""],
        ]
