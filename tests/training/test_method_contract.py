"""The contract of methods, by one from outside the package that uses all of it (`tests/plugins/nearer_toy.py`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from two_processes import two_beside_one

import nearer.methods
from nearer.errors import InputError, ModelWarning, SettingError
from nearer.methods import METHODS, Inputs, Pass, known_methods, register_method
from nearer.training import resume, train
from nearer.training.prepared import prepare
from nearer.training.trainer import Trainer
from nearer.training.working_copy import WorkingCopy

PLUGINS = Path(__file__).parents[1] / "plugins"
TakeSteps = Callable[[Trainer, int], torch.Tensor]


@pytest.fixture(autouse=True)
def _toy_is_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(PLUGINS))
    monkeypatch.setenv("PYTHONPATH", str(PLUGINS), prepend=os.pathsep)
    nearer.methods._load_entry_points.cache_clear()
    assert "toy" in known_methods()
    yield
    METHODS.pop("toy")
    nearer.methods._load_entry_points.cache_clear()


@pytest.fixture
def toy(make_trainer: Callable[..., Trainer]) -> Callable[..., Trainer]:
    return lambda *kind, **settings: make_trainer(*kind, method="toy", head=False, pooling="cls", **settings)


def pack(trainer: Trainer) -> Trainer:
    """As on a GPU, but with the attention that runs anywhere."""
    trainer.layouts = trainer._layouts(packed=True)
    trainer.working = WorkingCopy(trainer.model, dtype=torch.float32, packed=True, kernels=False)
    trainer.take.computation.working = trainer.working
    trainer.take.computation.layouts = trainer.layouts
    return trainer


class TestWaysOfTakingAStep:
    @pytest.mark.parametrize("piece", [3, 8, 100])
    def test_in_pieces_as_at_once(self, toy: Callable[..., Trainer], take_steps: TakeSteps, piece: int) -> None:
        found, wanted = take_steps(toy(piece=piece), 5), take_steps(toy(), 5)
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-3)

    @pytest.mark.parametrize("kind", ["bert", "roberta"])
    def test_packed_as_padded(self, toy: Callable[..., Trainer], take_steps: TakeSteps, kind: str) -> None:
        found, wanted = take_steps(pack(toy(kind)), 5), take_steps(toy(kind), 5)
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-3)

    def test_several_rectangles_as_one(self, toy: Callable[..., Trainer], take_steps: TakeSteps) -> None:
        several, one = toy(batch_size=40), toy(batch_size=40)
        one.layouts.usual.rectangles = 1
        assert any("ids1" in name for name in several.prepared(0)[0].tensors)
        assert not any("ids1" in name for name in one.prepared(0)[0].tensors)
        torch.testing.assert_close(take_steps(several, 3), take_steps(one, 3), atol=1e-4, rtol=1e-3)

    def test_the_same_dropout_for_both(self, toy: Callable[..., Trainer]) -> None:
        trainer = toy(same_masks=True, dropout=0.3, piece=5)
        plan = trainer.prepared(0)[0].plan
        first, second, *_ = plan.groups
        assert [portion.noise for portion in second.portions] == [portion.number for portion in first.portions]
        assert plan.shared_noise == {portion.number for portion in first.portions}


class TestWhatReachesWhat:
    def gradients(self, trainer: Trainer) -> dict[str, float]:
        """Of each part of the model, from the optimiser's memory of the first step."""
        try:
            trainer.advance()
        finally:
            trainer.close()
        found: dict[str, float] = {}
        for name, parameter in trainer.model.named_parameters():
            part = ".".join(name.split(".")[:3])
            state = trainer.optimiser.state.get(parameter, {})
            found[part] = found.get(part, 0.0) + float(state["exp_avg"].abs().sum() if "exp_avg" in state else 0)
        return found

    @pytest.mark.parametrize("piece", [None, 3])
    def test_a_loss_on_conditioned_tokens_trains_the_encoder(
        self, toy: Callable[..., Trainer], piece: int | None
    ) -> None:
        found = self.gradients(toy(contrastive_weight=0, passage_weight=0, piece=piece))
        assert found["encoder.backbone.encoder"] > 0
        assert found["method.detector.score"] > 0
        assert found["method.generator.table"] == 0

    def test_what_is_frozen_stays_at_inference(self, toy: Callable[..., Trainer], take_steps: TakeSteps) -> None:
        trainer = toy()
        before = trainer.method.generator.table.weight.clone()
        take_steps(trainer, 3)
        assert not trainer.method.generator.training
        assert trainer.method.detector.training
        assert torch.equal(trainer.method.generator.table.weight, before)

    def test_running_means_are_those_of_the_model_that_is_saved(self, toy: Callable[..., Trainer]) -> None:
        trainer = toy(precision="bf16")
        twin = trainer.working.modules["norm"]
        assert twin is not trainer.method.norm
        assert twin.running_mean is trainer.method.norm.running_mean


def test_what_is_kept_is_remembered_once_a_batch(toy: Callable[..., Trainer]) -> None:
    trainer = toy(accumulation=2)
    means = []
    remember = trainer.method.remember

    def watched(kept: dict[str, torch.Tensor]) -> None:
        assert not kept["second"].requires_grad
        remember(kept)
        means.append(trainer.method.memory.mean.clone())

    trainer.method.remember = watched
    trainer.advance()
    trainer.close()
    assert len(means) == 2
    assert torch.equal(trainer.model.state_dict()["method.memory.mean"], means[1])
    assert not torch.equal(means[0], means[1])


