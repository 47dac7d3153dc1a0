"""Encoders of GGUF files: unpacked once into the cache, and then as any other model."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from nearer import Encoder
from nearer.encoder.gguf import load_causal_model, unpacked_copy
from nearer.errors import ModelError
from nearer.storage.cache import cache_folder

REAL = "smollm2-135m-instruct"


@pytest.fixture
def real() -> Path:
    pytest.importorskip("gguf")
    for root in [*os.environ.get("NEARER_MODELS", "").split(os.pathsep), "~/.cache/nearer-models"]:
        file = Path(root).expanduser() / f"{REAL}.gguf"
        if root and file.is_file():
            return file
    pytest.skip(f"the model {REAL}.gguf is not here: put it into a folder named by NEARER_MODELS")


@pytest.fixture
def tiny(tmp_path: Path) -> tuple[Path, dict[str, NDArray[np.float32]]]:
    """A Qwen2 of one block with random weights, and these by their names in the file."""
    gguf = pytest.importorskip("gguf")
    path, width, random = tmp_path / "tiny.gguf", 16, np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_context_length(64)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(2 * width)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-6)
    tokens = ["<|endoftext|>", *"abcdefgh", "ab", "cd"]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3] + [1] * (len(tokens) - 1))
    writer.add_token_merges(["a b", "c d"])
    for named in (writer.add_bos_token_id, writer.add_eos_token_id, writer.add_pad_token_id):
        named(0)
    shapes = {
        "token_embd.weight": (len(tokens), width),
        "output_norm.weight": (width,),
        "blk.0.attn_norm.weight": (width,),
        "blk.0.ffn_norm.weight": (width,),
        **{f"blk.0.attn_{name}.weight": (size, width) for name, size in {"q": width, "k": 8, "v": 8}.items()},
        **{f"blk.0.attn_{name}.bias": (size,) for name, size in {"q": width, "k": 8, "v": 8}.items()},
        "blk.0.attn_output.weight": (width, width),
        "blk.0.ffn_gate.weight": (2 * width, width),
        "blk.0.ffn_up.weight": (2 * width, width),
        "blk.0.ffn_down.weight": (width, 2 * width),
    }
    weights = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    for name, values in weights.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path, weights


def test_a_file_is_read_once(
    tiny: tuple[Path, dict[str, NDArray[np.float32]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import gguf

    path, weights = tiny
    reader = Mock(side_effect=gguf.GGUFReader)
    monkeypatch.setattr(gguf, "GGUFReader", reader)
    model, tokenizer = load_causal_model(path, torch.float32)
    assert reader.call_count == 1
    found = model.state_dict()
    np.testing.assert_array_equal(found["model.embed_tokens.weight"], weights["token_embd.weight"])
    np.testing.assert_array_equal(found["model.layers.0.self_attn.k_proj.bias"], weights["blk.0.attn_k.bias"])
    np.testing.assert_array_equal(found["model.layers.0.mlp.down_proj.weight"], weights["blk.0.ffn_down.weight"])
    assert tokenizer.convert_ids_to_tokens(tokenizer("abdcd")["input_ids"]) == ["ab", "d", "cd"]
    load_causal_model(path, torch.float32)
    assert reader.call_count == 2  # a file may have changed


def test_one_becomes_an_encoder(tiny: tuple[Path, dict[str, NDArray[np.float32]]]) -> None:
    encoder = Encoder.load(tiny[0], pooling="mean", device="cpu")
    vectors = encoder.encode(["ab cd", "abcd", "hg"])
    assert vectors.shape == (3, 16)
    assert np.isfinite(vectors).all()


@pytest.mark.slow
def test_a_real_one_encodes_in_a_template(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder.load(real, template="prompteol", device="cpu")
    vectors = encoder.encode(["A man is eating.", "Somebody has a meal.", "The river is wide."], normalize=True)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    before = {path: path.stat().st_mtime_ns for path in unpacked_copy(real).iterdir()}
    monkeypatch.setenv("NEARER_MODELS", str(real.parent))
    again = Encoder.load(REAL, template="prompteol", device="cpu")  # by its name, and not unpacked again
    np.testing.assert_allclose(again.encode(["A man is eating."], normalize=True), vectors[:1], atol=1e-5)
    assert {path: path.stat().st_mtime_ns for path in unpacked_copy(real).iterdir()} == before


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"text", "is not a GGUF file; other models are folders"), (b"GGUF", "cannot be|can be loaded")],
)
def test_what_is_none_is_refused_and_leaves_nothing(content: bytes, told: str, tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=told):
        Encoder.load(path, template="prompteol")
    assert not [each for each in cache_folder("unpacked").glob("*") if each.is_dir()]


def test_one_that_is_not_there_is_not_looked_for_on_the_hub() -> None:
    with pytest.raises(ModelError, match=r"models/none\.gguf: no such file\."):
        Encoder.load("models/none.gguf")


def test_other_files_are_no_models(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match="is a file, a model is a folder"):
        Encoder.load(tmp_path / "model.bin")
