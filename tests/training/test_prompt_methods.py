"""PromptBERT, SNCSE and DiffCSE, and ranking methods in two templates, in the loop: whole steps against plain ones, and
every way of taking a step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import prompt_by_hand as by_hand
import pytest
import torch
import transformers
from plain_loop import same_losses
from test_method_contract import pack
from two_processes import check_moments, check_steps, two_beside_one

from nearer.encoder.packed import PackedLayout
from nearer.encoder.padded import PaddedLayout
from nearer.errors import ModelError, SettingError
from nearer.methods import RankCSESettings
from nearer.text.negation import negate
from nearer.training import resume, train
from nearer.training.trainer import Trainer

TakeSteps = Callable[[Trainer, int], torch.Tensor]
PROMPT = {
    "template": "a man {sentence} is [MASK].",
    "second_template": "a dog {sentence} is [MASK] far.",
    "max_length": 30,
}
OF = {
    "promptbert": PROMPT | {"pooling": "mask"},
    "sncse": PROMPT | {"pooling": "mask", "margin_weight": 0.5},
    "diffcse": {"pooling": "cls", "detection_weight": 0.5, "max_length": 16},
}

SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("promptbert", "sncse")]


@pytest.fixture
def generator(tiny_model: Callable[[str], Path], tmp_path: Path) -> Path:
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_model("bert"))
    sizes = {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 32, "vocab_size": len(tokenizer)}
    torch.manual_seed(3)
    model = transformers.DistilBertForMaskedLM(transformers.DistilBertConfig(**sizes, max_position_embeddings=66))
    model.save_pretrained(tmp_path / "generator")
    tokenizer.save_pretrained(tmp_path / "generator")
    return tmp_path / "generator"


@pytest.fixture
def make(make_trainer: Callable[..., Trainer], generator: Path) -> Callable[..., Trainer]:
    def made(method: str, kind: str = "bert", **settings: Any) -> Trainer:
        own = {"generator": str(generator)} if method == "diffcse" else {}
        return make_trainer(kind, method=method, head=False, **{**OF[method], **own, **settings})

    return made


class TestAgainstPlainLoops:
    @pytest.mark.parametrize("denoising", [True, False])
    def test_promptbert(self, make: Callable[..., Trainer], denoising: bool) -> None:
        trainer = make("promptbert", denoising=denoising, learning_rate=1e-3, temperature=0.5)
        # The states of a random model's [MASK] hardly depend on the sentence: denoising would leave rounding errors.
        with torch.no_grad():
            for weight in trainer.model["encoder"].parameters():
                weight.mul_(4 if weight.dim() == 2 else 1)
        same_losses(trainer, lambda model, step: by_hand.promptbert(trainer, model, step, denoising=denoising))

    def test_sncse(self, make: Callable[..., Trainer], corpus: Path) -> None:
        trainer = make("sncse", learning_rate=1e-3)
        lines = corpus.read_text().splitlines()

        def negated(step: int) -> list[list[int]]:
            texts = [negate(lines[record]) for record in trainer.feed.batch(step).records]
            tokens = [trainer.encoder.tokenizer.encode(text, add_special_tokens=False) for text in texts]
            room = 30 - trainer.method.views.second.size
            return [each[: 30 - trainer.method.views.first.size][:room] for each in tokens]

        same_losses(trainer, lambda model, step: by_hand.sncse(trainer, model, step, negated(step)))

    @pytest.mark.parametrize("way", [{}, {"replacement": "argmax", "replaced": "all"}])
    def test_diffcse(self, make: Callable[..., Trainer], generator: Path, way: dict[str, str]) -> None:
        trainer = make("diffcse", learning_rate=1e-3, **way)
        theirs = transformers.DistilBertForMaskedLM.from_pretrained(generator).eval()
        same_losses(trainer, lambda model, step: by_hand.diffcse(trainer, model, step, theirs))


class TestWaysOfTakingAStep:
    @pytest.mark.parametrize("method", OF)
    def test_pieces_packed_and_rectangles(
        self, make: Callable[..., Trainer], take_steps: TakeSteps, method: str
    ) -> None:
        wanted = take_steps(make(method), 4)
        for other in (make(method, piece=3), pack(make(method))):
            torch.testing.assert_close(take_steps(other, 4), wanted, atol=1e-4, rtol=1e-3)

    @pytest.mark.parametrize("kind", ["roberta", "mobilebert"])
    def test_other_backbones(self, make: Callable[..., Trainer], take_steps: TakeSteps, kind: str) -> None:
        wanted = take_steps(make("promptbert", kind, max_length=40), 3)
        torch.testing.assert_close(
            take_steps(make("promptbert", kind, piece=3, max_length=40), 3), wanted, atol=1e-4, rtol=1e-3
        )
        own = {"generator": None} if kind == "roberta" else {}
        assert take_steps(make("diffcse", kind, **own), 2).isfinite().all()

    def test_bare_templates_are_computed_once_a_length(self, make: Callable[..., Trainer]) -> None:
        trainer = make("promptbert", batch_size=40)
        lengths = {len(row) for row in trainer.feed.batch(0).fields[0]}
        group = next(g for g in trainer.prepared(0)[0].plan.groups if g.passes[0][0] == "bare first")
        [portion] = group.portions
        assert portion.rows == 80
        assert portion.distinct == -(-2 * len(lengths) // 32) * 32

    def test_packed_all_rows_of_a_step_pass_together(self, make: Callable[..., Trainer]) -> None:
        """Bare templates by themselves would be as many launches again for a tenth of the tokens."""
        [group] = pack(make("promptbert", batch_size=40)).prepared(0)[0].plan.groups
        assert [name for name, _ in group.passes] == ["first", "second", "bare first", "bare second"]
        [portion] = group.portions
        assert portion.rows == 160
        assert 80 < portion.distinct < 160
        assert portion.distinct % 32 == 0

    def test_packed_the_discriminator_sees_no_padding(self, make: Callable[..., Trainer]) -> None:
        trainer = pack(make("diffcse"))
        assert isinstance(trainer.layouts["discriminator"], PackedLayout)
        assert isinstance(trainer.layouts["generator"], PaddedLayout)  # a DistilBERT beside a BERT

    @pytest.mark.slow  # the contract's own test takes every kind of pass through two processes
    @pytest.mark.parametrize("method", ["diffcse", "promptbert", "sncse"])
    def test_two_processes_equal_one(
        self,
        method: str,
        recipe: Path,
        corpus: Path,
        generator: Path,
        tmp_path: Path,
        weights: Callable[[Path], dict[str, Any]],
    ) -> None:
        settings = _settings(method, generator) | {"dropout": 0.0, "batch_size": 7, "max_steps": 6}
        settings |= {"learning_rate": 1e-5, "select_on": [], "test_on": []}
        if method == "diffcse":  # each process draws its own masks and dropout, so there are none of either
            settings |= {"mask_rate": 1e-9, "replacement": "argmax", "replaced": "all", "contrastive_weight": 0}
        steps = two_beside_one(recipe, corpus, tmp_path, settings)
        assert len(steps) == 6
        check_steps(steps, loss=1e-3, norm=1e-2)
        check_moments(tmp_path, weights)


def _settings(method: str, generator: Path) -> dict[str, Any]:
    own = {"generator": str(generator)} if method == "diffcse" else {}
    return {"method": method, "head": False, "learning_rate": 1e-4, **OF[method], **own}


class TestRankingInTwoTemplates:
    """RankCSE and RankEncoder on top of what PromptBERT trains: a second template, and a head for training only."""

    OWN: ClassVar = {
        "rankcse": {},
        "rankencoder": {"variant": "released", "rank_weight": 0.7, "lower_threshold": -1.0, "corpus_size": 50},
    }

    @pytest.fixture(params=OWN)
    def ranking(self, request: pytest.FixtureRequest, make_trainer: Callable[..., Trainer]) -> Callable[..., Trainer]:
        method = request.param
        settings = PROMPT | {"pooling": "mask", "teachers": ["distilbert"], **self.OWN[method]}
        return lambda kind="bert", **more: make_trainer(kind, method=method, head=False, **(settings | more))

    def test_against_a_plain_loop(self, ranking: Callable[..., Trainer]) -> None:
        trainer = ranking(learning_rate=1e-3)
        same_losses(trainer, lambda model, step: by_hand.ranking(trainer, model, step))

    def test_pieces_and_packed(self, ranking: Callable[..., Trainer], take_steps: TakeSteps) -> None:
        wanted = take_steps(ranking(), 4)
        for other in (ranking(piece=3), pack(ranking())):
            torch.testing.assert_close(take_steps(other, 4), wanted, atol=1e-4, rtol=1e-3)

    def test_the_head_learns_and_is_not_kept(self, ranking: Callable[..., Trainer]) -> None:
        trainer = ranking()
        before = trainer.model["method"]["head"].linear.weight.clone()
        trainer.advance()
        trainer.close()
        assert not torch.equal(trainer.model["method"]["head"].linear.weight, before)
        assert trainer.encoder.head is None

    def test_what_it_needs_is_told(self, ranking: Callable[..., Trainer]) -> None:
        with pytest.raises(SettingError, match=r"reads the .MASK. of a template"):
            ranking(template=None, pooling="mean")

    def test_two_templates_need_no_dropout(self, ranking: Callable[..., Trainer]) -> None:
        assert not ranking().method.relies_on_dropout("sentences")
        assert ranking(second_template=None, template=None, pooling="mean").method.relies_on_dropout("sentences")

    def test_queued_vectors_pass_no_head(self) -> None:
        with pytest.raises(ValueError, match="do not pass the head"):
            RankCSESettings(teachers=["a"], queue_size=8, second_template="promptbert")


class TestWhatReachesWhat:
    def test_the_generator_is_frozen_and_the_rest_is_trained(self, make: Callable[..., Trainer]) -> None:
        for piece in (None, 3):
            trainer = make("diffcse", piece=piece, replaced="all", replacement="argmax")
            before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
            trainer.advance()
            trainer.close()
            moved: dict[str, bool] = {}
            for name, value in trainer.model.state_dict().items():
                part = ".".join(name.split(".")[:2])
                moved[part] = moved.get(part, False) or not torch.equal(value, before[name])
            assert moved == {
                "encoder.backbone": True,
                "method.projector": True,
                "method.discriminator": True,
                "method.generator": False,
            }
            assert not trainer.method.generator.training

    def test_detection_alone_trains_the_encoder(self, make: Callable[..., Trainer]) -> None:
        """Through the condition: the loss on tokens reaches the vectors."""
        found = {}
        for piece in (None, 3):
            trainer = make("diffcse", piece=piece, replaced="all", replacement="argmax")
            loss = trainer.method.loss

            def alone(*given: Any, loss: Any = loss) -> Any:
                losses = loss(*given)
                return type(losses)(losses.parts["detection"], losses.parts)

            trainer.method.loss = alone
            trainer.advance()
            trainer.close()
            [moments] = [
                trainer.optimiser.state[parameter]["exp_avg"]
                for name, parameter in trainer.model.named_parameters()
                if name == "encoder.backbone.encoder.layer.2.output.dense.weight"
            ]
            found[piece] = moments
        assert found[None].abs().sum() > 0
        torch.testing.assert_close(found[3], found[None], atol=1e-7, rtol=1e-3)

    def test_heads_are_for_training_only(self, recipe: Path, corpus: Path, generator: Path, tmp_path: Path) -> None:
        settings = _settings("promptbert", generator) | {"dropout": 0.0, "max_steps": 2, "evaluate_every": 1}
        made = train(recipe, corpus, out=tmp_path / "run", settings=settings)
        encoder: Any = made.load("cpu")
        assert encoder.head is None
        assert encoder.settings.template.text == PROMPT["template"]
        assert encoder.settings.pooling == "mask"


@pytest.mark.parametrize("method", OF)
def test_resumed_to_the_bit(
    method: str,
    recipe: Path,
    corpus: Path,
    generator: Path,
    tmp_path: Path,
    weights: Callable[[Path], dict[str, Any]],
    stop_after: Callable[[int], Any],
) -> None:
    settings = _settings(method, generator) | {"max_steps": 4, "checkpoint_every": 2, "select_on": [], "test_on": []}
    train(recipe, corpus, out=tmp_path / "whole", settings=settings)
    with stop_after(3):
        train(recipe, corpus, out=tmp_path / "broken", settings=settings)
    resume(tmp_path / "broken")
    whole, broken = weights(tmp_path / "whole"), weights(tmp_path / "broken")
    assert whole.keys() == broken.keys()
    assert all(torch.equal(whole[name], broken[name]) for name in whole)


class TestBadInput:
    def test_without_a_template(self, make_trainer: Callable[..., Trainer]) -> None:
        with pytest.raises(SettingError, match=r"reads the .MASK. of a template"):
            make_trainer(method="promptbert", head=False, pooling="cls")

    def test_with_a_second_head(self, make_trainer: Callable[..., Trainer]) -> None:
        with pytest.raises(SettingError, match="set head=false"):
            make_trainer(method="promptbert", head=True, **OF["promptbert"])

    def test_a_second_template_without_a_mask(self, make_trainer: Callable[..., Trainer]) -> None:
        settings = OF["promptbert"] | {"second_template": "a {sentence}"}
        with pytest.raises(SettingError, match=r"has no .MASK."):
            make_trainer(method="promptbert", head=False, **settings)

    def test_a_generator_with_other_words(
        self, make: Callable[..., Trainer], tiny_model: Callable[[str], Path]
    ) -> None:
        with pytest.raises(ModelError, match="has another vocabulary"):
            make("diffcse", generator=str(tiny_model("roberta")))

    def test_a_generator_without_a_head(self, make: Callable[..., Trainer], tiny_model: Callable[[str], Path]) -> None:
        with pytest.raises(ModelError, match="has no head for masked tokens"):
            make("diffcse", generator=str(tiny_model("bert")))

    def test_margins_that_cross(self) -> None:
        from nearer.methods import SNCSESettings

        with pytest.raises(ValueError, match="is above largest_margin"):
            SNCSESettings(smallest_margin=0.5, largest_margin=0.1)


def test_without_a_generator_tokens_of_the_batch_are_swapped_in(make: Callable[..., Trainer]) -> None:
    trainer = make("diffcse", generator=None, mask_rate=0.5)
    inputs = trainer.method.inputs(trainer.feed.batch(0))
    rows, edited = inputs.passes["views"].rows, inputs.passes["edited"].rows
    known = set(np.concatenate(rows).tolist())
    changed = 0
    for one, other in zip(rows, edited, strict=True):
        assert one[0] == other[0]
        assert set(other.tolist()) <= known
        changed += int((one != other).sum())
    assert changed > 0


class TestReplacedTokensAsAView:
    def test_the_second_view_has_other_tokens(self, make_trainer: Callable[..., Trainer], generator: Path) -> None:
        """SimCSE with tokens that a masked language model puts in."""
        trainer = make_trainer(augmentation="mlm", generator=str(generator), augmentation_rate=0.5)
        seen: list[Any] = []
        vectors = trainer.layouts.usual.vectors

        def watched(module: Any, tensors: dict[str, Any], *others: Any) -> Any:
            seen.append(tensors["ids"].clone())
            return vectors(module, tensors, *others)

        trainer.layouts.usual.vectors = watched
        trainer.advance()
        trainer.close()
        first, second = seen
        assert (first[:, 0] == second[:, 0]).all()
        assert 0 < (first != second).float().mean() < 0.7

    def test_in_pieces_as_at_once(
        self, make_trainer: Callable[..., Trainer], generator: Path, take_steps: TakeSteps
    ) -> None:
        way = {"augmentation": "mlm", "generator": str(generator), "augmentation_rate": 0.3}
        found, wanted = take_steps(make_trainer(piece=3, **way), 4), take_steps(make_trainer(**way), 4)
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-3)