class TestReplacedTokens:
    def test_only_chosen_ones_and_the_same_in_pieces(self, toy: Callable[..., Trainer]) -> None:
        seen: dict[int | None, list[Any]] = {}
        for piece in (None, 3):
            trainer = toy(piece=piece)
            loss = trainer.method.loss

            def watched(outputs: Any, *others: Any, key: int | None = piece, loss: Any = loss) -> Any:
                tokens = outputs.tokens["replaced"]
                seen[key] = [tokens.ids[tokens.real].tolist(), tokens.labels["right"][tokens.real].tolist()]
                return loss(outputs, *others)

            trainer.method.loss = watched
            trainer.advance()
            trainer.close()
        assert seen[None] == seen[3]
        ids, right = seen[None]
        changed = sum(one != other for one, other in zip(ids, right, strict=True))
        assert changed > 0
        assert len(ids) == sum(
            int(marks.sum()) for marks in trainer.method.inputs(trainer.feed.batch(0)).passes["guesses"].chosen or ()
        )


def test_two_processes_equal_one(
    recipe: Path,
    corpus: Path,
    tmp_path: Path,
    weights: Callable[[Path], dict[str, Any]],
) -> None:
    settings = {"method": "toy", "dropout": 0.0, "learning_rate": 1e-5, "max_steps": 5, "batch_size": 7}
    settings |= {"select_on": [], "test_on": [], "head": False, "pooling": "cls"}
    for alone, together in two_beside_one(recipe, corpus, tmp_path, settings):
        for name in ("loss", "contrastive", "detection", "passages"):
            assert together[name] == pytest.approx(alone[name], rel=1e-4, abs=1e-5), name
        assert together["gradient_norm"] == pytest.approx(alone["gradient_norm"], rel=1e-2)


def test_a_run_goes_on_to_the_bit(
    recipe: Path,
    corpus: Path,
    tmp_path: Path,
    stop_after: Any,
    weights: Callable[[Path], dict[str, Any]],
) -> None:
    settings = {"method": "toy", "checkpoint_every": 5, "head": False, "pooling": "cls", "same_masks": True}
    settings |= {"max_steps": 11, "test_on": []}
    with stop_after(8):
        train(recipe, corpus, out=tmp_path / "stopped", settings=settings)
    resume(tmp_path / "stopped")
    train(recipe, corpus, out=tmp_path / "straight", settings=settings)
    found, wanted = weights(tmp_path / "stopped"), weights(tmp_path / "straight")
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


class TestMistakesOfAuthors:
    ROWS = (np.array([2, 5, 3]), np.array([2, 6, 3]))

    @pytest.mark.parametrize(
        ("passes", "message"),
        [
            ({"a": Pass(ROWS[:1])}, "'a': has 1 rows for 2 records"),
            ({"a": Pass(ROWS, condition="b")}, "condition names 'b', which is no earlier pass"),
            ({"a": Pass(ROWS), "b": Pass(ROWS * 2, noise_of="a")}, "another number of rows"),
            ({"a": Pass(ROWS, wanted="tokens"), "b": Pass(ROWS, condition="a")}, "gives no vectors"),
            ({"a": Pass(ROWS), "b": Pass(ROWS, wanted="tokens", replaces="a")}, "gives no tokens"),
            ({"a": Pass(ROWS, labels={"x": ROWS})}, "but wants vectors"),
        ],
    )
    def test_they_are_named(self, toy: Callable[..., Trainer], passes: dict[str, Pass], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            prepare(Inputs(passes), toy().layouts, [2])

    @pytest.mark.parametrize("packed", [False, True])
    def test_a_row_that_is_too_long(self, toy: Callable[..., Trainer], packed: bool) -> None:
        """Its vector would be that of another sentence, without a word."""
        trainer = pack(toy()) if packed else toy()
        with pytest.raises(InputError, match="a row of 19 tokens: rows have 16 at most"):
            prepare(Inputs({"a": Pass([np.full(19, 5)])}), trainer.layouts, [1])

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ("no_such_package:Method", r"the method 'broken' of an installed package \(no_such_package:Method\)"),
            ("json:dumps", "json:dumps of an installed package is no nearer.methods.Method"),
        ],
    )
    def test_a_broken_package_hinders_no_other_method(
        self, value: str, message: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broken = [EntryPoint("broken", value, "nearer.methods")]
        monkeypatch.setattr(nearer.methods, "entry_points", lambda group: broken)
        nearer.methods._load_entry_points.cache_clear()
        with pytest.warns(ModelWarning, match=message):
            assert "simcse" in known_methods()

    def test_two_methods_of_one_name(self) -> None:
        class Other(METHODS["toy"]):  # type: ignore[misc]
            pass

        with pytest.raises(SettingError, match="there is one named 'toy' already"):
            register_method(Other)


class TestBest:
    def test_buffers_are_kept_with_the_best_weights(self, toy: Callable[..., Trainer], tmp_path: Path) -> None:
        from nearer.runs.checkpoints import Best

        trainer = toy()
        trainer.encoder.head = nn.Sequential(nn.BatchNorm1d(32))  # type: ignore[assignment]
        norm = trainer.encoder.head[0]
        best = Best(trainer.encoder, tmp_path)
        norm.running_mean.fill_(1.0)
        best.keep(3)
        norm.running_mean.fill_(2.0)
        assert 1.0 in [float(tensor.flatten()[0]) for tensor in best._weights or () if tensor.shape == (32,)]
        best._put(best._weights or [])
        assert float(norm.running_mean[0]) == 1.0
