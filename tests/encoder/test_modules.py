"""Folders of sentence-transformers with other modules than Transformer and Pooling: the same vectors, both ways."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from module_folders import Tiny, check_both_ways, dense, pooled, saved
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers import models as modules

from nearer.encoder import Encoder
from nearer.encoder.fingerprint import encoder_fingerprint
from nearer.errors import ModelError, ModelWarning, SettingError
from nearer.export import OnnxEncoder, export_onnx

TAILS = {
    "normalize, dense": lambda: [modules.Normalize(), dense(32, 8)],
    "normalize, dense, normalize": lambda: [modules.Normalize(), dense(32, 8), modules.Normalize()],
    "norm, normalize, dropout": lambda: [modules.LayerNorm(32), modules.Normalize(), modules.Dropout(0.5)],
    "dense, dropout, normalize, norm, dense": lambda: [
        *[dense(32, 12), modules.Dropout(0.5), modules.Normalize(), modules.LayerNorm(12), dense(12, 9)]
    ],
    "normalize twice": lambda: [modules.Normalize(), modules.Normalize()],
}


@pytest.mark.parametrize("tail", list(TAILS))
def test_layers_behind_the_pooling_may_come_in_any_order(
    tail: str, tiny_model: Tiny, tmp_path: Path, sentences: list[str]
) -> None:
    torch.manual_seed(3)
    theirs = saved(tmp_path / "theirs", *pooled(tiny_model), *TAILS[tail]())
    check_both_ways(tmp_path / "theirs", theirs.encode(sentences), sentences, tmp_path)


def test_a_normalize_at_the_end_is_a_setting_and_one_before_a_layer_is_not(tiny_model: Tiny, tmp_path: Path) -> None:
    saved(tmp_path / "end", *pooled(tiny_model), modules.Normalize())
    saved(tmp_path / "within", *pooled(tiny_model), modules.Normalize(), dense(32, 8))
    assert Encoder.load(tmp_path / "end", device="cpu").settings.normalize
    within = Encoder.load(tmp_path / "within", device="cpu")
    assert not within.settings.normalize
    assert within.dimension == 8


def test_a_layer_on_token_states_is_refused(tiny_model: Tiny, tmp_path: Path) -> None:
    saved(tmp_path / "theirs", *pooled(tiny_model), modules.Normalize())
    config = tmp_path / "theirs" / "2_Normalize" / "config.json"
    config.write_text(json.dumps({"module_input_name": "token_embeddings"}))
    with pytest.raises(ModelError, match="a layer on token_embeddings is not supported"):
        Encoder.load(tmp_path / "theirs", device="cpu")


class TestTruncation:
    @pytest.mark.parametrize("normalized", [False, True])
    def test_vectors_are_those_of_sentence_transformers(
        self, normalized: bool, tiny_model: Tiny, tmp_path: Path, sentences: list[str]
    ) -> None:
        steps = [*pooled(tiny_model), *([modules.Normalize()] if normalized else [])]
        theirs = saved(tmp_path / "theirs", *steps, truncate_dim=10)
        ours = check_both_ways(tmp_path / "theirs", theirs.encode(sentences), sentences, tmp_path)
        assert ours.dimension == 10
        units = theirs.encode(sentences, normalize_embeddings=True)
        np.testing.assert_allclose(ours.encode(sentences, normalize=True), units, atol=1e-5)

    def test_it_decides_the_fingerprint_and_its_absence_changes_none(self, tiny_model: Tiny, tmp_path: Path) -> None:
        saved(tmp_path / "whole", *pooled(tiny_model))
        saved(tmp_path / "cut", *pooled(tiny_model), truncate_dim=10)
        saved(tmp_path / "shorter", *pooled(tiny_model), truncate_dim=9)
        found = {
            encoder_fingerprint(Encoder.load(tmp_path / name, device="cpu")) for name in ("whole", "cut", "shorter")
        }
        assert len(found) == 3
        whole = Encoder.load(tmp_path / "whole", device="cpu")
        before = encoder_fingerprint(whole)
        assert whole.settings.prompts == {"query": "", "document": ""}
        whole.settings = replace(whole.settings, prompts={})
        assert encoder_fingerprint(whole) == before

    def test_more_than_there_is_changes_nothing(self, tiny_model: Tiny, tmp_path: Path) -> None:
        theirs = saved(tmp_path / "theirs", *pooled(tiny_model), truncate_dim=100)
        ours = Encoder.load(tmp_path / "theirs", device="cpu")
        assert ours.dimension == theirs.encode("rain").shape[0] == len(ours.encode("rain")) == 32

    @pytest.mark.parametrize("wrong", [0, -3, "10", 2.5])
    def test_what_is_no_number_of_dimensions_is_refused(self, wrong: object, tiny_model: Tiny, tmp_path: Path) -> None:
        saved(tmp_path / "theirs", *pooled(tiny_model), truncate_dim=10)
        path = tmp_path / "theirs" / "config_sentence_transformers.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "truncate_dim": wrong}))
        with pytest.raises(ModelError, match=r"config_sentence_transformers.json: truncate_dim: "):
            Encoder.load(tmp_path / "theirs", device="cpu")

    def test_an_onnx_graph_gives_the_same(self, tiny_model: Tiny, tmp_path: Path, sentences: list[str]) -> None:
        pytest.importorskip("onnxruntime")
        theirs = saved(tmp_path / "theirs", *pooled(tiny_model), modules.Normalize(), truncate_dim=10)
        export_onnx(Encoder.load(tmp_path / "theirs", device="cpu"), tmp_path / "onnx")
        exported = OnnxEncoder(tmp_path / "onnx")
        assert exported.dimension == 10
        np.testing.assert_allclose(exported.encode(sentences), theirs.encode(sentences), atol=1e-4)

    def test_a_truncated_model_can_be_whitened(self, tiny_model: Tiny, tmp_path: Path, sentences: list[str]) -> None:
        from nearer.baselines import whiten

        saved(tmp_path / "theirs", *pooled(tiny_model), truncate_dim=3)
        truncated = Encoder.load(tmp_path / "theirs", device="cpu")
        whitened = whiten(truncated, sentences)
        vectors = whitened.encode(list(dict.fromkeys(sentences)))
        np.testing.assert_allclose(np.cov(vectors.T, bias=True), np.eye(3), atol=0.2)
        whitened.save(tmp_path / "whitened")
        theirs = SentenceTransformer(str(tmp_path / "whitened"), device="cpu")
        np.testing.assert_allclose(theirs.encode(sentences), whitened.encode(sentences), atol=1e-4)


class TestPrompts:
    def test_an_empty_prompt_is_a_prompt(self, tiny_model: Tiny, tmp_path: Path, sentences: list[str]) -> None:
        theirs = saved(tmp_path / "theirs", *pooled(tiny_model))  # writes {"query": "", "document": ""}
        ours = Encoder.load(tmp_path / "theirs", device="cpu")
        assert ours.settings.prompts == {"query": "", "document": ""}
        np.testing.assert_allclose(
            ours.encode(sentences, prompt_name="query"), theirs.encode(sentences, prompt_name="query"), atol=1e-5
        )
        ours.save(tmp_path / "again")
        back = SentenceTransformer(str(tmp_path / "again"), device="cpu")
        assert back.prompts == theirs.prompts
        assert Encoder.load(tmp_path / "again", device="cpu").settings == ours.settings

    def test_an_empty_default_prompt_is_kept(self, tiny_model: Tiny, tmp_path: Path) -> None:
        prompts = {"plain": "", "query": "find: "}
        saved(tmp_path / "theirs", *pooled(tiny_model), prompts=prompts, default_prompt_name="plain")
        ours = Encoder.load(tmp_path / "theirs", device="cpu")
        assert ours.settings.default_prompt == "plain"
        assert ours.settings.prompt(None) == ""

    def test_an_index_is_built_with_one(self, tiny_model: Tiny, tmp_path: Path, sentences: list[str]) -> None:
        from nearer.search import SearchIndex

        saved(tmp_path / "theirs", *pooled(tiny_model))
        text = tmp_path / "text.txt"
        text.write_text("".join(f"{sentence}\n" for sentence in dict.fromkeys(sentences) if sentence))
        index = SearchIndex.build(
            tmp_path / "theirs", text, tmp_path / "index", prompt="document", query_prompt="query", device="cpu"
        )
        assert index.search("rain", 1)[0].text == "rain"

    def test_one_that_a_model_does_not_have_is_still_refused(self, tiny_model: Tiny, tmp_path: Path) -> None:
        saved(tmp_path / "theirs", *pooled(tiny_model))
        with pytest.raises(SettingError, match=r"no prompt 'passage'; it has: (document, query|query, document)"):
            Encoder.load(tmp_path / "theirs", device="cpu").encode("rain", prompt_name="passage")


class TestLayerWeights:
    @pytest.mark.parametrize(("mode", "start"), [("mean", 0), ("cls", 2), ("lasttoken", 1)])
    def test_vectors_are_those_of_sentence_transformers(
        self, mode: str, start: int, tiny_model: Tiny, tmp_path: Path, sentences: list[str]
    ) -> None:
        transformer, pooling = pooled(tiny_model, mode, output_hidden_states=True)
        layers = modules.WeightedLayerPooling(32, num_hidden_layers=3, layer_start=start)
        layers.layer_weights.data = torch.tensor([0.3, 1.5, 0.2, 0.7])[start:].clone()
        theirs = saved(tmp_path / "theirs", transformer, layers, pooling)
        ours = check_both_ways(tmp_path / "theirs", theirs.encode(sentences), sentences, tmp_path)
        np.testing.assert_allclose(ours.encode(sentences, precision="bf16"), theirs.encode(sentences), atol=0.1)

    def test_a_pooling_of_the_users_replaces_it(self, tiny_model: Tiny, tmp_path: Path, sentences: list[str]) -> None:
        transformer, pooling = pooled(tiny_model, output_hidden_states=True)
        saved(tmp_path / "theirs", transformer, modules.WeightedLayerPooling(32, 3, 1), pooling)
        plain = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu").encode(sentences)
        replaced = Encoder.load(tmp_path / "theirs", pooling="mean", device="cpu")
        np.testing.assert_allclose(replaced.encode(sentences), plain, atol=1e-6)

    def test_without_hidden_states_it_has_no_effect_and_that_is_said(
        self, tiny_model: Tiny, tmp_path: Path, sentences: list[str]
    ) -> None:
        transformer, pooling = pooled(tiny_model)
        theirs = saved(tmp_path / "theirs", transformer, modules.WeightedLayerPooling(32, 3, 1), pooling)
        with pytest.warns(ModelWarning, match="WeightedLayerPooling has no effect"):
            ours = Encoder.load(tmp_path / "theirs", device="cpu")
        np.testing.assert_allclose(ours.encode(sentences), theirs.encode(sentences), atol=1e-5)

    def test_missing_weights_are_one_line(self, tiny_model: Tiny, tmp_path: Path) -> None:
        transformer, pooling = pooled(tiny_model, output_hidden_states=True)
        saved(tmp_path / "theirs", transformer, modules.WeightedLayerPooling(32, 3, 1), pooling)
        place = tmp_path / "theirs" / "1_WeightedLayerPooling"
        save_file({"other": torch.zeros(3)}, place / "model.safetensors")
        with pytest.raises(ModelError, match="has no layer_weights, 3 weights are needed"):
            Encoder.load(tmp_path / "theirs")
        (place / "config.json").write_text("{}")
        with pytest.raises(ModelError, match=r"config.json: layer_start: Field required"):
            Encoder.load(tmp_path / "theirs")

    @pytest.mark.slow
    def test_an_onnx_graph_gives_the_same(self, tiny_model: Tiny, tmp_path: Path, sentences: list[str]) -> None:
        pytest.importorskip("onnxruntime")
        transformer, pooling = pooled(tiny_model, output_hidden_states=True)
        theirs = saved(tmp_path / "theirs", transformer, modules.WeightedLayerPooling(32, 3, 1), pooling)
        export_onnx(Encoder.load(tmp_path / "theirs", device="cpu"), tmp_path / "onnx")
        exported = OnnxEncoder(tmp_path / "onnx").encode(sentences)
        np.testing.assert_allclose(exported, theirs.encode(sentences), atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_weights_are_computed_in_float32_and_that_is_said(
    dtype: str, tiny_model: Tiny, tmp_path: Path, sentences: list[str]
) -> None:
    theirs = SentenceTransformer(modules=pooled(tiny_model), device="cpu").to(getattr(torch, dtype))
    theirs.save(str(tmp_path / "theirs"))
    with pytest.warns(ModelWarning, match=f"its weights are {dtype}; they are computed with in float32"):
        ours = Encoder.load(tmp_path / "theirs", device="cpu")
    in_float32 = SentenceTransformer(str(tmp_path / "theirs"), device="cpu", model_kwargs={"dtype": torch.float32})
    np.testing.assert_allclose(ours.encode(sentences), in_float32.encode(sentences), atol=1e-5)
    ours.save(tmp_path / "again")
    assert load_file(tmp_path / "again" / "model.safetensors")["embeddings.LayerNorm.weight"].dtype == torch.float32


def test_float32_weights_are_loaded_without_a_word(tiny_model: Tiny, recwarn: pytest.WarningsRecorder) -> None:
    Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")
    assert not [warning for warning in recwarn if issubclass(warning.category, ModelWarning)]


@pytest.mark.parametrize(
    ("compared_by", "unit", "told"), [("dot", False, True), ("dot", True, False), ("cosine", False, False)]
)
def test_vectors_for_another_comparison_are_told(
    compared_by: str, unit: bool, told: bool, tiny_model: Tiny, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """A dot product is a cosine where all vectors have length 1."""
    parts = [*pooled(tiny_model), *[modules.Normalize()] * unit]
    SentenceTransformer(modules=parts, similarity_fn_name=compared_by, device="cpu").save(str(tmp_path / "theirs"))
    Encoder.load(tmp_path / "theirs", device="cpu")
    assert any("are compared by dot; here" in str(warning.message) for warning in recwarn) == told
