"""Whitening: mean 0 and covariance 1 on what it was fitted on; as a layer it is the same model everywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.baselines import Whitening, whiten
from nearer.encoder import Encoder, EncoderSettings
from nearer.errors import InputError, SettingError


def skewed(count: int, seed: int = 0, size: int = 5) -> np.ndarray:
    """Far from the origin, with directions of very different spread."""
    draw = np.random.default_rng(seed)
    return 20 + draw.normal(size=(count, size)) @ (draw.normal(size=(size, size)) * 3.0 ** -np.arange(size))


class TestFit:
    def test_mean_and_covariance_of_the_fitted(self) -> None:
        vectors = skewed(200)
        white = Whitening.fit(vectors)(vectors)
        np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-8)
        np.testing.assert_allclose(np.cov(white.T, ddof=0), np.eye(5), atol=1e-8)

    def test_against_the_papers_lines(self) -> None:
        """Su et al.: the singular vectors of the covariance, divided by the roots of its singular values."""
        vectors = skewed(60)
        directions, variances, _ = np.linalg.svd(np.cov(vectors.T))
        expected = (vectors - vectors.mean(axis=0)) @ directions @ np.diag(1 / np.sqrt(variances))
        found = Whitening.fit(vectors, dimension=3)(vectors)
        for column in range(3):  # up to a sign, and to the divisor n − 1
            assert abs(np.corrcoef(found[:, column], expected[:, column])[0, 1]) == pytest.approx(1)
            assert found[:, column].std() == pytest.approx(1)

    def test_the_directions_of_most_variance_are_kept(self) -> None:
        vectors = np.random.default_rng(0).normal(size=(500, 3)) * [1, 10, 0.1]
        white = Whitening.fit(vectors, dimension=1)(vectors)
        assert abs(np.corrcoef(white[:, 0], vectors[:, 1])[0, 1]) > 0.999

    @settings(max_examples=25, deadline=None)
    @given(cuts=st.lists(st.integers(0, 80), max_size=5), seed=st.integers(0, 100))
    def test_blocks_are_as_good_as_all_at_once(self, cuts: list[int], seed: int) -> None:
        vectors = skewed(80, seed)
        whole, pieces = Whitening.fit(vectors), Whitening.fit(iter(np.split(vectors, sorted(cuts))))
        np.testing.assert_allclose(pieces.mean, whole.mean, rtol=1e-10)
        cosines = [white @ white.T for white in (whole(vectors), pieces(vectors))]  # whatever the directions' signs
        np.testing.assert_allclose(cosines[1], cosines[0], atol=1e-6)
        assert pieces.sentences == 80

    def test_directions_without_variance_are_left_out(self) -> None:
        """Four sentences span three directions; what is left holds rounding errors, which must not be blown up."""
        vectors = skewed(4).astype(np.float32)
        found = Whitening.fit(vectors)
        assert found.dimension == 3
        assert np.abs(found(vectors)).max() < 3

    @pytest.mark.parametrize("dimension", [0, 4, -1])
    def test_more_directions_than_the_text_has(self, dimension: int) -> None:
        with pytest.raises(
            SettingError, match=f"dimension: {dimension} is not between 1 and 3, .* of 4 sentences vary"
        ):
            Whitening.fit(skewed(4), dimension=dimension)

    @pytest.mark.parametrize(
        ("vectors", "told"),
        [
            (np.empty((0, 3)), "0 vectors given, at least 2 are needed; give it more text"),
            (np.ones((1, 3)), "1 vectors given"),
            (np.ones((5, 3)), "all vectors are equal"),
            (np.array([[1.0, np.nan], [1.0, 2.0]]), "some vectors are not finite numbers"),
            (np.ones(3), r"vectors of shape \(3,\)"),
            (iter([np.ones((2, 3)), np.ones((2, 4))]), r"vectors of shape \(2, 4\)"),
        ],
    )
    def test_what_cannot_be_whitened(self, vectors: np.ndarray, told: str) -> None:
        with pytest.raises(InputError, match=told):
            Whitening.fit(vectors)


class TestModel:
    def test_it_whitens_what_the_encoder_gives(self, encoder: Encoder, texts: list[str]) -> None:
        made = whiten(encoder, texts, dimension=12)
        vectors = made.encode(texts)
        assert vectors.shape == (len(texts), 12)
        assert made.dimension == 12
        np.testing.assert_allclose(vectors.mean(axis=0), 0, atol=1e-3)
        np.testing.assert_allclose(np.cov(vectors.T, ddof=0), np.eye(12), atol=5e-3)
        fitted = Whitening.fit(encoder.encode(texts), dimension=12)
        np.testing.assert_allclose(np.abs(vectors), np.abs(fitted(encoder.encode(texts))), atol=2e-3)

    def test_the_encoder_itself_stays_as_it_was(self, encoder: Encoder, texts: list[str]) -> None:
        before = encoder.encode(texts[:3])
        whiten(encoder, texts)
        np.testing.assert_array_equal(encoder.encode(texts[:3]), before)
        assert encoder.dimension == 32

    def test_each_sentence_counts_once(self, encoder: Encoder, texts: list[str]) -> None:
        one, two = whiten(encoder, texts, dimension=4), whiten(encoder, [*texts, *texts[:40]], dimension=4)
        np.testing.assert_array_equal(one.encode(texts[:3]), two.encode(texts[:3]))

    def test_saved_and_loaded_here_and_by_sentence_transformers(
        self, encoder: Encoder, texts: list[str], tmp_path: Path
    ) -> None:
        made = whiten(encoder, texts, dimension=12, text="all there is")
        made.save(tmp_path / "white")
        loaded = Encoder.load(tmp_path / "white", device="cpu")
        wanted = made.encode(texts[:20])
        np.testing.assert_allclose(loaded.encode(texts[:20]), wanted, atol=1e-5)
        assert loaded.provenance["whitening"] == {"text": "all there is", "sentences": len(texts), "dimension": 12}
        other = pytest.importorskip("sentence_transformers").SentenceTransformer(str(tmp_path / "white"), device="cpu")
        np.testing.assert_allclose(other.encode(texts[:20]), wanted, atol=1e-3)

    def test_a_model_that_normalises_does_so_behind_the_whitening(self, encoder: Encoder, texts: list[str]) -> None:
        chosen = EncoderSettings(pooling="mean", max_length=32, normalize=True)
        unit = Encoder(encoder.backbone, encoder.tokenizer, chosen, name="unit").eval()
        vectors = whiten(unit, texts, dimension=12).encode(texts)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
        plain = whiten(encoder, texts, dimension=12).encode(texts)
        np.testing.assert_allclose(vectors, plain / np.linalg.norm(plain, axis=1, keepdims=True), atol=1e-3)

    def test_a_head_for_training_only_is_no_part_of_it(
        self, encoder: Encoder, texts: list[str], tmp_path: Path
    ) -> None:
        chosen = EncoderSettings(pooling="cls_before_head", max_length=32)
        trained = Encoder(encoder.backbone, encoder.tokenizer, chosen, name="trained").eval()
        trained.add_head()
        made = whiten(trained, texts, dimension=6)
        made.save(tmp_path / "white")
        loaded = Encoder.load(tmp_path / "white", device="cpu")
        np.testing.assert_allclose(loaded.encode(texts[:5]), made.encode(texts[:5]), atol=1e-5)
        assert (made.head, loaded.head) == (None, None)

    def test_a_kept_head_stands_before_it(self, encoder: Encoder, texts: list[str], tmp_path: Path) -> None:
        chosen = EncoderSettings(pooling="cls", max_length=32)
        kept = Encoder(encoder.backbone, encoder.tokenizer, chosen, name="kept").eval()
        kept.add_head()
        made = whiten(kept, texts, dimension=6)
        made.save(tmp_path / "white")
        loaded = Encoder.load(tmp_path / "white", device="cpu")
        assert loaded.head is not None
        np.testing.assert_allclose(loaded.encode(texts[:5]), made.encode(texts[:5]), atol=1e-5)

    def test_it_fits_vectors_of_its_size_only(self, encoder: Encoder) -> None:
        with pytest.raises(SettingError, match=r"is of vectors with 5 dimensions, .* gives 32"):
            Whitening.fit(skewed(20)).put_behind(encoder)

    def test_no_text(self, encoder: Encoder) -> None:
        with pytest.raises(InputError, match="0 vectors given, at least 2 are needed"):
            whiten(encoder, [])


@pytest.mark.parametrize(("pooling", "other"), [("first_last_mean", 1), ("embedding_last_mean", 0)])
def test_first_last_average_is_a_pooling(encoder: Encoder, pooling: str, other: int) -> None:
    """The papers' baseline in both readings, against the backbone's own states."""
    chosen = EncoderSettings(pooling=pooling, max_length=32)
    averaging = Encoder(encoder.backbone, encoder.tokenizer, chosen).eval()
    sentence = "a man is eating lunch"
    with torch.no_grad():
        tokens = encoder.tokenizer(sentence, return_tensors="pt")
        states = encoder.backbone(
            input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"], output_hidden_states=True
        ).hidden_states
    expected = ((states[other] + states[-1]) / 2)[0].mean(dim=0)
    np.testing.assert_allclose(averaging.encode(sentence), expected.numpy(), atol=1e-5)
