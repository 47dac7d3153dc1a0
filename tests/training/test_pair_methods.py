"""CT and SBERT in the loop: whole steps against plain ones, which pairs are made, and what they need."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from plain_loop import same_losses
from torch import Tensor

from nearer.errors import InputError, SettingError
from nearer.methods import CT, SBERT, CTSettings, SBERTSettings
from nearer.text.reading import Reading, ReadOptions
from nearer.text.shapes import SHAPES
from nearer.training.trainer import Trainer


def mean_state(encoder: Any, row: Any) -> Tensor:
    states: Tensor = encoder.backbone(input_ids=torch.tensor(row)[None]).last_hidden_state[0]
    return states.mean(dim=0)


@pytest.fixture
def make(make_trainer: Callable[..., Trainer]) -> Callable[..., Trainer]:
    return lambda method, **settings: make_trainer(
        **{"method": method, "head": False, "pooling": "mean", "learning_rate": 1e-3, **settings}
    )


class TestCT:
    def test_steps_are_those_of_a_plain_loop(self, make: Callable[..., Trainer]) -> None:
        trainer = make("ct", negatives=3, temperature=10.0)

        def by_hand(model: Any, step: int) -> Tensor:
            inputs = trainer.method.inputs(trainer.feed.batch(step))
            first = [mean_state(model["encoder"], row) for row in trainer.feed.batch(step).fields[0]]
            second = [mean_state(model["method"]["second"], row) for row in trainer.feed.batch(step).fields[0]]
            losses = []
            for i, j in zip(*inputs.given["pairs"].nonzero(), strict=True):
                share = (torch.dot(first[i], second[j]).double() / 10).sigmoid()
                losses.append(-(share if i == j else 1 - share).log())
            assert len(losses) == 8 * 4
            return torch.stack(losses).mean()

        same_losses(trainer, by_hand)

    def test_two_encoders_begin_alike_and_drift_apart(self, make: Callable[..., Trainer]) -> None:
        trainer = make("ct", negatives=2, dropout=0.0)
        one, two = trainer.encoder.state_dict(), trainer.method.second.state_dict()
        assert all(torch.equal(one[name], two[name]) for name in one)
        trainer.advance()
        trainer.close()
        one, two = trainer.encoder.state_dict(), trainer.method.second.state_dict()
        assert any(not torch.equal(one[name], two[name]) for name in one)

    def test_each_sentence_has_itself_and_so_many_others(self) -> None:
        pairs = CT(CTSettings(negatives=3))._pairs(9, np.random.default_rng(0))
        assert pairs.diagonal().all()
        assert (pairs.sum(axis=1) == 4).all()
        again = CT(CTSettings(negatives=3))._pairs(9, np.random.default_rng(1))
        assert (pairs != again).any()
        assert CT(CTSettings(negatives=30))._pairs(4, np.random.default_rng(0)).all()

    def test_released_pairs_have_fresh_sentences(self) -> None:
        pairs = CT(CTSettings(negatives=7, variant="released"))._pairs(30, np.random.default_rng(0))
        assert pairs.sum() == 16
        assert pairs.diagonal().sum() == 2
        assert (pairs.sum(axis=0) + pairs.sum(axis=1)).max() == 2  # of a sentence with itself
        assert CT(CTSettings(negatives=2, variant="released"))._pairs(3, np.random.default_rng(0)).sum() == 2

    def test_pairs_are_refused(self, make: Callable[..., Trainer]) -> None:
        trainer = make("ct", data="triplets")
        with pytest.raises(InputError, match="CT learns from sentences alone"):
            trainer.prepared(0)


class TestSBERT:
    @pytest.mark.parametrize("data", ["labelled", "triplets"])
    def test_classes(self, make: Callable[..., Trainer], data: str) -> None:
        trainer = make("sbert", data=data, features=("first", "second", "difference", "product"))

        def by_hand(model: Any, step: int) -> Tensor:
            batch = trainer.feed.batch(step)
            sides = [[mean_state(model["encoder"], row) for row in rows] for rows in batch.fields]
            pairs = [(*pair, 0) for pair in zip(*sides[:2], strict=True)]
            if data == "triplets":
                pairs += [(*pair, 1) for pair in zip(sides[0], sides[2], strict=True)]
            else:
                lines = trainer.method.of_record[batch.records]
                pairs = [(u, v, int(n)) for (u, v, _), n in zip(pairs, lines, strict=True)]
            layer = model["method"]["classifier"].linear
            losses = []
            for u, v, right in pairs:
                scores = layer.weight @ torch.cat([u, v, (u - v).abs(), u * v]) + layer.bias
                losses.append(-scores.softmax(dim=0)[right].log())
            return torch.stack(losses).mean()

        same_losses(trainer, by_hand)

    def test_scores(self, make: Callable[..., Trainer], tmp_path: Path) -> None:
        trainer = make("sbert", data="pairs")
        scores = [int(line.split("\t")[2]) for line in (tmp_path / "pairs.tsv").read_text().splitlines()]

        def by_hand(model: Any, step: int) -> Tensor:
            batch = trainer.feed.batch(step)
            losses = []
            for first, second, record in zip(*batch.fields, batch.records, strict=True):
                u, v = mean_state(model["encoder"], first), mean_state(model["encoder"], second)
                losses.append((torch.dot(u, v) / u.norm() / v.norm() - scores[record] / max(scores)) ** 2)
            return torch.stack(losses).mean()

        same_losses(trainer, by_hand)

    def test_classes_keep_their_names(self, make: Callable[..., Trainer]) -> None:
        method = make("sbert", data="labelled").method
        assert method.describe()["classes"] == sorted(method.describe()["classes"])
        assert len(method.describe()["classes"]) > 2

    @pytest.mark.parametrize(
        ("data", "rows", "message"),
        [
            ("pairs", "a\tb\nc\td\n", r"line 1 has no score.*data=labelled"),
            ("pairs", "a\tb\t0\nc\td\t-1\n", "no score is above 0"),
            ("labelled", "a\tb\tyes\nc\td\tyes\n", r"all pairs have one class \(yes\)"),
            ("sentences", "a\n", "SBERT learns from pairs with classes"),
        ],
    )
    def test_what_it_needs(
        self, data: str, rows: str, message: str, tmp_path: Path, tiny_model: Callable[[str], Path]
    ) -> None:
        from nearer.encoder import Encoder

        (tmp_path / "text.tsv").write_text(rows)
        encoder = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")
        reading: Reading[Any] = Reading(tmp_path / "text.tsv", SHAPES[data], ReadOptions())
        with pytest.raises((InputError, SettingError), match=message):
            SBERT(SBERTSettings()).prepare(encoder, reading)


class TestLabelledPairs:
    def read(self, path: Path, text: str) -> Reading[Any]:
        path.write_text(text)
        return Reading(path, SHAPES["labelled"], ReadOptions())

    def test_columns_of_nli(self, tmp_path: Path) -> None:
        text = "gold_label\tsentence1\tsentence2\nneutral\tIt rains.\tIt pours.\n-\tIt rains.\tA man.\n"
        reading = self.read(tmp_path / "nli.tsv", text)
        assert [tuple(record) for record in reading] == [("It rains.", "It pours.", "neutral")]
        assert reading.report.dropped == 1
        assert "on whose class people did not agree" in str(reading.report)

    def test_numbers_are_classes(self, tmp_path: Path) -> None:
        rows = '{"premise": "a", "hypothesis": "b", "label": 2}\n{"premise": "a", "hypothesis": "c", "label": -1}\n'
        assert [record.label for record in self.read(tmp_path / "nli.jsonl", rows)] == ["2"]

    def test_a_pair_without_a_class_is_counted(self, tmp_path: Path) -> None:
        rows = '{"premise": "a", "hypothesis": "b", "label": null}\n{"premise": "a", "hypothesis": "c", "label": "x"}\n'
        reading = self.read(tmp_path / "nli.jsonl", rows)
        assert len(list(reading)) == 1
        assert reading.report.dropped == 1
