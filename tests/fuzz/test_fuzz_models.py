"""Folders of models, as anybody may have written them: loaded and used, or refused in words."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mutations import damaged_bytes, damaged_json, tries

from faulty_disk import unchecked
from nearer.encoder import Encoder
from nearer.encoder.onnx_encoder import OnnxEncoder
from nearer.errors import NearerError

TEXTS = ["a man is eating lunch.", "rain"]


@pytest.fixture(scope="module")
def layered(tiny_model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A head, prompts, a truncation and everything else that a folder can say, without checksums as hubs have it."""
    folder = tmp_path_factory.mktemp("fuzz-models") / "layered"
    encoder = Encoder.load(tiny_model("bert"), pooling="cls", device="cpu")
    encoder.add_head(torch.Generator().manual_seed(1))
    encoder.save(folder)
    unchecked(folder)
    path = folder / "config_sentence_transformers.json"
    facts = json.loads(path.read_text())
    facts |= {"prompts": {"query": "the ", "document": ""}, "default_prompt_name": "query", "truncate_dim": 8}
    path.write_text(json.dumps(facts))
    return folder


@pytest.fixture(scope="module")
def routed(layered: Path) -> Path:
    """The same model behind a Router."""
    folder = layered.parent / "routed"
    shutil.copytree(layered, folder / "query_0")
    for name in ("1_Pooling", "2_Dense"):
        if (layered / name).exists():
            shutil.copytree(layered / name, folder / f"query_{name}")
    types = {"query_0": "sentence_transformers.models.Transformer"}
    types |= {f"query_{name}": f"sentence_transformers.models.{name[2:]}" for name in ("1_Pooling", "2_Dense")}
    structure = {"query": [name for name in types if (folder / name).exists()]}
    router = {"types": types, "structure": structure, "parameters": {"default_route": "query", "allow_empty_key": True}}
    (folder / "router_config.json").write_text(json.dumps(router))
    (folder / "modules.json").write_text(
        json.dumps([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Router"}])
    )
    return folder


@pytest.fixture(scope="module")
def static(layered: Path) -> Path:
    from safetensors.torch import save_file

    folder = layered.parent / "static"
    folder.mkdir()
    shutil.copy(layered / "tokenizer.json", folder)
    size = len(Encoder.load(layered, device="cpu").tokenizer)
    save_file({"embedding.weight": torch.randn(size, 4)}, folder / "model.safetensors")
    (folder / "modules.json").write_text(
        json.dumps([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.StaticEmbedding"}])
    )
    return folder


def load_and_use(folder: Path) -> None:
    encoder = Encoder.load(folder, device="cpu")
    assert encoder.encode(TEXTS).shape == (2, encoder.dimension)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["layered", "routed", "static"])
def test_the_folders_are_right_before(kind: str, request: pytest.FixtureRequest) -> None:
    load_and_use(request.getfixturevalue(kind))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["layered", "routed", "static"])
@tries(25)
@given(draw=st.data())
def test_model_folders(kind: str, request: pytest.FixtureRequest, bounded: Any, draw: st.DataObject) -> None:
    folder: Path = request.getfixturevalue(kind)
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".json", ".safetensors"))
    path = draw.draw(st.sampled_from(files))
    before = path.read_bytes()
    try:
        path.write_bytes(draw.draw(damaged_json(path) if path.suffix == ".json" else damaged_bytes(before)))
        with bounded(), suppress(NearerError):
            load_and_use(folder)
    finally:
        path.write_bytes(before)


@tries(30)
@given(draw=st.data())
def test_settings_of_exports(layered: Path, tmp_path_factory: Any, bounded: Any, draw: st.DataObject) -> None:
    """Without a graph: what is right in all its settings ends there."""
    folder = layered.parent / "onnx"
    if not folder.exists():
        shutil.copytree(layered, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    facts = {
        "format": 1,
        "settings": {"pooling": "mean", "max_length": 16, "prompts": {"query": "x"}, "default_prompt": "query"},
        "inputs": ["input_ids", "attention_mask"],
        "padding_id": 0,
        "dimension": 8,
        "prompt_tokens": {"query": 1},
        "precision": "float32",
        "head": False,
    }
    (folder / "nearer_onnx.json").write_text(json.dumps(facts))
    (folder / "nearer_onnx.json").write_bytes(draw.draw(damaged_json(folder / "nearer_onnx.json")))
    with bounded(), pytest.raises(NearerError):
        OnnxEncoder(folder)
