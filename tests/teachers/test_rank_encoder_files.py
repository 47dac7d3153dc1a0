"""RankEncoders in folders: read back as they were, by sentence-transformers too, and refused where they do not fit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from teacher_text import different_sentences

from faulty_disk import unchecked
from nearer.encoder import Encoder
from nearer.errors import ModelError
from nearer.teachers import RankEncoder, load_model

CORPUS, SENTENCES = different_sentences(40, seed=7), different_sentences(8, seed=8)


@pytest.fixture(scope="module")
def kept(encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved RankEncoder, to be copied."""
    folder = tmp_path_factory.mktemp("kept") / "model"
    RankEncoder.build(encoder, CORPUS, inference_weight=0.3).save(folder)
    return folder


@pytest.fixture
def folder(kept: Path, tmp_path: Path) -> Path:
    return unchecked(Path(shutil.copytree(kept, tmp_path / "model")))


def rewrite(folder: Path, **facts: Any) -> None:
    path = folder / "rank_corpus.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))


class TestRoundTrip:
    @pytest.mark.parametrize("approximate", [False, True])
    @pytest.mark.parametrize("pooling", ["mean", "first_last_mean", "cls_before_head", "max+mean"])
    def test_similarities_stay(
        self, pooling: str, approximate: bool, tiny_model: Callable[[str], Path], tmp_path: Path
    ) -> None:
        encoder = Encoder.load(tiny_model("roberta"), pooling=pooling, device="cpu", max_length=20)
        encoder.add_head(torch.Generator().manual_seed(0))
        model = RankEncoder.build(encoder, CORPUS, inference_weight=0.3, approximate=approximate)
        model.save(tmp_path / "model")
        back = RankEncoder.load(tmp_path / "model", device="cpu")
        assert (back.inference_weight, back.approximate) == (0.3, approximate)
        assert back.settings == model.settings
        assert back.name == str(tmp_path / "model")
        np.testing.assert_array_equal(back.corpus, model.corpus)
        np.testing.assert_array_equal(back.similarity(SENTENCES, SENTENCES), model.similarity(SENTENCES, SENTENCES))

    def test_sentence_transformers_reads_the_encoder(self, folder: Path, encoder: Encoder) -> None:
        theirs = SentenceTransformer(str(folder), device="cpu").encode(SENTENCES)
        np.testing.assert_allclose(theirs, encoder.encode(SENTENCES), atol=1e-5)

    def test_the_encoder_alone_can_be_loaded(self, folder: Path, encoder: Encoder) -> None:
        np.testing.assert_array_equal(Encoder.load(folder, device="cpu").encode(SENTENCES), encoder.encode(SENTENCES))

    def test_a_loaded_one_can_replace_itself(self, folder: Path) -> None:
        """Its corpus is mapped from the file that is replaced."""
        model = RankEncoder.load(folder, device="cpu")
        wanted = model.similarity(SENTENCES, SENTENCES)
        with pytest.raises(ModelError, match="is there already"):
            model.save(folder)
        model.inference_weight = 0.0
        model.save(folder, overwrite=True)
        back = RankEncoder.load(folder, device="cpu")
        assert back.inference_weight == 0
        back.inference_weight = 0.3
        np.testing.assert_array_equal(back.similarity(SENTENCES, SENTENCES), wanted)

    def test_what_stands_in_the_facts(self, folder: Path) -> None:
        facts = json.loads((folder / "rank_corpus.json").read_text())
        assert (facts["inference_weight"], facts["approximate"], facts["sentences"]) == (0.3, False, 40)

    def test_dropout_is_no_other_encoder(self, folder: Path) -> None:
        RankEncoder.load(folder, device="cpu", dropout=0.4)


