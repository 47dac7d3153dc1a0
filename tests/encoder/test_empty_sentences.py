"""Sentences without tokens, and tokenizers without a padding token: GPT-2, Llama, Qwen and their like."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers import models as modules

from nearer.encoder import Encoder
from nearer.encoder.fingerprint import encoder_fingerprint
from nearer.encoder.pooling import POOLINGS

Tiny = Callable[[str], Path]
THEIRS = {
    "mean": "mean",
    "last_token": "lasttoken",
    "weighted_mean": "weightedmean",
    "mean_sqrt_length": "mean_sqrt_len_tokens",
}


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def causal(request: pytest.FixtureRequest, tiny_model: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model whose tokenizer adds no special tokens and has no padding token."""
    folder = tmp_path_factory.mktemp("causal") / request.param
    backend = transformers.AutoTokenizer.from_pretrained(tiny_model("roberta")).backend_tokenizer
    backend.post_processor = None
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>", model_max_length=64)
    assert tokenizer.pad_token_id is None
    assert tokenizer("")["input_ids"] == []
    torch.manual_seed(5)
    size = {"vocab_size": len(tokenizer), "bos_token_id": 2, "eos_token_id": 2}
    if request.param == "gpt2":
        config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=64, **size)
        model = transformers.GPT2Model(config)
    else:
        shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
        model = transformers.LlamaModel(transformers.LlamaConfig(**shape, max_position_embeddings=64, **size))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("pooling", POOLINGS)
def test_an_empty_sentence_has_a_finite_vector_that_does_not_depend_on_the_batch(pooling: str, causal: Path) -> None:
    encoder = Encoder.load(causal, pooling=pooling, device="cpu")
    alone = encoder.encode("")
    assert np.isfinite(alone).all()
    together = encoder.encode(["", "a man is eating lunch again and again", "rain"])
    np.testing.assert_allclose(together[0], alone, atol=1e-6)
    np.testing.assert_allclose(together[2], encoder.encode("rain"), atol=1e-5)
    if pooling not in ("cls", "cls_before_head"):
        assert not alone.any()


@pytest.mark.parametrize("pooling", list(THEIRS))
def test_what_was_saved_is_padded_by_sentence_transformers_with_the_same_vectors(
    pooling: str, causal: Path, tmp_path: Path, sentences: list[str]
) -> None:
    encoder = Encoder.load(causal, pooling=pooling, device="cpu")
    encoder.save(tmp_path / "model")
    theirs = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert theirs.tokenizer.pad_token_id == encoder.padding_id == encoder.tokenizer.eos_token_id
    # the empty one among others: alone it is an error there
    np.testing.assert_allclose(theirs.encode(sentences), encoder.encode(sentences), atol=1e-5)
    assert encoder.tokenizer.pad_token_id is None  # saving left it as it was
    back = Encoder.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(back.encode(sentences), encoder.encode(sentences))
    assert encoder_fingerprint(back) == encoder_fingerprint(encoder)


@pytest.mark.parametrize("mode", ["lasttoken", "mean", "cls", "max"])
def test_nothing_but_a_prompt_that_is_left_out(mode: str, tiny_model: Tiny, tmp_path: Path) -> None:
    """[CLS] and the prompt are left out, [SEP] is not: as in sentence-transformers."""
    steps = [modules.Transformer(str(tiny_model("bert"))), modules.Pooling(32, mode, include_prompt=False)]
    theirs = SentenceTransformer(modules=steps, device="cpu", prompts={"query": "a man"}, default_prompt_name="query")
    theirs.save(str(tmp_path / "theirs"))
    ours = Encoder.load(tmp_path / "theirs", device="cpu")
    sentences = ["", "rain", "the lazy dog jumps"]
    np.testing.assert_allclose(ours.encode(sentences), theirs.encode(sentences), atol=1e-5)


@pytest.mark.parametrize("pooling", ["last_token", "mean", "max"])
def test_a_prompt_that_is_the_whole_of_a_sentence_is_zeros(pooling: str, causal: Path) -> None:
    encoder = Encoder.load(causal, pooling=pooling, device="cpu")
    settings = {**encoder.settings.__dict__, "prompts": {"query": "rain"}, "pool_prompt": False}
    encoder.settings = type(encoder.settings)(**settings)
    found = encoder.encode(["", " and lunch"], prompt_name="query")
    assert not found[0].any()
    assert found[1].any()


def test_special_tokens_are_not_changed_by_saving_a_tokenizer_that_can_pad(tiny_model: Tiny, tmp_path: Path) -> None:
    encoder = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")
    encoder.save(tmp_path / "model")
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "model").pad_token == "[PAD]"
