"""Checkpoints as the hub has them: every weight of the backbone accounted for, whatever stands beside it."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import zoo
from safetensors.torch import load_file, save_file
from torch import Tensor
from zoo_checks import SENTENCES, loaded

from nearer.encoder import Encoder
from nearer.errors import ModelError, ModelWarning

Change = Callable[[dict[str, Tensor]], dict[str, Tensor]]


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture
def changed(checkpoints: Path, tmp_path: Path) -> Callable[..., Path]:
    """`changed("bert", change)`: a hub checkpoint whose weights went through `change`."""

    def make(name: str, change: Change, form: str = zoo.HUB) -> Path:
        folder = tmp_path / name
        shutil.copytree(zoo.make(name, form, checkpoints), folder)
        weights = change(load_file(folder / "model.safetensors"))
        save_file({key: tensor.contiguous() for key, tensor in weights.items()}, folder / "model.safetensors")
        return folder

    return make


def renamed(old: str, new: str) -> Change:
    return lambda weights: {key.replace(old, new): tensor for key, tensor in weights.items()}


def with_weights(**more: tuple[int, ...]) -> Change:
    drawn = torch.Generator().manual_seed(3)
    named = {key.replace("__", "."): torch.randn(shape, generator=drawn) * 0.1 for key, shape in more.items()}
    return lambda weights: {**weights, **named}


def without(name: str) -> Change:
    return lambda weights: {key: tensor for key, tensor in weights.items() if key != name}


def quietly(name: str, folder: Path) -> np.ndarray:
    """The vectors, of a checkpoint of which there is nothing to remark."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", ModelWarning)
        return loaded(name, folder).encode(SENTENCES)


class TestNames:
    def test_the_original_berts_layer_norms_are_found(self, changed: Callable[..., Path], checkpoints: Path) -> None:
        def old(weights: dict[str, Tensor]) -> dict[str, Tensor]:
            names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
            for new, former in names.items():
                weights = renamed(new, former)(weights)
            return weights

        vectors = quietly("bert", changed("bert", old))
        np.testing.assert_array_equal(vectors, quietly("bert", zoo.make("bert", zoo.HUB, checkpoints)))

    @pytest.mark.parametrize(
        ("name", "form", "constant"),
        [
            ("bert", zoo.HUB, "bert__embeddings__position_ids"),
            ("bert", zoo.BARE, "embeddings__position_ids"),
            ("roberta", zoo.HUB, "roberta__embeddings__token_type_ids"),
            ("llama", zoo.HUB, "model__layers__0__self_attn__rotary_emb__inv_freq"),
            ("gpt2", zoo.HUB, "transformer__h__0__attn__masked_bias"),
        ],
    )
    def test_constants_of_older_checkpoints_are_no_weights(
        self, changed: Callable[..., Path], name: str, form: str, constant: str
    ) -> None:
        quietly(name, changed(name, with_weights(**{constant: (1, 80)}), form))

    @pytest.mark.parametrize(
        ("name", "heads"),
        [
            (
                "deberta-v2",
                {"lm_predictions__lm_head__dense__weight": (32, 32), "mask_predictions__dense__weight": (1, 32)},
            ),
            ("albert", {"sop_classifier__classifier__weight": (2, 32)}),
            ("roberta", {"classifier__dense__weight": (32, 32)}),
            ("mpnet", {"anything__at__all": (3,)}),
        ],
    )
    def test_heads_of_any_name_are_left_out(
        self, changed: Callable[..., Path], checkpoints: Path, name: str, heads: dict[str, tuple[int, ...]]
    ) -> None:
        with pytest.warns(ModelWarning) if name != "albert" else warnings.catch_warnings():
            vectors = loaded(name, changed(name, with_weights(**heads))).encode(SENTENCES)
        np.testing.assert_array_equal(vectors, quietly(name, zoo.make(name, zoo.HUB, checkpoints)))


class TestStrictness:
    @pytest.mark.parametrize(
        ("form", "key"),
        [
            (zoo.HUB, "bert.encoder.layer.1.output.dense.weight"),
            (zoo.BARE, "encoder.layer.1.output.dense.weight"),
        ],
    )
    def test_a_missing_weight_is_named(self, changed: Callable[..., Path], form: str, key: str) -> None:
        with pytest.raises(ModelError, match=r"the weight 'encoder\.layer\.1\.output\.dense\.weight' is missing; "):
            loaded("bert", changed("bert", without(key), form))

    @pytest.mark.parametrize(
        ("form", "key"), [(zoo.HUB, "bert.encoder.layer.7.extra.weight"), (zoo.BARE, "encoder.layer.7.extra.weight")]
    )
    def test_a_weight_too_many_in_the_backbone_is_named(
        self, changed: Callable[..., Path], form: str, key: str
    ) -> None:
        with pytest.raises(ModelError, match=rf"the weight '{key}' is not expected; the checkpoint does not fit"):
            loaded("bert", changed("bert", with_weights(**{key.replace(".", "__"): (4,)}), form))

    def test_weights_of_another_architecture_are_not_taken_for_heads(self, changed: Callable[..., Path]) -> None:
        with pytest.raises(ModelError, match=r"the weight '.*' is missing \(and \d+ more\)"):
            loaded("bert", changed("bert", renamed("bert.", "roberta.")))

    def test_an_encoder_decoder_without_an_encoder_class_is_named(self, checkpoints: Path) -> None:
        with pytest.raises(ModelError, match=r"bart is an encoder-decoder, .*; of such models t5, mt5 and umt5"):
            loaded("bart", zoo.make("bart", zoo.HUB, checkpoints))


