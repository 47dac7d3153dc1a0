"""Whole runs of the methods that learn rankings: what they leave behind, and what they refuse."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from nearer.encoder import Encoder
from nearer.errors import InputError, PoolingError, SettingError
from nearer.methods import Batch, RankCSE
from nearer.methods.contract import Inputs
from nearer.teachers import RankEncoder, Teacher, TeacherSettings, VectorStore
from nearer.text import read_sentences
from nearer.training import resume, train
from nearer.training.loop import Interrupted
from nearer.training.trainer import Trainer

WORDS = ["over", "a", "lazy", "dog", "and", "rain", "comes", "until", "someone", "has"]


@pytest.fixture
def teacher(tiny_model: Callable[[str], Path], tmp_path: Path) -> Path:
    """A sentence encoder of its own architecture, tokenizer and pooling."""
    folder = tmp_path / "teacher"
    Encoder.load(tiny_model("roberta"), pooling="mean", device="cpu").save(folder)
    return folder


@pytest.fixture
def ranking_recipe(recipe: Path, tmp_path: Path) -> Callable[..., Path]:
    def make(method: str, **settings: Any) -> Path:
        values = yaml.safe_load(recipe.read_text()) | {"method": method, **settings}
        path = tmp_path / f"{method}.yaml"
        path.write_text(yaml.safe_dump(values))
        return path

    return make


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("method", ["rankcse", "dclr"])
def test_teachers_read_what_the_run_will_see(
    method: str, ranking_recipe: Callable[..., Path], corpus: Path, teacher: Path, tmp_path: Path
) -> None:
    settings = {"max_steps": 3, "select_on": [], "test_on": []}
    run = partial(train, ranking_recipe(method), corpus, teachers=[teacher], settings=settings)
    run(out=tmp_path / "part")
    store = VectorStore(Encoder.load(teacher, device="cpu"))
    # the student reads fewer tokens, so the teacher is another one; its folder is the only one
    [folder] = store.folder.parent.iterdir()
    assert (folder / "keys.bin").stat().st_size == 16 * 3 * 8
    Teacher(TeacherSettings(model=str(teacher)), torch.device("cpu"), longest=16).learn(read_sentences(corpus))
    run(out=tmp_path / "whole")
    assert (folder / "keys.bin").stat().st_size > 16 * 3 * 8
    for part, whole in zip(metrics(tmp_path / "part"), metrics(tmp_path / "whole"), strict=True):
        assert part.get("loss") == pytest.approx(whole.get("loss"), rel=1e-3)


@pytest.mark.parametrize("ranking", ["list_net", "list_mle"])
def test_a_student_learns_its_teacher_s_order(
    ranking: str, ranking_recipe: Callable[..., Path], corpus: Path, teacher: Path, tmp_path: Path
) -> None:
    recipe = ranking_recipe("rankcse", ranking=ranking, contrastive_weight=0, consistency_weight=0, dropout=0.0)
    settings = {"epochs": 4, "select_on": [], "test_on": [], "pooling": "mean", "head": False}
    settings["teacher_max_length"] = "whole"  # it is asked for its order of whole sentences below
    run = train(recipe, corpus, teachers=[teacher], out=tmp_path / "run", settings=settings)
    losses = [line["ranking"] for line in metrics(run.folder) if "ranking" in line]
    assert np.mean(losses[-10:]) < np.mean(losses[:5])
    lines = corpus.read_text().splitlines()[:60]
    wanted = Encoder.load(teacher, device="cpu").similarity(lines, lines)
    before = Encoder.load(yaml.safe_load(recipe.read_text())["model"], pooling="mean", device="cpu")
    agreement = [_agreement(model.similarity(lines, lines), wanted) for model in (before, run.load("cpu"))]
    assert agreement[1] > agreement[0] + 0.1
    config = yaml.safe_load((run.folder / "config.yaml").read_text())
    assert config["settings"]["teachers"][0]["model"] == str(teacher)
    assert config["learns_from"] == {f"teacher 1: {teacher}": VectorStore(Encoder.load(teacher)).fingerprint}


@pytest.mark.parametrize("more", [{}, {"queue_size": 12, "contrastive_weight": 0.5, "consistency_weight": 0.5}])
def test_views_that_are_equal_pass_the_encoder_once(
    more: dict[str, Any],
    ranking_recipe: Callable[..., Path],
    corpus: Path,
    teacher: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Forty steps in two passes, as where there is dropout, end at the same weights, but for rounding."""
    weights_given = {"contrastive_weight": 0, "consistency_weight": 0, **more}
    recipe = ranking_recipe("rankcse", teachers=str(teacher), dropout=0.0, **weights_given)
    monkeypatch.setattr(RankCSE, "relies_on_dropout", lambda method, data: False)
    settings = {"max_steps": 40, "select_on": [], "test_on": [], "learning_rate": 1e-4}
    passes: list[list[str]] = []
    inputs = RankCSE.inputs

    def watched(method: RankCSE, batch: Batch) -> Inputs:
        found = inputs(method, batch)
        passes.append([name for name, this in found.passes.items() if this.module == "encoder"])
        return found

    monkeypatch.setattr(RankCSE, "inputs", watched)
    once = train(recipe, corpus, out=tmp_path / "once", settings=settings)
    assert {tuple(of_one) for of_one in passes} == {("first",)}
    passes.clear()
    monkeypatch.setattr("nearer.methods.sentence_views.views_differ", lambda encoder: True)
    twice = train(recipe, corpus, out=tmp_path / "twice", settings=settings)
    assert {tuple(of_one) for of_one in passes} == {("first", "second")}
    losses = [[line["loss"] for line in metrics(run.folder) if "loss" in line] for run in (once, twice)]
    np.testing.assert_allclose(*losses, rtol=1e-4)
    texts = corpus.read_text().splitlines()[:20]
    np.testing.assert_allclose(*[run.load("cpu").encode(texts) for run in (once, twice)], rtol=1e-3, atol=2e-3)


