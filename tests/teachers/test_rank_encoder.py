"""RankEncoder against similarities computed one pair at a time, and in evaluation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr
from teacher_text import different_sentences

from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.evaluation import evaluate, load_tasks
from nearer.teachers import RankEncoder

CORPUS = different_sentences(40, seed=7)
# two corpus sentences that change places, being equally near in float32, make a difference of 0.0002
NEAR = 1e-3
FIRST, SECOND = different_sentences(6, seed=8), different_sentences(6, seed=9)


def obvious(model: RankEncoder, first: str, second: str) -> float:
    """λ · Spearman's correlation of the cosines to the corpus + (1 − λ) · cosine, in float64."""
    a, b = (model.encoder.encode(sentence).astype(np.float64) for sentence in (first, second))
    corpus = np.asarray(model.corpus, dtype=np.float64)
    lists = []
    for vector in (a, b):
        lists.append([row @ vector / np.sqrt((row @ row) * (vector @ vector)) for row in corpus])
    normal = 6 / np.pi * np.arcsin(pearsonr(*lists).statistic / 2)
    ranks = normal if model.approximate else spearmanr(*lists).statistic
    cosine = a @ b / np.sqrt((a @ a) * (b @ b))
    return float(model.inference_weight * ranks + (1 - model.inference_weight) * cosine)


