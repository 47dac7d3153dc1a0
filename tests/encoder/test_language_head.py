"""Pretrained heads for masked tokens: found under the names of each family, and equal to transformers' own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from nearer.encoder.backbone import quiet
from nearer.encoder.language_head import language_head

VOCABULARY = 50
SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
}
# what transformers' classes are called by: what the configuration is given besides
KINDS: dict[str, dict[str, Any]] = {
    "Bert": {},
    "Ernie": {},
    "MegatronBert": {},
    "SqueezeBert": {"embedding_size": 32},
    "FNet": {},
    "Roberta": {"layer_norm_eps": 1e-5},
    "XLMRoberta": {"layer_norm_eps": 1e-5},
    "Camembert": {"layer_norm_eps": 1e-5},
    "MPNet": {},
    "DistilBert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48},
    "Albert": {"embedding_size": 16},
    "Electra": {"embedding_size": 16},
    "ConvBert": {"embedding_size": 16, "conv_kernel_size": 3},
    "Deberta": {"legacy": False},
    "DebertaV2": {"legacy": False},
    "ModernBert": {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2},
    "MobileBert": {
        "embedding_size": 16,
        "intra_bottleneck_size": 16,
        "intermediate_size": 32,
        "num_feedforward_networks": 2,
    },
}


def checkpoint(kind: str, folder: Path, **settings: Any) -> Any:
    """A random model with a head, saved as the hub has it; its norms far from the identity, so that eps counts."""
    import transformers

    torch.manual_seed(11)
    config = getattr(transformers, f"{kind}Config")(**{**SHAPE, **KINDS[kind], **settings})
    model = getattr(transformers, f"{kind}ForMaskedLM")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    with quiet():
        model.save_pretrained(folder)
    return model


def backbone_in(folder: Path) -> nn.Module:
    from transformers import AutoModel

    with quiet():
        found: nn.Module = AutoModel.from_pretrained(folder)
    return found.eval()


def renamed(folder: Path, names: dict[str, str]) -> None:
    """With parts of the weights' names replaced."""
    path = folder / "model.safetensors"
    weights = {}
    for name, tensor in load_file(path).items():
        for old, new in names.items():
            name = name.replace(old, new)
        weights[name] = tensor
    save_file(weights, path, metadata={"format": "pt"})


@torch.no_grad()
def assert_same_scores(model: Any, folder: Path) -> None:
    backbone = backbone_in(folder)
    head, remark = language_head(backbone, folder)
    assert remark is None
    ids = torch.arange(5, 19)[None]
    states = backbone(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    words = backbone.get_input_embeddings().weight  # type: ignore[operator]
    wanted = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    torch.testing.assert_close(head(states, words), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_scores_as_transformers_own(kind: str, tmp_path: Path) -> None:
    assert_same_scores(checkpoint(kind, tmp_path), tmp_path)


def test_norms_by_the_original_names(tmp_path: Path) -> None:
    model = checkpoint("Bert", tmp_path)
    renamed(tmp_path, {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"})
    assert_same_scores(model, tmp_path)


def test_the_settings_of_the_configuration_count(tmp_path: Path) -> None:
    model = checkpoint("Bert", tmp_path, layer_norm_eps=0.5, hidden_act="relu")
    assert_same_scores(model, tmp_path)


@pytest.mark.parametrize("kind", ["Roberta", "ModernBert"])
def test_the_layer_norm_s_eps_is_the_family_s(kind: str, tmp_path: Path) -> None:
    checkpoint(kind, tmp_path)
    head, _ = language_head(backbone_in(tmp_path), tmp_path)
    assert head.norm.eps == 1e-5


def test_a_copy_of_the_word_embeddings_is_no_matter(tmp_path: Path) -> None:
    """The original files have the decoder beside the embeddings that it is tied to."""
    model = checkpoint("Bert", tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights["cls.predictions.decoder.weight"] = weights["bert.embeddings.word_embeddings.weight"].clone()
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert_same_scores(model, tmp_path)


class TestHeadsThatCannotBeUsed:
    def test_output_embeddings_of_its_own_are_named(self, tmp_path: Path) -> None:
        checkpoint("Bert", tmp_path, tie_word_embeddings=False)
        _, remark = language_head(backbone_in(tmp_path), tmp_path)
        assert remark is not None
        assert "(cls.predictions.decoder.weight)" in remark
        assert remark.endswith("a fresh one is trained")

    def test_a_head_that_does_not_fit_is_named(self, tmp_path: Path) -> None:
        """As after the vocabulary was enlarged and the head was not."""
        checkpoint("Bert", tmp_path)
        weights = load_file(tmp_path / "model.safetensors")
        weights["cls.predictions.bias"] = weights["cls.predictions.bias"][:-3].clone()
        save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
        _, remark = language_head(backbone_in(tmp_path), tmp_path)
        assert remark is not None
        assert "cls.predictions.transform.dense" in remark
        assert "does not fit" in remark

    def test_an_unknown_form_is_named(self, tmp_path: Path) -> None:
        checkpoint("Roberta", tmp_path)
        renamed(tmp_path, {"lm_head.layer_norm": "lm_head.scale"})
        _, remark = language_head(backbone_in(tmp_path), tmp_path)
        assert remark is not None
        assert "lm_head." in remark
        assert "not known here" in remark

    def test_none_at_all(self, tmp_path: Path) -> None:
        import transformers

        with quiet():
            transformers.BertModel(transformers.BertConfig(**SHAPE)).save_pretrained(tmp_path)
        _, remark = language_head(backbone_in(tmp_path), tmp_path)
        assert remark == "the checkpoint has no head for masked language modelling: a fresh one is trained"

    def test_a_classifier_of_modernbert_is_none(self, tmp_path: Path) -> None:
        import transformers

        config = transformers.ModernBertConfig(**SHAPE, **KINDS["ModernBert"])
        with quiet():
            transformers.ModernBertForSequenceClassification(config).save_pretrained(tmp_path)
        _, remark = language_head(backbone_in(tmp_path), tmp_path)
        assert remark is not None
        assert "has no head" in remark
