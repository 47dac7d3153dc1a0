"""Models by their hub names, from a hub on this machine: what is fetched, and pickles only when they are asked for."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

Tiny = Callable[[str], Path]
COMMIT = "c" * 40


class Hub:
    """The questions that a download asks a hub, answered from a folder: `me/tiny` is `root/me/tiny`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sent: list[str] = []

    def files(self, repository: str) -> list[str]:
        folder = self.root / repository
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())

    def __enter__(self) -> Hub:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                if path.startswith("/api/models/"):
                    self._info(path.removeprefix("/api/models/").partition("/revision/")[0].removesuffix("/refs"))
                elif "/resolve/" in path:
                    self._file(*path[1:].split("/resolve/"))
                else:
                    self.send_error(404)

            do_HEAD = do_GET  # noqa: N815

            def _info(self, path: str) -> None:
                repository, _, listing = path.partition("/tree/")
                if not (hub.root / repository).is_dir():
                    self.send_response(404)
                    self.send_header("X-Error-Code", "RepoNotFound")
                    self.end_headers()
                    return
                files = hub.files(repository)
                answer: object = {"id": repository, "sha": COMMIT, "siblings": [{"rfilename": name} for name in files]}
                if listing:
                    sizes = {name: (hub.root / repository / name).stat().st_size for name in files}
                    answer = [{"type": "file", "path": name, "size": sizes[name], "oid": "0" * 40} for name in files]
                self._answer(json.dumps(answer).encode(), "application/json")

            def _file(self, repository: str, rest: str) -> None:
                path = hub.root / repository / rest.partition("/")[2]
                if not path.is_file():
                    self.send_error(404)
                    return
                if self.command == "GET":
                    hub.sent.append(path.name)
                self._answer(path.read_bytes(), "application/octet-stream")

            def _answer(self, content: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
                self.send_header("X-Repo-Commit", COMMIT)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(content)

            def log_message(self, format: str, *values: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def hub(tiny_model: Tiny, tmp_path: Path) -> Iterator[Hub]:
    """With one model as safetensors and pickles, and one as pickles alone."""
    both, pickled = (tmp_path / "hub" / "me" / name for name in ("both", "pickled"))
    for folder in (both, pickled):
        shutil.copytree(tiny_model("bert"), folder)
        torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
        (folder / "training_args.bin").write_bytes(b"anything")
    (pickled / "model.safetensors").unlink()
    with Hub(tmp_path / "hub") as running:
        yield running


ASKED = """
import json, sys
from pathlib import Path
from nearer.encoder import Encoder
from nearer.encoder.pickles import convert
from nearer.encoder.sources import pickled_source
from nearer.errors import ModelError

def refusal(name, **options):
    try:
        Encoder.load(name, pooling="mean", device="cpu", **options)
    except ModelError as error:
        return str(error)

def similarity(name):
    return Encoder.load(name, pooling="mean", device="cpu", allow_pickle=True).similarity("a man", "rain")

found = {"refused": refusal("me/pickled"), "unknown": refusal("me/nothing", allow_pickle=True)}
found |= {"pickled": similarity("me/pickled"), "both": similarity("me/both")}
found["converted"] = convert(pickled_source("me/pickled"), Path("mine")).files
print(json.dumps(found))
"""


def test_pickles_are_fetched_where_there_is_nothing_else_and_they_are_asked_for(hub: Hub, tmp_path: Path) -> None:
    # in a process of its own: the hub's address is read when the client is imported
    environment = {
        **os.environ,
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "NO_PROXY": "127.0.0.1",
    }
    run = subprocess.run([sys.executable, "-c", ASKED], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["refused"].startswith(
        "me/pickled: pytorch_model.bin is all the hub has, its weights are pickled: `nearer convert`"
    )
    assert "neither a folder here nor to be had" in found["unknown"]
    assert found["pickled"] == found["both"]
    assert found["converted"] == ["model.safetensors"]
    assert (tmp_path / "mine" / "model.safetensors").is_file()
    # once, of the model that has nothing else
    assert [name for name in hub.sent if name.endswith(".bin")] == ["pytorch_model.bin"]
    assert hub.sent.count("model.safetensors") == 1
