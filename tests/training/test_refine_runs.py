"""Whole runs of refinement: what they leave behind, one list a step or several, one process or two, and bad lists."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from two_processes import check_moments, check_steps, two_beside_one

from nearer.encoder import Encoder
from nearer.errors import InputError, ModelError, NearerError, PoolingError, SettingError
from nearer.methods import refine
from nearer.objectives import fuse
from nearer.teachers import VectorStore
from nearer.training import resume, train
from nearer.training.loop import Interrupted
from nearer.training.recipes import load_recipe
from nearer.training.trainer import Trainer

WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "rain", "comes", "until", "lunch"]
SIZE = 6
NO_TASKS = {"select_on": [], "test_on": []}


def ranking_list(draw: random.Random, size: int = SIZE) -> list[str]:
    """A sentence of which a word more is another one in each that follows."""
    words = draw.choices(WORDS, k=8)
    found = [" ".join(words)]
    for place in draw.sample(range(8), k=size - 1):
        words[place] = draw.choice(WORDS)
        found.append(" ".join(words))
    return found


def write(path: Path, lists: list[Any]) -> Path:
    path.write_text("".join(json.dumps({"sentences": sentences}) + "\n" for sentences in lists))
    return path


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    draw = random.Random(5)
    return write(tmp_path / "lists.jsonl", [ranking_list(draw) for _ in range(14)])


@pytest.fixture
def base(tiny_model: Callable[[str], Path], tmp_path: Path) -> Path:
    """A trained encoder with a pooling of its own."""
    folder = tmp_path / "base"
    Encoder.load(tiny_model("bert"), pooling="mean", device="cpu").save(folder)
    return folder


@pytest.fixture
def refining(base: Path, recipe: Path, tmp_path: Path) -> Callable[..., Path]:
    """A recipe of refinement, with the dev file of the others."""

    def make(**settings: Any) -> Path:
        dev = yaml.safe_load(recipe.read_text())["select_on"]
        usual = {"method": "refine", "model": str(base), "data": "lists", "pooling": None, "head": False}
        loop = {"batch_size": 1, "learning_rate": 1e-3, "max_length": 16, "select_on": dev, "test_on": dev}
        path = tmp_path / "refining.yaml"
        path.write_text(yaml.safe_dump({**usual, **loop, "evaluate_every": 7, **settings}))
        return path

    return make


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def said(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(" ".join(capsys.readouterr()).split())


def target_agreement(model: Encoder, judge: Encoder, lists: Path) -> float:
    """How often two sentences of a list stand, seen from a third, in the order of the fused target."""
    hits = []
    for line in lists.read_text().splitlines():
        sentences = json.loads(line)["sentences"]
        target = fuse(torch.from_numpy(np.array(judge.similarity(sentences, sentences))), rank_strength=0.7)
        found = torch.from_numpy(np.array(model.similarity(sentences, sentences)))
        signs = [torch.sign(each[:, :, None] - each[:, None, :]) for each in (target, found)]
        hits.append((signs[0] == signs[1]).float().mean())
    return float(torch.stack(hits).mean())


def test_an_encoder_learns_the_fused_order_and_keeps_its_pooling(
    refining: Callable[..., Path], base: Path, lists: Path, tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    judge = {"model": str(tiny_model("roberta")), "pooling": "mean"}
    recipe = refining(teachers=[judge], rank_strength=0.7, dropout=0.0, epochs=5)
    run = train(recipe, lists, out=tmp_path / "run", settings=NO_TASKS)
    assert metrics(run.folder)[-1]["step"] == 5 * 14  # one list a step
    losses = [line["ranking"] for line in metrics(run.folder)]
    assert np.mean(losses[-14:]) < np.mean(losses[:14])
    model = run.load("cpu")
    assert isinstance(model, Encoder)
    assert model.settings.pooling == "mean"
    seen_by = Encoder.load(judge["model"], pooling="mean", device="cpu")
    before = target_agreement(Encoder.load(base, device="cpu"), seen_by, lists)
    assert 1 - target_agreement(model, seen_by, lists) < 0.7 * (1 - before)
    provenance = json.loads((run.model / "nearer.json").read_text())["provenance"]
    assert (provenance["method"], provenance["rank_strength"], provenance["records"]) == ("refine", 0.7, 14)


def test_a_resumed_run_gives_the_same_weights_and_asks_its_judge_nothing_new(
    refining: Callable[..., Path],
    lists: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    weights: Callable[[Path], dict[str, Any]],
) -> None:
    """The judge is the model before training: what it was stays known when its weights have changed."""
    recipe = refining(shuffle_lists=True, batch_size=2)
    settings = {"max_steps": 9, "test_on": []}
    whole = train(recipe, lists, out=tmp_path / "whole", settings=settings)
    taken = Trainer.advance

    def stopped(self: Trainer) -> Any:
        if self.step == 5:
            raise KeyboardInterrupt
        return taken(self)

    monkeypatch.setattr(Trainer, "advance", stopped)
    with pytest.raises((Interrupted, KeyboardInterrupt)):
        train(recipe, lists, out=tmp_path / "parts", settings={**settings, "checkpoint_every": 2})
    monkeypatch.setattr(Trainer, "advance", taken)
    monkeypatch.setattr(VectorStore, "_add", lambda *_: pytest.fail("the judge was asked again"))
    resume(tmp_path / "parts")
    one, other = weights(whole.folder), weights(tmp_path / "parts")
    assert one
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_several_lists_a_step_are_the_mean_of_steps_of_one(
    refining: Callable[..., Path], lists: Path, tmp_path: Path, weights: Callable[[Path], dict[str, Any]]
) -> None:
    """Accumulated batches of one list, against one batch of as many."""
    settings = {**NO_TASKS, "dropout": 0.0, "max_steps": 4, "learning_rate": 1e-5}
    runs = {"single": {"accumulation": 3}, "together": {"batch_size": 3}}
    lines = {}
    for name, own in runs.items():
        run = train(refining(), lists, out=tmp_path / name, settings={**settings, **own})
        lines[name] = metrics(run.folder)
    for alone, together in zip(lines["single"], lines["together"], strict=True):
        assert together["loss"] == pytest.approx(alone["loss"], rel=1e-5)
        assert together["gradient_norm"] == pytest.approx(alone["gradient_norm"], rel=1e-3)


def test_two_processes_share_the_lists_of_a_step_and_equal_one(
    refining: Callable[..., Path],
    lists: Path,
    tmp_path: Path,
    weights: Callable[[Path], dict[str, Any]],
) -> None:
    """Shares of 2 and 1 lists, in an order drawn anew: what belongs together stays together."""
    recipe = refining(shuffle_lists=True, batch_size=3, dropout=0.0, learning_rate=1e-5)
    settings = {**NO_TASKS, "max_steps": 4}
    steps = two_beside_one(recipe, lists, tmp_path, settings)
    assert len(steps) == 4
    check_steps(steps, loss=1e-5, norm=1e-3)
    check_moments(tmp_path, weights, atol=1e-6)


def test_one_list_cannot_be_shared_by_two_processes(
    refining: Callable[..., Path], lists: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearer.training.feed.world_size", lambda: 2)
    with pytest.raises(SettingError, match="batch_size: 1 is too small; 2 at least"):
        train(refining(), lists, out=tmp_path / "run", settings=NO_TASKS)


def test_gradient_caching_gives_the_same_losses(refining: Callable[..., Path], lists: Path, tmp_path: Path) -> None:
    settings = {**NO_TASKS, "dropout": 0.0, "max_steps": 3, "learning_rate": 1e-5, "batch_size": 2}
    losses = []
    for piece in (None, 4):
        run = train(refining(), lists, out=tmp_path / f"run{piece}", settings={**settings, "piece": piece})
        losses.append([line["loss"] for line in metrics(run.folder)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_the_order_of_the_lists_makes_a_difference(refining: Callable[..., Path], lists: Path, tmp_path: Path) -> None:
    settings = {**NO_TASKS, "dropout": 0.0, "max_steps": 3, "rank_strength": 2.0}
    losses = {}
    for shuffled in (False, True):
        run = train(refining(), lists, out=tmp_path / f"{shuffled}", settings={**settings, "shuffle_lists": shuffled})
        losses[shuffled] = [line["loss"] for line in metrics(run.folder)]
    assert losses[False] != pytest.approx(losses[True], rel=1e-4)


def test_lists_of_several_lengths(
    refining: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw = random.Random(1)
    uneven = write(tmp_path / "uneven.jsonl", [ranking_list(draw, size) for size in (5, 6, 4, 5)])
    with pytest.raises(InputError, match=r"line 2 has 6 sentences, those before it have 5; list_length=5 cuts"):
        train(refining(), uneven, out=tmp_path / "run", settings=NO_TASKS)
    assert not (tmp_path / "run").exists()
    settings = {**NO_TASKS, "list_length": 5}
    run = train(refining(), uneven, out=tmp_path / "run", settings=settings, progress=True)
    assert metrics(run.folder)[-1]["step"] == 3
    assert "1 of 4 records dropped (1 shorter than list_length)" in said(run.folder, capsys)
    with pytest.raises(SettingError, match="list_length: is for ranking lists alone"):
        load_recipe("simcse-bert-base", {"list_length": 5})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "nothing in it could be used"),
        ('{"sentences": ["alone"]}\n', "1 found, a ranking list needs at least 2"),
        ('{"sentences": "not a list"}\n{"other": 1}\n', "nothing in it could be used"),
    ],
)
def test_files_without_a_list_say_why(refining: Callable[..., Path], tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        train(refining(), path, out=tmp_path / "run", settings=NO_TASKS)
    assert not (tmp_path / "run").exists()


def test_bad_lists_among_good_ones_are_counted(
    refining: Callable[..., Path], lists: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists.write_text('{"sentences": ["alone"]}\nno JSON\n' + lists.read_text())
    settings = {**NO_TASKS, "max_steps": 2}
    run = train(refining(), lists, out=tmp_path / "run", settings=settings, progress=True)
    told = said(run.folder, capsys)
    assert "2 of 16 records dropped (1 with a wrong number of columns, 1 not valid JSON)" in told
    assert "the model as it is before training judges the lists" in told


def test_numbers_that_run_away_end_the_run(
    refining: Callable[..., Path], lists: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranking = refine.fused_ranking
    monkeypatch.setattr(refine, "fused_ranking", lambda *given, **named: ranking(*given, **named) * 1e38 * 1e38)
    settings = {**NO_TASKS, "max_steps": 6}
    with pytest.raises(NearerError, match=r"not a number|not finite"):
        train(refining(), lists, out=tmp_path / "run", settings=settings)
    assert not (tmp_path / "run" / "model").exists()


def test_a_single_sentence_is_no_batch_but_a_single_list_is() -> None:
    with pytest.raises(SettingError, match="batch_size: leaves no in-batch negatives, 2 at least"):
        load_recipe("simcse-bert-base", {"batch_size": 1})
    assert load_recipe("refine-bert-base").training.batch_size == 1


def test_a_plain_checkpoint_has_no_pooling_to_keep(
    refining: Callable[..., Path], lists: Path, tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    with pytest.raises(PoolingError, match=r"a plain checkpoint.*--set pooling=cls"):
        train(refining(), lists, model=tiny_model("bert"), out=tmp_path / "run", settings=NO_TASKS)
    run = train(
        refining(),
        lists,
        model=tiny_model("bert"),
        out=tmp_path / "run",
        settings={**NO_TASKS, "pooling": "cls", "max_steps": 2},
    )
    assert Encoder.load(run.model, device="cpu").settings.pooling == "cls"


def test_a_kept_head_is_refined_with_its_encoder(
    refining: Callable[..., Path], lists: Path, tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    encoder = Encoder.load(tiny_model("bert"), pooling="cls", device="cpu")
    encoder.add_head(torch.Generator().manual_seed(3))
    assert encoder.head is not None
    before = encoder.head.linear.weight.detach().clone()
    encoder.save(tmp_path / "headed")
    run = train(
        refining(), lists, model=tmp_path / "headed", out=tmp_path / "run", settings={**NO_TASKS, "max_steps": 3}
    )
    head = Encoder.load(run.model, device="cpu").head
    assert head is not None
    assert not torch.equal(head.linear.weight, before)
    torch.testing.assert_close(head.linear.weight, before, atol=0.02, rtol=0)


def test_simcse_takes_a_list_as_a_positive_and_hard_negatives_up_to_a_length(
    recipe: Path, lists: Path, tmp_path: Path
) -> None:
    long = tmp_path / "long.jsonl"
    long.write_text(json.dumps({"sentences": [f"the fox number {n}" for n in range(9)]}) + "\n")
    with pytest.raises((InputError, ModelError), match="8 texts a record at most"):
        train(recipe, long, out=tmp_path / "run", settings={**NO_TASKS, "data": "lists", "batch_size": 1})


@pytest.mark.parametrize("name", ["bert-base", "bert-large", "roberta-base", "roberta-large"])
def test_the_papers_numbers(name: str) -> None:
    """Ranking sentences, Appendix C; evaluated every 25 steps."""
    recipe = load_recipe(f"refine-{name}")
    training, method = recipe.training, recipe.method
    assert (training.method, training.data, training.batch_size, training.epochs) == ("refine", "lists", 1, 1)
    assert (training.learning_rate, training.evaluate_every, training.max_length) == (3e-6, 25, 32)
    assert (training.pooling, training.head) == (None, False)
    assert (method.rank_strength, method.variant, method.keep_diagonal) == (0.5, "paper", True)


def test_mobilebert_has_numbers_of_its_own() -> None:
    """At the paper's learning rate nothing moves (docs/results.md); what makes the loss is the paper's."""
    recipe, papers = load_recipe("refine-mobilebert"), load_recipe("refine-bert-base")
    training = recipe.training
    assert (training.learning_rate, training.batch_size, training.list_length, training.epochs) == (3e-5, 4, 11, 2)
    assert (training.dropout, training.precision) == (0.1, "bf16")
    alike = {"rank_strength", "student_temperature", "teacher_temperature", "keep_diagonal", "variant", "shuffle_lists"}
    assert recipe.method.model_dump(include=alike) == papers.method.model_dump(include=alike)
