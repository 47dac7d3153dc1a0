"""`nearer export` as users run it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_exports import short_encoder

from nearer.export import OnnxEncoder
from nearer.extras import install_command
from nearer.teachers import RankEncoder

pytest.importorskip("onnxscript")

Command = Callable[..., tuple[int, str, str]]


def test_onnx_with_int8_says_what_it_compared_and_what_it_costs(
    command: Command, tiny_model: Callable[[str], Path], sentences: list[str], tmp_path: Path
) -> None:
    """Of a RankEncoder, whose rank vectors stay behind."""
    encoder = short_encoder(tiny_model, "mpnet", "first_last_mean")
    RankEncoder.build(encoder, [*sentences, "lunch", "a dog"]).save(tmp_path / "model")
    code, out, told = command("onnx", tmp_path / "model", "--out", tmp_path / "out", "--int8")
    assert code == 0, told
    first, second = out.splitlines()
    assert "largest difference" in first
    assert "over 64 sentences" in first
    assert "everyday (spearman)" in second
    assert "MB →" in second
    assert "rank vectors are not in it" in told
    assert "--data DIR" in told
    assert OnnxEncoder(tmp_path / "out").precision == "int8"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "out"]


def test_folder(command: Command, run: Path, tmp_path: Path) -> None:
    code, out, told = command("folder", run, "--out", tmp_path / "out", "--name", "me/mine", "--language", "en, de")
    assert code == 0, told
    assert str(tmp_path / "out" / "README.md") in out
    assert "no licence is stated" in told
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert 'SentenceTransformer("me/mine")' in card
    assert "- de\n" in card


@pytest.mark.parametrize("kind", ["onnx", "folder"])
def test_what_is_there_is_left_alone(kind: str, command: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("")
    code, out, told = command(kind, "wiki-mini", "--out", tmp_path)
    assert (code, out) == (1, "")
    assert told == f"error: {tmp_path}: is there already; name another folder (--out).\n"


@pytest.mark.parametrize("kind", ["onnx", "folder"])
def test_no_model(kind: str, command: Command, tmp_path: Path) -> None:
    code, _, told = command(kind, tmp_path / "none", "--out", tmp_path / "out")
    assert code == 1
    assert told.count("\n") == 1
    assert "no such folder" in told


def test_data_without_int8(command: Command, tmp_path: Path) -> None:
    code, _, told = command("onnx", "wiki-mini", "--out", tmp_path / "out", "--data", tmp_path)
    assert code == 1
    assert "--data: is for measuring what --int8 costs" in told


def test_data_without_sts_b_costs_no_export(
    command: Command, tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    arguments = ("onnx", tiny_model("bert"), "--pooling", "mean", "--out", tmp_path / "out", "--int8")
    code, _, told = command(*arguments, "--data", tmp_path)
    assert code == 1
    assert "error: " in told
    assert not (tmp_path / "out").exists()


def test_without_the_extra(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    code, _, told = command("onnx", "wiki-mini", "--out", tmp_path / "out")
    assert code == 1
    assert install_command("onnx") in told


def test_a_licence_that_is_none_costs_no_loading(command: Command, tmp_path: Path) -> None:
    code, _, told = command("folder", tmp_path / "none", "--out", tmp_path / "out", "--license", "My Own")
    assert code == 1
    assert "--license" in told
