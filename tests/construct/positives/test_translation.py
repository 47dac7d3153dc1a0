"""Back-translation with tiny random Marian models; with the real pair where it is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from nearer.construct.positives import WordFrequencies, generator_by_name
from nearer.construct.positives.language_model import LanguageModel
from nearer.construct.positives.rewriting import ROUNDS, BackTranslation
from nearer.errors import ModelError

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def generator(tiny_marian: Callable[[int], Path], frequent: WordFrequencies) -> BackTranslation:
    return BackTranslation(str(tiny_marian(1)), str(tiny_marian(2)), frequent, device=CPU)


def greedy_by_hand(model: LanguageModel, text: str) -> str:
    """One input, no cache, no padding; no token twice (the tiny models' own setting), never the padding."""
    source = torch.tensor(model.tokens([text]))
    target = [model.model.config.decoder_start_token_id]
    for _ in range(2 * source.shape[1] + 16):
        logits = model.model(input_ids=source, decoder_input_ids=torch.tensor([target])).logits[0, -1]
        logits[target] = -torch.inf
        target.append(int(logits.argmax()))
        if target[-1] == model.ends[0]:
            return model.tokenizer.decode(target, skip_special_tokens=True).strip()
    return ""


@torch.no_grad()
def test_there_and_back_is_greedy_translation_twice(generator: BackTranslation, text: list[str]) -> None:
    there, back = generator.models
    expected = [greedy_by_hand(back, greedy_by_hand(there, sentence)) for sentence in text]
    assert len(set(expected)) == len(text)
    assert all(expected)
    assert generator._there_and_back(text) == expected


def test_candidates_do_not_depend_on_the_others_of_a_call(generator: BackTranslation, text: list[str]) -> None:
    seeds = range(10, 10 + len(text))
    together = generator.candidates(text, 2, seeds)
    assert any(len(found) > 1 for found in together)
    assert together == [generator.candidates([s], 2, [seed])[0] for s, seed in zip(text, seeds, strict=True)]
    for sentence, found in zip(text, together, strict=True):
        assert len(found) == len(set(found)) <= 2
        assert sentence not in found


def test_another_seed_gives_other_candidates(generator: BackTranslation, text: list[str]) -> None:
    assert generator.candidates(text, 2, [1] * len(text)) != generator.candidates(text, 2, [2] * len(text))


def test_a_sentence_too_long_for_the_model_is_counted_and_the_others_get_theirs(
    tiny_marian: Callable[[int], Path], frequent: WordFrequencies, text: list[str]
) -> None:
    generator = BackTranslation(str(tiny_marian(1)), str(tiny_marian(2)), frequent, device=CPU)
    long, usual = generator.candidates([" ".join(text * 2), text[0]], 2, [1, 2])
    assert long == []
    assert usual
    assert generator.rejected["input too long"] == 2 * ROUNDS


def test_an_input_may_fill_the_window(generator: BackTranslation, text: list[str]) -> None:
    there = generator.models[0]
    (ids,) = there.tokens([" ".join(text * 2)])
    full, over = there.generate([ids[: there.longest], ids[: there.longest + 1]], [500, 500])
    assert full.text
    assert over.fault == "input too long"


def test_beams_give_candidates_too(
    tiny_marian: Callable[[int], Path], frequent: WordFrequencies, text: list[str]
) -> None:
    spec = f"back-translation:{tiny_marian(1)},{tiny_marian(2)}?beams=3&plain_first=yes"
    generator = generator_by_name(spec, words=lambda: frequent, device=CPU)
    together = generator.candidates(text, 1, [0] * len(text))
    assert together == [generator.candidates([sentence], 1, [0])[0] for sentence in text]
    assert any(together)


def test_identity_is_the_same_for_a_copy_and_another_for_other_weights_or_pieces(
    generator: BackTranslation, tiny_marian: Callable[[int], Path], frequent: WordFrequencies, tmp_path: Path
) -> None:
    one, two = tiny_marian(1), tiny_marian(2)
    copy = tmp_path / "copy"
    shutil.copytree(one, copy)
    same = BackTranslation(str(copy), str(two), frequent, device=CPU).identity()
    assert same == generator.identity()
    assert BackTranslation(str(two), str(two), frequent, device=CPU).identity() != same
    assert BackTranslation(str(one), str(two), frequent, device=CPU, beams=2).identity() != same
    assert BackTranslation(str(one), str(two), frequent, device=CPU, plain_first=True).identity() != same
    proto = (copy / "source.spm").read_bytes()
    # another score of one piece may cut words otherwise
    (copy / "source.spm").write_bytes(proto.replace(b"\xe2\x96\x81the", b"\xe2\x96\x81thx"))
    assert (copy / "source.spm").read_bytes() != proto
    assert BackTranslation(str(copy), str(two), frequent, device=CPU).identity() != same


def test_pickled_weights_are_read(
    tiny_marian: Callable[[int], Path], generator: BackTranslation, tmp_path: Path
) -> None:
    from safetensors.torch import load_file

    pickled = tmp_path / "pickled"
    shutil.copytree(tiny_marian(1), pickled)
    torch.save(load_file(pickled / "model.safetensors"), pickled / "pytorch_model.bin")
    (pickled / "model.safetensors").unlink()
    assert LanguageModel(str(pickled), CPU).digest == generator.models[0].digest


def test_a_causal_model_does_not_translate(
    tiny_marian: Callable[[int], Path], written_model: Callable[..., Path], frequent: WordFrequencies
) -> None:
    with pytest.raises(ModelError, match="causal LM; back-translation needs two translation models"):
        BackTranslation(str(tiny_marian(1)), str(written_model({"a": "b"})), frequent, device=CPU)


@pytest.mark.slow
def test_real_models_say_it_in_other_words(real_model: Callable[[str], Path], frequent: WordFrequencies) -> None:
    pytest.importorskip("sentencepiece")
    spec = f"back-translation:{real_model('opus-mt-en-fr')},{real_model('opus-mt-fr-en')}?plain_first=yes"
    generator = generator_by_name(spec, words=lambda: frequent, device=CPU)
    sentences = ["More than 200 country offices carry out the mission.", "In the following match he made 117 and 19."]
    found = generator.candidates(sentences, 2, [1, 2])
    plain = found[0][0]  # "Over 200 country offices are conducting the mission."
    assert plain != sentences[0]
    assert all(kept in plain for kept in ("200", "country offices", "mission"))
    assert found == [generator.candidates([s], 2, [seed])[0] for s, seed in zip(sentences, [1, 2], strict=True)]
