"""Averaged word vectors: against a loop, with Encoder's calls, as a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from word_file import VECTORS

from faulty_disk import unchecked
from nearer.analysis import analyse
from nearer.baselines import StaticWords, load_scorer, static_words
from nearer.baselines.static_words import forms, tokens
from nearer.encoder import Encoder
from nearer.errors import InputError, ModelError, SettingError
from nearer.evaluation import evaluate, file_task
from nearer.teachers import RankEncoder

SENTENCES = ["The cat sat", "the the cat", "Paris , PARIS", "unheard words", "don't", "", "cat unheard sat"]


@pytest.fixture
def model(glove: Path) -> StaticWords:
    return StaticWords.read(glove)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The cat sat.", ["The", "cat", "sat", "."]),
        ("I don't, can't and won’t", ["I", "do", "n't", ",", "ca", "n't", "and", "wo", "n’t"]),
        ("John's well-known U.S. firm's 1,000.50", ["John", "'s", "well-known", "U.S.", "firm", "'s", "1,000.50"]),
        ("it 's tokenised , do n't you see", ["it", "'s", "tokenised", ",", "do", "n't", "you", "see"]),
        ("東京 naïve café!", ["東京", "naïve", "café", "!"]),
        ("", []),
    ],
)
def test_tokens(sentence: str, expected: list[str]) -> None:
    assert tokens(sentence) == expected


def test_forms_are_looked_up_in_order() -> None:
    assert list(forms("PARIS")) == ["PARIS", "paris"]
    assert list(forms("N’T")) == ["N’T", "N'T", "n't"]


def test_a_vector_is_the_mean_of_the_words_that_are_known(model: StaticWords) -> None:
    by_hand = [
        np.mean([VECTORS[word] for word in known], axis=0) if known else np.zeros(3)
        for known in (
            ["the", "cat", "sat"],
            ["the", "the", "cat"],
            ["Paris", ",", "paris"],  # as it is written first, then in lower case
            [],
            ["do", "n't"],
            [],
            ["cat", "sat"],
        )
    ]
    np.testing.assert_allclose(model.encode(SENTENCES), by_hand, atol=1e-6)
    assert model.encode(SENTENCES).dtype == np.float32


@pytest.mark.parametrize("size", [1, 2, 3])
def test_whatever_the_batch(model: StaticWords, size: int) -> None:
    np.testing.assert_array_equal(model.encode(SENTENCES, batch_size=size), model.encode(SENTENCES))


def test_one_sentence_and_normalised(model: StaticWords) -> None:
    np.testing.assert_array_equal(model.encode("the cat"), model.encode(["the cat"])[0])
    lengths = np.linalg.norm(model.encode(SENTENCES, normalize=True), axis=1)
    np.testing.assert_allclose(lengths, [1, 1, 1, 0, 1, 0, 1], atol=1e-6)
    assert model.encode([]).shape == (0, 3)


def test_what_is_no_text_is_refused(model: StaticWords) -> None:
    with pytest.raises(InputError, match="item 1 is int"):
        model.encode(["a", 3])  # type: ignore[list-item]


def test_words_behind_the_limit_are_cut(glove: Path) -> None:
    model = StaticWords.read(glove)
    model.max_words = 3
    np.testing.assert_array_equal(model.encode("the cat sat sat sat"), model.encode("the cat sat"))
    assert model.settings.max_length == 3


def test_coverage_counts_what_is_unknown(model: StaticWords) -> None:
    found = model.coverage(SENTENCES)
    assert (found.words, found.unknown, found.sentences, found.without_any) == (16, 3, 7, 2)


def test_similarities_are_those_of_an_encoder(model: StaticWords, encoder: Encoder) -> None:
    first, second = model.encode(SENTENCES[:3]), model.encode(SENTENCES[2:5])
    np.testing.assert_allclose(model.pair_scores(first, second), encoder.pair_scores(first, second))
    matrix = model.score_matrix(first, second)
    assert matrix.shape == (3, 3)
    np.testing.assert_allclose(np.diag(matrix), model.pair_scores(first, second), atol=1e-6)
    assert model.similarity("the cat", "the cat") == pytest.approx(1)
    assert model.similarity("unheard", "the cat") == 0
    ranked = model.rank("the cat", ["sat", "cat", "cat the"])
    assert [item.sentence for item in ranked] == ["cat the", "cat", "sat"]


def test_evaluated_and_analysed_like_any_model(model: StaticWords, tmp_path: Path) -> None:
    path = tmp_path / "graded.tsv"
    rows = [("the cat", "the cat sat", 5), ("the cat", "sat", 1), ("do", "Paris", 0), ("cat", "cat , cat", 4.5)]
    path.write_text("".join(f"{first}\t{second}\t{score}\n" for first, second, score in rows))
    results = evaluate(model, str(path))
    assert results.average == pytest.approx(80, abs=0.01)
    [analysed] = analyse(model, file_task(path)).tasks
    assert analysed.score == pytest.approx(results.average)


class TestFolder:
    def test_saved_and_loaded(self, model: StaticWords, tmp_path: Path) -> None:
        model.words["\r"] = model.words.pop(". . .")  # a word that careless reading would lose
        model.save(tmp_path / "words")
        loaded = StaticWords.load(tmp_path / "words")
        np.testing.assert_array_equal(loaded.encode(SENTENCES), model.encode(SENTENCES))
        assert loaded.words == model.words
        assert loaded.provenance == model.provenance
        assert loaded.name == str(tmp_path / "words")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["glove.txt", "words"]  # nothing half-made is left

    def test_another_folder_is_left_alone(self, model: StaticWords, tmp_path: Path) -> None:
        model.save(tmp_path / "words")
        with pytest.raises(ModelError, match="is there already"):
            model.save(tmp_path / "words")
        StaticWords.load(tmp_path / "words").save(tmp_path / "words", overwrite=True)
        assert len(StaticWords.load(tmp_path / "words").words) == len(VECTORS)

    @pytest.mark.parametrize(
        ("damage", "told"),
        [
            (lambda folder: (folder / "vectors.npy").unlink(), r"is no folder of static words \(no vectors.npy\)"),
            (lambda folder: (folder / "words.txt").write_text("the\n"), "cannot be used"),
            (lambda folder: (folder / "words.txt").write_text("the\n" * 9), "cannot be used"),
            (lambda folder: (folder / "static_words.json").write_text("{"), "cannot be used"),
            (
                lambda folder: (folder / "static_words.json").write_text('{"format": 7}'),
                "format 7, this version reads 1",
            ),
            (lambda folder: np.save(folder / "vectors.npy", np.zeros((9, 3))), "of float64"),
            (lambda folder: (folder / "vectors.npy").write_bytes(b"nothing"), "cannot be used"),
        ],
    )
    def test_damage_is_told(
        self, model: StaticWords, tmp_path: Path, damage: Callable[[Path], object], told: str
    ) -> None:
        model.save(tmp_path / "words")
        damage(unchecked(tmp_path / "words"))
        with pytest.raises(ModelError, match=told) as caught:
            StaticWords.load(tmp_path / "words")
        assert "\n" not in str(caught.value)

    def test_vectors_must_be_as_many_as_words(self) -> None:
        with pytest.raises(InputError, match=r"of shape \(2, 3\) for 1 words"):
            StaticWords({"a": 0}, np.zeros((2, 3), dtype=np.float32))


def test_only_the_words_of_a_text_are_read(glove: Path) -> None:
    model = StaticWords.read(glove, needed=["The CAT", "don’t"])
    assert set(model.words) == {"the", "cat", "do", "n't"}
    assert model.provenance["subset"] is True


def test_any_kind_of_model_is_loaded_by_its_folder(
    model: StaticWords, encoder: Encoder, texts: list[str], tmp_path: Path
) -> None:
    model.save(tmp_path / "words")
    encoder.save(tmp_path / "encoder")
    RankEncoder.build(encoder, texts[:10]).save(tmp_path / "ranks")
    kinds = [type(load_scorer(tmp_path / name, device="cpu")) for name in ("words", "encoder", "ranks")]
    assert kinds == [StaticWords, Encoder, RankEncoder]
    assert load_scorer(tmp_path / "encoder", device="cpu", precision="bf16").precision == "bf16"
    for option in ({"pooling": "cls"}, {"precision": "bf16"}):
        with pytest.raises(SettingError, match=f"{next(iter(option))}: .* is made of static words"):
            load_scorer(tmp_path / "words", **option)
    assert isinstance(load_scorer(tmp_path / "words", pooling=None, trust_remote_code=True), StaticWords)


def test_a_folder_that_cannot_be_written(model: StaticWords, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match="cannot be written"):
        model.save(tmp_path / "file" / "words")


def test_windows_are_as_good_as_one(model: StaticWords, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = model.encode(SENTENCES * 5)
    monkeypatch.setattr(static_words, "WINDOW", 4)
    np.testing.assert_array_equal(model.encode(SENTENCES * 5), whole)
