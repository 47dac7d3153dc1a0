"""Scored lists: which passages a step draws, what it is given, and the loss against loops in float64."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor
from torch.nn.functional import normalize

from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.methods import Batch, ListsSettings, Outputs, ScoredListsTraining
from nearer.methods.list_sampling import draw_ranks
from nearer.text import ReadOptions, read_sentences
from nearer.text.scored_lists import ScoredLists

WORDS = [
    *("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"),
    *("and", "rain", "comes", "until", "someone"),
]
WORDS += ["has", "lunch", "far", "away"]
TEXTS = [" ".join(WORDS[n : n + 6]) for n in range(12)]
QUERIES = ["rain comes", "a lazy dog jumps", "the fox"]
LENGTHS = [6, 12, 9]
LISTS = [
    {"query": query, "passages": TEXTS[:size][::-1], "scores": [float(7 * n % 13) for n in range(size)]}
    for query, size in zip(QUERIES, LENGTHS, strict=True)
]
Prepared = Callable[..., ScoredListsTraining]


@pytest.fixture
def student(tiny_model: Callable[[str], Path]) -> Encoder:
    return Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")


@pytest.fixture
def reading(tmp_path: Path) -> ScoredLists:
    path = tmp_path / "lists.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in LISTS))
    return ScoredLists(path, ReadOptions())


@pytest.fixture
def prepared(student: Encoder, reading: ScoredLists) -> Prepared:
    def make(**given: Any) -> ScoredListsTraining:
        method = ScoredListsTraining(ListsSettings(**{"passages_per_query": 4, "top": 3, **given}))
        method.prepare(student, reading, max_length=16)
        return method

    return make


def batch(records: list[int], *, own: slice | None = None, seed: int = 0) -> Batch:
    here = records[own] if own else records
    rows = [np.array([2, 5 + record, 3]) for record in here]
    first = own.start if own else 0
    draws = [np.random.default_rng(seed + 99 + first), np.random.default_rng(seed)]
    return Batch([rows], np.array(records), draws[0], draws[1], first)


def loss_of(method: ScoredListsTraining, records: list[int], seed: int = 0) -> tuple[dict[str, Tensor], Any, Any]:
    inputs = method.inputs(batch(records, seed=seed))
    random = torch.Generator().manual_seed(3)
    vectors = {name: torch.randn(len(each.rows), 8, generator=random) for name, each in inputs.passes.items()}
    given = {name: torch.from_numpy(array) for name, array in inputs.given.items()}
    modules: Any = {}
    return vectors, given, method.loss(Outputs(vectors, {}), given, modules)


def softmax(values: list[float]) -> list[float]:
    top = max(values)
    weights = [math.exp(value - top) for value in values]
    return [weight / sum(weights) for weight in weights]


def cross_entropy(own: list[float], wanted: list[float]) -> float:
    return -sum(w * math.log(p) for w, p in zip(softmax(wanted), softmax(own), strict=True))


class TestDrawing:
    @settings(max_examples=80, deadline=None)
    @given(st.data())
    def test_ranks_are_distinct_and_as_many_from_the_best_as_asked_for(self, data: st.DataObject) -> None:
        size = data.draw(st.integers(2, 10))
        best = data.draw(st.integers(1, size))
        top = data.draw(st.integers(best, 20))
        count = data.draw(st.integers(size, 40))
        weight = data.draw(st.sampled_from([0.0, 1.0]))
        asked = ListsSettings(passages_per_query=size, from_top=best, top=top, in_batch_weight=weight)
        counts = np.array([count, size, 40])
        ranks = draw_ranks(counts, asked, np.random.default_rng(data.draw(st.integers(0, 99))))[0]
        assert len(set(ranks.tolist())) == size
        assert ranks.tolist() == sorted(ranks.tolist())
        assert 0 <= ranks[0] <= ranks[-1] < count
        assert int((ranks < min(top, count - size + best)).sum()) == best
        if weight:
            assert ranks[0] == 0

    def test_all_of_a_list_is_drawn_in_time(self) -> None:
        random, asked = np.random.default_rng(0), ListsSettings(passages_per_query=4, in_batch_weight=0)
        counts = np.bincount(draw_ranks(np.full(3000, 30), asked, random).reshape(-1), minlength=30)
        np.testing.assert_allclose(counts[:10], 600, rtol=0.15)  # two of ten
        np.testing.assert_allclose(counts[10:], 300, rtol=0.25)  # two of twenty

    def test_the_band_says_where_the_others_are_from(self) -> None:
        asked = ListsSettings(passages_per_query=6, top=4, negative_band=[0.25, 0.75])
        others = draw_ranks(np.full(300, 101), asked, np.random.default_rng(0))[:, 3:]
        assert (others.min(), others.max()) == (25, 75)
        # of a short list the band has too few, so all below the best may come
        short = draw_ranks(np.full(300, 8), asked, np.random.default_rng(0))[:, 3:]
        assert (short.min(), short.max()) == (4, 7)


class TestInputs:
    def test_rows_are_the_tokens_of_the_lists_passages_with_their_scores(
        self, prepared: Prepared, reading: ScoredLists, student: Encoder
    ) -> None:
        method = prepared(in_batch_weight=0)
        inputs = method.inputs(batch([2, 0]))
        assert len(inputs.passes["passages"].rows) == 2 * 4
        texts = student.tokenizer.batch_decode(inputs.passes["passages"].rows, skip_special_tokens=True)
        for place, record in enumerate([2, 0]):
            listed = LISTS[record]
            scores = np.array(listed["scores"])
            wanted = dict(zip(listed["passages"], (scores - scores.mean()) / scores.std(), strict=True))
            drawn = texts[4 * place : 4 * place + 4]
            np.testing.assert_allclose(inputs.given["wanted"][place], [wanted[text] for text in drawn], rtol=1e-5)
            assert sorted(inputs.given["wanted"][place], reverse=True) == inputs.given["wanted"][place].tolist()

    def test_scores_as_they_are(self, prepared: Prepared) -> None:
        given = prepared(in_batch_weight=0, standardise=False).inputs(batch([1])).given["wanted"]
        assert set(given.reshape(-1)) <= set(LISTS[1]["scores"])

    def test_two_processes_draw_what_one_does(self, prepared: Prepared) -> None:
        method = prepared()
        whole = method.inputs(batch([2, 0, 1]))
        parts = [method.inputs(batch([2, 0, 1], own=own)) for own in (slice(0, 2), slice(2, 3))]
        rows = [row.tolist() for part in parts for row in part.passes["passages"].rows]
        assert rows == [row.tolist() for row in whole.passes["passages"].rows]
        for part in parts:
            for name, array in whole.given.items():
                np.testing.assert_array_equal(part.given[name], array)

    def test_another_step_draws_others(self, prepared: Prepared) -> None:
        method = prepared(in_batch_weight=0)
        first, same, other = (method.inputs(batch([1], seed=seed)).given["wanted"].tolist() for seed in (0, 0, 1))
        assert first == same != other

    def test_passages_of_the_own_list_are_no_negatives(self, prepared: Prepared) -> None:
        method = prepared(false_negatives=None)
        inputs = method.inputs(batch([0, 1, 2]))
        texts = method.tokens
        rows = [row.tolist() for row in inputs.passes["passages"].rows]
        for record, excluded in enumerate(inputs.given["excluded"]):
            members = method.lists.passages[method.lists.starts[record] : method.lists.starts[record + 1]]
            own = [texts[int(number)].tolist() for number in members]
            assert excluded.tolist() == [row in own for row in rows]
        assert inputs.given["excluded"].any()
        assert not inputs.given["excluded"].all()
        assert not method.teachers.members


class TestLoss:
    @pytest.mark.parametrize("similarity", ["cosine", "dot"])
    def test_list_net_by_hand(self, prepared: Prepared, similarity: str) -> None:
        method = prepared(in_batch_weight=0, similarity=similarity, student_temperature=0.3, target_temperature=0.7)
        vectors, given, losses = loss_of(method, [1, 2, 0])
        total = 0.0
        for own, wanted in zip(*self.lists(vectors, given, similarity), strict=True):
            total += cross_entropy([s / 0.3 for s in own], [w / 0.7 for w in wanted]) / 3
        assert losses.total.item() == pytest.approx(total, rel=1e-5)
        assert list(losses.parts) == ["ranking"]

    def test_margin_by_hand(self, prepared: Prepared) -> None:
        method = prepared(
            in_batch_weight=0, loss="margin", passages_per_query=2, student_temperature=1, target_temperature=2
        )
        vectors, given, losses = loss_of(method, [0, 1])
        margins = [
            (own[0] - own[1] - (wanted[0] - wanted[1]) / 2) ** 2
            for own, wanted in zip(*self.lists(vectors, given, "cosine"), strict=True)
        ]
        assert losses.total.item() == pytest.approx(sum(margins) / 2, rel=1e-5)

    def test_list_mle_by_hand(self, prepared: Prepared) -> None:
        method = prepared(in_batch_weight=0, loss="list_mle", student_temperature=0.5)
        vectors, given, losses = loss_of(method, [0, 1])
        total = 0.0
        for own in self.lists(vectors, given, "cosine")[0]:  # best first already
            total += sum(-math.log(softmax([s / 0.5 for s in own[k:]])[0]) for k in range(len(own))) / 2
        assert losses.total.item() == pytest.approx(total, rel=1e-5)

    def test_a_teachers_order_of_the_whole_batch(
        self, prepared: Prepared, tiny_model: Callable[[str], Path], student: Encoder
    ) -> None:
        named = {"model": str(tiny_model("roberta")), "pooling": "mean"}
        method = prepared(teachers=[named], in_batch_weight=0.5, teacher_temperature=0.2, student_temperature=0.3)
        vectors, _, losses = loss_of(method, [2, 0])
        inputs = method.inputs(batch([2, 0]))
        texts = student.tokenizer.batch_decode(inputs.passes["passages"].rows, skip_special_tokens=True)
        teacher = Encoder.load(named["model"], pooling="mean", device="cpu", max_length=16)
        known = teacher.similarity([QUERIES[2], QUERIES[0]], texts)
        scores = normalize(vectors["queries"], dim=-1) @ normalize(vectors["passages"], dim=-1).T
        wanted = sum(
            cross_entropy([s / 0.3 for s in own], [t / 0.2 for t in theirs]) / 2
            for own, theirs in zip(scores.double().tolist(), np.asarray(known, dtype=float).tolist(), strict=True)
        )
        assert losses.parts["in_batch"].item() == pytest.approx(wanted, rel=1e-3)  # vectors are kept in float16
        assert losses.total.item() == pytest.approx(
            losses.parts["ranking"].item() + 0.5 * losses.parts["in_batch"].item(), rel=1e-6
        )

    def test_a_teachers_order_of_the_passages_as_each_of_them_sees_the_others(
        self, prepared: Prepared, tiny_model: Callable[[str], Path], student: Encoder
    ) -> None:
        named = {"model": str(tiny_model("roberta")), "pooling": "mean"}
        more = {"in_batch_weight": 0, "passage_weight": 0.7, "teacher_temperature": 0.2, "student_temperature": 0.3}
        method = prepared(teachers=[named], **more)
        vectors, _, losses = loss_of(method, [2, 0])
        inputs = method.inputs(batch([2, 0]))
        texts = student.tokenizer.batch_decode(inputs.passes["passages"].rows, skip_special_tokens=True)
        teacher = Encoder.load(named["model"], pooling="mean", device="cpu", max_length=16)
        known = np.asarray(teacher.similarity(texts, texts), dtype=float)
        passages = normalize(vectors["passages"], dim=-1).double()
        scores = (passages @ passages.T).tolist()
        wanted = 0.0
        for n in range(len(texts)):
            others = [m for m in range(len(texts)) if m != n]
            wanted += cross_entropy([scores[n][m] / 0.3 for m in others], [known[n, m] / 0.2 for m in others])
        assert losses.parts["passages"].item() == pytest.approx(wanted / len(texts), rel=1e-3)  # kept in float16
        total = losses.parts["ranking"].item() + 0.7 * losses.parts["passages"].item()
        assert losses.total.item() == pytest.approx(total, rel=1e-6)

    def test_the_distance_to_two_teachers_vectors(
        self, prepared: Prepared, tiny_model: Callable[[str], Path], student: Encoder
    ) -> None:
        named = [{"model": str(tiny_model(kind)), "pooling": "mean"} for kind in ("roberta", "bert")]
        method = prepared(teachers=named, teacher_weights=[1, 3], in_batch_weight=0, vector_weight=2.0)
        inputs = method.inputs(batch([2, 0]))
        dimension = student.encode("fox").shape[0]
        random = torch.Generator().manual_seed(3)
        vectors = {n: torch.randn(len(each.rows), dimension, generator=random) for n, each in inputs.passes.items()}
        given = {name: torch.from_numpy(array) for name, array in inputs.given.items()}
        modules: Any = method.modules()
        losses = method.loss(Outputs(vectors, {}), given, modules)
        texts = student.tokenizer.batch_decode(inputs.passes["passages"].rows, skip_special_tokens=True)
        teachers = [Encoder.load(each["model"], pooling="mean", device="cpu", max_length=16) for each in named]
        matrix = modules["alignment"].matrix.double().numpy()
        distances = []
        for side, asked in (("queries", [QUERIES[2], QUERIES[0]]), ("passages", texts)):
            both = [
                share**0.5 * np.asarray(teacher.encode(asked, normalize=True), dtype=float)
                for teacher, share in zip(teachers, (0.25, 0.75), strict=True)
            ]
            wanted = np.concatenate(both, axis=1) @ matrix
            own = vectors[side].double().numpy()
            cosines = (own * wanted).sum(1) / np.linalg.norm(own, axis=1) / np.linalg.norm(wanted, axis=1)
            distances.append(1 - cosines.mean())
        assert losses.parts["vectors"].item() == pytest.approx(np.mean(distances), abs=1e-3)  # kept in float16
        total = losses.parts["ranking"].item() + 2 * losses.parts["vectors"].item()
        assert losses.total.item() == pytest.approx(total, rel=1e-6)
        assert not list(method.modules().parameters())  # nothing of it is trained

    @pytest.mark.parametrize("share", [None, 0.95])
    def test_the_lists_best_among_all_passages(self, prepared: Prepared, student: Encoder, share: float | None) -> None:
        method = prepared(false_negatives=share, student_temperature=0.3)
        vectors, _, losses = loss_of(method, [0, 1])
        inputs = method.inputs(batch([0, 1]))
        texts = student.tokenizer.batch_decode(inputs.passes["passages"].rows, skip_special_tokens=True)
        known = student.similarity([QUERIES[0], QUERIES[1]], texts)
        scores = (normalize(vectors["queries"], dim=-1) @ normalize(vectors["passages"], dim=-1).T).double()
        total = left_out = 0.0
        for i, record in enumerate([0, 1]):
            best, listed = 4 * i, LISTS[record]["passages"]
            assert texts[best] == max(zip(LISTS[record]["scores"], listed, strict=True))[1]
            kept = [scores[i, best].item() / 0.3]
            for j, text in enumerate(texts):
                false = share is not None and known[i][j] > share * known[i][best]
                if text not in listed and not false:
                    kept.append(scores[i, j].item() / 0.3)
                left_out += text not in listed and false
            total -= math.log(softmax(kept)[0]) / 2
        assert losses.parts["in_batch"].item() == pytest.approx(total, rel=1e-4)
        assert (left_out > 0) == (share is not None)

    @staticmethod
    def lists(
        vectors: dict[str, Tensor], given: dict[str, Tensor], similarity: str
    ) -> tuple[list[list[float]], list[list[float]]]:
        queries, passages = (vectors[name].double() for name in ("queries", "passages"))
        if similarity == "cosine":
            queries, passages = normalize(queries, dim=-1), normalize(passages, dim=-1)
        size = given["wanted"].shape[1]
        own = [[(query @ passages[size * i + j]).item() for j in range(size)] for i, query in enumerate(queries)]
        return own, given["wanted"].double().tolist()


class TestText:
    def test_queries_have_a_length_and_a_prompt_of_their_own(self, student: Encoder, reading: ScoredLists) -> None:
        form = ScoredListsTraining(ListsSettings()).record_form(student, reading, 16)
        assert (form.max_length, form.prompt, form.setting) == (16, "", "query_max_length")  # 32 at least, if it can
        asked = ListsSettings(query_max_length=5, query_prompt="rain ")
        assert ScoredListsTraining(asked).record_form(student, reading, 16).max_length == 5
        assert ScoredListsTraining(asked).record_form(student, reading, 16).prompt == "rain "
        with pytest.raises(SettingError, match=r"query_max_length: 20 is above max_length \(16\)"):
            ScoredListsTraining(ListsSettings(query_max_length=20)).record_form(student, reading, 16)

    def test_prompts_stand_before_texts_and_are_saved(self, student: Encoder, reading: ScoredLists) -> None:
        student.settings = replace(student.settings, prompts={"query": "dog ", "passage": "fox "})
        for asked, wanted in (({}, "fox"), ({"passage_prompt": "rain "}, "rain"), ({"passage_prompt": ""}, "")):
            method = ScoredListsTraining(ListsSettings(passages_per_query=4, in_batch_weight=0, **asked))
            method.prepare(student, reading, max_length=16)
            [text] = student.tokenizer.batch_decode([method.tokens[0]], skip_special_tokens=True)
            assert text == f"{wanted} {LISTS[0]['passages'][0]}".strip()
            assert method.prompts["query"] == "dog "
        saved = ScoredListsTraining(ListsSettings(passages_per_query=4, in_batch_weight=0, passage_prompt="rain "))
        saved.prepare(student, reading, max_length=16)
        saved.finished(student)
        assert student.settings.prompts == {"query": "dog ", "passage": "fox ", "document": "rain "}

    def test_a_prompt_that_is_not_pooled_is_refused(self, student: Encoder, reading: ScoredLists) -> None:
        student.settings = replace(student.settings, pool_prompt=False)
        method = ScoredListsTraining(ListsSettings(passages_per_query=4, query_prompt="dog "))
        with pytest.raises(SettingError, match=r"query_prompt: .* leaves prompts out of its pooling"):
            method.prepare(student, reading, max_length=16)

    def test_other_records_are_refused(self, student: Encoder) -> None:
        with pytest.raises(InputError, match=r"is read as sentences; method lists needs data=scored"):
            ScoredListsTraining(ListsSettings()).prepare(student, read_sentences(["a", "b"]))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"from_top": 9}, "from_top 9 is above passages_per_query 8"),
        ({"top": 3}, "from_top 4 is above passages_per_query 8 or top 3"),
        ({"negative_band": [0.9, 0.1]}, "negative_band"),
        ({"negative_band": [0.5]}, "negative_band"),
        ({"loss": "listnet"}, "list_net"),
        ({"teachers": ["a"], "teacher_weights": [1, 2]}, "teacher_weights: 2 given for 1 teachers"),
        ({"vector_weight": 1.0}, "vector_weight needs a teacher"),
        ({"passage_weight": 1.0}, "passage_weight needs a teacher"),
    ],
)
def test_settings_that_do_not_go_together(asked: dict[str, Any], told: str) -> None:
    with pytest.raises((ValidationError, SettingError), match=told):
        ListsSettings(**asked)