class TestTrainersHeads:
    """Weights of SimCSE's own trainer, of DiffCSE, PromptBERT and SNCSE."""

    def test_simcses_head_is_used_when_asked_for(self, changed: Callable[..., Path]) -> None:
        folder = changed("bert", with_weights(mlp__dense__weight=(32, 32), mlp__dense__bias=(32,)))
        plain = Encoder.load(folder, pooling="cls_before_head", device="cpu").encode(SENTENCES)
        with warnings.catch_warnings():
            warnings.simplefilter("error", ModelWarning)
            encoder = Encoder.load(folder, pooling="cls", pooler_as_head=True, device="cpu")
        weights = load_file(folder / "model.safetensors")
        expected = np.tanh(plain @ weights["mlp.dense.weight"].numpy().T + weights["mlp.dense.bias"].numpy())
        np.testing.assert_allclose(encoder.encode(SENTENCES), expected, atol=1e-5)

    def test_left_out_it_is_remarked_on_with_the_option_that_takes_it(self, changed: Callable[..., Path]) -> None:
        folder = changed("bert", with_weights(mlp__dense__weight=(32, 32), mlp__dense__bias=(32,)))
        with pytest.warns(ModelWarning, match=r"left out: mlp \(2\); pooler_as_head \(--pooler-as-head\) takes"):
            loaded("bert", folder)

    def test_other_networks_beside_the_encoder_are_remarked_on(
        self, changed: Callable[..., Path], checkpoints: Path
    ) -> None:
        more = with_weights(
            mlp__net__0__weight=(64, 32),
            discriminator__bert__encoder__layer__0__output__dense__weight=(4, 4),
            generator__embeddings__word_embeddings__weight=(5, 4),
        )
        with pytest.warns(ModelWarning, match=r"left out: discriminator \(1\), generator \(1\), mlp \(1\)"):
            vectors = loaded("bert", changed("bert", more)).encode(SENTENCES)
        np.testing.assert_array_equal(vectors, quietly("bert", zoo.make("bert", zoo.HUB, checkpoints)))

    @pytest.mark.filterwarnings("default")
    def test_the_command_says_it_in_one_line(
        self, changed: Callable[..., Path], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from nearer.cli.main import main

        folder = changed("bert", with_weights(mlp__net__0__weight=(64, 32)))
        arguments = ["nearer", "similarity", str(folder), "a dog", "rain", "--pooling", "mean"]
        monkeypatch.setattr("sys.argv", arguments)
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
        assert capfd.readouterr().err == f"note: {folder}: weights beside the encoder are left out: mlp (1).\n"


class TestTokenizers:
    def test_a_folder_without_one_says_so(self, checkpoints: Path, tmp_path: Path) -> None:
        shutil.copytree(zoo.make("bert", zoo.HUB, checkpoints), tmp_path / "bert")
        (tmp_path / "bert" / "vocab.txt").unlink()
        with pytest.raises(ModelError, match="has no tokenizer"):
            loaded("bert", tmp_path / "bert")

    def test_one_that_changes_by_saving_is_told_and_the_saved_one_is_used(
        self, checkpoints: Path, tmp_path: Path
    ) -> None:
        with pytest.warns(ModelWarning, match="transformers saves its tokenizer as one that gives other tokens"):
            encoder = loaded("rembert", zoo.make("rembert", zoo.HUB, checkpoints))
        encoder.save(tmp_path / "saved")
        again = Encoder.load(tmp_path / "saved", device="cpu")
        np.testing.assert_array_equal(again.encode(SENTENCES), encoder.encode(SENTENCES))


class TestPadding:
    @pytest.mark.parametrize("name", ["fnet", "funnel", "convbert", "yoso"])
    def test_vectors_do_not_depend_on_the_batch(self, name: str, checkpoints: Path) -> None:
        encoder = loaded(name, zoo.make(name, zoo.HUB, checkpoints))
        assert encoder.needs_equal_lengths
        alone = np.concatenate([encoder.encode([sentence]) for sentence in SENTENCES])
        np.testing.assert_allclose(encoder.encode([*SENTENCES, *SENTENCES[::-1]])[: len(SENTENCES)], alone, atol=1e-6)

    @pytest.mark.parametrize("name", ["bert", "roberta", "mobilebert", "gpt2"])
    def test_others_are_padded_as_ever(self, name: str, checkpoints: Path) -> None:
        assert not loaded(name, zoo.make(name, zoo.HUB, checkpoints)).needs_equal_lengths

    def test_a_model_whose_code_fails_is_told_in_one_line(self, checkpoints: Path, tmp_path: Path) -> None:
        folder = tmp_path / "nystromformer"
        shutil.copytree(zoo.make("nystromformer", zoo.HUB, checkpoints), folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "num_landmarks": 4}))
        encoder = loaded("nystromformer", folder)
        with pytest.raises(ModelError, match="the code of NystromformerModel fails on a short sentence"):
            encoder.encode(SENTENCES)
