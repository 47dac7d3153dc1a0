"""Generated text has the lengths of Wikipedia's sentences; mixed text repeats nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoTokenizer

from benchmarks.models import SHAPES, TOKENIZER, random_model
from benchmarks.text import corpus_text, generated, mixed
from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(TOKENIZER)


def test_lengths_of_wikipedia(tokenizer) -> None:
    lengths = [len(ids) for ids in tokenizer(generated(5_000, tokenizer), truncation=True, max_length=32)["input_ids"]]
    assert 24.7 < sum(lengths) / len(lengths) < 25.9
    assert 0.34 < lengths.count(32) / len(lengths) < 0.40


def test_generated_text_follows_from_the_seed(tokenizer) -> None:
    assert generated(50, tokenizer) == generated(50, tokenizer)
    assert generated(50, tokenizer) != generated(50, tokenizer, seed=1)
    assert len(set(generated(50, tokenizer))) == 50


def test_mixed_lengths(tokenizer) -> None:
    sentences = generated(400, tokenizer)
    texts = mixed(sentences)
    words = sorted(len(text.split()) for text in texts)
    assert len(set(texts)) == len(sentences)
    assert words[50] <= 8
    assert words[-50] > 75
    assert sum(text == sentence for text, sentence in zip(texts, sentences, strict=True)) > 150


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text("one  two\nthree\nfour\n")
    text = corpus_text(str(path), 2, None)
    assert text.sentences == ["one two", "three"]
    with pytest.raises(SettingError, match=r"--sizes: 1,000 is too large, there are 2 sentences \(the beginning of "):
        text.check_enough(1_000, "--sizes")


def test_a_file_without_text(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("\n\n")
    with pytest.raises(InputError, match="nothing in it could be used"):
        corpus_text(str(tmp_path / "corpus.txt"), 2, None)


def test_a_random_model_is_the_same_each_time(tmp_path: Path, tiny: Path) -> None:
    again = random_model("tiny", tmp_path / "again")
    assert (again / "model.safetensors").read_bytes() == (tiny / "model.safetensors").read_bytes()
    encoder = Encoder.load(again, pooling="mean")
    assert encoder.width == SHAPES["tiny"].width
    assert encoder.encode(["a sentence", "another"]).shape == (2, 128)


def test_an_unknown_shape(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="shape: 'huge' is not one of base, small, tiny"):
        random_model("huge", tmp_path)
