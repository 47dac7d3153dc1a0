"""Debiased samples of a small corpus: each record as the equations have it, whoever interrupts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from debiased_parts import different_sentences, equations, make_builder

from nearer.analysis.words import lexical_overlap, words
from nearer.construct import negative_pools, propensity
from nearer.construct.debiased import DebiasedBuilder
from nearer.construct.debiased_sampler import GENERATOR, NEGATIVES, NOTHING_BELOW, POSITIVES, DebiasedSettings
from nearer.construct.propensity import edit_distances
from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError

COUNT = 90
SENTENCES = different_sentences(COUNT)
RANGE = {"low": 0.9, "high": 0.95}  # where half of the tiny model's cosines lie


@pytest.fixture(scope="module")
def encoder(tiny_model: Callable[[str], Path]) -> Encoder:
    return Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(negative_pools, "GROUP", 20)
    monkeypatch.setattr(negative_pools, "WIDTH", 40)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("".join(f"{sentence}\n" for sentence in [*SENTENCES[:50], *SENTENCES[:7], *SENTENCES[50:]]))
    return path


@pytest.fixture
def make(tmp_path: Path, corpus: Path, encoder: Encoder) -> Callable[..., DebiasedBuilder]:
    def made(name: str = "built", **options: Any) -> DebiasedBuilder:
        return make_builder(tmp_path / name, corpus, encoder, **{**RANGE, "pool_size": 8, **options})

    return made


def built(builder: DebiasedBuilder) -> list[dict[str, Any]]:
    builder.build()
    return [json.loads(line) for line in builder.finish().read_text(encoding="utf-8").splitlines()]


def cosines(encoder: Encoder, anchor: str, others: list[str]) -> np.ndarray:
    vectors = encoder.encode([anchor, *others], normalize=True)
    return vectors[1:] @ vectors[0]


def test_one_record_for_each_different_sentence(make: Callable[..., DebiasedBuilder], encoder: Encoder) -> None:
    builder = make(positives=3, negatives=4)
    records = built(builder)
    assert [record["anchor"] for record in records] == SENTENCES
    assert builder.corpus is not None
    assert builder.corpus.repeated == 7
    for record in records:
        anchor, negatives, positives = record["anchor"], record["negatives"], record["positives"]
        assert (len(positives), len(negatives)) == (3, 4)
        assert len(set(negatives)) == 4
        assert anchor not in negatives
        assert anchor not in positives
        assert set(negatives) <= set(SENTENCES)
        in_range = [0.9 - 1e-3 <= cosine <= 0.95 + 1e-3 for cosine in record["negative_cosines"]]
        assert all(in_range[: record["negative_pool"]])
        for kind, texts in (("positive", positives), ("negative", negatives)):
            shared = [lexical_overlap(words(anchor), words(text)) for text in texts]
            np.testing.assert_allclose(record[f"{kind}_cosines"], cosines(encoder, anchor, texts), atol=1e-3)
            np.testing.assert_allclose(record[f"{kind}_overlap"], shared, atol=1e-4)


@pytest.mark.parametrize("level", ["characters", "words"])
def test_samples_are_drawn_by_the_equations(make: Callable[..., DebiasedBuilder], encoder: Encoder, level: str) -> None:
    """Of each anchor, from its own candidates and random numbers, in loops; sharp, so that the weights decide."""
    weights = {"negative_semantic_weight": 0.3, "positive_semantic_weight": 0.6}
    builder = make(sharpness=200.0, edit_level=level, **weights)
    records = built(builder)
    sampler, settings = builder.sampler, builder.settings
    assert sampler is not None

    def drawn(anchor: str, number: int, texts: list[str], near: list[float], stream: int) -> list[str]:
        positive = stream == POSITIVES
        edit = edit_distances([anchor], [texts], settings.edit_level)[0].tolist()
        weight = settings.positive_semantic_weight if positive else settings.negative_semantic_weight
        chances = equations(edit, near, weight, settings.sharpness, positive)
        uniform = propensity.uniform_numbers(propensity.seeds_of(0, stream, np.array([number])), len(texts))[0]
        keys = [math.log(p) - math.log(-math.log(u)) for p, u in zip(chances, uniform, strict=True)]
        return [texts[place] for place in sorted(range(len(texts)), key=lambda place: -keys[place])[:2]]

    full = 0
    for number, record in enumerate(records):
        anchor = SENTENCES[number]
        pool = sampler.pools.of(np.array([number]))
        if pool.counts[0] >= 2:
            members = [SENTENCES[member] for member in pool.members[0] if member >= 0]
            near = pool.cosines[0, : len(members)].tolist()
            assert record["negatives"] == drawn(anchor, number, members, near, NEGATIVES)
            full += 1
        seed = int(propensity.seeds_of(0, GENERATOR, np.array([number]))[0] >> np.uint64(1))
        [candidates] = builder.generator.candidates([anchor], settings.candidates, [seed])
        near = cosines(encoder, anchor, candidates).tolist()
        assert record["positives"][: len(candidates)] == drawn(anchor, number, candidates, near, POSITIVES)
    assert full > COUNT / 2


@pytest.mark.parametrize("weight", [0.0, 1.0], ids=["surface", "meaning"])
def test_a_sharp_sampling_prefers_what_the_paper_wants(make: Callable[..., DebiasedBuilder], weight: float) -> None:
    weights = {"negative_semantic_weight": weight, "positive_semantic_weight": weight}
    plain, sharp = (built(make(f"s{sharpness:g}", sharpness=sharpness, **weights)) for sharpness in (0.0, 500.0))

    def means(records: list[dict[str, Any]]) -> tuple[float, float]:
        """Similarity to the anchor of positives and of negatives."""
        if weight:
            found = [[record[f"{kind}_cosines"] for record in records] for kind in ("positive", "negative")]
        else:
            anchors = [record["anchor"] for record in records]
            found = [-edit_distances(anchors, [r[kind] for r in records]) for kind in ("positives", "negatives")]
        return float(np.mean(found[0])), float(np.mean(found[1]))

    (plain_positive, plain_negative), (sharp_positive, sharp_negative) = means(plain), means(sharp)
    if weight:
        assert sharp_positive > plain_positive
        assert sharp_negative < plain_negative
    else:
        assert sharp_positive < plain_positive
        assert sharp_negative > plain_negative


@pytest.mark.parametrize("block_size", [1, 13, 20, 64])
def test_records_do_not_depend_on_blocks(make: Callable[..., DebiasedBuilder], block_size: int) -> None:
    wanted, found = built(make("whole", block_size=COUNT)), built(make("blocks", block_size=block_size))
    for one, two in zip(wanted, found, strict=True):
        for name, value in one.items():  # the encoder rounds by the shape of its batches
            assert two[name] == (pytest.approx(value, abs=2e-4) if "cosines" in name else value)


@pytest.mark.parametrize("after", [0, 3, 4])
def test_an_interrupted_run_ends_as_one_that_was_not(
    make: Callable[..., DebiasedBuilder], monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    whole = make("whole", block_size=16)
    built(whole)
    broken = make("broken", block_size=16)
    add, blocks = broken.building.add_many, []

    def interrupted(pieces: Any) -> None:
        pieces = list(pieces)
        if len(blocks) == after:
            add(pieces[:5])  # as a process does that dies while it writes
            raise KeyboardInterrupt
        blocks.append(len(pieces))
        add(pieces)

    monkeypatch.setattr(broken.building, "add_many", interrupted)
    with pytest.raises(KeyboardInterrupt):
        broken.build()
    broken.building.close()
    again = make("broken", block_size=16)
    assert len(again.building.done) == 16 * after + 5
    built(again)
    for name in ("data.jsonl", "about.json"):
        assert (again.building.folder / name).read_bytes() == (whole.building.folder / name).read_bytes()


def test_a_limit_is_the_beginning_and_can_be_raised(make: Callable[..., DebiasedBuilder]) -> None:
    whole = built(make("whole"))
    assert built(make("some", limit=20)) == whole[:20]
    more = make("some")
    assert len(more.building.done) == 20
    assert [record["negatives"] for record in built(more)] == [record["negatives"] for record in whole]


def test_the_seed_decides(make: Callable[..., DebiasedBuilder]) -> None:
    first, second = (built(make(f"seed{seed}", seed=seed, limit=20)) for seed in (0, 1))
    for name in ("positives", "negatives"):
        assert [record[name] for record in first] != [record[name] for record in second]


@pytest.mark.parametrize("changed", [{"seed": 4}, {"low": 0.91}, {"candidates": 5}, {"sharpness": 2.0}, {"few": True}])
def test_a_folder_of_other_settings_is_refused(make: Callable[..., DebiasedBuilder], changed: dict[str, Any]) -> None:
    make().building.close()
    with pytest.raises(SettingError, match="was begun with"):
        make(**changed)


class TestWhatIsMissing:
    def test_short_pools_are_filled_from_below_the_range(self, make: Callable[..., DebiasedBuilder]) -> None:
        from nearer.construct.sample_table import chosen_anchors, survey

        builder = make(low=0.97, high=0.999, negatives=3)
        records = built(builder)
        short = [record for record in records if record["negative_pool"] < 3]
        assert 0 < len(short) < COUNT
        for record in short:
            pool, near = record["negative_pool"], record["negative_cosines"]
            assert len(set(record["negatives"])) == 3
            assert record["anchor"] not in record["negatives"]
            assert all(cosine >= 0.97 - 1e-3 for cosine in near[:pool])
            assert all(cosine < 0.97 + 1e-3 for cosine in near[pool:])
        _, counts = survey(builder.building.records(), chosen_anchors(COUNT))
        missing, empty = sum(3 - r["negative_pool"] for r in short), sum(r["negative_pool"] == 0 for r in short)
        assert builder.shortfalls(counts) == [
            f"{len(short)} negative pools had fewer than 3 sentences ({empty} none): {missing} negatives are random "
            "sentences with a cosine below 0.97"
        ]

    def test_a_sentence_with_nothing_below_the_range_becomes_no_record(
        self, make: Callable[..., DebiasedBuilder], encoder: Encoder
    ) -> None:
        vectors = encoder.encode(SENTENCES, normalize=True).astype(np.float16).astype(np.float64)
        near = vectors @ vectors.T / np.outer(*[np.linalg.norm(vectors, axis=1)] * 2)
        np.fill_diagonal(near, 1)
        high = float(np.median(near.min(axis=1)))  # half of the anchors have no sentence that is as far
        builder = make(low=-1.0, high=high, negatives=1)
        records = built(builder)
        assert builder.building.rejected == {NOTHING_BELOW: COUNT - len(records)}
        assert 0 < len(records) < COUNT
        assert f"{COUNT - len(records)} sentences became no record: {NOTHING_BELOW}" in builder.shortfalls(
            builder.building.rejected
        )

    def test_empty_pools_everywhere_are_an_error_that_names_the_cosines(
        self, make: Callable[..., DebiasedBuilder], encoder: Encoder
    ) -> None:
        builder = make(low=0.25, high=0.75)
        near = np.concatenate([cosines(encoder, one, [o for o in SENTENCES if o != one]) for one in SENTENCES[:90:5]])
        with pytest.raises(InputError, match=r"range 0\.25,0\.75: all negative pools are empty") as caught:
            builder.build()
        low, high = (float(part) for part in str(caught.value).split("lie from ")[1].split(". Name")[0].split(" to "))
        assert low <= near.min() + 0.01
        assert high >= near.max() - 0.01
        assert not builder.building.done

    def test_too_few_candidates_repeat_and_none_is_the_sentence_itself(
        self, make: Callable[..., DebiasedBuilder]
    ) -> None:
        from nearer.construct.sample_table import chosen_anchors, survey

        builder = make(few=True, positives=3)
        records = built(builder)
        one = 0
        for record in records:
            anchor = record["anchor"]
            knows = anchor.startswith("the")
            one += knows
            assert record["positives"] == [f"{anchor} again" if knows else anchor] * 3
            assert (record["positive_pool"], record["positive_overlap"][0] == 1.0) == (int(knows), not knows)
        _, counts = survey(builder.building.records(), chosen_anchors(COUNT))
        assert builder.shortfalls(counts)[-3:] == [
            f"{2 * one} positives are repeated, for want of different candidates (--candidates 4)",
            f"{COUNT - one} sentences have no candidate: they are their own positives",
            "3 candidates were not used: too long",
        ]

    def test_fewer_sentences_than_negatives_need(self, tmp_path: Path, encoder: Encoder) -> None:
        corpus = tmp_path / "few.txt"
        corpus.write_text("the fox\nrain comes\nthe fox\n")
        with pytest.raises(InputError, match="2 different sentences; 2 negatives for each need at least 3"):
            make_builder(tmp_path / "out", corpus, encoder).build()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"positives": 0}, "positives: 0 is below 1"),
        ({"negatives": 0}, "negatives: 0 is below 1"),
        ({"low": 0.8}, "range: 0.8,0.75"),
        ({"pool_size": 1}, "pool_size: 1 is smaller than the 2 negatives"),
        ({"candidates": 1}, "candidates: 1 are fewer than the 2 positives"),
        ({"positive_semantic_weight": 1.2}, "positive_semantic_weight: 1.2 is not from 0 to 1"),
        ({"negative_semantic_weight": float("nan")}, "negative_semantic_weight"),
        ({"sharpness": -1.0}, "sharpness"),
        ({"edit_level": "letters"}, "edit_level"),
        ({"seed": -1}, "seed"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingError, match=named):
        DebiasedSettings(**settings)
