"""Word-level augmentations and masking on token ids."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.errors import SettingError
from nearer.text.augmentation import Augmenter, Masker

SENTENCE = "the quick brown fox jumps over the lazy dog again"


@pytest.fixture(params=["bert", "roberta"])
def tokenizer(request: pytest.FixtureRequest, tiny_model: Callable[[str], Path]) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_model(request.param))


def words_after(kind: str, rate: float, tokenizer: Any, seed: int, sentence: str = SENTENCE) -> list[str]:
    ids = np.array(tokenizer(sentence)["input_ids"])
    changed = Augmenter(kind, rate, tokenizer)(ids, np.random.default_rng(seed))
    assert changed[0] == ids[0]
    assert changed[-1] == ids[-1]
    return str(tokenizer.decode(changed, skip_special_tokens=True)).split()


def test_none_changes_nothing(tokenizer: Any) -> None:
    assert words_after("none", 0.5, tokenizer, 0) == SENTENCE.split()


@pytest.mark.parametrize("seed", range(5))
def test_crop_keeps_a_contiguous_span(tokenizer: Any, seed: int) -> None:
    kept = words_after("crop", 0.3, tokenizer, seed)
    assert len(kept) == 7
    assert " ".join(kept) in SENTENCE


@pytest.mark.parametrize("seed", range(5))
def test_word_deletion_keeps_the_order_of_what_is_left(tokenizer: Any, seed: int) -> None:
    kept = words_after("word_deletion", 0.2, tokenizer, seed)
    assert len(kept) == 8
    rest = iter(SENTENCE.split())
    assert all(word in rest for word in kept)


def test_delete_one_word_takes_each_word_at_times(tokenizer: Any) -> None:
    gone = set()
    for seed in range(60):
        kept = words_after("delete_one_word", 0.0, tokenizer, seed)
        assert len(kept) == 9
        gone |= {
            place
            for place, word in enumerate(SENTENCE.split())
            if [*kept[:place], word, *kept[place:]] == SENTENCE.split()
        }
    assert len(gone) >= 9


def test_drop_words_deletes_each_word_for_itself(tokenizer: Any) -> None:
    counts = [len(words_after("drop_words", 0.6, tokenizer, seed)) for seed in range(400)]
    assert np.mean(counts) == pytest.approx(4, abs=0.3)  # of ten
    assert np.var(counts) == pytest.approx(10 * 0.6 * 0.4, rel=0.25)
    rest = iter(SENTENCE.split())
    assert all(word in rest for word in words_after("drop_words", 0.6, tokenizer, 1))


@pytest.mark.parametrize("kind", ["crop", "word_deletion", "delete_one_word", "drop_words"])
@pytest.mark.parametrize("sentence", ["", "rain"])
def test_the_last_word_stays(tokenizer: Any, kind: str, sentence: str) -> None:
    assert words_after(kind, 0.9, tokenizer, 0, sentence) == sentence.split()


@pytest.mark.parametrize("longest", [None, 13])
def test_repetition_doubles_some_tokens_where_they_stand(tokenizer: Any, longest: int | None) -> None:
    ids = np.array(tokenizer(SENTENCE)["input_ids"])
    augmenter = Augmenter("word_repetition", 0.4, tokenizer, longest=longest and len(ids) + 1)
    grown = set()
    for seed in range(40):
        changed = augmenter(ids, np.random.default_rng(seed))
        kept = [changed[0], *[b for a, b in itertools.pairwise(changed) if a != b]]
        plain = [ids[0], *[b for a, b in itertools.pairwise(ids) if a != b]]
        assert kept == plain
        grown.add(len(changed) - len(ids))
    most = 1 if longest else min(10, int(0.4 * (len(ids) - 2)))
    assert grown == set(range(most + 1))


@pytest.mark.parametrize(("variant", "rate", "most"), [("paper", 0.3, 3), ("paper", 0.1, 2), ("released", 0.3, 2)])
def test_how_often_esimcse_repeats(tokenizer: Any, variant: str, rate: float, most: int) -> None:
    """Paper: from 0 to max(2, rate · tokens). Released: below min(10, rate · (tokens and two special ones))."""
    from nearer.methods import ESimCSE, ESimCSESettings

    method = ESimCSE(ESimCSESettings(variant=variant, repetition_rate=rate))
    augmenter = Augmenter("word_repetition", rate, tokenizer, most=method._most_repeated)
    ids = np.array([2, *range(10, 20), 3])
    grown = {len(augmenter(ids, np.random.default_rng(seed))) - len(ids) for seed in range(60)}
    assert grown == set(range(most + 1))


def test_tokens_around_a_sentence_stay(tokenizer: Any) -> None:
    ids = np.array(tokenizer(SENTENCE)["input_ids"])
    for seed in range(20):
        changed = Augmenter("word_deletion", 0.5, tokenizer, around=(4, 3))(ids, np.random.default_rng(seed))
        assert changed[:4].tolist() == ids[:4].tolist()
        assert changed[-3:].tolist() == ids[-3:].tolist()
        assert len(changed) < len(ids)


def test_wrong_settings_are_named(tokenizer: Any) -> None:
    with pytest.raises(SettingError, match="augmentation: 'shuffle'"):
        Augmenter("shuffle", 0.1, tokenizer)
    with pytest.raises(SettingError, match="augmentation_rate: 1"):
        Augmenter("crop", 1.0, tokenizer)


def test_masking_follows_the_shares_of_bert(tokenizer: Any) -> None:
    masker = Masker.of(tokenizer, 0.15)
    ids = np.random.default_rng(0).integers(5, len(tokenizer), 200_000)
    ids[::50] = tokenizer.cls_token_id
    masked, chosen = masker(ids, np.random.default_rng(1))
    ordinary = ids != tokenizer.cls_token_id
    assert not chosen[~ordinary].any()
    assert chosen[ordinary].mean() == pytest.approx(0.15, abs=0.005)
    assert (masked[~chosen] == ids[~chosen]).all()
    assert (masked[chosen] == tokenizer.mask_token_id).mean() == pytest.approx(0.8, abs=0.01)
    assert (masked[chosen] == ids[chosen]).mean() == pytest.approx(0.1, abs=0.01)


@given(
    st.lists(st.integers(0, 60), max_size=40),
    st.lists(st.integers(0, 30), max_size=6).map(tuple),
    st.sampled_from([0.01, 0.3, 0.99]),
    st.integers(0, 99),
)
def test_masking_is_bert_token_by_token(row: list[int], special: tuple[int, ...], rate: float, seed: int) -> None:
    masked, chosen = Masker(31, 50, special, rate)(np.array(row, dtype=np.int64), np.random.default_rng(seed))
    random = np.random.default_rng(seed)
    drawn, fate = [random.random() for _ in row], [random.random() for _ in row]
    wanted = [draw < rate and token not in special for draw, token in zip(drawn, row, strict=True)]
    swapped = [want and 0.8 <= draw < 0.9 for want, draw in zip(wanted, fate, strict=True)]
    others = iter(random.integers(0, 50, sum(swapped)).tolist())
    assert chosen.tolist() == wanted
    assert masked.tolist() == [
        next(others) if swap else 31 if want and draw < 0.8 else token
        for token, want, draw, swap in zip(row, wanted, fate, swapped, strict=True)
    ]
