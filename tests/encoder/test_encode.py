"""encode, similarity, rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError

KINDS = ["bert", "roberta", "distilbert", "mpnet", "mobilebert"]


@pytest.fixture(scope="module")
def encoder(tiny_model: Callable[[str], Path]) -> Encoder:
    return Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pooling", ["cls", "mean", "first_last_mean"])
def test_a_vector_does_not_depend_on_its_batch(
    kind: str, pooling: str, tiny_model: Callable[[str], Path], sentences: list[str]
) -> None:
    encoder = Encoder.load(tiny_model(kind), pooling=pooling, device="cpu")
    together = encoder.encode(sentences, batch_size=3)
    alone = np.stack([encoder.encode(sentence) for sentence in sentences])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_vectors_are_those_of_transformers_itself(encoder: Encoder, sentences: list[str]) -> None:
    for sentence in sentences:
        tokens = encoder.tokenizer(sentence, return_tensors="pt")
        with torch.no_grad():
            states = encoder.backbone(input_ids=tokens["input_ids"]).last_hidden_state[0]
        np.testing.assert_allclose(encoder.encode(sentence), states.mean(dim=0).numpy(), atol=1e-5)


def test_each_unique_sentence_passes_the_model_once_and_order_is_kept(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = 0
    forward = encoder.forward

    def counting(ids: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        nonlocal seen
        seen += len(ids)
        return forward(ids, *rest)

    monkeypatch.setattr(encoder, "forward", counting)
    sentences = ["b b b b", "a", "b b b b", "c c", "a"]
    vectors = encoder.encode(sentences, batch_size=2)
    assert seen == 3
    np.testing.assert_array_equal(vectors[0], vectors[2])
    np.testing.assert_array_equal(vectors[1], vectors[4])
    assert not np.allclose(vectors[0], vectors[1])


@pytest.mark.parametrize("kind", ["bert", "mobilebert"])
@pytest.mark.parametrize("budget", [1, 40, 10_000])
def test_no_batch_is_over_its_budget_and_the_longest_come_first(
    kind: str, budget: int, tiny_model: Callable[[str], Path], sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = Encoder.load(tiny_model(kind), pooling="mean", device="cpu")
    shapes = []
    forward = encoder.forward
    monkeypatch.setattr(encoder, "forward", lambda ids, *rest: shapes.append(ids.shape) or forward(ids, *rest))
    vectors = encoder.encode(sentences, batch_tokens=budget)
    assert all(rows == 1 or rows * width <= budget for rows, width in shapes)
    assert [width for _, width in shapes] == sorted((width for _, width in shapes), reverse=True)
    np.testing.assert_allclose(vectors, encoder.encode(sentences), atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_windows_change_nothing(
    size: int, encoder: Encoder, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = encoder.encode(sentences)
    monkeypatch.setattr("nearer.encoder.encoding.SORTED_WINDOW", size)
    monkeypatch.setattr("nearer.encoder.encoding.TOKENISED_AT_ONCE", 2)
    np.testing.assert_allclose(encoder.encode(sentences), expected, atol=1e-6)


def test_a_tokenizer_that_fails_in_its_thread_is_heard_of(
    encoder: Encoder, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearer.encoder.encoding.SORTED_WINDOW", 2)
    monkeypatch.setattr("nearer.encoder.encoding.tokenise_and_count", lambda *given: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        encoder.encode(sentences)


class TestTokens:
    """Tokenised once, encoded often."""

    @pytest.mark.parametrize("normalize", [False, True])
    def test_the_vectors_are_those_of_encode(self, normalize: bool, encoder: Encoder, sentences: list[str]) -> None:
        tokenised = encoder.tokenised(sentences)
        for _ in range(2):
            vectors = encoder.encode_tokens(tokenised, normalize=normalize)
            assert (vectors.dtype, vectors.device) == (torch.float32, encoder.device)
            np.testing.assert_allclose(vectors, encoder.encode(sentences, normalize=normalize), atol=1e-6)

    def test_the_mode_stays_and_there_is_no_dropout(self, encoder: Encoder, sentences: list[str]) -> None:
        tokenised = encoder.tokenised(sentences)
        encoder.train()
        first, second = encoder.encode_tokens(tokenised), encoder.encode_tokens(tokenised)
        assert encoder.training
        encoder.eval()
        torch.testing.assert_close(first, second, rtol=0, atol=0)

    def test_no_sentences(self, encoder: Encoder) -> None:
        assert encoder.encode_tokens(encoder.tokenised([])).shape == (0, encoder.dimension)

    def test_a_prompt_stays_out_of_the_pooling(self, tiny_model: Callable[[str], Path]) -> None:
        encoder = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")
        encoder.settings = replace(encoder.settings, prompts={"query": "the fox "}, pool_prompt=False)
        ids = torch.tensor([encoder.tokenizer("the fox rain")["input_ids"]])
        pooled = torch.ones_like(ids)
        pooled[:, : len(encoder.tokenizer("the fox")["input_ids"]) - 1] = 0
        with torch.no_grad():
            expected = encoder(ids, torch.ones_like(ids), pooled)
        tokenised = encoder.tokenised(["rain"], prompt_name="query")
        torch.testing.assert_close(encoder.encode_tokens(tokenised), expected)
        np.testing.assert_allclose(encoder.encode(["rain"], prompt_name="query"), expected, atol=1e-6)


class TestMemory:
    """A device that takes so many tokens and no more."""

    def limited(self, encoder: Encoder, most: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        passed: list[int] = []
        forward = encoder.forward

        def limited(ids: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
            if ids.numel() > most:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            passed.append(ids.numel())
            return forward(ids, *rest)

        monkeypatch.setattr(encoder, "forward", limited)
        return passed

    def test_smaller_batches_do(self, encoder: Encoder, sentences: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        expected = encoder.encode(sentences)
        passed = self.limited(encoder, 64, monkeypatch)
        with pytest.warns(UserWarning, match=r"do not fit in the memory of cpu; going on with batch_tokens \d+"):
            vectors = encoder.encode(sentences)
        np.testing.assert_allclose(vectors, expected, atol=1e-5)
        assert max(passed) <= 64

    def test_one_sentence_that_does_not_fit_is_an_error(
        self, encoder: Encoder, sentences: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.limited(encoder, 8, monkeypatch)
        with (
            pytest.warns(UserWarning, match="batch_tokens"),
            pytest.raises(SettingError, match=r"max_length: one sentence of \d+ tokens is more than the memory of cpu"),
        ):
            encoder.encode(sentences)


def test_one_string_gives_one_vector_and_no_sentences_none(encoder: Encoder) -> None:
    assert encoder.encode("a").shape == (encoder.dimension,)
    assert encoder.encode([]).shape == (0, encoder.dimension)
    assert encoder.encode("a").dtype == np.float32


def test_normalize_gives_unit_vectors(encoder: Encoder, sentences: list[str]) -> None:
    plain = encoder.encode(sentences)
    unit = encoder.encode(sentences, normalize=True)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(unit, plain / np.linalg.norm(plain, axis=1, keepdims=True), atol=1e-6)


def test_encode_leaves_the_mode_as_it_was_and_uses_no_dropout(encoder: Encoder) -> None:
    encoder.train()
    first, second = encoder.encode("a man"), encoder.encode("a man")
    assert encoder.training
    encoder.eval()
    np.testing.assert_array_equal(first, second)


def test_long_sentences_are_cut_at_max_length(tiny_model: Callable[[str], Path]) -> None:
    encoder = Encoder.load(tiny_model("bert"), pooling="mean", max_length=8, device="cpu")
    np.testing.assert_array_equal(encoder.encode("rain " * 6), encoder.encode("rain " * 500))


@pytest.mark.parametrize("kind", KINDS)
def test_the_longest_input_fits_the_positions(kind: str, tiny_model: Callable[[str], Path]) -> None:
    encoder = Encoder.load(tiny_model(kind), pooling="cls", device="cpu")
    encoder.encode("rain " * 500)
    with pytest.raises(SettingError, match="max_length: 500"):
        Encoder.load(tiny_model(kind), pooling="cls", max_length=500)


def test_similarity_is_the_cosine(encoder: Encoder) -> None:
    first, second = encoder.encode("a man"), encoder.encode("rain again")
    expected = float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))
    assert encoder.similarity("a man", "rain again") == pytest.approx(expected, abs=1e-6)
    matrix = encoder.similarity(["a man", "x"], ["rain again", "a man", "fox"])
    assert matrix.shape == (2, 3)
    assert matrix[0, 0] == pytest.approx(expected, abs=1e-6)
    assert matrix[0, 1] == pytest.approx(1, abs=1e-6)


def test_all_pairs_of_vectors_of_any_length(encoder: Encoder) -> None:
    first, second = ["a man", "x"], ["rain again", "a man", "fox"]
    found = encoder.score_matrix(3 * encoder.encode(first), encoder.encode(second))
    np.testing.assert_allclose(found, encoder.similarity(first, second), atol=1e-6)
    assert found.dtype == np.float32


def test_rank_sorts_by_similarity_and_keeps_the_order_of_equals(encoder: Encoder) -> None:
    candidates = ["the dog", "a man is eating", "rain", "the dog"]
    ranked = encoder.rank("a man", candidates)
    scores = [encoder.similarity("a man", candidate) for candidate in candidates]
    assert [r.number for r in ranked] == sorted(range(4), key=lambda i: (-round(scores[i], 5), i))
    assert [r.sentence for r in ranked] == [candidates[r.number] for r in ranked]
    assert [r.number for r in ranked if r.sentence == "the dog"] == [0, 3]
    assert encoder.rank("a man", candidates, top=2) == ranked[:2]
    assert encoder.rank("a man", []) == []


def test_pair_scores_are_cosines_in_float64_and_zero_vectors_score_zero(encoder: Encoder) -> None:
    first = np.array([[1, 0], [0, 0], [3, 4]], dtype=np.float32)
    second = np.array([[1, 1], [1, 0], [6, 8]], dtype=np.float32)
    scores = encoder.pair_scores(first, second)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, [2**-0.5, 0, 1], atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: e.encode(["a", 3]), "item 1 is int"),
        (lambda e: e.encode(["a", "b\ud800"]), "item 1 holds half a surrogate"),
        (lambda e: e.encode(["a"], batch_size=0), "batch_size: 0"),
        (lambda e: e.encode(["a"], batch_tokens=0), "batch_tokens: 0"),
        (lambda e: e.tokenised(["a", 3]), "item 1 is int"),
        (lambda e: e.rank("a", ["b"], top=0), "top: 0"),
        (lambda e: e.encode(["a"], prompt_name="query"), "no prompt 'query'"),
    ],
)
def test_wrong_arguments_are_named(encoder: Encoder, call: Callable[[Encoder], object], message: str) -> None:
    with pytest.raises((InputError, SettingError), match=message):
        call(encoder)


def test_text_normalisation_is_applied_before_the_tokenizer(tiny_model: Callable[[str], Path]) -> None:
    plain = Encoder.load(tiny_model("bert"), pooling="cls", device="cpu")
    stopped = Encoder.load(tiny_model("bert"), pooling="cls", text_normalisation="full_stop", device="cpu")
    np.testing.assert_array_equal(stopped.encode("a man"), plain.encode("a man."))
    np.testing.assert_array_equal(stopped.encode("a man?"), plain.encode("a man?"))


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=8), st.integers(1, 5))
def test_any_text_in_any_batch_size_gives_its_own_vector(encoder: Encoder, texts: list[str], size: int) -> None:
    vectors = encoder.encode(texts, batch_size=size)
    assert np.isfinite(vectors).all()
    for text, vector in zip(texts, vectors, strict=True):
        np.testing.assert_allclose(vector, encoder.encode(text), atol=1e-5)
