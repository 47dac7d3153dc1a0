"""Candidates and scores of all judges, against a plain loop over every text; kept once, made again when damaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_made_tests import passage, words_of

from nearer.adaptation import judging, material
from nearer.adaptation.judging import Collection
from nearer.adaptation.kept import Kept
from nearer.adaptation.made_tests import MadeTest, make_tests
from nearer.adaptation.material import (
    TrainingQueries,
    draw_queries,
    find_training_views,
    keep_answerable,
    write_material,
    write_pairs,
)
from nearer.adaptation.passages import Passage
from nearer.adaptation.views import ASKED, View
from nearer.encoder import Encoder
from nearer.search.fusion import LEXICAL, RERANKER
from nearer.teachers import CrossEncoder
from nearer.text import ReadOptions
from nearer.text.scored_lists import ScoredLists

BEST = 6


@pytest.fixture
def held() -> np.ndarray:
    return np.arange(120) < 50


@pytest.fixture
def made(held: np.ndarray) -> list[MadeTest]:
    passages = [passage(number) for number in range(120)]
    return make_tests(passages, held, words_of(passages), queries=30, random=np.random.default_rng(1))


@pytest.fixture
def collection(
    tmp_path: Path, tiny_model: Callable[[str], Path], tiny_cross_encoder: Callable[..., Path], made: list[MadeTest]
) -> Collection:
    texts = [passage(number).titled for number in range(120)]
    found = Collection(texts, made, Kept(tmp_path / "kept"), progress=False)
    found.add_encoder("base", Encoder.load(tiny_model("bert"), pooling="mean", device="cpu"), "base")
    found.cross = CrossEncoder.load(tiny_cross_encoder("bert"), device="cpu")
    return found


def test_a_test_shows_every_passage_once(collection: Collection, made: list[MadeTest]) -> None:
    for test in made:
        shown, answers = collection.shown_in(test)
        assert shown.sum() == collection.passages
        assert shown[answers].all()
        assert [collection.texts[number] for number in answers] == test.rests
        assert not shown[test.passages].any()


def test_candidates_and_scores_are_those_of_a_plain_loop(collection: Collection, made: list[MadeTest]) -> None:
    test = made[0]
    found = collection.measure(test, best=BEST, by=["base"], key="x")
    shown, answers = collection.shown_in(test)
    encoder, cross = collection.encoders["base"], collection.cross
    assert cross is not None
    for row, query in enumerate(test.queries[:5]):
        cosines = collection.vectors["base"] @ encoder.encode([query], normalize=True)[0]
        words = collection.lexical.scores([query], np.arange(len(collection.texts))[None])[0]
        nearest = [number for number in np.argsort(-cosines, kind="stable") if shown[number]][:BEST]
        matching = [number for number in np.argsort(-words, kind="stable") if shown[number] and words[number] > 0][
            :BEST
        ]
        there = found.numbers[row][found.numbers[row] >= 0]
        assert set(there.tolist()) == set(nearest) | set(matching)
        for column, number in enumerate(there):
            assert found.scores["base"][row, column] == pytest.approx(float(cosines[number]), abs=1e-5)
            assert found.scores[LEXICAL][row, column] == pytest.approx(float(words[number]), abs=1e-5)
            alone = cross.score([query], [collection.texts[number]], [(0, 0)])[0]
            assert found.scores[RERANKER][row, column] == pytest.approx(float(alone), abs=1e-4)
    assert found.answers.tolist() == answers.tolist()


def test_what_is_kept_is_not_made_again_until_it_is_damaged(tmp_path: Path) -> None:
    kept, times = Kept(tmp_path / "kept"), []

    def make() -> dict[str, np.ndarray]:
        times.append(1)
        return {"values": np.arange(5)}

    for _ in range(2):
        assert kept.get("some", make)["values"].tolist() == [0, 1, 2, 3, 4]
    assert len(times) == 1
    path = tmp_path / "kept" / "some.npz"
    data = bytearray(path.read_bytes())
    data[-30] ^= 1
    path.write_bytes(data)
    assert kept.get("some", make)["values"].tolist() == [0, 1, 2, 3, 4]
    assert len(times) == 2


def test_lists_have_neither_held_out_passages_nor_their_querys_own(
    collection: Collection, held: np.ndarray, tmp_path: Path
) -> None:
    passages = [passage(number) for number in range(120)]
    views = find_training_views(passages, ~held, words_of(passages), np.random.default_rng(2))
    assert not held[[view.passage for view in views]].any()
    queries = draw_queries(views, ["where is the old harbour kept"], 40, np.random.default_rng(3))
    assert isinstance(queries, TrainingQueries)
    assert (len(queries), queries.kinds[0]) == (40, "log")
    folder = tmp_path / "lists"
    count = write_material(
        folder,
        collection,
        queries,
        ~held,
        {"base": 1.0, RERANKER: 0.3},
        best=BEST,
        by=["base"],
        fewest=4,
        key="m",
        reranked=True,
    )
    read = ScoredLists(folder, ReadOptions())
    asked = list(read)
    assert len(asked) == count == 40
    texts = list(read.passages())
    known = {collection.texts[number]: number for number in range(120)}
    for row, query in enumerate(asked):
        source = queries.sources[queries.texts.index(query)]
        members = read.lists.passages[read.lists.starts[row] : read.lists.starts[row + 1]]
        numbers = [known[texts[member]] for member in members]
        assert source not in numbers
        assert not held[numbers].any()


def test_vectors_stay_on_a_gpu_until_their_encoder_goes(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, whole = torch.device("meta"), len(collection.vectors["base"])  # any device but this machine's processor
    first = collection._vectors_on(gpu, "base", slice(0, 10))
    second = collection._vectors_on(gpu, "base", slice(whole - 3, whole + 7))
    assert (len(first), len(second)) == (10, 3)
    assert first._base is second._base is not None  # one copy
    collection.remove_encoder("base")
    assert not collection._held
    assert "base" not in collection.vectors
    collection.add_encoder("base", Encoder.load("wiki-mini", pooling="mean", device="cpu"), "another")
    monkeypatch.setattr(judging, "HELD", 100)  # more than that is copied in parts
    assert len(collection._vectors_on(gpu, "base", slice(0, 10))) == 10
    assert not collection._held


def test_a_few_views_are_found_without_cutting_up_everything(held: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    passages = [passage(number) for number in range(120)]
    words, looked = words_of(passages), []
    cut_up = material.find_views
    monkeypatch.setattr(
        material, "find_views", lambda all, numbers, rare: looked.append(1) or cut_up(all, numbers, rare)
    )
    few = find_training_views(passages, ~held, words, np.random.default_rng(2), count=10)
    assert len(few) == 10 == len({view.passage for view in few})
    assert len(looked) < 20
    every = find_training_views(passages, ~held, words, np.random.default_rng(2))
    counts = np.bincount([view.passage for view in every])
    assert counts.max() <= 3
    first = len({view.passage for view in every})
    assert [view.passage for view in every[:first]] == list(dict.fromkeys(view.passage for view in every))
    assert len({view.query for view in every}) == len(every)


def test_what_somebody_may_have_asked_comes_first_and_leaves_room_for_others(held: np.ndarray) -> None:
    plain = "The harbour{0} was built of grey stone{0}. A keeper{0} counted ships{0} for hours. Gulls{0} flew over it."
    passages = [
        passage(number) if number % 3 == 0 else Passage(str(number), 0, "", (), plain.format(number))
        for number in range(120)
    ]
    words, random = words_of(passages), np.random.default_rng(2)
    titled = sum(not held[number] for number in range(0, 120, 3))
    views = find_training_views(passages, ~held, words, random, count=20)
    are_asked = [view.kind in ASKED for view in views]
    assert 15 <= sum(are_asked) < 20  # though only a third of the passages have a title or a question
    assert are_asked != sorted(are_asked, reverse=True)  # who takes some of them gets both
    views = find_training_views(passages, ~held, words, random, count=int((~held).sum()))
    assert sum(view.kind in ASKED for view in views) == titled


@pytest.mark.parametrize(("real", "copied"), [(1999, 90), (2000, 90), (2000, 1500)])
def test_many_real_queries_are_not_drowned_in_copied_ones(real: int, copied: int) -> None:
    log = [f"query {number}" for number in range(real)]
    views = [View("sentence", f"sentence {number}", number, "", 0.0) for number in range(copied)]
    drawn = draw_queries(views, log, 5000, np.random.default_rng(0))
    assert Counter(drawn.kinds) == {"log": real, "sentence": min(copied, 1000 if real >= 2000 else copied)}


def test_pairs_are_one_of_a_passage(held: np.ndarray, tmp_path: Path) -> None:
    passages = [passage(number) for number in range(120)]
    views = find_training_views(passages, ~held, words_of(passages), np.random.default_rng(2))
    count = write_pairs(tmp_path / "pairs.jsonl", views)
    assert 0 < count <= 70
    assert len((tmp_path / "pairs.jsonl").read_text().splitlines()) == count


def test_nearness_is_the_mean_cosine_of_the_nearest(collection: Collection, held: np.ndarray) -> None:
    shown = np.concatenate([~held, np.zeros(len(collection.texts) - 120, dtype=bool)])
    queries = [passage(number).text for number in (60, 70, 80)]
    left_out = np.array([60, -1, 80])
    found = collection.nearness("nearness", queries, "base", shown, left_out, best=3)
    encoder, vectors = collection.encoders["base"], collection.vectors["base"]
    for row, query in enumerate(encoder.encode(queries)):
        unit = query / np.linalg.norm(query)
        cosines = sorted(float(vectors[n] @ unit) for n in np.flatnonzero(shown) if n != left_out[row])
        assert found[row] == pytest.approx(np.mean(cosines[-3:]), abs=1e-3)
    # it is kept, so that an interrupted run goes on with the same queries
    again = collection.nearness("nearness", ["something else"] * 3, "base", shown, left_out, best=3)
    assert again.tolist() == found.tolist()


@given(st.lists(st.tuples(st.sampled_from(["title", "sentence"]), st.floats(0, 1)), min_size=1, max_size=30), st.data())
def test_of_each_kind_the_nearest_queries_are_kept(rows: list[tuple[str, float]], data: st.DataObject) -> None:
    views = [View(kind, f"query {number}", number, "rest", 0.0) for number, (kind, _) in enumerate(rows)]
    nearness = np.array([value for _, value in rows], dtype=np.float32)
    count = data.draw(st.integers(1, len(rows)))
    kept = keep_answerable(views, nearness, count)
    assert [view.passage for view in kept] == sorted(view.passage for view in kept)
    for kind in {kind for kind, _ in rows}:
        own = [view.passage for view in views if view.kind == kind]
        there = [view.passage for view in kept if view.kind == kind]
        assert len(there) == round(len(own) * count / len(rows))
        dropped = set(own) - set(there)
        assert all(nearness[one] >= nearness[other] for one in there for other in dropped)