@pytest.fixture(params=[False, True], ids=["exact", "approximate"])
def approximate(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


class TestAgainstTheObviousWay:
    @pytest.fixture(params=[0.0, 0.3, 1.0])
    def model(self, request: pytest.FixtureRequest, approximate: bool, encoder: Encoder) -> RankEncoder:
        return RankEncoder.build(encoder, CORPUS, inference_weight=request.param, approximate=approximate)

    def test_two_sentences(self, model: RankEncoder) -> None:
        found = model.similarity(FIRST[0], SECOND[0])
        assert isinstance(found, float)
        assert found == pytest.approx(obvious(model, FIRST[0], SECOND[0]), abs=NEAR)

    def test_lists_of_them(self, model: RankEncoder) -> None:
        found = model.similarity(FIRST, SECOND[:4])
        wanted = [[obvious(model, one, two) for two in SECOND[:4]] for one in FIRST]
        np.testing.assert_allclose(found, wanted, atol=NEAR)
        assert np.ptp(wanted) > 0.05
        assert np.shape(model.similarity(FIRST[0], SECOND)) == (1, 6)
        assert np.shape(model.similarity(FIRST, SECOND[0])) == (6, 1)

    def test_paired_rows(self, model: RankEncoder) -> None:
        """Of any length: evaluation hands on what `encode` gave."""
        found = model.pair_scores(3 * model.encode(FIRST), model.encode(SECOND))
        assert found.dtype == np.float64
        wanted = [obvious(model, one, two) for one, two in zip(FIRST, SECOND, strict=True)]
        np.testing.assert_allclose(found, wanted, atol=NEAR)

    def test_all_pairs_of_rows(self, model: RankEncoder) -> None:
        found = model.score_matrix(3 * model.encode(FIRST), model.encode(SECOND[:4]))
        assert found.dtype == np.float32
        wanted = [[obvious(model, one, two) for two in SECOND[:4]] for one in FIRST]
        np.testing.assert_allclose(found, wanted, atol=NEAR)

    def test_rank(self, model: RankEncoder) -> None:
        candidates = [*SECOND, SECOND[1]]
        found = model.rank(FIRST[0], candidates)
        scores = [obvious(model, FIRST[0], candidate) for candidate in candidates]
        places = [ranked.number for ranked in found]
        assert sorted(places) == list(range(len(candidates)))
        assert [ranked.sentence for ranked in found] == [candidates[place] for place in places]
        assert [ranked.score for ranked in found] == pytest.approx([scores[place] for place in places], abs=NEAR)
        assert [ranked.score for ranked in found] == sorted((ranked.score for ranked in found), reverse=True)
        assert places.index(6) == places.index(1) + 1  # equal ones keep their order
        assert model.rank(FIRST[0], candidates, top=2) == found[:2]
        assert model.rank(FIRST[0], []) == []

    def test_a_sentence_is_most_like_itself(self, model: RankEncoder) -> None:
        assert model.similarity(FIRST[0], FIRST[0]) == pytest.approx(1, abs=1e-3)

    def test_vectors_are_the_encoder_s(self, model: RankEncoder, encoder: Encoder) -> None:
        np.testing.assert_array_equal(model.encode(FIRST), encoder.encode(FIRST))
        np.testing.assert_array_equal(model.encode(FIRST[0], normalize=True), encoder.encode(FIRST[0], normalize=True))


def test_ranks_and_cosines_are_not_the_same(encoder: Encoder) -> None:
    """Else the weights above would have shown nothing."""
    cosines = encoder.pair_scores(encoder.encode(FIRST), encoder.encode(SECOND))
    ranks = RankEncoder.build(encoder, CORPUS).pair_scores(encoder.encode(FIRST), encoder.encode(SECOND))
    assert np.abs(cosines - ranks).max() > 0.2


def test_the_corpus_is_kept_as_unit_vectors_in_half_precision(encoder: Encoder) -> None:
    corpus = RankEncoder.build(encoder, CORPUS).corpus
    assert corpus.dtype == np.float16
    np.testing.assert_allclose(corpus, encoder.encode(CORPUS, normalize=True), atol=4e-4)


def test_an_encoder_that_normalises_gives_the_same(encoder: Encoder, approximate: bool) -> None:
    plain = RankEncoder.build(encoder, CORPUS, inference_weight=0.5, approximate=approximate)
    longer = RankEncoder(encoder, 4 * plain.corpus.astype(np.float64), 0.5, approximate)
    np.testing.assert_allclose(longer.similarity(FIRST, SECOND), plain.similarity(FIRST, SECOND), atol=1e-3)


class TestRefusals:
    @pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
    def test_weights(self, weight: float, encoder: Encoder) -> None:
        with pytest.raises(SettingError, match=f"inference_weight: {weight} is not between 0 and 1"):
            RankEncoder.build(encoder, CORPUS[:3], inference_weight=weight)

    @pytest.mark.parametrize("shape", [(5, 31), (5, 33), (1, 32), (0, 32), (32,), (2, 5, 32)])
    def test_vectors_of_another_shape(self, shape: tuple[int, ...], encoder: Encoder) -> None:
        with pytest.raises(InputError, match=r"corpus: vectors of shape .* given, \(2 or more, 32\) needed"):
            RankEncoder(encoder, np.zeros(shape, dtype=np.float16))

    @pytest.mark.parametrize("sentences", [[], ["rain"], ["rain", "rain"]])
    def test_too_few_sentences(self, sentences: list[str], encoder: Encoder) -> None:
        with pytest.raises(InputError, match=rf"at least 2 different sentences, {len(set(sentences))} given"):
            RankEncoder.build(encoder, sentences)

    def test_a_model_that_gives_no_numbers(self, tiny_model) -> None:  # type: ignore[no-untyped-def]
        broken = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")
        broken.backbone.get_input_embeddings().weight.data[:] = float("nan")
        with pytest.raises(InputError, match="vectors that are not finite numbers"):
            RankEncoder.build(broken, CORPUS)

    def test_top(self, encoder: Encoder) -> None:
        with pytest.raises(SettingError, match="top: 0 is below 1"):
            RankEncoder.build(encoder, CORPUS).rank("rain", FIRST, top=0)


class TestEvaluation:
    @pytest.fixture(scope="class")
    def wiki_mini(self) -> Encoder:
        return Encoder.load("wiki-mini", pooling="mean", device="cpu")

    def test_everyday(self, wiki_mini: Encoder, approximate: bool) -> None:
        [task] = load_tasks(["everyday"], None)
        sentences = list(dict.fromkeys(pair.second for pair in task.pairs))[:60]
        model = RankEncoder.build(wiki_mini, sentences, inference_weight=0.4, approximate=approximate)
        results = evaluate(model, "everyday")
        texts = [sentence for pair in task.pairs for sentence in pair[:2]]
        vectors = dict(zip(texts, wiki_mini.encode(texts, normalize=True), strict=True))
        lists = {sentence: model.corpus.astype(np.float64) @ vector for sentence, vector in vectors.items()}
        scores = []
        for pair in task.pairs:
            pearson = np.corrcoef(lists[pair.first], lists[pair.second])[0, 1]
            exact = spearmanr(lists[pair.first], lists[pair.second]).statistic
            ranks = 6 / np.pi * np.arcsin(pearson / 2) if approximate else exact
            scores.append(0.4 * ranks + 0.6 * float(vectors[pair.first] @ vectors[pair.second]))
        gold = [pair.score for pair in task.pairs]
        assert results["everyday"] == pytest.approx(100 * spearmanr(scores, gold).statistic, abs=0.1)
        assert results["everyday"] != pytest.approx(evaluate(wiki_mini, "everyday")["everyday"], abs=0.3)

    def test_the_protocol_says_how_similarity_was_computed(self, encoder: Encoder, approximate: bool) -> None:
        model = RankEncoder.build(encoder, CORPUS, inference_weight=0.3, approximate=approximate)
        results = evaluate(model, "everyday")
        how = "from its covariance" if approximate else "exact"
        assert results.protocol["similarity"] == f"0.3 · ranks of 40 sentences ({how}) + 0.7 · cosine"
        assert evaluate(encoder, "everyday").protocol["similarity"] == "cosine"
        assert results.model == encoder.name
        assert results.protocol == {
            **evaluate(encoder, "everyday").protocol,
            "similarity": results.protocol["similarity"],
        }

    def test_the_protocol_says_that_a_head_is_kept(self, tiny_model) -> None:  # type: ignore[no-untyped-def]
        headed = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")
        headed.add_head(torch.Generator().manual_seed(0))
        assert evaluate(RankEncoder.build(headed, CORPUS), "everyday").protocol["head"] is True

    def test_precision_is_the_encoder_s(self, tiny_model) -> None:  # type: ignore[no-untyped-def]
        inner = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")
        model = RankEncoder.build(inner, CORPUS)
        model.precision = "bf16"
        assert inner.precision == model.precision == "bf16"
        np.testing.assert_array_equal(model.encode(FIRST), inner.encode(FIRST, precision="bf16"))
        assert evaluate(model, "everyday").protocol["precision"] == "bf16"