def _agreement(found: Any, wanted: Any) -> float:
    places = np.triu_indices(len(wanted), 1)
    return float(np.corrcoef(np.argsort(np.argsort(found[places])), np.argsort(np.argsort(wanted[places])))[0, 1])


def test_a_run_of_before_teachers_could_be_cut_goes_on(
    ranking_recipe: Callable[..., Path], corpus: Path, teacher: Path, tmp_path: Path
) -> None:
    recipe, folder = ranking_recipe("rankcse", teacher_max_length="whole"), tmp_path / "run"
    run = train(recipe, corpus, teachers=[teacher], out=folder, settings={"max_steps": 3, "test_on": []})
    config = yaml.safe_load((folder / "config.yaml").read_text())
    del config["settings"]["teacher_max_length"]
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    assert resume(folder).best_step == run.best_step


def test_a_resumed_run_gives_the_same_weights_and_asks_its_teacher_nothing_new(
    ranking_recipe: Callable[..., Path],
    corpus: Path,
    teacher: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    weights: Callable[[Path], dict[str, Any]],
) -> None:
    recipe = ranking_recipe("rankcse", ranking="list_mle", teachers=str(teacher))
    settings = {"max_steps": 12, "test_on": []}
    whole = train(recipe, corpus, out=tmp_path / "whole", settings=settings)
    taken = Trainer.advance

    def stopped(self: Trainer) -> Any:
        if self.step == 5:
            raise KeyboardInterrupt
        return taken(self)

    monkeypatch.setattr(Trainer, "advance", stopped)
    with pytest.raises((Interrupted, KeyboardInterrupt)):
        train(recipe, corpus, out=tmp_path / "parts", settings={**settings, "checkpoint_every": 2})
    monkeypatch.setattr(Trainer, "advance", taken)
    monkeypatch.setattr(VectorStore, "_add", lambda *_: pytest.fail("a teacher was asked again"))
    resume(tmp_path / "parts")
    one, other = weights(whole.folder), weights(tmp_path / "parts")
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_run_does_not_go_on_with_another_teacher(
    ranking_recipe: Callable[..., Path], corpus: Path, teacher: Path, tmp_path: Path, tiny_model: Callable[[str], Path]
) -> None:
    recipe = ranking_recipe("rankcse", teachers=str(teacher))
    train(recipe, corpus, out=tmp_path / "run", settings={"max_steps": 2, "select_on": [], "test_on": []})
    shutil.rmtree(teacher)
    Encoder.load(tiny_model("bert"), pooling="cls", device="cpu").save(teacher)
    with pytest.raises(InputError, match=r"teacher 1.*is not the one that"):
        resume(tmp_path / "run")


