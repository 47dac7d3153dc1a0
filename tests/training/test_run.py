"""Whole runs on a tiny model: what they leave behind, and what they do when things go wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import nearer
from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError, TrainingError
from nearer.training import loop as loop_module
from nearer.training import train, train_seeds
from nearer.training.loop import Interrupted
from nearer.training.settings import TrainingSettings
from nearer.training.step import learning_rate
from nearer.training.trainer import Trainer


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_run_learns_and_leaves_everything_behind(recipe: Path, corpus: Path, tmp_path: Path) -> None:
    run = train(recipe, corpus, out=tmp_path / "run", settings={"tensorboard": True})
    lines = metrics(run.folder)
    losses = [line["loss"] for line in lines if "loss" in line]
    assert len(losses) == 38  # 150 sentences, 8 a batch, the last one partial, 2 epochs
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.1
    assert [line["step"] for line in lines if "dev" in line] == [0, 7, 14, 21, 28, 35, 38]
    best = max((line for line in lines if "dev" in line), key=lambda line: line["dev"])
    assert (run.best_score, run.best_step) == (pytest.approx(best["dev"], abs=1e-4), best["step"])
    assert run.scores.average == pytest.approx(best["dev"], abs=1e-3)  # the best weights are in the model
    assert [path.name for path in (run.folder / "checkpoints").iterdir()] == ["step-00000038"]
    assert (run.folder / "scores.json").exists()
    assert any((run.folder / "tensorboard").iterdir())
    own = json.loads((run.model / "nearer.json").read_text())
    assert own["provenance"]["method"] == "simcse"
    assert own["provenance"]["settings"]["seed"] == 0
    assert own["provenance"]["records"] == 150
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(run.model), device="cpu").encode(["a lazy dog"])
    np.testing.assert_allclose(run.load("cpu").encode(["a lazy dog"]), theirs, atol=1e-5)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(
    recipe: Path, corpus: Path, tmp_path: Path, weights: Callable[[Path], dict[str, Any]]
) -> None:
    settings = {"max_steps": 6, "select_on": [], "test_on": []}
    runs = [
        train(recipe, corpus, out=tmp_path / f"run{n}", settings={**settings, "seed": seed})
        for n, seed in enumerate((5, 5, 6))
    ]
    first, same, other = (weights(run.folder) for run in runs)
    assert all(torch.equal(first[name], same[name]) for name in first)
    name = "model/model.safetensors:embeddings.word_embeddings.weight"
    assert not torch.equal(first[name], other[name])


def test_a_model_that_only_gets_worse_is_kept_untrained(recipe: Path, corpus: Path, tmp_path: Path) -> None:
    untrained = Encoder.load(nearer.training.load_recipe(recipe).training.model, pooling="cls_before_head")
    run = train(recipe, corpus, out=tmp_path / "run", settings={"max_steps": 2, "learning_rate": 1e-12, "test_on": []})
    assert run.best_step == 0
    np.testing.assert_allclose(run.load("cpu").encode("rain"), untrained.encode("rain"), atol=1e-6)


@pytest.mark.parametrize(
    ("saving_takes", "settings", "saved"),
    [
        (0.24, {}, [2, 8, 11]),  # worth it after 4.8 seconds, which is five steps
        (0.0, {}, [2, 4, 6, 8, 10, 11]),
        (1000.0, {}, [2, 11]),
        (1000.0, {"checkpoint_every": 3}, [3, 6, 9, 11]),
    ],
)
def test_checkpoints_are_written_when_they_are_worth_their_time_or_asked_for(
    saving_takes: float,
    settings: dict[str, Any],
    saved: list[int],
    recipe: Path,
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, steps = 0.0, []
    advance, save = Trainer.advance, loop_module.save_checkpoint

    def one_second(trainer: Trainer) -> Any:
        nonlocal now
        now += 1.0
        return advance(trainer)

    def slow(folder: Path, step: int, *rest: Any) -> Path:
        nonlocal now
        now += saving_takes
        steps.append(step)
        return save(folder, step, *rest)

    monkeypatch.setattr(Trainer, "advance", one_second)
    monkeypatch.setattr(loop_module, "save_checkpoint", slow)
    monkeypatch.setattr(loop_module, "time", SimpleNamespace(perf_counter=lambda: now))
    run = train(recipe, corpus, out=tmp_path / "run", settings={"max_steps": 11, "evaluate_every": 2, **settings})
    assert steps == saved
    assert [line["step"] for line in metrics(run.folder) if "dev" in line] == [0, 2, 4, 6, 8, 10, 11]


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"mlm_weight": 0.1}, {"contrastive", "mlm"}),
        ({"two_encoders": True, "augmentation": "crop"}, {"contrastive"}),
        ({"fixed_masks": True, "accumulation": 3, "group_by_length": 2}, {"contrastive"}),
        ({"similarity": "dot", "temperature": 1.0, "dropout": 0.3, "keep_partial": False}, {"contrastive"}),
        ({"pooling": "first_last_mean", "head": False, "warmup": 0.5}, {"contrastive"}),
    ],
)
def test_every_form_of_simcse_runs(
    recipe: Path, corpus: Path, tmp_path: Path, settings: dict[str, Any], parts: set[str]
) -> None:
    run = train(recipe, corpus, out=tmp_path / "run", settings={"max_steps": 3, **settings})
    line = next(line for line in metrics(run.folder) if "loss" in line)
    assert parts <= set(line)
    assert np.isfinite(line["loss"])
    assert run.load("cpu").encode("rain").shape == (32,)


def test_supervised_triplets_keep_the_head(recipe: Path, tmp_path: Path) -> None:
    path = tmp_path / "triplets.csv"
    path.write_text("sent0,sent1,hard_neg\n" + "a man,a fox,rain\nthe dog,lunch,away\nrain comes,rain,a man\n" * 5)
    settings = {"data": "triplets", "pooling": "cls", "max_steps": 3, "hard_negative_weight": 2.0}
    run = train(recipe, path, out=tmp_path / "run", settings=settings)
    assert run.load("cpu").head is not None


def test_dropout_setting_reaches_the_model(
    recipe: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: set[float] = set()

    def stop(trainer: Trainer, *_: object, **__: object) -> None:
        rates.update(module.p for module in trainer.encoder.modules() if isinstance(module, torch.nn.Dropout))
        raise TrainingError("seen")

    monkeypatch.setattr("nearer.training.run.fit", stop)
    with pytest.raises(TrainingError, match="seen"):
        train(recipe, corpus, out=tmp_path / "run", settings={"dropout": 0.33})
    assert rates == {0.33}


def test_several_seeds_are_summed_up_and_finished_ones_kept(recipe: Path, corpus: Path, tmp_path: Path) -> None:
    arguments = {"recipe": recipe, "corpus": corpus, "settings": {"max_steps": 3}}
    runs, figures = train_seeds([0, 1], tmp_path / "runs", **arguments)
    assert set(figures) == {"dev", "dev.tsv", "average"} or set(figures) == {"dev", "average"}
    values = [run.best_score for run in runs]
    assert figures["dev"].startswith(f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"[:4])
    _, of_one = train_seeds([0], tmp_path / "runs", **arguments)
    assert of_one["dev"] == f"{values[0]:.2f}"  # nothing is known of others
    before = (runs[0].model / "model.safetensors").stat().st_mtime_ns
    again, _ = train_seeds([0, 1, 2], tmp_path / "runs", **arguments)
    assert (again[0].model / "model.safetensors").stat().st_mtime_ns == before
    assert len(again) == 3


def test_the_schedule_rises_and_falls_to_zero() -> None:
    settings = TrainingSettings(method="simcse", model="x", pooling="cls", head=True, learning_rate=1.0, warmup=0.2)
    rates = [learning_rate(step, 10, settings) for step in range(10)]
    assert rates == pytest.approx([0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125])
    plain = settings.model_copy(update={"warmup": 0.0})
    assert [learning_rate(step, 4, plain) for step in range(4)] == [1.0, 0.75, 0.5, 0.25]


class TestTrouble:
    def test_nan_ends_the_run_before_a_checkpoint(
        self, recipe: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from nearer.methods import SimCSE

        loss, calls = SimCSE.loss, []

        def spoilt(self: SimCSE, *arguments: Any) -> Any:
            calls.append(1)
            losses = loss(self, *arguments)
            return type(losses)(losses.total * (float("nan") if len(calls) == 10 else 1.0), losses.parts)

        monkeypatch.setattr(SimCSE, "loss", spoilt)
        with pytest.raises(TrainingError, match="step 10: the loss or its gradient is not a number") as error:
            train(recipe, corpus, out=tmp_path / "run")
        assert "step-00000007" in str(error.value)
        assert [path.name for path in (tmp_path / "run" / "checkpoints").glob("step-*")] == ["step-00000007"]

    def test_a_full_disk_leaves_the_last_checkpoint_whole(
        self, recipe: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from nearer.runs import checkpoints

        save, calls = checkpoints.save_file, []

        def full(*arguments: Any) -> None:
            calls.append(1)
            if len(calls) > 3:
                raise OSError(28, "No space left on device")
            save(*arguments)

        monkeypatch.setattr(checkpoints, "save_file", full)
        with pytest.raises(TrainingError, match="No space left on device") as error:
            train(recipe, corpus, out=tmp_path / "run", settings={"max_steps": 15})
        assert "step-00000007" in str(error.value)
        assert not list((tmp_path / "run" / "checkpoints").glob(".building-*"))
        monkeypatch.undo()
        monkeypatch.setenv("NEARER_CACHE", str(tmp_path / "nearer-cache"))
        assert nearer.resume(tmp_path / "run").best_score is not None

    def test_an_interruption_saves_and_says_how_to_go_on(
        self,
        recipe: Path,
        corpus: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        weights: Callable[[Path], dict[str, Any]],
    ) -> None:
        import os
        import signal

        advance, asked = Trainer.advance, []

        def interrupting(trainer: Trainer) -> Any:
            if trainer.step == 9 and not asked:
                asked.append(1)
                os.kill(os.getpid(), signal.SIGINT)
            return advance(trainer)

        monkeypatch.setattr(Trainer, "advance", interrupting)
        with pytest.raises(Interrupted, match=r"stopped after step 10; go on with: nearer train --resume"):
            train(recipe, corpus, out=tmp_path / "stopped", settings={"max_steps": 12})
        kept = sorted(path.name for path in (tmp_path / "stopped" / "checkpoints").glob("step-*"))
        assert kept == ["step-00000007", "step-00000010"]
        nearer.resume(tmp_path / "stopped")
        train(recipe, corpus, out=tmp_path / "straight", settings={"max_steps": 12})
        stopped, straight = weights(tmp_path / "stopped"), weights(tmp_path / "straight")
        assert stopped.keys() == straight.keys()
        assert all(torch.equal(stopped[name], straight[name]) for name in straight)

    def test_what_can_be_wrong_is_told_before_the_first_step(self, recipe: Path, corpus: Path, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such file"):
            train(recipe, tmp_path / "none.txt", out=tmp_path / "run")
        with pytest.raises(SettingError, match="needs the folder of the published sets"):
            train(recipe, corpus, out=tmp_path / "run", settings={"select_on": "stsb-dev"})
        with pytest.raises(SettingError, match="is a test set"):
            train(recipe, corpus, out=tmp_path / "run", data=tmp_path, settings={"select_on": "stsb"})
        with pytest.raises(SettingError, match="Did you mean 'stsb'"):
            train(recipe, corpus, out=tmp_path / "run", data=tmp_path, settings={"test_on": "stsbb"})
        with pytest.raises(
            SettingError, match=r"max_length: 200 is more than the 64 tokens that .* set max_length=64, or"
        ):
            train(recipe, corpus, out=tmp_path / "run", settings={"max_length": 200, "select_on": []})
        with pytest.raises(InputError, match="do not make one batch"):
            train(recipe, corpus, out=tmp_path / "run2", settings={"batch_size": 500, "keep_partial": False})

    def test_a_folder_with_a_run_is_not_overwritten(self, recipe: Path, corpus: Path, tmp_path: Path) -> None:
        settings = {"max_steps": 1, "select_on": [], "test_on": []}
        train(recipe, corpus, out=tmp_path / "run", settings=settings)
        with pytest.raises(SettingError, match="--resume"):
            train(recipe, corpus, out=tmp_path / "run", settings=settings)

    def test_resuming_refuses_other_text_and_other_folders(self, recipe: Path, corpus: Path, tmp_path: Path) -> None:
        train(recipe, corpus, out=tmp_path / "run", settings={"max_steps": 1, "select_on": [], "test_on": []})
        corpus.write_text("something else\nentirely\nanother line\n")
        with pytest.raises(InputError, match="is not the text that"):
            nearer.resume(tmp_path / "run")
        with pytest.raises(SettingError, match="is not the folder of a run"):
            nearer.resume(tmp_path)
