"""docs/first-ten-minutes.md: its program and its commands are run as they are printed, on few of its documents."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nearer.adaptation import adapt as adaptation
from nearer.adaptation.plan import Plan
from nearer.cli.main import main
from nearer.search.setup import read_setup
from patience import HANG

PAGE = (Path(__file__).parents[2] / "docs" / "first-ten-minutes.md").read_text(encoding="utf-8")
# whatever this machine's speed is; with fewer than 20 steps nothing is trained
PLAN = Plan(180, 10, 3, False, 0, 0, 4, 2, 32, {"tests": 1.0})
FEW = 180
LABELLED = {"textwrap.shorten", "shutil.which"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def commands(start: str) -> list[str]:
    """The page's commands that begin so, without their comments; lines that go on are one command."""
    lines = "\n".join(blocks("sh")).replace("\\\n", " ").splitlines()
    return [line.partition(" #")[0].strip() for line in lines if line.startswith(start)]


ADAPT = commands("nearer adapt")[0]
BUILD = commands("nearer search build")[0]
QUERY = commands("nearer search query")[0]
DRY_RUNS = [command for command in commands("nearer adapt") if "--dry-run" in command]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's program was run; of what it wrote, the labelled and the shortest documents are kept."""
    root = tmp_path_factory.mktemp("ten-minutes")
    [program] = blocks("python")
    done = subprocess.run(
        [sys.executable, "-"], input=program, cwd=root, capture_output=True, text=True, timeout=HANG, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = (root / "mine.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) > 1000
    rows = sorted((json.loads(line) for line in lines), key=lambda row: (row["id"] not in LABELLED, len(row["text"])))
    assert {row["id"] for row in rows[: len(LABELLED)]} == LABELLED
    kept = [row for row in rows if len(row["title"]) > 30 and len(row["text"]) > 60][:FEW]  # tests can be made of these
    (root / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    return root


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """What a command of the page prints."""
    monkeypatch.setattr(adaptation, "make_plan", lambda *given, labelled, **more: replace(PLAN, labelled=labelled))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def printed(command: str) -> str:
        monkeypatch.setattr("sys.argv", shlex.split(command))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        assert not ended.value.code, captured.err
        return captured.out + captured.err

    return printed


def test_text_adapt_search(run: Callable[[str], str], folder: Path) -> None:
    pytest.importorskip("faiss")
    told = run(ADAPT)
    for promised in ("plan:", "tests made of", "judges to trust on this text", "gain over the base", "page:"):
        assert promised in told
        assert promised in PAGE
    assert (folder / "adapted" / "report.html").is_file()
    setup = read_setup(folder / "adapted" / "model")
    assert setup is not None
    assert "documents; exact" in run(BUILD)
    assert " score  id " in run(QUERY)


@pytest.mark.slow
@pytest.mark.parametrize("command", DRY_RUNS, ids=lambda command: command.partition("--out ")[2].split()[0])
def test_what_would_help_more(
    command: str, run: Callable[[str], str], folder: Path, tiny_cross_encoder: Callable[..., Path]
) -> None:
    """Small models stand for those of the hub, under their names."""
    from nearer.encoder import Encoder

    for name in re.findall(r"--(?:model|teacher) (\S+)", command):
        Encoder.load("wiki-mini", pooling="mean", device="cpu").save(folder / name, overwrite=True)
    for name in re.findall(r"--judge (\S+)", command):
        shutil.copytree(tiny_cross_encoder("bert"), folder / name, dirs_exist_ok=True)
    subprocess.run(["sh", "-c", "\n".join(commands("printf"))], cwd=folder, check=True, timeout=HANG)
    assert "plan:" in run(command)
    assert not Path(folder, command.partition("--out ")[2].split()[0]).exists()


def test_every_way_on_is_a_page_that_is_there() -> None:
    links = re.findall(r"\]\((\w[\w-]*\.md)", PAGE)
    assert {"adapt.md", "search.md", "serve.md", "guide.md"} <= set(links)
    assert all((Path(__file__).parents[2] / "docs" / link).is_file() for link in links)