class TestLoadModel:
    def test_the_right_class(self, folder: Path, tiny_model: Callable[[str], Path]) -> None:
        assert isinstance(load_model(folder, device="cpu"), RankEncoder)
        assert isinstance(load_model(str(folder), device="cpu"), RankEncoder)
        assert isinstance(load_model(tiny_model("bert"), pooling="cls", device="cpu"), Encoder)
        assert isinstance(load_model("wiki-mini", pooling="mean", device="cpu"), Encoder)

    def test_without_its_two_files_it_is_an_encoder(self, folder: Path) -> None:
        for name in ("rank_corpus.json", "rank_corpus.npy"):
            (folder / name).unlink()
        assert isinstance(load_model(folder, device="cpu"), Encoder)

    def test_the_options_decide_where_a_hub_model_is(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = []

        def found(name: str, revision: str | None, remote_code: bool) -> tuple[Path, str]:
            asked.append((name, revision, remote_code))
            return folder, name

        monkeypatch.setattr("nearer.encoder.sources._fetched", found)
        model = load_model("some/model", device="cpu", revision="v2", trust_remote_code=True)
        assert isinstance(model, RankEncoder)
        assert set(asked) == {("some/model", "v2", True)}

    def test_a_missing_folder(self) -> None:
        with pytest.raises(ModelError, match="no such folder"):
            load_model("./none")


class TestRefusals:
    @pytest.mark.parametrize(
        "options",
        [{"pooling": "cls"}, {"max_length": 9}, {"text_normalisation": "full_stop"}],
    )
    def test_other_settings_than_the_corpus_was_encoded_with(self, options: dict[str, Any], folder: Path) -> None:
        with pytest.raises(ModelError, match="corpus vectors are not of this encoder or of these settings") as caught:
            RankEncoder.load(folder, device="cpu", **options)
        assert str(folder) in str(caught.value)

    def test_other_weights(self, folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        weights["encoder.layer.1.output.dense.bias"][2] += 0.01
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(ModelError, match="corpus vectors are not of this encoder"):
            load_model(folder, device="cpu")

    @pytest.mark.parametrize("name", ["rank_corpus.json", "rank_corpus.npy"])
    def test_a_file_is_missing(self, name: str, folder: Path) -> None:
        (folder / name).unlink()
        with pytest.raises(ModelError, match=f"is not a RankEncoder \\(no {name}\\)") as caught:
            RankEncoder.load(folder)
        assert str(folder) in str(caught.value)

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda folder: (folder / "rank_corpus.json").write_text("{"),
            lambda folder: (folder / "rank_corpus.json").write_text("[]"),
            lambda folder: (folder / "rank_corpus.json").write_text('{"inference_weight": 0.1}'),
            lambda folder: (folder / "rank_corpus.json").write_bytes(b"\xff\xfe"),
            lambda folder: rewrite(folder, inference_weight="much"),
            lambda folder: rewrite(folder, inference_weight=None),
            lambda folder: (folder / "rank_corpus.npy").write_bytes(b""),
            lambda folder: (folder / "rank_corpus.npy").write_bytes(b"PK\x03\x04 is no archive"),
            lambda folder: (folder / "rank_corpus.npy").write_bytes(
                (folder / "rank_corpus.npy").read_bytes().replace(b"{'descr'", b"{(descr'")
            ),
            lambda folder: (folder / "rank_corpus.npy").write_bytes((folder / "rank_corpus.npy").read_bytes()[:-1]),
            lambda folder: np.save(folder / "rank_corpus.npy", np.array([{"a": 1}]), allow_pickle=True),
            lambda folder: np.save(folder / "rank_corpus.npy", np.full((40, 32), "a")),
        ],
    )
    def test_damaged_files(self, spoil: Callable[[Path], object], folder: Path) -> None:
        spoil(folder)
        with pytest.raises(ModelError, match=r"rank_corpus\.json or rank_corpus\.npy cannot be used") as caught:
            RankEncoder.load(folder, device="cpu")
        assert str(folder) in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("spoil", "told"),
        [
            (lambda folder: rewrite(folder, inference_weight=1.5), "inference_weight: 1.5 is not between 0 and 1"),
            (
                lambda folder: np.save(folder / "rank_corpus.npy", np.zeros((40, 31), dtype=np.float16)),
                r"corpus: vectors of shape \(40, 31\) given",
            ),
            (
                lambda folder: np.save(folder / "rank_corpus.npy", np.zeros((1, 32), dtype=np.float16)),
                r"corpus: vectors of shape \(1, 32\) given",
            ),
        ],
    )
    def test_what_does_not_fit(self, spoil: Callable[[Path], object], told: str, folder: Path) -> None:
        spoil(folder)
        with pytest.raises(ModelError, match=told) as caught:
            RankEncoder.load(folder, device="cpu")
        assert str(folder) in str(caught.value)
