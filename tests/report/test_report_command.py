"""`nearer report`, `write_report` and what training calls at its end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_runs import Runs

from nearer.encoder import Encoder
from nearer.extras import install_command
from nearer.report import report_after_run, write_report

Command = Callable[..., tuple[int, str, str]]


def test_one_page_is_written(command: Command, runs: Runs, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    code, printed, told = command(runs.finished, "--out", out, "--device", "cpu")
    assert (code, printed) == (0, "")
    assert told.splitlines()[-1].startswith(f"{out}: ")
    content = out.read_text(encoding="utf-8")
    assert content.startswith("<!doctype html>")
    assert "nearer report " in content


def test_models_without_a_run_on_named_tasks_with_a_corpus(command: Command, runs: Runs, tmp_path: Path) -> None:
    corpus, out = tmp_path / "corpus.txt", tmp_path / "page.html"
    corpus.write_text("".join(f"the fox has {a} and {b}\n" for a in range(11) for b in range(11)))
    options = ("--tasks", "everyday,ranking:everyday", "--corpus", corpus, "--out", out, "--device", "cpu")
    code, _, told = command("wiki-mini", runs.model, "--pooling", "mean", *options)
    assert code == 0, told
    content = out.read_text(encoding="utf-8")
    assert "Kendall" in content
    assert "Rank vectors and vectors" in content
    assert "Gain by rank vectors" in content
    assert "Difference".lower() in content
    assert 'id="curves"' not in content
    assert "--tasks everyday,ranking:everyday" in content


def test_all_drawings_as_files(command: Command, runs: Runs, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "figures"
    code, _, told = command(
        runs.finished, runs.stopped, "--out", tmp_path / "page.html", "--figures", folder, "--device", "cpu"
    )
    assert code == 0, told
    names = {path.name for path in folder.iterdir()}
    assert {"curve-01-loss.svg", "curve-02-dev.png", "dev-pairs-spectrum.svg", "dev-pairs-distributions.png"} <= names
    assert {path.suffix for path in folder.iterdir()} == {".svg", ".png"}
    assert all(path.stat().st_size > 1000 for path in folder.iterdir())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nowhere/at/all", "--device", "cpu"), "nowhere/at/all: no such folder"),
        ((".", "--out", "."), ".: is a folder; name a file, such as report.html"),
        ((".", "--out", "no/such/page.html"), "the folder no/such does not exist"),
        ((".", "--out", "there.html"), "there.html: is there already; name another --out, or --force"),
        ((".", "--figures", "there.html"), "there.html: cannot be used as a folder"),
        ((".",), "is neither a run (no config.yaml) nor a model"),
        (("wiki-mini", "--tasks", "stsb"), "'stsb' needs the folder of the STS sets; name it by data (--data DIR)"),
        (("nowhere", "--published", "none-such"), "'none-such' is none of"),
    ],
)
def test_mistakes_are_one_line(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.html").write_text("kept")
    code, _, err = command(*arguments)
    assert code == 1
    [line] = [line for line in err.splitlines() if line.startswith("error: ")]
    assert told in line
    assert "Traceback" not in err
    assert (tmp_path / "there.html").read_text() == "kept"


def test_figures_need_matplotlib_and_the_page_does_not(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, told = command(runs.finished, "--out", tmp_path / "a.html", "--figures", tmp_path / "figures")
    assert code == 1
    assert install_command("plots") in told
    assert command(runs.finished, "--out", tmp_path / "a.html", "--device", "cpu")[0] == 0


class TestAfterARun:
    def test_the_page_is_in_its_folder_and_replaced(self, copied: Path) -> None:
        (copied / "report.html").write_text("old")
        assert report_after_run(copied) == copied / "report.html"
        assert "<!doctype html>" in (copied / "report.html").read_text(encoding="utf-8")

    def test_a_model_in_memory_is_not_loaded_again(self, copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        model = Encoder.load(copied / "model", device="cpu")
        monkeypatch.setattr("nearer.report.subjects.load_scorer", None)
        said: list[str] = []
        assert report_after_run(copied, model=model, say=said.append) is not None, said

    @pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("CUDA out of\nmemory")])
    def test_no_failure_gets_out(self, copied: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
        def fail(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr("nearer.report.page.measure", fail)
        said: list[str] = []
        assert report_after_run(copied, say=said.append) is None
        [line] = said
        assert line.startswith("no report (")
        assert line.endswith(f"try again with: nearer report {copied} --out {copied / 'report.html'}")
        assert "\n" not in line


def test_each_sentence_is_encoded_once(runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scoring and looking behind the scores ask for the same ones."""
    encode, asked = Encoder.encode, []

    def counting(self: Encoder, sentences: list[str], **options: object) -> object:
        asked.extend(sentences)
        return encode(self, sentences, **options)

    monkeypatch.setattr(Encoder, "encode", counting)
    write_report(runs.model, tmp_path / "page.html", tasks=["everyday", "ranking:everyday"], device="cpu")
    assert len(asked) == len(set(asked)) == 360
