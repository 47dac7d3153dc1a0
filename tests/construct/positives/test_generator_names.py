"""Specifications of generators, and what is said of those that cannot be had."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from nearer.construct.positives import WordFrequencies, generator_by_name
from nearer.construct.positives.language_model import LanguageModel
from nearer.errors import MissingExtraError, ModelError, SettingError

CPU = torch.device("cpu")


def no_words() -> WordFrequencies:
    raise AssertionError("words were counted for a specification that cannot be used")


def test_noise_counts_the_words_once(frequent: WordFrequencies) -> None:
    calls: list[int] = []

    def words() -> WordFrequencies:
        calls.append(1)
        return frequent

    generator = generator_by_name("noise", words=words)
    assert generator.name == "noise"
    assert len(generator.candidates(["one two three"], 3, [1])[0]) == 3
    assert len(calls) == 1


@pytest.mark.parametrize("spec", ["", "nois", "translate:a,b", "?", ":", "noise "])
def test_an_unknown_one_lists_what_there_is(spec: str) -> None:
    with pytest.raises(SettingError, match="is none of noise, back-translation:THERE,BACK, paraphrase:MODEL"):
        generator_by_name(spec, words=no_words)


@pytest.mark.parametrize(
    ("spec", "form"),
    [
        ("back-translation", "back-translation:THERE,BACK"),
        ("back-translation:one", "back-translation:THERE,BACK"),
        ("back-translation:one,", "back-translation:THERE,BACK"),
        ("back-translation:one,two,three", "back-translation:THERE,BACK"),
        ("paraphrase", "paraphrase:MODEL"),
        ("paraphrase:", "paraphrase:MODEL"),
        ("noise:model", "noise"),
    ],
)
def test_a_wrong_number_of_models_is_told_with_the_form(spec: str, form: str) -> None:
    with pytest.raises(SettingError, match=f"does not have the form {form}\\."):
        generator_by_name(spec, words=no_words)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("noise?beams=2", "has the setting 'beams'; noise has none"),
        ("back-translation:a,b?template=x", "has the setting 'template'; back-translation has plain_first, beams"),
        ("paraphrase:a?beams=0", "beams is a number from 1, not '0'"),
        ("paraphrase:a?beams=two", "beams is a number from 1, not 'two'"),
        ("paraphrase:a?plain_first=maybe", "plain_first is yes or no, not 'maybe'"),
    ],
)
def test_a_setting_that_cannot_be_used_is_told(spec: str, told: str) -> None:
    with pytest.raises(SettingError, match=told):
        generator_by_name(spec, words=no_words)


@pytest.mark.parametrize("name", ["./nowhere", "someone/never-published"])
def test_a_model_that_is_not_there(name: str, frequent: WordFrequencies) -> None:
    with pytest.raises(ModelError, match=r"no such folder|neither a folder here") as told:
        generator_by_name(f"paraphrase:{name}", words=lambda: frequent)
    assert "\n" not in str(told.value)


def test_an_encoder_generates_nothing(tiny_model: Callable[[str], Path]) -> None:
    with pytest.raises(ModelError, match="a 'bert' model generates no text"):
        LanguageModel(str(tiny_model("bert")), CPU)


def test_a_folder_without_config_or_weights(tiny_bart: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"not a model folder \(no config\.json\)"):
        LanguageModel(str(tmp_path), CPU)
    shutil.copy(tiny_bart / "config.json", tmp_path)
    with pytest.raises(ModelError, match="has no weights"):
        LanguageModel(str(tmp_path), CPU)
    (tmp_path / "model.safetensors").write_bytes(b"no weights at all")
    with pytest.raises(ModelError, match="its weights cannot be loaded") as told:
        LanguageModel(str(tmp_path), CPU)
    assert "\n" not in str(told.value)


def test_weights_that_do_not_fit_the_config(tiny_bart: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_bart, tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "encoder_layers": 3}))
    with pytest.raises(ModelError, match="is missing or misshapen"):
        LanguageModel(str(tmp_path), CPU)


def test_a_folder_without_a_tokenizer(tiny_bart: Path, tmp_path: Path) -> None:
    for name in ("config.json", "generation_config.json", "model.safetensors"):
        shutil.copy(tiny_bart / name, tmp_path)
    with pytest.raises(ModelError, match="has no tokenizer"):
        LanguageModel(str(tmp_path), CPU)


def test_without_sentencepiece_the_extra_is_named(
    tiny_marian: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_marian(1)
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(MissingExtraError, match=r"needs the package 'sentencepiece': pip install .*\[translation\]'"):
        LanguageModel(str(folder), CPU)
