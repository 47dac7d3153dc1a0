"""`nearer convert`, `--allow-pickle`, `--route`, and what a command remarks on a model."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

Tiny = Callable[[str], Path]
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def pickled(tiny_model: Tiny, tmp_path: Path) -> Path:
    folder = tmp_path / "pickled"
    shutil.copytree(tiny_model("bert"), folder)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


def test_a_converted_model_is_used_like_any_other(
    pickled: Path, tmp_path: Path, tiny_model: Tiny, nearer: Command
) -> None:
    (pickled / "optimizer.bin").write_bytes(b"anything")
    code, out, err = nearer("convert", pickled, "--out", tmp_path / "safe")
    assert code == 0
    assert "weights in model.safetensors" in out
    assert "left out, as no part of the model: optimizer.bin" in err
    asked = ("a man", "rain", "--pooling", "mean", "--device", "cpu")
    expected = nearer("similarity", tiny_model("bert"), *asked)
    assert nearer("similarity", tmp_path / "safe", *asked) == expected
    assert nearer("similarity", pickled, *asked, "--allow-pickle") == expected


def test_mistakes_are_one_line(pickled: Path, tmp_path: Path, tiny_model: Tiny, nearer: Command) -> None:
    code, _, err = nearer("similarity", pickled, "a", "b", "--pooling", "mean")
    assert code == 1
    assert err.count("\n") == 1
    assert "--allow-pickle" in err
    assert "nearer convert" in err
    code, _, err = nearer("convert", tiny_model("bert"), "--out", tmp_path / "safe")
    assert (code, err.count("\n")) == (1, 1)
    assert "nothing to convert" in err
    code, _, err = nearer("convert", pickled, "--out", pickled)
    assert (code, err.count("\n")) == (1, 1)
    assert "is there already" in err


def test_a_remark_on_a_model_is_one_line(tiny_model: Tiny, tmp_path: Path, nearer: Command) -> None:
    folder = tmp_path / "half"
    shutil.copytree(tiny_model("bert"), folder)
    weights = {name: tensor.half() for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    code, _, err = nearer("similarity", folder, "a man", "rain", "--pooling", "mean", "--device", "cpu")
    assert code == 0
    assert err.strip() == (
        f"note: {folder}: its weights are float16; they are computed with in float32, and saved so "
        "(precision bf16 computes in bfloat16)."
    )


def test_a_route_is_exported_as_a_model_of_its_own(tiny_model: Tiny, tmp_path: Path, nearer: Command) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers import models as modules

    def side() -> list[torch.nn.Module]:
        return [modules.Transformer(str(tiny_model("bert"))), modules.Pooling(32)]

    router = modules.Router.for_query_document([*side(), modules.Dense(32, 32)], side())
    theirs = SentenceTransformer(modules=[router], device="cpu")
    theirs.save(str(tmp_path / "theirs"))
    code, _, err = nearer("export", "folder", tmp_path / "theirs", "--route", "query", "--out", tmp_path / "query")
    assert code == 0, err
    back = SentenceTransformer(str(tmp_path / "query"), device="cpu")
    assert abs(back.encode("rain") - theirs.encode_query("rain")).max() < 1e-5
    code, _, err = nearer("export", "folder", tmp_path / "theirs", "--route", "image", "--out", tmp_path / "image")
    assert (code, err.count("\n")) == (1, 1)
    assert "route: 'image' is none of" in err
