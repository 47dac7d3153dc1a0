"""SimCSE: which sentences pass which encoder, and the loss that follows from their vectors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from losses_of import losses_of
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.encoder.padded import PaddedLayout
from nearer.errors import InputError, SettingError
from nearer.methods import SimCSE, SimCSESettings
from nearer.methods.contract import Batch, Losses
from nearer.objectives import info_nce
from nearer.text import read_pairs, read_sentences, read_triplets
from nearer.training.compute import Computation
from nearer.training.prepared import Layouts, prepare
from nearer.training.working_copy import WorkingCopy

ROWS = ["a man is eating lunch", "rain", "the quick brown fox jumps", "someone has a meal again"]
OTHERS = ["someone has a meal", "it rains again", "a lazy dog", "lunch is eaten"]
THIRDS = ["nobody eats", "the evening comes", "a fox", "far away"]


@pytest.fixture
def encoder(tiny_model: Callable[[str], Path]) -> Encoder:
    return Encoder.load(tiny_model("bert"), pooling="cls", device="cpu", dropout=0.0)


def tokens(encoder: Encoder, texts: Sequence[str]) -> list[list[int]]:
    return [encoder.tokenizer(text)["input_ids"] for text in texts]


def batch(encoder: Encoder, *fields: Sequence[str], seed: int = 0) -> Batch:
    rows = [[np.array(ids) for ids in tokens(encoder, field)] for field in fields]
    return Batch(rows, np.arange(len(fields[0])), np.random.default_rng(seed), np.random.default_rng(seed))


def method(encoder: Encoder, **settings: Any) -> SimCSE:
    made = SimCSE(SimCSESettings(**settings))
    made.prepare(encoder)
    return made


def vectors(encoder: Encoder, texts: Sequence[str]) -> Tensor:
    return torch.from_numpy(encoder.encode(list(texts)))


def step(encoder: Encoder, made: SimCSE, rows: Batch) -> Losses:
    """One batch as the loop computes it, gradients included."""
    model = nn.ModuleDict({"encoder": encoder, "method": made.modules()})
    layouts = Layouts(PaddedLayout(encoder, longest=32))
    prepared = prepare(made.inputs(rows), layouts, [len(rows.records)])
    working = WorkingCopy(model, dtype=torch.float32, packed=False, kernels=False)
    return Computation(working, made, layouts).backward(prepared.plan, prepared.tensors, 1.0, torch.manual_seed)


def test_sentences_are_their_own_positives(encoder: Encoder) -> None:
    loss = step(encoder, method(encoder, temperature=0.3), batch(encoder, ROWS))
    own = vectors(encoder, ROWS)
    torch.testing.assert_close(loss.total, info_nce(own, own, temperature=0.3), atol=1e-5, rtol=1e-5)
    assert list(loss.parts) == ["contrastive"]


def test_pairs_and_triplets(encoder: Encoder) -> None:
    made = method(encoder, hard_negative_weight=3.0)
    pairs = step(encoder, made, batch(encoder, ROWS, OTHERS)).total
    first, second, third = (vectors(encoder, texts) for texts in (ROWS, OTHERS, THIRDS))
    torch.testing.assert_close(pairs, info_nce(first, second), atol=1e-4, rtol=1e-4)
    triplets = step(encoder, made, batch(encoder, ROWS, OTHERS, THIRDS)).total
    torch.testing.assert_close(triplets, info_nce(first, second, third, hard_negative_weight=3.0), atol=1e-4, rtol=1e-4)


def test_longer_lists_are_refused(encoder: Encoder) -> None:
    with pytest.raises(InputError, match="8 texts a record at most"):
        method(encoder).inputs(batch(encoder, *[ROWS] * 9))


def test_two_hard_negatives_are_two_more_columns_each(encoder: Encoder) -> None:
    """As SimCSE tried with a contradiction and a neutral sentence: lists of four."""
    inputs = method(encoder).inputs(batch(encoder, ROWS, OTHERS, THIRDS, ROWS))
    assert list(inputs.passes) == ["anchors", "positives", "hard_negatives", "hard_negatives 2"]
    rows = list(torch.randn(4, 5, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    cosines = [torch.nn.functional.cosine_similarity(rows[0][:, None], other[None], dim=-1) for other in rows[1:]]
    weighted = [cosines[0] / 0.05, *(each / 0.05 + math.log(2) * torch.eye(5) for each in cosines[1:])]
    wanted = (torch.cat(weighted, dim=1).logsumexp(dim=1) - weighted[0].diagonal()).mean()
    torch.testing.assert_close(losses_of(method(encoder, hard_negative_weight=2.0), rows, {}).total, wanted)


def test_every_setting_of_the_loss_reaches_it(encoder: Encoder) -> None:
    made = method(encoder, temperature=0.7, similarity="dot", hard_negative_weight=2.0)
    rows = list(torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(1)))
    found = losses_of(made, rows, {})
    expected = info_nce(*rows, temperature=0.7, similarity="dot", hard_negative_weight=2.0)
    torch.testing.assert_close(found.total, expected)
    torch.testing.assert_close(found.parts["contrastive"], expected)


@pytest.mark.parametrize("fixed", [False, True])
def test_dropout_makes_the_views_differ_and_fixed_masks_make_them_equal(
    fixed: bool, tiny_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = Encoder.load(tiny_model("bert"), pooling="cls", device="cpu", dropout=0.3)
    made = method(encoder, fixed_masks=fixed)
    seen: list[Tensor] = []
    loss = made.loss
    monkeypatch.setattr(
        made, "loss", lambda outputs, *others: seen.extend(outputs.vectors.values()) or loss(outputs, *others)
    )
    step(encoder, made, batch(encoder, ROWS))
    first, second = seen
    assert torch.equal(first, second) == fixed
    assert not torch.allclose(first, vectors(encoder, ROWS), atol=0.01)  # dropout is at work in either case


def test_a_second_encoder_takes_the_positives_and_is_trained(encoder: Encoder) -> None:
    made = method(encoder, two_encoders=True)
    assert list(made.modules()) == ["second"]
    with torch.no_grad():
        for parameter in made.second.parameters():
            parameter.add_(0.02)
    loss = step(encoder, made, batch(encoder, ROWS)).total
    expected = info_nce(vectors(encoder, ROWS), vectors(made.second, ROWS))
    torch.testing.assert_close(loss, expected, atol=1e-4, rtol=1e-4)
    for trained in (encoder, made.second):
        assert trained.backbone.embeddings.word_embeddings.weight.grad.abs().sum() > 0


def test_augmentation_changes_the_second_view_only(encoder: Encoder) -> None:
    anchors, positives = method(encoder, augmentation="delete_one_word").inputs(batch(encoder, ROWS)).passes.values()
    assert [ids.tolist() for ids in anchors.rows] == tokens(encoder, ROWS)
    assert [len(ids) for ids in positives.rows] < [len(ids) for ids in anchors.rows]


def test_augmentation_leaves_pairs_alone(encoder: Encoder) -> None:
    views = method(encoder, augmentation="delete_one_word").inputs(batch(encoder, ROWS, OTHERS)).passes.values()
    assert [[ids.tolist() for ids in view.rows] for view in views] == [tokens(encoder, ROWS), tokens(encoder, OTHERS)]


def test_a_saved_model_can_say_how_it_was_trained(encoder: Encoder) -> None:
    said = method(encoder, temperature=0.1, fixed_masks=True).describe()
    assert (said["method"], said["temperature"], said["fixed_masks"]) == ("simcse", 0.1, True)


class TestMaskedLanguage:
    def test_the_parts_add_up_with_the_weight(self, encoder: Encoder) -> None:
        made = method(encoder, mlm_weight=0.25)
        assert list(made.modules()) == ["language_head"]
        losses = step(encoder, made, batch(encoder, ROWS))
        torch.testing.assert_close(losses.total, losses.parts["contrastive"] + 0.25 * losses.parts["mlm"])

    def test_its_gradient_counts_with_the_weight(self, encoder: Encoder) -> None:
        """The head gets its gradient from this loss alone."""

        def gradient(weight: float) -> Tensor:
            torch.manual_seed(0)
            made = method(encoder, mlm_weight=weight)
            step(encoder, made, batch(encoder, ROWS))
            return made.mlm.head.dense.weight.grad

        assert gradient(0.25).abs().sum() > 0
        torch.testing.assert_close(gradient(0.25), gradient(1.0) / 4)

    def test_it_is_the_mean_cross_entropy_of_the_chosen_tokens(self, encoder: Encoder) -> None:
        made = method(encoder, mlm_weight=1.0, mlm_rate=0.5)
        losses = step(encoder, made, batch(encoder, ROWS, seed=3))
        encoder.eval()
        random = np.random.default_rng(3)
        summed, count = 0.0, 0
        with torch.no_grad():
            for ids in map(np.array, [*tokens(encoder, ROWS), *tokens(encoder, ROWS)]):  # each copy masked for itself
                masked, chosen = made.mlm.masker(ids, random)
                states = encoder.states(torch.from_numpy(masked)[None], torch.ones(1, len(ids), dtype=torch.long))[0]
                scores = made.mlm.head(states, encoder.backbone.embeddings.word_embeddings.weight).log_softmax(-1)
                summed -= sum(scores[place, ids[place]].item() for place in np.flatnonzero(chosen))
                count += int(chosen.sum())
        assert losses.parts["mlm"].item() == pytest.approx(summed / count, rel=1e-4)

    def test_the_views_themselves_are_not_masked(self, encoder: Encoder) -> None:
        inputs = method(encoder, mlm_weight=1.0, mlm_rate=0.9).inputs(batch(encoder, ROWS))
        for view in (inputs.passes["anchors"], inputs.passes["positives"]):
            assert [ids.tolist() for ids in view.rows] == tokens(encoder, ROWS)

    def test_the_head_of_the_checkpoint_is_found(self) -> None:
        encoder = Encoder.load("wiki-mini", pooling="mean", device="cpu")
        made = SimCSE(SimCSESettings(mlm_weight=0.1))
        assert made.prepare(encoder) == []
        ids = torch.tensor([encoder.tokenizer("the capital of france is [MASK] .")["input_ids"]])
        place = ids[0].tolist().index(encoder.tokenizer.mask_token_id)
        with torch.no_grad():
            states = encoder.states(ids, torch.ones_like(ids))[0, place]
            scores = made.mlm.head(states[None], encoder.backbone.embeddings.word_embeddings.weight)[0]
        likely = encoder.tokenizer.convert_ids_to_tokens(scores.topk(20).indices.tolist())
        assert "paris" in likely

    def test_a_checkpoint_without_one_gets_a_fresh_head_and_a_remark(self, encoder: Encoder) -> None:
        assert "fresh" in SimCSE(SimCSESettings(mlm_weight=0.1)).prepare(encoder)[0]

    def test_a_tokenizer_without_a_mask_is_refused(self, encoder: Encoder) -> None:
        encoder.tokenizer.mask_token = None
        with pytest.raises(SettingError, match="mlm_weight"):
            method(encoder, mlm_weight=0.1)


def masked(encoder: Encoder, tmp_path: Path, records: list[tuple[str, ...]], threshold: float) -> SimCSE:
    """With the encoder itself as the frozen one."""
    made = SimCSE(
        SimCSESettings(
            false_negative_threshold=threshold,
            teachers=[{"model": encoder.name, "pooling": "cls"}],  # type: ignore[list-item]
        )
    )
    read = {1: read_sentences, 2: read_pairs, 3: read_triplets}[len(records[0])]
    made.prepare(encoder, read([record[0] for record in records] if len(records[0]) == 1 else records))  # type: ignore[operator]
    return made


@pytest.mark.parametrize("texts", [1, 2, 3])
def test_false_negatives_are_left_out_of_the_sum(encoder: Encoder, tmp_path: Path, texts: int) -> None:
    fields = [ROWS, [OTHERS[0], ROWS[2], *OTHERS[2:]], [THIRDS[0], ROWS[0], ROWS[1], THIRDS[3]]][:texts]
    records = list(zip(*fields, strict=True))
    sides = [vectors(encoder, field).double() for field in fields]
    views = sides if texts > 1 else [sides[0], sides[0]]
    units = [side / side.norm(dim=1, keepdim=True) for side in views]
    anchors, candidates = units[0], torch.cat(units[1:])
    # the cosines of a tiny model lie close together: between the two that are furthest apart
    values = sorted(float(value) for value in (anchors @ candidates.T).flatten() if value < 1 - 1e-6)
    below, above = max(itertools.pairwise(values[2:-2]), key=lambda pair: pair[1] - pair[0])
    threshold = (below + above) / 2
    made = masked(encoder, tmp_path, records, threshold)
    rows = batch(encoder, *fields)
    given = {name: torch.from_numpy(array) for name, array in made.inputs(rows).given.items()}
    found = losses_of(made, [side.float() for side in views], given).total
    wanted, removed = [], 0
    for i, anchor in enumerate(anchors):
        cosines = [float(anchor @ other) for other in candidates]
        kept = [c for k, c in enumerate(cosines) if k == i or c <= threshold]
        removed += len(cosines) - len(kept)
        wanted.append(math.log(sum(math.exp(c / 0.05) for c in kept)) - cosines[i] / 0.05)
    assert 0 < removed < len(anchors) * (len(candidates) - 1)
    assert found.item() == pytest.approx(sum(wanted) / len(wanted), abs=1e-3)


def test_what_is_left_out_gets_no_gradient() -> None:
    torch.manual_seed(0)
    anchors, positives, hard = (torch.randn(3, 5, requires_grad=True) for _ in range(3))
    excluded = torch.zeros(3, 6, dtype=torch.bool)
    excluded[:, 1] = excluded[:, 4] = True  # of all rows: an anchor's own positive stays
    loss = info_nce(anchors, positives, hard, excluded=excluded)
    loss.backward()
    assert loss.isfinite()
    assert hard.grad is not None
    assert positives.grad is not None
    assert hard.grad[1].abs().max() == 0
    assert positives.grad[1].abs().max() > 0
    without = info_nce(anchors, positives, hard, excluded=torch.zeros_like(excluded))
    assert without == info_nce(anchors, positives, hard)
    everything = info_nce(anchors, positives, hard, excluded=torch.ones_like(excluded))
    assert everything.item() == 0  # nothing is left but the positive


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"false_negative_threshold": 0.9}, "belong together"),
        ({"teachers": ["a"]}, "belong together"),
        ({"false_negative_threshold": 1.5, "teachers": ["a"]}, "less than 1"),
    ],
)
def test_masking_needs_a_threshold_and_a_frozen_encoder(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SimCSESettings(**settings)
