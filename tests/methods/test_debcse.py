"""DebCSE: which sentences pass the encoder under each ablation, and the loss of Eq. 7 over all positives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from losses_of import losses_of
from pydantic import ValidationError

from nearer.encoder import Encoder
from nearer.errors import InputError, NearerError, SettingError
from nearer.methods import METHODS, Batch, DebCSE, DebCSESettings
from nearer.objectives import alternating_norm, info_nce
from nearer.text import read_debiased, read_pairs, read_ranking_lists, read_sentences, read_triplets

Prepared = Callable[..., DebCSE]
ROWS = 3


@pytest.fixture
def student(tiny_model: Callable[[str], Path]) -> Encoder:
    return Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")


@pytest.fixture
def prepared(student: Encoder, tmp_path: Path) -> Prepared:
    """The method on a file whose records have so many positives and negatives."""

    def make(positives: int = 2, negatives: int = 2, **settings: Any) -> DebCSE:
        record = {"anchor": "rain", "positives": ["fox"] * positives, "negatives": ["dog"] * negatives}
        path = tmp_path / "data.jsonl"
        path.write_text(json.dumps(record) + "\n")
        method = DebCSE(DebCSESettings(**settings))
        method.prepare(student, read_debiased(path))
        return method

    return make


def batch(fields: int, seed: int = 0, rows: int = ROWS) -> Batch:
    """Field f of record r has the one token 10 · f + r."""
    tokens = [[np.array([10 * field + row]) for row in range(rows)] for field in range(fields)]
    return Batch(tokens, np.arange(rows), np.random.default_rng(seed), np.random.default_rng(seed))


def encoded_fields(method: DebCSE, fields: int) -> list[int]:
    """Which field each view holds, all its rows in order."""
    found = []
    for view in method.inputs(batch(fields)).passes.values():
        tokens = [int(row[0]) for row in view.rows]
        assert tokens == [tokens[0] + row for row in range(ROWS)]
        assert view.module == "encoder"
        found.append(tokens[0] // 10)
    return found


@pytest.mark.parametrize(
    ("settings", "views"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"alternating": False}, [0, 1, 2, 3, 4]),
        ({"mined_negatives": False}, [0, 1, 2]),
        ({"mined_positives": False}, [0, 0, 3, 4]),
        ({"mined_positives": False, "mined_negatives": False}, [0, 0]),
        ({"positives_per_step": 2}, [0, 1, 2, 3, 4]),
    ],
    ids=str,
)
def test_only_what_an_ablation_needs_is_encoded(settings: dict[str, Any], views: list[int], prepared: Prepared) -> None:
    assert encoded_fields(prepared(**settings), 5) == views


def test_counts_are_those_of_the_text(prepared: Prepared) -> None:
    assert encoded_fields(prepared(3, 1), 5) == [0, 1, 2, 3, 4]
    assert encoded_fields(prepared(3, 1, mined_negatives=False), 5) == [0, 1, 2, 3]
    assert encoded_fields(prepared(1, 3, mined_positives=False), 5) == [0, 0, 2, 3, 4]


def vectors(views: int) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(4)
    return [torch.randn(5, 8, generator=random) for _ in range(views)]


@pytest.mark.parametrize("as_printed", [True, False])
@pytest.mark.parametrize("alternating", [True, False])
def test_the_loss_is_the_mean_over_positives(alternating: bool, as_printed: bool, prepared: Prepared) -> None:
    method = prepared(2, 3, alternating=alternating, as_printed=as_printed, temperature=0.1)
    anchors, first, second, *mined = given = vectors(6)
    options: dict[str, Any] = {"temperature": 0.1, "normalise": alternating, "as_printed": as_printed}
    each = [alternating_norm(anchors, one, torch.stack(mined, dim=1), **options) for one in (first, second)]
    found = losses_of(method, given, {})
    torch.testing.assert_close(found.total, (each[0] + each[1]) / 2)
    assert list(found.parts) == ["contrastive"]


def test_without_all_three_it_is_simcse_in_both_directions(prepared: Prepared) -> None:
    method = prepared(alternating=False, mined_positives=False, mined_negatives=False)
    one, two = vectors(2)
    torch.testing.assert_close(losses_of(method, [one, two], {}).total, info_nce(one, two) + info_nce(two, one))


def test_positives_are_drawn_for_each_record_by_the_step(prepared: Prepared) -> None:
    method = prepared(3, 1, positives_per_step=2)
    pairs: set[tuple[int, int]] = set()
    for seed in range(40):
        anchors, first, second, mined = (view.rows for view in method.inputs(batch(5, seed)).passes.values())
        again = list(method.inputs(batch(5, seed)).passes.values())[1].rows
        assert [int(row[0]) for row in first] == [int(row[0]) for row in again]
        assert [int(row[0]) for row in anchors] == [0, 1, 2]
        assert [int(row[0]) for row in mined] == [40, 41, 42]
        for row in range(ROWS):
            fields = int(first[row][0]) // 10, int(second[row][0]) // 10
            assert [int(first[row][0]) % 10, int(second[row][0]) % 10] == [row, row]
            pairs.add(fields)
    assert pairs == {(1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2)}  # two different ones, in any order
    assert losses_of(method, vectors(4), {}).total.isfinite()


def test_the_cost_of_a_step_is_told(student: Encoder, prepared: Prepared, tmp_path: Path) -> None:
    prepared(2, 2)
    reading = read_debiased(tmp_path / "data.jsonl")
    [remark] = DebCSE(DebCSESettings()).prepare(student, reading)
    assert remark == "5 sentences of each record pass the encoder (anchor 1, positives 2, mined negatives 2)"
    [remark] = DebCSE(DebCSESettings(mined_negatives=False, positives_per_step=1)).prepare(student, reading)
    assert remark == "2 sentences of each record pass the encoder (anchor 1, positives 1, mined negatives 0)"


def test_other_records_are_samples_too(student: Encoder, tmp_path: Path) -> None:
    path = tmp_path / "text.tsv"
    path.write_text("rain\tfox\tdog\n")
    triplets = DebCSE(DebCSESettings())
    triplets.prepare(student, read_triplets(path))
    assert encoded_fields(triplets, 3) == [0, 1, 2]
    path.write_text("rain\tfox\n")
    pairs = DebCSE(DebCSESettings(mined_negatives=False))
    pairs.prepare(student, read_pairs(path))
    assert encoded_fields(pairs, 2) == [0, 1]
    sentences = DebCSE(DebCSESettings(mined_negatives=False, mined_positives=False))
    sentences.prepare(student, read_sentences(path, columns=["0"]))
    assert encoded_fields(sentences, 1) == [0, 0]
    with pytest.raises(InputError, match=r"is read as ranking lists; DebCSE needs data=debiased\.$"):
        DebCSE(DebCSESettings()).prepare(student, read_ranking_lists(path))


@pytest.mark.parametrize(
    ("counts", "settings", "error", "message"),
    [
        ((0, 2), {}, InputError, r"has no positives to learn from; set mined_positives=false\.$"),
        ((2, 0), {}, InputError, r"has no mined negatives to learn from; set mined_negatives=false\.$"),
        (
            (2, 2),
            {"positives_per_step": 3},
            SettingError,
            r"^positives_per_step: 3 asked for, a record of .* has 2\.$",
        ),
    ],
)
def test_text_that_lacks_what_is_asked_for(
    counts: tuple[int, int], settings: dict[str, Any], error: type[NearerError], message: str, prepared: Prepared
) -> None:
    with pytest.raises(error, match=message):
        prepared(*counts, **settings)


def test_text_that_holds_nothing(student: Encoder, tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"anchor": "rain"}\n')
    with pytest.raises(InputError, match="nothing in it could be used"):
        DebCSE(DebCSESettings()).prepare(student, read_debiased(path))


@pytest.mark.parametrize("settings", [{"temperature": 0}, {"positives_per_step": 0}, {"alternatng": False}], ids=str)
def test_settings_that_cannot_be_meant_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(settings))):
        DebCSESettings(**settings)


def test_a_model_says_how_it_was_trained(prepared: Prepared) -> None:
    described = prepared(3, 1, mined_negatives=False).describe()
    assert described["method"] == "debcse"
    assert METHODS["debcse"] is DebCSE
    assert DebCSE.Settings is DebCSESettings
    assert (described["mined_negatives"], described["alternating"]) == (False, True)
    assert (described["positives_per_record"], described["negatives_per_record"]) == (3, 1)
    json.dumps(described)
