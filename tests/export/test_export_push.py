"""Uploads: what would go, to a hub on this machine through the real client, and what is told when it cannot."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_hub import FakeHub

from nearer.errors import ModelError, SettingError
from nearer.export import HubError, prepare_upload, push

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Has the files of an export as far as an upload looks at them, and some that must stay."""
    root = tmp_path / "mine"
    (root / "1_Pooling").mkdir(parents=True)
    (root / ".git").mkdir()
    content = {"modules.json": "[]", "README.md": "---\nlicense: mit\n---\n# mine\n", "1_Pooling/config.json": "{}"}
    for name, text in {**content, ".env": "SECRET=1", ".git/config": "", "1_Pooling/.swp": ""}.items():
        (root / name).write_text(text)
    return root


def pushed(hub: FakeHub, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own: the client reads where the hub is, and whether to ask it, when it starts."""
    environment = {**os.environ, "HF_ENDPOINT": hub.address, "HF_HUB_OFFLINE": "0", "HF_TOKEN": "hf_mine"}
    command = [sys.executable, "-m", "nearer.cli.main", "export", "push", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_what_was_shown_is_what_arrives(folder: Path) -> None:
    with FakeHub() as hub:
        done = pushed(hub, folder, "me/mine", "--private", "--yes")
    assert done.returncode == 0, done.stderr
    assert hub.files == {
        name: (folder / name).read_bytes() for name in ("1_Pooling/config.json", "README.md", "modules.json")
    }
    assert hub.files.keys() == prepare_upload(folder, "me/mine").files.keys()
    assert all(name in done.stderr for name in hub.files)
    assert hub.created == [{"name": "mine", "organization": "me", "visibility": "private", "type": "model"}]
    for asked in ("/api/repos/create", "/api/models/me/mine/preupload/main", "/api/models/me/mine/commit/main"):
        assert hub.tokens[asked] == "Bearer hf_mine"
    assert done.stdout.strip().endswith("/me/mine/commit/" + "0" * 40)


@pytest.mark.parametrize(
    ("status", "told"), [(401, "may not write there; set HF_TOKEN"), (403, "may not write"), (400, "answers 400")]
)
def test_a_hub_that_refuses_is_told(status: int, told: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with FakeHub(refuses=status) as hub, pytest.raises(HubError, match=told) as caught:
        push(prepare_upload(folder, "me/mine"), endpoint=hub.address)
    assert "\n" not in str(caught.value)
    assert not hub.files


def test_a_hub_that_cannot_be_reached(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with FakeHub() as hub:
        gone = hub.address
    with pytest.raises(HubError, match="cannot be uploaded"):
        push(prepare_upload(folder, "me/mine"), endpoint=gone)


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_nothing_goes_before_it_was_agreed_to(
    answer: str, folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither after a no nor where there is nobody to answer. The client is offline: to ask the hub is an error."""
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    code, out, told = command("push", folder, "me/mine")
    assert (code, out) == (1, "")
    assert "nothing was uploaded" in told
    assert "README.md" in told
    assert ".env" not in told


def test_without_a_token(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
    with pytest.raises(HubError, match="no token for the hub; set HF_TOKEN"):
        push(prepare_upload(folder, "me/mine"))


def test_while_offline(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    with pytest.raises(HubError, match="HF_HUB_OFFLINE is set"):
        push(prepare_upload(folder, "me/mine"))


@pytest.mark.parametrize("repository", ["mine", "a/b/c", "me/", "me/my model", "https://hub/me/mine"])
def test_a_place_that_is_none(folder: Path, repository: str) -> None:
    with pytest.raises(SettingError, match="owner/name"):
        prepare_upload(folder, repository)


def test_what_is_no_export(tmp_path: Path, run: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder, message in (
        (tmp_path / "none", "no such folder"),
        (tmp_path / "empty", "not an exported model"),
        (run, "is a run"),
    ):
        with pytest.raises(ModelError, match=message):
            prepare_upload(folder, "me/mine")


def test_a_yes_asks_the_hub(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    code, _, told = command("push", folder, "me/mine")
    assert code == 1
    assert "HF_HUB_OFFLINE is set" in told


def test_a_folder_without_a_card_is_mentioned(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    (folder / "README.md").unlink()
    _, _, told = command("push", folder, "me/mine")
    assert "no model card" in told
