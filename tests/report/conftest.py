"""Real runs, made once a session, and the command as users run it."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from tiny_runs import Runs, make_runs

from faulty_disk import unchecked
from nearer.cli.main import Commands
from nearer.cli.report import report


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, tiny_model: Callable[[str], Path]) -> Runs:
    """To be left as they are."""
    root = tmp_path_factory.mktemp("runs") / 'hostile <b>&"'
    root.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEARER_CACHE", str(root / "cache"))
        return make_runs(root, tiny_model("bert"), tiny_model("distilbert"))


@pytest.fixture
def copied(runs: Runs, tmp_path: Path) -> Path:
    """The finished run, to be changed: without its checksums."""
    folder = unchecked(Path(shutil.copytree(runs.finished, tmp_path / "copied")))
    scores = json.loads((folder / "scores.json").read_text())
    del scores["checksum"]
    (folder / "scores.json").write_text(json.dumps(scores))
    config = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text("".join(line for line in config.splitlines(True) if "# checksum" not in line))
    return folder


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """`command("RUN", …)` runs report: exit code, standard output, standard error."""
    app = typer.Typer(cls=Commands, pretty_exceptions_enable=False)
    app.command()(report)
    app.command()(lambda: None)  # of one command alone Typer makes no group

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["nearer", "report", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            app()
        captured = capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err

    return run
