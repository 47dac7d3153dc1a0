"""Stored vectors: those of the model, each computed once, and never another model's."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from teacher_text import Watch, different_sentences, write_lines

from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.storage.sealed import read_sealed_json
from nearer.teachers import VectorStore, vector_store
from nearer.text import read_pairs, read_sentences

Check = Callable[[VectorStore, Path], None]
SENTENCES = different_sentences(30)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """30 different sentences and 5 that come twice or thrice, far apart and side by side."""
    return write_lines(tmp_path / "corpus.txt", [*SENTENCES, *SENTENCES[3:7], SENTENCES[6], SENTENCES[0]])


class TestVectors:
    def test_the_sentences_can_be_told_apart(self, encoder: Encoder) -> None:
        """Else the comparisons here would prove nothing."""
        vectors = encoder.encode(SENTENCES, normalize=True)
        differences = np.abs(vectors[:, None] - vectors[None]).max(-1)
        assert differences[~np.eye(len(SENTENCES), dtype=bool)].min() > 5e-3

    @pytest.mark.parametrize("window", [1, 7, 2048])
    def test_they_are_the_model_s_own(
        self, window: int, encoder: Encoder, corpus: Path, monkeypatch: pytest.MonkeyPatch, check_vectors: Check
    ) -> None:
        monkeypatch.setattr(vector_store, "WINDOW_ON_CPU", window)
        check_vectors(VectorStore(encoder), corpus)

    @pytest.mark.parametrize("kind", ["roberta", "mobilebert"])
    def test_of_other_families(
        self, kind: str, tiny_model: Callable[[str], Path], corpus: Path, check_vectors: Check
    ) -> None:
        check_vectors(VectorStore(Encoder.load(tiny_model(kind), pooling="mean", device="cpu")), corpus)

    def test_with_the_model_s_default_prompt(self, encoder: Encoder, corpus: Path, check_vectors: Check) -> None:
        prompted = copy.copy(encoder)
        prompted.settings = replace(
            encoder.settings, prompts={"query": "rain over "}, default_prompt="query", pool_prompt=False
        )
        plain, other = VectorStore(encoder), VectorStore(prompted)
        assert plain.folder != other.folder
        check_vectors(plain, corpus)
        check_vectors(other, corpus)

    def test_at_another_precision(self, encoder: Encoder, corpus: Path) -> None:
        store = VectorStore(encoder, precision="bf16")
        rows = store.rows(read_sentences(corpus))[: len(SENTENCES)]
        found = store.vectors()[rows].astype(np.float32)
        exact = encoder.encode(SENTENCES, normalize=True)
        lowered = encoder.encode(SENTENCES, normalize=True, precision="bf16")
        np.testing.assert_allclose(found, lowered, atol=4e-4)
        assert 5e-4 < np.abs(found - exact).max() < 2e-2  # float16, in which they are kept, is twice as near

    def test_of_a_model_in_training_mode_without_dropout(
        self, tiny_model: Callable[[str], Path], corpus: Path, check_vectors: Check
    ) -> None:
        training = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu", dropout=0.5).train()
        check_vectors(VectorStore(training), corpus)
        assert training.training

    def test_a_store_without_any(self, encoder: Encoder) -> None:
        assert VectorStore(encoder).vectors().shape == (0, encoder.dimension)

    def test_what_the_model_is_stands_beside_them(self, encoder: Encoder, corpus: Path) -> None:
        store = VectorStore(encoder)
        store.rows(read_sentences(corpus))
        facts = read_sealed_json(store.folder / "model.json", "")
        assert facts == {
            "model": encoder.name,
            "pooling": "mean",
            "max_length": encoder.settings.max_length,
            "precision": "float32",
            "dimension": 32,
        }


class TestOnce:
    """Nothing passes the model a second time."""

    def test_the_same_corpus_again(self, encoder: Encoder, corpus: Path, watch: Watch) -> None:
        first = VectorStore(encoder).rows(read_sentences(corpus))
        assert watch.since() == len(SENTENCES)
        again = VectorStore(encoder).rows(read_sentences(corpus))
        assert watch.since() == 0
        np.testing.assert_array_equal(again, first)

    def test_a_known_corpus_is_not_even_read(
        self, encoder: Encoder, corpus: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = VectorStore(encoder)
        first = store.rows(read_sentences(corpus))
        monkeypatch.setattr(vector_store, "sentence_keys", lambda _: pytest.fail("read again"))
        np.testing.assert_array_equal(store.rows(read_sentences(corpus)), first)

    @pytest.mark.parametrize("name", ["copy.txt", "copy.tsv", "copy.jsonl"])
    def test_the_same_sentences_in_another_file(
        self, name: str, encoder: Encoder, corpus: Path, tmp_path: Path, watch: Watch
    ) -> None:
        lines = corpus.read_text().splitlines()
        shaped = {
            "copy.txt": lines,
            "copy.tsv": ["text", *lines],
            "copy.jsonl": [json.dumps({"text": line}) for line in lines],
        }
        store = VectorStore(encoder)
        first = store.rows(read_sentences(corpus))
        watch.since()
        again = store.rows(read_sentences(write_lines(tmp_path / name, shaped[name])))
        np.testing.assert_array_equal(again, first)
        assert watch.since() == 0

    def test_another_corpus_that_shares_sentences(
        self, encoder: Encoder, corpus: Path, tmp_path: Path, watch: Watch, check_vectors: Check
    ) -> None:
        store = VectorStore(encoder)
        first = store.rows(read_sentences(corpus))
        before = store.vectors()[first].copy()
        new = [sentence for sentence in different_sentences(60, seed=1) if sentence not in SENTENCES][:9]
        other = write_lines(tmp_path / "other.txt", [new[0], *SENTENCES[::-2], *new, new[4]])
        watch.since()
        store.rows(read_sentences(other))
        assert watch.since() == len(new)
        check_vectors(store, other)
        np.testing.assert_array_equal(store.vectors()[store.rows(read_sentences(corpus))], before)
        assert len(store.vectors()) == len(SENTENCES) + len(new)

    def test_a_corpus_with_nothing_new(self, encoder: Encoder, corpus: Path, tmp_path: Path, watch: Watch) -> None:
        store = VectorStore(encoder)
        rows = store.rows(read_sentences(corpus))
        watch.since()
        part = write_lines(tmp_path / "part.txt", [SENTENCES[5], SENTENCES[2]])
        assert store.rows(read_sentences(part)).tolist() == [rows[5], rows[2]]
        assert watch.since() == 0


class TestKnown:
    """Vectors that the model computed elsewhere."""

    def test_they_are_not_computed_again(self, encoder: Encoder, corpus: Path, watch: Watch) -> None:
        store = VectorStore(encoder)
        given = np.random.default_rng(0).normal(size=(20, encoder.dimension)).astype(np.float16)  # whatever they are
        store.add_known([*SENTENCES[:19], SENTENCES[0]], given)
        watch.since()
        rows = store.rows(read_sentences(corpus))
        assert watch.since() == len(SENTENCES) - 19
        np.testing.assert_array_equal(store.vectors()[rows[:19]], given[:19])  # the first of two equal sentences
        assert vector_store.damage(store.folder) == []

    def test_what_is_there_stays(self, encoder: Encoder, corpus: Path, check_vectors: Check) -> None:
        store = VectorStore(encoder)
        store.rows(read_sentences(corpus))
        store.add_known(SENTENCES, np.zeros((len(SENTENCES), encoder.dimension), dtype=np.float16))
        assert len(store.vectors()) == len(SENTENCES)
        check_vectors(store, corpus)

    @pytest.mark.parametrize("window", [1, 7])
    def test_in_windows(
        self, window: int, encoder: Encoder, corpus: Path, monkeypatch: pytest.MonkeyPatch, check_vectors: Check
    ) -> None:
        monkeypatch.setattr(vector_store, "WINDOW_ON_CPU", window)
        store = VectorStore(encoder)
        store.add_known(SENTENCES, encoder.encode(SENTENCES, normalize=True).astype(np.float16))
        assert len(store.vectors()) == len(SENTENCES)
        check_vectors(store, corpus)

    def test_those_that_are_no_numbers(self, encoder: Encoder) -> None:
        store = VectorStore(encoder)
        with pytest.raises(InputError, match="not finite numbers"):
            store.add_known(SENTENCES[:1], np.full((1, encoder.dimension), np.nan, dtype=np.float16))
        assert len(store.vectors()) == 0


class TestFolders:
    """Whatever changes the vectors changes the folder."""

    @pytest.fixture
    def load(self, tiny_model: Callable[[str], Path]) -> Callable[..., Encoder]:
        return lambda **options: Encoder.load(tiny_model("bert"), device="cpu", **{"pooling": "mean", **options})

    def test_weights_pooling_length_and_precision(
        self, load: Callable[..., Encoder], corpus: Path, check_vectors: Check
    ) -> None:
        changed = load()
        changed.backbone.get_parameter("encoder.layer.0.output.dense.weight").data[3, 4] += 1
        stores = [
            VectorStore(load()),
            VectorStore(changed),
            VectorStore(load(pooling="cls")),
            VectorStore(load(max_length=4)),
            VectorStore(load(text_normalisation="full_stop")),
        ]
        lowered = VectorStore(load(), precision="bf16")
        assert len({store.folder for store in [*stores, lowered]}) == 6
        for store in stores:
            check_vectors(store, corpus)

    def test_a_model_found_elsewhere_is_the_same(self, load: Callable[..., Encoder], tmp_path: Path) -> None:
        load().save(tmp_path / "copy")
        assert VectorStore(Encoder.load(tmp_path / "copy", device="cpu")).folder == VectorStore(load()).folder

    def test_their_place_is_the_cache_or_named(
        self, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NEARER_CACHE", str(tmp_path / "elsewhere"))
        assert VectorStore(encoder).folder.parent == tmp_path / "elsewhere" / "vectors"
        assert VectorStore(encoder, folder=tmp_path / "named").folder.parent == tmp_path / "named"

    def test_an_unknown_precision(self, encoder: Encoder) -> None:
        with pytest.raises(SettingError, match="precision: 'fp4' is not one of"):
            VectorStore(encoder, precision="fp4")


def test_pairs_are_refused(encoder: Encoder, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "pairs.tsv", ["a man\train"])
    with pytest.raises(InputError, match=r"pairs\.tsv: is read as pairs"):
        VectorStore(encoder).rows(read_pairs(path))  # type: ignore[arg-type]


halves = st.sampled_from([0, 1, 2, 2**63, 2**64 - 1])
key_lists = st.lists(st.tuples(halves, halves), max_size=30)


@given(known=key_lists.map(lambda keys: list(dict.fromkeys(keys))), asked=key_lists)
@settings(max_examples=80, deadline=None)
def test_keys_that_share_their_first_half_are_found(
    known: list[tuple[int, int]],
    asked: list[tuple[int, int]],
    encoder: Encoder,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    store = VectorStore(encoder, folder=tmp_path_factory.mktemp("crafted"))
    store.folder.mkdir()
    np.array(known, dtype=np.uint64).tofile(store.folder / "keys.bin")
    np.zeros((len(known), encoder.dimension), dtype=np.float16).tofile(store.folder / "vectors.bin")
    places = {key: row for row, key in enumerate(known)}
    found = store._find(np.array(asked, dtype=np.uint64).reshape(-1, 2))
    assert found.tolist() == [places.get(key, -1) for key in asked]


@given(keys=key_lists, data=st.data())
@settings(max_examples=80, deadline=None)
def test_the_first_of_each_kind_is_marked(keys: list[tuple[int, int]], data: st.DataObject) -> None:
    among = data.draw(st.lists(st.booleans(), min_size=len(keys), max_size=len(keys)))
    found = vector_store._first_occurrences(np.array(keys, dtype=np.uint64).reshape(-1, 2), np.array(among, dtype=bool))
    seen: set[tuple[int, int]] = set()
    wanted = []
    for key, marked in zip(keys, among, strict=True):
        wanted.append(marked and key not in seen)
        if marked:
            seen.add(key)
    assert found.tolist() == wanted
