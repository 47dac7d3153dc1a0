"""Shell completion: the scripts for the shells, and what they are offered."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nearer.cli import completion
from nearer.evaluation.tasks import task_names
from nearer.methods import METHODS
from nearer.training.recipes import recipe_names
from patience import HANG

# as the installed script, whose name the shells call
CODE = "import sys; sys.argv[0] = 'nearer'; from nearer.cli.main import main; {}"
TOLD = "import atexit; atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr)); main()"


def run(*arguments: str, code: str = "main()", **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    command = [sys.executable, "-c", CODE.format(code), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment)


def asked(line: str) -> subprocess.CompletedProcess[str]:
    """What bash asks for when the line is typed so far, and tab is pressed."""
    words = line.split(" ")
    variables = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_NEARER_COMPLETE": "complete_bash"}
    return run(code=TOLD, **variables)


def completed(line: str) -> list[str]:
    return asked(line).stdout.split()


def run_in_bash(option: str, **variables: str) -> str:
    """What the option prints in bash, which it finds out by itself."""
    if not shutil.which("bash"):
        pytest.skip("no bash here")
    line = shlex.join([sys.executable, "-c", CODE.format("main()"), option])
    environment = {**os.environ, **variables}
    # the last command would take bash's place
    command = ["bash", "--norc", "-c", f"{line} || exit 1; true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


class TestScripts:
    @pytest.mark.parametrize("shell", ["bash", "zsh"])
    def test_by_name(self, shell: str, tmp_path: Path) -> None:
        done = run(_NEARER_COMPLETE=f"source_{shell}")
        assert done.returncode == 0, done.stderr
        assert f"_NEARER_COMPLETE=complete_{shell}" in done.stdout
        if shutil.which(shell):
            (tmp_path / "script").write_text(done.stdout, encoding="utf-8")
            assert subprocess.run([shell, "-n", tmp_path / "script"], timeout=HANG).returncode == 0

    def test_shown_for_the_shell_it_is_asked_in(self) -> None:
        assert run_in_bash("--show-completion").strip() == run(_NEARER_COMPLETE="source_bash").stdout.strip()

    def test_installed(self, tmp_path: Path) -> None:
        run_in_bash("--install-completion", HOME=str(tmp_path))
        script = tmp_path / ".bash_completions" / "nearer.sh"
        assert "complete_bash" in script.read_text(encoding="utf-8")
        assert str(script) in (tmp_path / ".bashrc").read_text(encoding="utf-8")


class TestOffers:
    def test_commands(self) -> None:
        assert completed("nearer do") == ["doctor"]
        assert completed("nearer data ch") == ["check"]

    @pytest.mark.parametrize("line", ["nearer ", "nearer train ", "nearer evaluate MODEL --tasks "])
    def test_without_torch(self, line: str) -> None:
        done = asked(line)
        assert done.stdout.split()
        assert done.stderr.split() == ["False"]

    def test_recipes(self) -> None:
        assert completed("nearer train rankcse-w") == ["rankcse-wiki-mini"]
        assert completed("nearer sweep ") == recipe_names()
        assert completed("nearer recipes simcse-w") == ["simcse-wiki-mini"]
        assert completed("nearer settings rank") == ["rankcse", "rankencoder"]

    def test_tasks(self) -> None:
        assert completed("nearer evaluate MODEL --tasks sts,sick-r-t") == ["sts,sick-r-train"]
        assert completed("nearer compare A B --tasks wikiqa-") == ["wikiqa-train"]


class TestNames:
    def test_are_those_that_there_are(self) -> None:
        assert completion.recipes("") == recipe_names()
        assert sorted(completion.TASKS) == sorted(task_names())
        assert list(completion.METHODS) == list(METHODS)

    def test_only_what_begins_so(self) -> None:
        assert completion.recipes("rankcse-w") == ["rankcse-wiki-mini"]
        assert completion.recipes("mine.yaml") == []

    def test_the_last_of_several_tasks(self) -> None:
        assert completion.tasks("stsb,sick-r-t") == ["stsb,sick-r-train"]
        assert completion.tasks("stsb,stsb") == ["stsb,stsb-dev", "stsb,stsb-train"]
