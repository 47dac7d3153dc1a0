"""The command as a process: what it imports, and how it ends when it is interrupted or nobody listens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import nearer as package
from nearer.cli.main import app, main
from patience import HANG

COMMAND = [sys.executable, "-m", "nearer.cli.main"]


def names(command, *above: str) -> list[tuple[str, ...]]:
    """A command and all below it, as they are typed."""
    below = getattr(command, "commands", {}).items()
    return [above, *(found for name, sub in below for found in names(sub, *above, name))]


COMMANDS = names(get_command(app))


def run(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=HANG, **options)


class TestImports:
    HEAVY = "{'torch', 'transformers', 'numpy', 'scipy', 'datasets', 'pyarrow', 'sentence_transformers'}"

    @pytest.mark.parametrize(
        "code",
        [
            "import nearer",
            "import nearer; nearer.InputError, nearer.Pair, nearer.read_pairs",
            "import nearer.cli.main as m\ntry: m.app(['--help'])\nexcept SystemExit: pass",
            "import nearer.cli.main as m\ntry: m.app(['evaluate', '--help'])\nexcept SystemExit: pass",
        ],
    )
    def test_nothing_heavy(self, code: str) -> None:
        show = f"import sys\n{code}\nprint('loaded', sorted({self.HEAVY} & set(sys.modules)))"
        done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, timeout=HANG)
        assert done.stdout.splitlines()[-1] == "loaded []", done.stderr

    def test_every_name_is_there(self) -> None:
        assert all(getattr(package, name) is not None for name in package.__all__)
        assert set(package.__all__) <= set(dir(package))
        with pytest.raises(AttributeError, match="module 'nearer' has no attribute 'Encodr'"):
            package.Encodr  # noqa: B018


class TestHelp:
    def test_all_are_found(self) -> None:
        single = {("evaluate",), ("encode",), ("similarity",), ("rank",)}
        assert set(COMMANDS) >= single | {("data", name) for name in ("read", "tokenize", "check", "get")}

    @pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
    @pytest.mark.parametrize("option", ["--help", "-h"])
    def test_each_command(self, command: tuple[str, ...], option: str, nearer) -> None:
        outcome = nearer(*command, option)
        assert (outcome.code, outcome.err) == (0, "")
        assert " ".join(["Usage: nearer", *command]) in outcome.out

    def test_version(self, nearer) -> None:
        assert nearer("--version") == (0, f"nearer {package.__version__}\n", "")

    @pytest.mark.parametrize("arguments", [("nope",), ("data", "nope"), ("rank",), ("--nope",)])
    def test_wrong_usage(self, arguments: tuple[str, ...], nearer) -> None:
        outcome = nearer(*arguments)
        assert (outcome.code, outcome.out) == (2, "")
        assert "Usage: nearer" in outcome.err


class TestEndings:
    def test_done(self, tmp_path: Path) -> None:
        (tmp_path / "text.txt").write_text("one\n", encoding="utf-8")
        done = run("data", "read", tmp_path / "text.txt")
        assert (done.returncode, done.stdout) == (0, "1\tone\n")

    def test_an_error_is_one_line(self, tmp_path: Path) -> None:
        done = run("data", "read", tmp_path / "none")
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"error: {tmp_path / 'none'}: no such file.\n")

    def test_a_defect_of_ours_is_not_hidden(self, nearer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("nearer.cli.data.say", lambda message: 1 / 0)
        monkeypatch.setattr("sys.argv", ["nearer", "data", "read", os.devnull])
        with pytest.raises(ZeroDivisionError):
            main()

    def test_standard_input(self) -> None:
        done = run("data", "read", "-", input="one\n\ntwo\n")
        assert (done.returncode, done.stdout) == (0, "1\tone\n3\ttwo\n")
        assert done.stderr == "-: 3 read, 2 kept, 1 dropped\n  1 empty (dropped): line 2\n"

    def test_json_for_another_program(self, tiny_model, tmp_path: Path) -> None:
        (tmp_path / "pairs.tsv").write_text("a\tb c\t1\nrain\td\t2\n", encoding="utf-8")
        model = tiny_model("bert")
        done = run("evaluate", model, "--pooling", "cls", "--tasks", tmp_path / "pairs.tsv", "--json", "-")
        assert json.loads(done.stdout)["protocol"]["pooling"] == "cls"

    @pytest.mark.skipif(os.name == "nt", reason="named pipes and signals of POSIX")
    def test_interrupted(self, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        process = subprocess.Popen(
            [*COMMAND, "data", "read", str(pipe)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # a shell's background jobs, of which this test may be one, ignore the signal
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        with open(pipe, "w"):  # opens when the command opens it for reading
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=HANG)
        assert (process.returncode, out, err) == (130, "", "interrupted\n")

    @pytest.mark.skipif(os.name == "nt", reason="named pipes and signals of POSIX")
    def test_interrupted_with_workers(self, tiny_model, tmp_path: Path) -> None:
        pipe, folder = tmp_path / "pipe", tmp_path / "out"
        os.mkfifo(pipe)
        folder.mkdir()
        options = ("--pooling", "cls", "--out", folder / "v.npy", "--devices", "cpu")
        process = subprocess.Popen(
            [*COMMAND, "encode", *map(str, (tiny_model("bert"), pipe, *options))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        with open(pipe, "w"):  # opens when the workers are there and the first window is read
            process.send_signal(signal.SIGINT)
            # ends only when the workers have closed their end of these, too
            out, err = process.communicate(timeout=HANG)
        assert (process.returncode, out, err.splitlines()[-1]) == (130, "", "interrupted")
        assert list(folder.iterdir()) == []

    def test_a_reader_that_goes_away(self, tmp_path: Path) -> None:
        (tmp_path / "text.txt").write_text("a sentence\n" * 100_000, encoding="utf-8")
        process = subprocess.Popen(
            [*COMMAND, "data", "read", str(tmp_path / "text.txt"), "--show", "100000"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "1\ta sentence\n"
        process.stdout.close()
        with process.stderr:
            assert process.stderr.read() == ""
        assert process.wait(timeout=HANG) == 0

    def test_a_reader_that_was_never_there(self, tmp_path: Path) -> None:
        (tmp_path / "text.txt").write_text("one\n", encoding="utf-8")
        reading, writing = os.pipe()
        os.close(reading)
        command = [*COMMAND, "data", "read", str(tmp_path / "text.txt")]
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=HANG, env=buffered)
        os.close(writing)
        assert done.returncode == 0
        assert done.stderr.splitlines() == [f"{tmp_path / 'text.txt'}: 1 read, 1 kept, 0 dropped"]

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here to stand for a full disk")
    def test_a_full_disk(self, tmp_path: Path) -> None:
        (tmp_path / "text.txt").write_text("one\n", encoding="utf-8")
        with open("/dev/full", "w") as full:
            command = [*COMMAND, "data", "read", str(tmp_path / "text.txt"), "--show", "1"]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=HANG)
        assert done.returncode == 1
        last = done.stderr.splitlines()[-1]
        assert last == "error: the output cannot be written (No space left on device)."

    def test_an_output_that_knows_only_ascii(self, tmp_path: Path) -> None:
        (tmp_path / "text.txt").write_text("caf\u00e9 \u4e2d\n", encoding="utf-8")
        done = run("data", "read", tmp_path / "text.txt", env={**os.environ, "PYTHONIOENCODING": "ascii"})
        assert (done.returncode, done.stdout) == (0, "1\tcaf\\xe9 \\u4e2d\n")
