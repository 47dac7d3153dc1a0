"""Static embeddings and routers, as sentence-transformers has them in folders: the same vectors, both ways."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sentence_transformers
import torch
from module_folders import Tiny, check_both_ways, dense, pooled, saved
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers import models as modules
from tokenizers import Tokenizer

from nearer.encoder import Encoder
from nearer.errors import ModelError, ModelWarning, SettingError
from nearer.export import OnnxEncoder, export_onnx


def static(tiny_model: Tiny, size: int = 16) -> modules.StaticEmbedding:
    torch.manual_seed(2)
    tokenizer = Tokenizer.from_file(str(tiny_model("bert") / "tokenizer.json"))
    return modules.StaticEmbedding(tokenizer, embedding_dim=size)


class TestStatic:
    @pytest.mark.parametrize("tail", ["", "normalize", "dense", "truncate"])
    def test_vectors_are_those_of_sentence_transformers(
        self, tail: str, tiny_model: Tiny, tmp_path: Path, sentences: list[str]
    ) -> None:
        steps = {"normalize": [modules.Normalize()], "dense": [dense(16, 8), modules.Normalize()]}.get(tail, [])
        options = {"truncate_dim": 5} if tail == "truncate" else {}
        theirs = saved(tmp_path / "theirs", static(tiny_model), *steps, **options)
        ours = check_both_ways(tmp_path / "theirs", theirs.encode(sentences), sentences, tmp_path)
        assert ours.is_static
        long = ["a man is eating lunch " * 400]
        np.testing.assert_allclose(ours.encode(long), theirs.encode(long), atol=1e-5)
        if not steps:
            assert not ours.encode("").any()

    def test_a_truncation_of_the_tokenizer_holds(self, tiny_model: Tiny, tmp_path: Path) -> None:
        embedding = static(tiny_model)
        embedding.tokenizer.enable_truncation(7)
        theirs = saved(tmp_path / "theirs", embedding)
        text = ["a man is eating lunch, again and again, until the evening comes"]
        ours = check_both_ways(tmp_path / "theirs", theirs.encode(text), text, tmp_path)
        assert ours.settings.max_length == 7
        assert not np.allclose(ours.encode(text), Encoder.load(tmp_path / "theirs", max_length=5).encode(text))

    @pytest.mark.skipif(
        tuple(map(int, sentence_transformers.__version__.split(".")[:2])) < (6, 2),
        reason="older sentence-transformers cannot read them, there is nothing to compare with",
    )
    def test_model2vec_files_are_read(self, tiny_model: Tiny, tmp_path: Path, sentences: list[str]) -> None:
        theirs = saved(tmp_path / "theirs", static(tiny_model), modules.Normalize())
        table = load_file(tmp_path / "theirs" / "model.safetensors")["embedding.weight"]
        weights = torch.rand(len(table)) + 0.5
        quantised = {"embeddings": table[:40].half(), "mapping": torch.arange(len(table)) % 40, "weights": weights}
        save_file(quantised, tmp_path / "theirs" / "model.safetensors")
        theirs = SentenceTransformer(str(tmp_path / "theirs"), device="cpu")
        with pytest.warns(ModelWarning, match="weights are float16"):
            ours = Encoder.load(tmp_path / "theirs", device="cpu")
        np.testing.assert_allclose(ours.encode(sentences), theirs.encode(sentences), atol=1e-5)

    def test_it_ranks_evaluates_teaches_and_is_exported(
        self, tiny_model: Tiny, tmp_path: Path, sentences: list[str]
    ) -> None:
        pytest.importorskip("onnxruntime")
        from nearer.evaluation import evaluate
        from nearer.teachers import Teachers, TeacherSettings
        from nearer.text import read_sentences

        saved(tmp_path / "theirs", static(tiny_model), modules.Normalize())
        ours = Encoder.load(tmp_path / "theirs", device="cpu")
        assert ours.rank("rain", sentences, top=1)[0].sentence == "rain"
        assert evaluate(ours, "everyday").scores[0].score is not None
        text = tmp_path / "text.txt"
        text.write_text("".join(f"{sentence}\n" for sentence in dict.fromkeys(sentences) if sentence))
        teachers = Teachers([TeacherSettings(model=str(tmp_path / "theirs"))], None)
        teachers.prepare(read_sentences(text), torch.device("cpu"))
        np.testing.assert_allclose(teachers.members[0].of(np.array([3]))[0], ours.encode("rain"), atol=1e-3)
        export_onnx(ours, tmp_path / "onnx")
        np.testing.assert_allclose(OnnxEncoder(tmp_path / "onnx").encode(sentences), ours.encode(sentences), atol=1e-4)
        lowered = ours.encode(sentences, precision="bf16")
        np.testing.assert_allclose(lowered, ours.encode(sentences), atol=2e-2)

    def test_it_is_not_trained(self, tiny_model: Tiny, tmp_path: Path) -> None:
        from nearer.training import train

        saved(tmp_path / "theirs", static(tiny_model))
        (tmp_path / "text.txt").write_text("a man\nis eating\nlunch again\n")
        settings = {"select_on": [], "test_on": [], "pooling": None, "head": False}
        with pytest.raises(ModelError, match="static embeddings, which are not trained here"):
            train(
                "simcse-wiki-mini",
                tmp_path / "text.txt",
                model=tmp_path / "theirs",
                out=tmp_path / "run",
                settings=settings,
            )

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"pooling": "max"}, "pooling: .* static"),
            ({"dropout": 0.1}, "dropout"),
            ({"pooler_as_head": True}, "pooler"),
        ],
    )
    def test_what_needs_a_network_is_refused(
        self, options: dict[str, object], message: str, tiny_model: Tiny, tmp_path: Path
    ) -> None:
        saved(tmp_path / "theirs", static(tiny_model))
        with pytest.raises(SettingError, match=message):
            Encoder.load(tmp_path / "theirs", **options)

    @pytest.mark.parametrize(
        ("break_it", "message"),
        [
            (lambda folder: (folder / "tokenizer.json").unlink(), "tokenizer.json: is missing"),
            (lambda folder: (folder / "tokenizer.json").write_text("{"), "tokenizer.json: cannot be read"),
            (lambda folder: (folder / "model.safetensors").write_bytes(b"no"), "model.safetensors: cannot be read"),
            (
                lambda folder: save_file({"x": torch.zeros(2)}, folder / "model.safetensors"),
                "neither 'embedding.weight'",
            ),
            (lambda folder: save_file({"embeddings": torch.zeros(2, 3)}, folder / "model.safetensors"), "of shape"),
        ],
    )
    def test_damage_is_one_line(
        self, break_it: Callable[[Path], None], message: str, tiny_model: Tiny, tmp_path: Path
    ) -> None:
        saved(tmp_path / "theirs", static(tiny_model))
        break_it(tmp_path / "theirs")
        with pytest.raises(ModelError, match=message):
            Encoder.load(tmp_path / "theirs")


class TestRouter:
    @pytest.fixture
    def theirs(self, tiny_model: Tiny, tmp_path: Path) -> SentenceTransformer:
        router = modules.Router.for_query_document([static(tiny_model, 32)], pooled(tiny_model))
        prompts = {"query": "a man: ", "document": ""}
        return saved(tmp_path / "theirs", router, dense(32, 8), modules.Normalize(), prompts=prompts)

    def test_the_default_route_is_what_encode_takes(
        self, theirs: SentenceTransformer, tmp_path: Path, sentences: list[str]
    ) -> None:
        with pytest.warns(ModelWarning, match="its route 'document' is used .*: query"):
            check_both_ways(tmp_path / "theirs", theirs.encode(sentences), sentences, tmp_path)

    def test_a_route_by_name(self, theirs: SentenceTransformer, tmp_path: Path, sentences: list[str]) -> None:
        query = Encoder.load(tmp_path / "theirs", route="query", device="cpu")
        assert query.is_static
        np.testing.assert_allclose(query.encode(sentences), theirs.encode_query(sentences), atol=1e-5)
        document = theirs.encode_document(sentences)
        check_both_ways(tmp_path / "theirs", document, sentences, tmp_path, route="document")

    def test_a_model_without_a_default_asks_for_one(self, theirs: SentenceTransformer, tmp_path: Path) -> None:
        path = tmp_path / "theirs" / "router_config.json"
        config = json.loads(path.read_text())
        config["parameters"] = {"default_route": None, "allow_empty_key": False}
        path.write_text(json.dumps(config))
        with pytest.raises(ModelError, match=r"no default route; name a route: query, document"):
            Encoder.load(tmp_path / "theirs")

    def test_unknown_routes_are_refused(self, theirs: SentenceTransformer, tmp_path: Path, tiny_model: Tiny) -> None:
        with pytest.raises(SettingError, match=r"route: 'image' is none of .*: query, document"):
            Encoder.load(tmp_path / "theirs", route="image")
        with pytest.raises(SettingError, match="has no Router"):
            Encoder.load(tiny_model("bert"), pooling="mean", route="query")
        saved(tmp_path / "plain", *pooled(tiny_model))
        with pytest.raises(SettingError, match="has no Router"):
            Encoder.load(tmp_path / "plain", route="query")

    def test_damage_is_one_line(self, theirs: SentenceTransformer, tmp_path: Path) -> None:
        (tmp_path / "theirs" / "router_config.json").write_text("{}")
        with pytest.raises(ModelError, match=r"router_config.json: types: Field required"):
            Encoder.load(tmp_path / "theirs")
