"""Every command and every program of docs/how-do-i.md, run as it is printed, on small files of the names used there."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from nearer.cli.main import main
from nearer.encoder import Encoder
from nearer.text import read_pairs
from patience import HANG

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-do-i.md").read_text(encoding="utf-8")
MODEL = "all-MiniLM-L6-v2"
NEEDED = {"search": "faiss", "export": "onnxscript"}  # packages, by command


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


COMMANDS = [line for block in blocks("sh") for line in block.splitlines() if line.strip()]
RUN_HERE = [command for command in COMMANDS if not command.startswith("nearer serve")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the page speaks of. A folder takes the place of the hub's model: the bundled one by its name."""
    root = tmp_path_factory.mktemp("reader")
    Encoder.load("wiki-mini", pooling="mean", device="cpu").save(root / MODEL)
    bundled = ROOT / "src" / "nearer" / "bundled" / "everyday-pairs.tsv"
    pairs = list(read_pairs(bundled))[:90]
    (root / "mine.txt").write_text("".join(f"{pair.first}\n" for pair in pairs), encoding="utf-8")
    documents = [{"title": pair.first, "text": f"{pair.first} {pair.second}"} for pair in pairs]
    (root / "documents.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents), encoding="utf-8")
    scored = [f"{pair.first}\t{pair.second}\t{pair.score}\n" for pair in pairs]
    (root / "scored.tsv").write_text("".join(scored), encoding="utf-8")
    same = [f"{pair.first}\tSo: {pair.first}\t1\n" for pair in pairs]
    others = [f"{one.first}\t{two.second}\t0\n" for one, two in zip(pairs[:45], pairs[45:], strict=True)]
    (root / "labelled.tsv").write_text("".join([*same, *others]), encoding="utf-8")
    questions = root / "questions"
    (questions / "qrels").mkdir(parents=True)
    for name, side in (("corpus", "second"), ("queries", "first")):
        rows = [{"_id": f"{name[0]}{number}", "text": getattr(pair, side)} for number, pair in enumerate(pairs)]
        (questions / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    judged = "".join(f"q{number}\tc{number}\t1\n" for number in range(len(pairs)))
    (questions / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}", encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def finished(folder: Path) -> Callable[[str], str]:
    """What a command printed, which is run once; commands that make the folders it names are run first."""
    printed: dict[str, str] = {}

    def run(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
        if command in printed:
            return printed[command]
        for other in RUN_HERE:
            made = re.search(r"--out (\S+)", other)
            if made and other != command and made[1] in command:
                run(other, monkeypatch, capsys)
        _, *arguments = shlex.split(command)
        if arguments[0] == "train" and "--resume" not in arguments:
            arguments += ["--max-steps", "2", "--set", "batch_size=16"]  # as printed, it takes minutes
        monkeypatch.chdir(folder)
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        monkeypatch.setattr("sys.argv", ["nearer", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        assert not ended.value.code, captured.err
        printed[command] = captured.out + captured.err
        return printed[command]

    return run


def test_there_is_an_answer_to_each_of_the_most_asked_questions() -> None:
    assert len(re.findall(r"^## … ", PAGE, re.MULTILINE)) >= 10
    assert len(RUN_HERE) >= 14


# what takes long here is tested elsewhere in smaller pieces
@pytest.mark.parametrize(
    "command", [pytest.param(one, marks=[pytest.mark.slow] if " onnx " in one else []) for one in RUN_HERE]
)
def test_a_command(command: str, finished, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    if (package := NEEDED.get(command.split()[1])) is not None:
        pytest.importorskip(package)
    assert finished(command, monkeypatch, capsys)


def test_the_claims_about_what_is_shown(finished, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def run(start: str) -> str:
        [command] = [command for command in RUN_HERE if command.startswith(start)]
        return finished(command, monkeypatch, capsys)

    assert "ndcg@10" in run("nearer evaluate all-MiniLM-L6-v2 --tasks retrieval:questions").lower()
    assert "100" in run("nearer data read documents.jsonl --as pairs")  # per cent of the texts contain their title


@pytest.mark.slow
def test_sentence_transformers(finished, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    pytest.importorskip("sentence_transformers")
    [train] = [command for command in RUN_HERE if command.endswith("--out runs/mine")]
    finished(train, monkeypatch, capsys)
    [program] = [block for block in blocks("python") if "sentence_transformers" in block]
    assert "tensor" in _run(program, folder)


@pytest.mark.slow
def test_the_openai_client(folder: Path) -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("openai")
    [program] = [block for block in blocks("python") if "openai" in block]
    [serve] = [command for command in COMMANDS if command not in RUN_HERE]
    _, *arguments = shlex.split(serve)
    command = [sys.executable, "-m", "nearer.cli.main", *arguments, "--port", "0"]
    service = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    hang = threading.Timer(HANG, service.kill)
    hang.start()
    try:
        assert service.stderr is not None
        told = next(line for line in service.stderr if "serving" in line)
        address = re.search(r"http://\S+", told)
        assert address is not None
        assert _run(program.replace("http://127.0.0.1:8000", address[0]), folder) == "2 256\n"
    finally:
        hang.cancel()
        service.terminate()
        service.wait(HANG)


def _run(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=HANG, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
