"""Tiny generators: random Marian and BART models, and a causal model whose every next word is written down."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

from nearer.construct.positives import WordFrequencies

TEXT = [
    "A man is eating lunch.",
    "The children play with a red ball in the park.",
    "It rains on the old town.",
    "Nobody knows why the train is late.",
]


@pytest.fixture(scope="session")
def text() -> list[str]:
    return list(TEXT)


@pytest.fixture(scope="session")
def frequent() -> WordFrequencies:
    return WordFrequencies(("the", "of", "and", "in", "to"), ("的", "是", "了"))


@pytest.fixture(scope="session")
def tiny_marian(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """A folder with a random Marian model of the given seed and a trained tokenizer."""
    pieces = pytest.importorskip("sentencepiece")
    root = tmp_path_factory.mktemp("marian")

    def make(seed: int) -> Path:
        folder = root / str(seed)
        if folder.exists():
            return folder
        written = io.BytesIO()
        pieces.SentencePieceTrainer.train(
            sentence_iterator=iter(TEXT), model_writer=written, vocab_size=70, model_type="bpe", minloglevel=2
        )
        folder.mkdir()
        for name in ("source.spm", "target.spm"):
            (folder / name).write_bytes(written.getvalue())
        processor = pieces.SentencePieceProcessor(model_proto=written.getvalue())
        known = [processor.id_to_piece(place) for place in range(3, processor.get_piece_size())]
        vocabulary = {piece: place for place, piece in enumerate(["</s>", "<unk>", *known, "<pad>"])}
        (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer"}))
        torch.manual_seed(seed)
        _save_random(transformers.MarianMTModel(_marian_config(len(vocabulary))), folder)
        return folder

    return make


def _marian_config(size: int) -> transformers.MarianConfig:
    return transformers.MarianConfig(
        vocab_size=size,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=96,
        init_std=0.8,  # attention that looks at the input
        pad_token_id=size - 1,
        eos_token_id=0,
        decoder_start_token_id=size - 1,
        forced_eos_token_id=0,
        num_beams=4,
    )


def _save_random(model: transformers.PreTrainedModel, folder: Path, no_repeat: int = 1) -> None:
    """With random texts that neither loop nor go on for long."""
    model.final_logits_bias[0, model.config.eos_token_id] = 1.0
    model.generation_config.no_repeat_ngram_size = no_repeat
    model.generation_config.bad_words_ids = [[model.config.pad_token_id]]
    model.save_pretrained(folder)


@pytest.fixture(scope="session")
def tiny_bart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random seq2seq model whose tokenizer knows a mask."""
    folder = tmp_path_factory.mktemp("bart")
    words = sorted({word for sentence in TEXT for word in sentence.split()})
    tokenizer = _word_tokenizer(["<s>", "<pad>", "</s>", "<unk>", "<mask>", *words])
    tokenizer.add_special_tokens({"pad_token": "<pad>", "eos_token": "</s>", "mask_token": "<mask>"})
    tokenizer.save_pretrained(folder)
    torch.manual_seed(3)
    config = transformers.BartConfig(
        vocab_size=len(tokenizer),
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=96,
        init_std=0.8,
    )
    # BART's texts start with the token that ends them: it must come twice
    _save_random(transformers.BartForConditionalGeneration(config), folder, no_repeat=2)
    return folder


@pytest.fixture
def written_model(tmp_path: Path) -> Callable[..., Path]:
    """A causal model that follows a table from each word to the next; words that are not in it are followed by </s>."""

    def make(following: Mapping[str, str], chat_template: str | None = None) -> Path:
        known = dict.fromkeys(word for pair in following.items() for word in pair)
        words = list(dict.fromkeys(["</s>", "<unk>", "\n", *known]))
        tokenizer = _word_tokenizer(words)
        tokenizer.add_special_tokens({"eos_token": "</s>"})
        tokenizer.chat_template = chat_template
        config = transformers.LlamaConfig(
            vocab_size=len(words),
            hidden_size=64,
            intermediate_size=8,
            num_hidden_layers=1,
            num_attention_heads=4,
            max_position_embeddings=128,
            eos_token_id=0,
            bos_token_id=None,
        )
        model = transformers.LlamaForCausalLM(config)
        with torch.no_grad():
            for weight in model.parameters():
                weight.zero_()
            model.model.norm.weight.fill_(1)
            for place, word in enumerate(words):  # the hidden state says which word is last, the head which is next
                model.model.embed_tokens.weight[place, place] = 1
                model.lm_head.weight[words.index(following.get(word, "</s>")), place] = 1
        folder = tmp_path / f"written-{len(list(tmp_path.iterdir()))}"
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    return make


def _word_tokenizer(words: list[str]) -> transformers.PreTrainedTokenizerFast:
    vocabulary = {word: place for place, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    cuts = [pre_tokenizers.Split("\n", "isolated"), pre_tokenizers.Split(" ", "removed")]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(cuts)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", clean_up_tokenization_spaces=False
    )
