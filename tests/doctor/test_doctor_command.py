"""The command as a process: what it imports, what it says, how it ends."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from nearer.cli.main import main
from patience import HANG

COMMAND = [sys.executable, "-m", "nearer.cli.main", "doctor"]


def run(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NEARER_MODELS": "", **variables}
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment)


def by_name(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}


def test_nothing_heavy_is_imported() -> None:
    heavy = "{'torch', 'transformers', 'numpy', 'filelock', 'packaging', 'huggingface_hub'}"
    code = f"import sys, nearer.doctor, nearer.cli.doctor; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG)
    assert done.stdout == "[]\n", done.stderr


def test_the_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["nearer", "doctor"])
    monkeypatch.setenv("NEARER_MODELS", "")
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    assert (ended.value.code, shown.err) == (0, "")
    assert "│ ✓ │ bundled model" in shown.out
    assert shown.out.splitlines()[-1].startswith("ready to use")


def test_a_torch_that_cannot_be_imported(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so.12: cannot open')", encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = run("--json", "--data", tmp_path, PYTHONPATH=path)
    assert (done.returncode, done.stderr) == (1, "")
    found = by_name(done)
    assert found["torch"]["found"] == "OSError: libcudart.so.12: cannot open"
    assert found["torch"]["mend"].startswith("install torch again")
    assert found["Python"]["state"] == "good"
    assert found["cache"]["state"] == "good"
    assert found["bundled model"]["found"] == found["data"]["found"] == "not looked at, since torch does not work"


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"id": "a/b", "modelId": "a/b", "siblings": [], "tags": []}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    serving = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=serving.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    serving.server_close()


def hub(endpoint: str) -> tuple[str, str]:
    code = (
        "from nearer.doctor.models_and_data import check_hub; [found] = check_hub(); "
        "print(found.state, found.found, sep='\\n')"
    )
    environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": "0", "NO_PROXY": "127.0.0.1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG, env=environment)
    state, found = done.stdout.splitlines()
    return state, found


def test_a_hub_that_answers(server: str) -> None:
    state, found = hub(server)
    assert state == "good"
    assert found.startswith(f"{server} answers in ")


def test_a_hub_out_of_reach() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # nobody listens there
        state, found = hub(f"http://127.0.0.1:{closed.getsockname()[1]}")
    assert state == "doubtful"
    assert "127.0.0.1" in found