def test_rank_encoder_leaves_a_model_that_ranks_and_scores_it_so(
    ranking_recipe: Callable[..., Path], corpus: Path, teacher: Path, tmp_path: Path
) -> None:
    recipe = ranking_recipe("rankencoder", lower_threshold=-1.0, upper_threshold=0.9, corpus_size=40)
    run = train(recipe, corpus, teachers=[teacher], out=tmp_path / "run", settings={"inference_weight": 0.5})
    model = run.load("cpu")
    assert isinstance(model, RankEncoder)
    assert model.corpus.shape == (40, 32)
    assert {"contrastive", "ranking"} <= set(metrics(run.folder)[3])
    scores = json.loads((run.folder / "scores.json").read_text())
    assert scores["protocol"]["similarity"] == "0.5 · ranks of 40 sentences (exact) + 0.5 · cosine"
    plain = Encoder.load(run.model, device="cpu")
    sentence = "a lazy dog"
    np.testing.assert_allclose(model.encode(sentence), plain.encode(sentence))
    assert model.similarity(sentence, "rain comes") != pytest.approx(plain.similarity(sentence, "rain comes"), abs=1e-3)
    again = resume(run.folder)  # all is there: nothing is trained, saved or lost
    assert again.scores is not None
    assert run.scores is not None
    assert again.scores.average == pytest.approx(run.scores.average, abs=1e-6)


def test_a_teacher_that_is_a_plain_checkpoint_must_say_how_it_pools(
    ranking_recipe: Callable[..., Path], corpus: Path, tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    recipe = ranking_recipe("rankcse")
    with pytest.raises(SettingError, match="teachers: none named"):
        train(recipe, corpus, out=tmp_path / "run")
    with pytest.raises(PoolingError, match=r"teacher .* name the pooling: .*pooling: mean"):
        train(recipe, corpus, teachers=[tiny_model("bert")], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    named = {"teachers": [{"model": str(tiny_model("bert")), "pooling": "cls"}]}
    train(recipe, corpus, out=tmp_path / "run", settings={**named, "max_steps": 1, "select_on": [], "test_on": []})


def test_what_is_wrong_with_teachers_is_told_in_one_line(
    ranking_recipe: Callable[..., Path], recipe: Path, corpus: Path, tmp_path: Path
) -> None:
    with pytest.raises(SettingError, match=r"^tiny: false_negative_threshold and teachers belong together"):
        train(recipe, corpus, teachers=["a"], out=tmp_path / "run")
    with pytest.raises(SettingError, match=r"^tsdae-bert-base: teachers: this method learns without"):
        train("tsdae-bert-base", corpus, teachers=["a"], out=tmp_path / "run")
    with pytest.raises(
        SettingError, match=r"^rankencoder: teachers: 2 given; one is needed, E1 \(--teacher MODEL\)\.$"
    ):
        train(ranking_recipe("rankencoder"), corpus, teachers=["a", "b"], out=tmp_path / "run")


def test_weights_of_the_recipe_s_own_teachers_do_not_outlive_them(
    ranking_recipe: Callable[..., Path], corpus: Path, teacher: Path, tmp_path: Path
) -> None:
    recipe = ranking_recipe("rankcse", teachers=["one", "two"], teacher_weights=[1, 2])
    settings = {"max_steps": 1, "select_on": [], "test_on": []}
    train(recipe, corpus, teachers=[teacher], out=tmp_path / "run", settings=settings)


def test_an_epoch_s_last_batch_of_two_is_no_trouble(
    ranking_recipe: Callable[..., Path], teacher: Path, tmp_path: Path
) -> None:
    """Without its own score a list has one entry then, and nothing to rank."""
    text = tmp_path / "ten.txt"
    text.write_text("".join(f"the quick {word} fox\n" for word in WORDS))
    for method, settings in (("rankcse", {}), ("rankcse", {"ranking": "list_mle"}), ("rankencoder", {})):
        recipe = ranking_recipe(method, teachers=str(teacher), **settings)
        loop = {"epochs": 2, "select_on": [], "test_on": []}
        run = train(recipe, text, out=tmp_path / f"{method}{len(settings)}", settings=loop)
        lines = metrics(run.folder)
        assert lines[-1]["step"] == 4
        assert all(np.isfinite(line["loss"]) for line in lines)
