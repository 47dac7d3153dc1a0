"""Model folders whose small files are of other types, speak of other folders or of sizes that no machine has."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nearer.encoder import Encoder
from nearer.errors import ModelError

DENSE = "sentence_transformers.models.Dense"


@pytest.fixture(scope="module")
def saved(tiny_model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    encoder = Encoder.load(tiny_model("bert"), pooling="cls", device="cpu")
    encoder.add_head(torch.Generator().manual_seed(1))
    folder = tmp_path_factory.mktemp("saved") / "model"
    encoder.save(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """As others write it: without checksums that would find every change first."""
    shutil.copytree(saved, tmp_path / "model")
    for sums in (tmp_path / "model").rglob("*checksum*"):
        sums.unlink()
    return tmp_path / "model"


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def told(folder: Path) -> str:
    with pytest.raises(ModelError) as caught:
        Encoder.load(folder, device="cpu")
    [line] = str(caught.value).splitlines()
    return line


class TestTypes:
    @pytest.mark.parametrize(
        "content", ["{}", '{"type": "x"}', "[5]", '[{"type": 5, "path": ""}]', "null", "[" * 99999]
    )
    def test_modules(self, content: str, folder: Path) -> None:
        (folder / "modules.json").write_text(content)
        assert told(folder).startswith(f"{folder / 'modules.json'}: ")

    @pytest.mark.parametrize(
        "content", ["[]", '{"format": [1]}', '{"format": 1, "provenance": 5}', '{"format": 1, "pooling": []}']
    )
    def test_notes(self, content: str, folder: Path) -> None:
        (folder / "nearer.json").write_text(content)
        assert told(folder).startswith(f"{folder / 'nearer.json'}: ")

    @pytest.mark.parametrize(
        "values",
        [
            {"prompts": {"query": 5}},
            {"prompts": ["x"]},
            {"prompts": {"query": ["x"]}},
            {"default_prompt_name": 5},
            {"truncate_dim": "x"},
        ],
    )
    def test_prompts(self, values: dict[str, Any], folder: Path) -> None:
        path = folder / "config_sentence_transformers.json"
        change(path, **values)
        [field] = values
        assert told(folder).startswith(f"{path}: {field}")

    @pytest.mark.parametrize("values", [{"max_seq_length": "x"}, {"max_seq_length": -5}, {"do_lower_case": "perhaps"}])
    def test_lengths(self, values: dict[str, Any], folder: Path) -> None:
        path = folder / "sentence_bert_config.json"
        change(path, **values)
        [field] = values
        assert told(folder).startswith(f"{path}: {field}: ")

    @pytest.mark.parametrize("value", [True, [None], {"x": 1}, "x"])
    def test_architectures(self, value: object, folder: Path) -> None:
        """Only named in a remark: whatever they are, the model is used."""
        change(folder / "config.json", architectures=value)
        try:
            Encoder.load(folder, device="cpu")
        except ModelError as error:
            assert "config.json cannot be used" in str(error)  # noqa: PT017 transformers may refuse it

    def test_a_tokenizer_without_a_length(self, folder: Path) -> None:
        change(folder / "tokenizer_config.json", model_max_length="x")
        assert "its tokenizer cannot be loaded" in told(folder)


class TestTokenIds:
    """The tokenizers library makes a list as long as the largest id: 2**31 of them would end the process."""

    @pytest.mark.parametrize("where", ["vocabulary", "added"])
    def test_far_too_large_ones(self, where: str, folder: Path) -> None:
        path = folder / "tokenizer.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        if where == "vocabulary":
            content["model"]["vocab"]["rain"] = 2**31
        else:
            content["added_tokens"][0]["id"] = 2**31
        path.write_text(json.dumps(content), encoding="utf-8")
        assert told(folder) == f"{path}: has a token with the id 2147483648; ids up to 9,999,999 can be used."

    def test_long_numbers_that_are_no_ids(self, folder: Path) -> None:
        """transformers writes 10**30 for a length without an end, and vocabularies hold numbers as text."""
        path = folder / "tokenizer.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        content["model"]["vocab"]["123456789012"] = content["model"]["vocab"].pop("rain")
        path.write_text(json.dumps(content), encoding="utf-8")
        change(folder / "tokenizer_config.json", model_max_length=1000000000000000019884624838656)
        assert Encoder.load(folder, device="cpu").encode(["a"]).shape[0] == 1


class TestPlaces:
    @pytest.mark.parametrize("path", ["../model", "/etc", "1_Pooling/../../model", "\x00"])
    def test_modules_outside_the_folder(self, path: str, folder: Path) -> None:
        modules = json.loads((folder / "modules.json").read_text())
        modules[1]["path"] = path
        (folder / "modules.json").write_text(json.dumps(modules))
        assert told(folder).startswith(f"{folder / 'modules.json'}: 1.path: is not a folder within the model's")

    def test_routes_outside_the_folder(self, folder: Path) -> None:
        router = {"types": {"../model": "x.Transformer"}, "structure": {"query": ["../model"]}, "parameters": {}}
        (folder / "router_config.json").write_text(json.dumps(router))
        (folder / "modules.json").write_text(json.dumps([{"type": "x.Router", "path": ""}]))
        assert "structure.query.0: is not a folder within the model's" in told(folder)


class TestSizes:
    def test_a_huge_dense(self, folder: Path) -> None:
        [dense] = folder.glob("*_Dense")
        change(dense / "config.json", out_features=10**9)
        assert told(folder) == (
            f"{dense}: its weights do not fit (linear.weight has the shape (32, 32), config.json says "
            "(1000000000, 32))."
        )

    @pytest.mark.parametrize("value", [10**8, 1e8])
    def test_many_layers(self, value: float, folder: Path) -> None:
        change(folder / "config.json", num_hidden_layers=value)
        line = told(folder)
        assert line.startswith(f"{folder / 'config.json'}: says num_hidden_layers: 100,000,000")
        assert "enough for 1,000 at most" in line

    @pytest.mark.parametrize("name", ["intermediate_size", "vocab_size", "max_position_embeddings"])
    def test_large_layers(self, name: str, folder: Path) -> None:
        change(folder / "config.json", **{name: 2**26})
        assert f"{folder / 'config.json'}: describes a model of " in told(folder)

    def test_layers_that_are_not_there(self, folder: Path) -> None:
        [pooling] = folder.glob("*_Pooling")
        modules = json.loads((folder / "modules.json").read_text())
        modules.insert(1, {"idx": 9, "name": "9", "path": "layers", "type": "x.WeightedLayerPooling"})
        (folder / "modules.json").write_text(json.dumps(modules))
        shutil.copytree(pooling, folder / "layers")
        (folder / "layers" / "config.json").write_text(json.dumps({"layer_start": 10**9, "num_hidden_layers": 10**9}))
        assert told(folder).startswith(f"{folder / 'layers' / 'config.json'}: layer_start: ")

    def test_layers_that_do_not_fit_each_other(self, folder: Path) -> None:
        [pooling] = folder.glob("*_Pooling")
        change(pooling / "config.json", pooling_mode_max_tokens=True)
        (folder / "nearer.json").unlink()
        assert "its layer Dense takes vectors of 32 numbers, 64 come from what is before it" in told(folder)

    def test_weights_that_are_none(self, folder: Path) -> None:
        (folder / "more.safetensors").write_bytes(b"\xff" * 64)
        assert told(folder).startswith(f"{folder / 'more.safetensors'}: cannot be read (")
