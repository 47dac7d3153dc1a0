"""CoSENT and AnglE as a method: scores are read, and each batch gets its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from losses_of import losses_of

from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.methods import Batch, ScoredPairs, ScoredPairsSettings
from nearer.objectives import angle, cosent
from nearer.text import read_pairs, read_sentences


@pytest.fixture
def encoder(tiny_model: Callable[[str], Path]) -> Encoder:
    return Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")


def prepared(encoder: Encoder, path: Path, text: str, **settings: Any) -> ScoredPairs:
    path.write_text(text)
    method = ScoredPairs(ScoredPairsSettings(**settings))
    method.prepare(encoder, read_pairs(path))
    return method


def test_each_record_has_its_score(encoder: Encoder, tmp_path: Path) -> None:
    text = "".join(f"a man {n}\tsomeone {n}\t{n / 2}\n" for n in range(6))
    method = prepared(encoder, tmp_path / "pairs.tsv", text)
    rows = [np.array([2, 3]), np.array([2, 3])]
    random = np.random.default_rng(0)
    inputs = method.inputs(Batch([rows, rows], np.array([4, 1]), random, random))
    assert inputs.given["scores"].tolist() == [2.0, 0.5]
    assert list(inputs.passes) == ["first", "second"]


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 2.0), (0.5, 1.5)])
def test_the_loss_is_the_weighted_sum(encoder: Encoder, tmp_path: Path, weights: tuple[float, float]) -> None:
    text = "a\tb\t1\nc\td\t2\n"
    method = prepared(encoder, tmp_path / "p.tsv", text, cosent_weight=weights[0], angle_weight=weights[1])
    first, second = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
    scores = torch.tensor([1.0, 5, 2, 2, 0])
    wanted = weights[0] * cosent(first, second, scores) + weights[1] * angle(first, second, scores)
    torch.testing.assert_close(losses_of(method, [first, second], {"scores": scores}).total, wanted)


def test_what_cannot_be_learnt_from(encoder: Encoder, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 2 has no score"):
        prepared(encoder, tmp_path / "a.jsonl", '{"sentence1": "a", "sentence2": "b", "score": 1}\n["a", "c"]\n')
    with pytest.raises(InputError, match="the same score"):
        prepared(encoder, tmp_path / "b.tsv", "a\tb\t1\nc\td\t1\n")
    path = tmp_path / "c.txt"
    path.write_text("a\n")
    with pytest.raises(SettingError, match="set data=pairs"):
        ScoredPairs(ScoredPairsSettings()).prepare(encoder, read_sentences(path))
    with pytest.raises(ValueError, match="are both 0"):
        ScoredPairsSettings(cosent_weight=0)
