"""ESimCSE and other relatives of SimCSE in the loop: whole steps against plain ones, and every way of taking a step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import contrastive_by_hand as by_hand
import pytest
import torch
from plain_loop import same_losses
from test_method_contract import pack
from two_processes import check_steps, two_beside_one

from nearer.errors import SettingError
from nearer.methods import ArcCSESettings, DCLRSettings, RankCSESettings
from nearer.training import resume, train
from nearer.training.trainer import Trainer
from nearer.training.working_copy import WorkingCopy, is_frozen

TakeSteps = Callable[[Trainer, int], torch.Tensor]
OF: dict[str, dict[str, Any]] = {
    "esimcse": {"queue_size": 20, "queue_momentum": 0.7},
    "arccse": {"shortest_masked": 9, "order_weight": 0.5, "order_margin": 0.1},
    "consert": {"first_view": "feature_cutoff", "second_view": "token_cutoff"},
    "dclr": {"false_negative": 0.5, "noise_times": 0.5},
    "pcl": {"edits": ["shuffle", "insert"], "batch_size": 4},
}
QUEUED_RANKCSE = {"method": "rankcse", "teachers": ["mpnet"], "queue_size": 20, "queue_momentum": 0.7}


@pytest.fixture
def make(make_trainer: Callable[..., Trainer]) -> Callable[..., Trainer]:
    def made(method: str, kind: str = "bert", **settings: Any) -> Trainer:
        own = {"teachers": ["mpnet"]} if method == "dclr" else {}
        return make_trainer(kind, method=method, **{**OF[method], **own, **settings})

    return made


class TestAgainstPlainLoops:
    def test_esimcse(self, make: Callable[..., Trainer]) -> None:
        trainer = make("esimcse", learning_rate=1e-4)
        queues: list[by_hand.MomentumQueueByHand] = []

        def loss(model: Any, step: int) -> torch.Tensor:
            if not queues:
                queues.append(by_hand.MomentumQueueByHand(model, 20, 0.7))
            return by_hand.esimcse(trainer, model, step, queues[0])

        same_losses(trainer, loss, steps=5)

    def test_arccse(self, make: Callable[..., Trainer]) -> None:
        trainer = make("arccse")
        masked = trainer.prepared(0)[0].tensors["given/masked"]
        assert 0 < int(masked.sum()) < len(masked)
        same_losses(trainer, lambda model, step: by_hand.arccse(trainer, model, step))

    @pytest.mark.parametrize("views", [("feature_cutoff", "shuffle"), ("token_cutoff", "none")])
    def test_consert(self, make: Callable[..., Trainer], views: tuple[str, str]) -> None:
        trainer = make("consert", first_view=views[0], second_view=views[1])
        same_losses(trainer, lambda model, step: by_hand.consert(trainer, model, step))

    def test_consert_s_views_under_rankcse_are_settings(self, make_trainer: Callable[..., Trainer]) -> None:
        alone = {"ranking_weight": 0, "consistency_weight": 0, "first_view": "feature_cutoff", "second_view": "shuffle"}
        trainer = make_trainer(method="rankcse", dropout=0.0, **alone)
        same_losses(trainer, lambda model, step: by_hand.contrast_of_changed_views(trainer, model, step))

    @pytest.mark.parametrize("method", ["rankcse", "rankencoder"])
    def test_other_losses_see_these_views_too(
        self, make_trainer: Callable[..., Trainer], take_steps: TakeSteps, method: str
    ) -> None:
        settings = {"method": method, "teachers": ["mpnet"], "dropout": 0.0, "lower_threshold": -1.0}
        if method == "rankcse":
            del settings["lower_threshold"]
        cut = {"first_view": "token_cutoff", "second_view": "token_cutoff"}
        found = take_steps(make_trainer(**settings, **cut), 3)
        alike = take_steps(make_trainer(**settings, **cut, cutoff_rate=1e-6), 3)  # nothing is cut
        assert ((found - alike).abs() > 1e-4).all()
        for other in (make_trainer(**settings, **cut, piece=3), pack(make_trainer(**settings, **cut))):
            torch.testing.assert_close(take_steps(other, 3), found, atol=1e-4, rtol=1e-3)

    def test_dclr(self, make: Callable[..., Trainer]) -> None:
        trainer = make("dclr", noise_steps=0)

        def known(step: int) -> torch.Tensor:
            given = trainer.method.inputs(trainer.feed.batch(step)).given["teacher0"]
            return torch.from_numpy(given.astype("float32"))

        near = torch.cosine_similarity(known(0)[:, None], known(0)[None], dim=-1) > 0.5
        assert 0 < int(near.sum()) - 8 < 56  # some sentences are false negatives of others, some are not
        same_losses(trainer, lambda model, step: by_hand.dclr(trainer, model, step, known(step)))

    def test_pcl(self, make: Callable[..., Trainer]) -> None:
        trainer = make("pcl")
        same_losses(trainer, lambda model, step: by_hand.pcl(trainer, model, step), steps=2)


class TestWaysOfTakingAStep:
    @pytest.mark.parametrize("method", OF)
    def test_pieces_and_packed(self, make: Callable[..., Trainer], take_steps: TakeSteps, method: str) -> None:
        wanted = take_steps(make(method), 4)
        for other in (make(method, piece=3), pack(make(method))):
            torch.testing.assert_close(take_steps(other, 4), wanted, atol=1e-4, rtol=1e-3)

    @pytest.mark.parametrize("kind", ["roberta", "mobilebert"])
    def test_embeddings_are_cut_in_other_backbones(
        self, make: Callable[..., Trainer], take_steps: TakeSteps, kind: str
    ) -> None:
        plain, cut = (
            make("consert", kind, first_view=view, second_view="shuffle") for view in ("none", "feature_cutoff")
        )
        assert not torch.equal(take_steps(plain, 1), take_steps(cut, 1))

    def test_cut_embeddings_stand_in_several_rectangles(
        self, make: Callable[..., Trainer], take_steps: TakeSteps
    ) -> None:
        several, one = make("consert", batch_size=40), make("consert", batch_size=40)
        one.layouts.usual.rectangles = 1
        assert any("kept_tokens1" in name for name in several.prepared(0)[0].tensors)
        torch.testing.assert_close(take_steps(several, 2), take_steps(one, 2), atol=1e-4, rtol=1e-3)

    @pytest.mark.slow  # the contract's own test takes every kind of pass through two processes
    def test_a_queue_in_two_processes_equals_one(self, recipe: Path, corpus: Path, tmp_path: Path) -> None:
        """The others draw dropout, cuts or edits in each process, so two are never one."""
        settings = {"method": "esimcse", **OF["esimcse"], "dropout": 0.0, "batch_size": 7, "max_steps": 6}
        settings |= {"learning_rate": 1e-5, "select_on": [], "test_on": []}
        settings |= {"repetition_rate": 1e-9, "variant": "released"}  # which repeats nothing
        steps = two_beside_one(recipe, corpus, tmp_path, settings)
        assert len(steps) == 6
        check_steps(steps, loss=1e-3, norm=1e-2)


# what keeps nothing from batch to batch and starts no second network has nothing of its own to lose
RESUMED = [pytest.param(name, marks=pytest.mark.slow if name in ("arccse", "consert") else ()) for name in OF]


@pytest.mark.parametrize("method", RESUMED)
def test_resumed_to_the_bit(
    method: str,
    recipe: Path,
    corpus: Path,
    tmp_path: Path,
    weights: Callable[[Path], dict[str, Any]],
    stop_after: Callable[[int], Any],
    tiny_model: Callable[[str], Path],
) -> None:
    settings = {"method": method, "learning_rate": 1e-4, **OF[method]}
    if method == "dclr":
        settings |= {"teachers": [{"model": str(tiny_model("mpnet")), "pooling": "mean"}]}
    settings |= {"max_steps": 4, "checkpoint_every": 2, "select_on": [], "test_on": []}
    train(recipe, corpus, out=tmp_path / "whole", settings=settings)
    with stop_after(3):
        train(recipe, corpus, out=tmp_path / "broken", settings=settings)
    resume(tmp_path / "broken")
    whole, broken = weights(tmp_path / "whole"), weights(tmp_path / "broken")
    assert whole.keys() == broken.keys()
    assert all(torch.equal(whole[name], broken[name]) for name in whole)


class TestQueue:
    def test_it_holds_the_last_vectors_of_an_encoder_that_follows(self, make: Callable[..., Trainer]) -> None:
        trainer = make("esimcse", learning_rate=1e-3)
        queue, follower = trainer.method.queue.queue, trainer.method.queue.follower
        before = [weight.clone() for weight in follower.following]
        filled = []
        for _ in range(3):
            trainer.advance()
            filled.append(int(queue.filled))
        trainer.close()
        assert filled == [8, 16, 20]
        assert any(not torch.equal(old, new) for old, new in zip(before, follower.following, strict=True))
        assert not follower.encoder.training
        assert all(not weight.requires_grad for weight in follower.following)

    def test_of_several_batches_each_is_pushed(self, make: Callable[..., Trainer]) -> None:
        trainer = make("esimcse", accumulation=2)
        trainer.advance()
        trainer.close()
        assert int(trainer.method.queue.queue.filled) == 16

    def test_copies_in_bf16_follow_too(self, make: Callable[..., Trainer]) -> None:
        """Fused projections of a frozen encoder are frozen, and are renewed when its weights change."""
        trainer = make("esimcse")
        working = WorkingCopy(trainer.model, dtype=torch.bfloat16, packed=True, kernels=False)
        follower = trainer.method.queue.follower
        assert is_frozen(working.modules["momentum"])
        assert not working.modules["momentum"].training
        with torch.no_grad():
            for weight in follower.leading:
                weight.add_(1.0)
        follower.follow()
        working.renew_frozen()
        frozen = [copied for copied in working.copies if not copied.master.requires_grad]
        assert frozen
        assert all(torch.equal(copied.values, copied.master.bfloat16()) for copied in frozen)

    def test_under_rankcse_it_is_a_setting(self, make_trainer: Callable[..., Trainer], take_steps: TakeSteps) -> None:
        plain, queued = make_trainer(**QUEUED_RANKCSE | {"queue_size": 0}), make_trainer(**QUEUED_RANKCSE)
        without, found = take_steps(plain, 4), take_steps(queued, 4)
        torch.testing.assert_close(found[0], without[0])  # the queue is empty at first
        assert (found[1:, 1] > without[1:, 1] + 0.1).all()  # more negatives: a larger contrastive loss
        torch.testing.assert_close(take_steps(make_trainer(**QUEUED_RANKCSE, piece=3), 4), found, atol=1e-4, rtol=1e-3)


class TestBadInput:
    def test_dclr_without_another_model(self) -> None:
        with pytest.raises(ValueError, match="teachers: 0 given; one is needed, which tells false negatives"):
            DCLRSettings()
        assert DCLRSettings(false_negative=1).teachers == []

    def test_masks_in_the_wrong_order(self) -> None:
        with pytest.raises(ValueError, match=r"less_masked: 0.5 is not below more_masked, 0.4"):
            ArcCSESettings(less_masked=0.5)

    def test_no_sentence_is_long_enough_for_masks(self, make: Callable[..., Trainer]) -> None:
        trainer = make("arccse", shortest_masked=30)
        [remark] = trainer.method.prepare(trainer.encoder, max_length=16)
        assert "no sentence has 30 tokens at max_length=16" in remark

    def test_positions_that_cannot_be_shuffled(self, make: Callable[..., Trainer]) -> None:
        """As with relative positions, which belong to attention."""
        trainer = make("consert", second_view="shuffle")
        del trainer.encoder.backbone.embeddings.position_embeddings
        with pytest.raises(SettingError, match=r"shuffle needs position embeddings, and BertModel .* has none"):
            trainer.method.prepare(trainer.encoder)

    def test_cut_embeddings_in_two_templates(self) -> None:
        with pytest.raises(ValueError, match="second_template: first_view and second_view are for views in one"):
            RankCSESettings(teachers=["x"], first_view="shuffle", second_template="sncse")

    def test_no_room_for_sentences(self, recipe: Path, corpus: Path, tmp_path: Path) -> None:
        with pytest.raises(SettingError, match="repetition_room: 13 of max_length=16 leaves no room"):
            train(recipe, corpus, out=tmp_path / "run", settings={"method": "esimcse", "repetition_room": 13})

    def test_a_queue_without_a_contrast(self, recipe: Path, corpus: Path, tmp_path: Path) -> None:
        settings = {"method": "rankcse", "queue_size": 8, "contrastive_weight": 0, "teachers": ["x"]}
        with pytest.raises(SettingError, match="queue_size: negatives are for the contrastive loss"):
            train(recipe, corpus, out=tmp_path / "run", settings=settings)
