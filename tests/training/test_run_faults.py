"""A run on a disk that loses what was not synced, is full at the n-th call, or flips a bit: it ends as it should."""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import nearer
from faulty_disk import CUTS, RecordedDisk, failing, flip, in_one_line, small_files
from nearer.errors import InputError, NearerError, TrainingError
from nearer.runs import checkpoints
from nearer.runs.checkpoints import whole_checkpoint
from nearer.training import train

SHORT = {"max_steps": 6, "checkpoint_every": 2, "evaluate_every": 3, "test_on": []}
Weights = dict[str, torch.Tensor]


class Recorded:
    """A short run of three checkpoints on a recorded disk, and what it must end with."""

    def __init__(self, recipe: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.recipe, self.corpus, self.found = recipe, corpus, tmp_path / "found"
        self.folder = tmp_path / "runs" / "x"
        self.saved: list[tuple[int, int]] = []  # by then so many moments had been, and this step was said to be saved
        save = checkpoints.save_checkpoint

        def noted(folder: Path, step: int, *others: Any) -> Path:
            place = save(folder, step, *others)
            self.saved.append((len(self.disk.moments), step))
            return place

        with monkeypatch.context() as patched:
            patched.setattr("nearer.training.loop.save_checkpoint", noted)
            self.disk = RecordedDisk(tmp_path / "runs")
            with self.disk:
                train(recipe, corpus, out=self.folder, settings=SHORT)
        self.weights = model_weights(self.folder)

    def after_cut(self, moment: int, cut: Any) -> Path:
        self.disk.after_power_cut(moment, cut, self.found)
        return self.found / "x"

    def ends_well(self, folder: Path) -> None:
        """Resumed where there is a run, begun again where there is none: the model is the same to the bit."""
        if (folder / "config.yaml").exists():
            nearer.resume(folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
            train(self.recipe, self.corpus, out=folder, settings=SHORT)
        found = model_weights(folder)
        assert found.keys() == self.weights.keys()
        assert all(torch.equal(found[name], self.weights[name]) for name in found)


def model_weights(folder: Path) -> Weights:
    return load_file(folder / "model" / "model.safetensors")


@pytest.fixture
def recorded(recipe: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    return Recorded(recipe, corpus, tmp_path, monkeypatch)


def some_of(count: int, wanted: int | None) -> Iterator[int]:
    yield from range(count) if wanted is None else sorted(random.Random(count).sample(range(count), wanted))


def power_cuts(run: Recorded, wanted: int | None) -> int:
    cuts = 0
    for moment in some_of(len(run.disk.moments), wanted):
        for cut in CUTS:
            folder = run.after_cut(moment, cut)
            said = max((step for when, step in run.saved if when <= moment), default=0)
            place, _ = whole_checkpoint(folder / "checkpoints", finished=(folder / "model").is_dir())
            assert (int(place.name[-8:]) if place else 0) >= said, "what was said to be saved is there"
            run.ends_well(folder)
            cuts += 1
    return cuts


def test_power_cuts(recorded: Recorded) -> None:
    assert power_cuts(recorded, 3) == 9
    folder = recorded.after_cut(len(recorded.disk.moments) - 1, "synced")
    assert model_weights(folder).keys() == recorded.weights.keys(), "it was said to be done"


@pytest.mark.slow
def test_power_cuts_at_every_moment(recorded: Recorded) -> None:
    print(f"\n{power_cuts(recorded, None)} power cuts of a run")


def full_disks(run: Recorded, tmp_path: Path, wanted: int | None) -> int:
    place = tmp_path / "full"
    with failing(place, at=10**9) as calls:
        train(run.recipe, run.corpus, out=place / "x", settings=SHORT)
    numbers = list(some_of(len(calls), wanted))
    for number in numbers:
        shutil.rmtree(place)
        error = random.Random(number).choice((errno.ENOSPC, errno.EIO))
        with failing(place, at=number, error=error), suppress(NearerError):
            in_one_line(lambda: train(run.recipe, run.corpus, out=place / "x", settings=SHORT))
        run.ends_well(place / "x")
    return len(numbers)


def test_full_disks(recorded: Recorded, tmp_path: Path) -> None:
    assert full_disks(recorded, tmp_path, 4) == 4


@pytest.mark.slow
def test_full_disks_at_every_call(recorded: Recorded, tmp_path: Path) -> None:
    print(f"\n{full_disks(recorded, tmp_path, None)} full disks of a run")


def test_a_full_disk_met_by_safetensors_is_one_line_with_the_way_on(
    recipe: Path, corpus: Path, tmp_path: Path, stop_after: Callable[[int], Any]
) -> None:
    with stop_after(3):
        train(recipe, corpus, out=tmp_path / "run", settings=SHORT)
    with small_files(4000), pytest.raises(TrainingError, match="File too large") as error:
        nearer.resume(tmp_path / "run")
    assert "the last good one is" in str(error.value)
    assert "step-00000002" in str(error.value)
    assert f"--resume {tmp_path / 'run'}" in str(error.value)
    assert "\n" not in str(error.value)
    assert nearer.resume(tmp_path / "run").model.is_dir()


def flipped_bits(
    recipe: Path, corpus: Path, tmp_path: Path, stop_after: Callable[[int], Any], tried: int
) -> tuple[int, int]:
    """Of an interrupted run with two checkpoints: how many bits were flipped, and how many were told."""
    straight = train(recipe, corpus, out=tmp_path / "straight", settings=SHORT).folder
    wanted = model_weights(straight)
    with stop_after(5):
        train(recipe, corpus, out=tmp_path / "stopped", settings=SHORT)
    whole, folder = tmp_path / "stopped", tmp_path / "flipped"
    draw, told = random.Random(3), 0
    files = [
        path.relative_to(whole)
        for path in sorted(whole.rglob("*"))
        if path.is_file() and path.name not in (".lock", "README.md") and path.stat().st_size
    ]
    for number in range(tried):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder)
        file = folder / files[number % len(files)]
        flip(file, draw.randrange(8 * file.stat().st_size))
        try:
            in_one_line(lambda: nearer.resume(folder))
        except NearerError:
            told += 1
            continue
        found = model_weights(folder)
        assert all(torch.equal(found[name], wanted[name]) for name in wanted), file
    return tried, told


def test_flipped_bits(recipe: Path, corpus: Path, tmp_path: Path, stop_after: Callable[[int], Any]) -> None:
    flipped, _ = flipped_bits(recipe, corpus, tmp_path, stop_after, 8)
    assert flipped == 8


@pytest.mark.slow
def test_many_flipped_bits(recipe: Path, corpus: Path, tmp_path: Path, stop_after: Callable[[int], Any]) -> None:
    flipped, told = flipped_bits(recipe, corpus, tmp_path, stop_after, 120)
    print(f"\n{flipped} flipped bits in a run, {told} ended it with an error, none was used")


class TestCheckpoints:
    def test_the_last_two_are_kept_and_a_damaged_one_is_told_and_passed_over(
        self, recipe: Path, corpus: Path, tmp_path: Path, stop_after: Callable[[int], Any], capsys: Any
    ) -> None:
        with stop_after(5):
            train(recipe, corpus, out=tmp_path / "run", settings=SHORT)
        found = sorted(path.name for path in (tmp_path / "run" / "checkpoints").glob("step-*"))
        assert found == ["step-00000002", "step-00000004"]
        flip(tmp_path / "run" / "checkpoints" / "step-00000004" / "optimiser.safetensors", 9999)
        capsys.readouterr()
        nearer.resume(tmp_path / "run")
        said = capsys.readouterr().err
        assert "step-00000004 cannot be used" in said
        assert "optimiser.safetensors: is not what was written" in said
        assert "going on from step-00000002" in said

    def test_without_a_whole_one_nothing_is_done(
        self, recipe: Path, corpus: Path, tmp_path: Path, stop_after: Callable[[int], Any]
    ) -> None:
        with stop_after(3):
            train(recipe, corpus, out=tmp_path / "run", settings=SHORT)
        flip(tmp_path / "run" / "checkpoints" / "step-00000002" / "weights.safetensors", 9999)
        with pytest.raises(TrainingError, match="no checkpoint is whole"):
            nearer.resume(tmp_path / "run")


def test_two_runs_into_one_folder_are_refused(
    recipe: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nearer.training.trainer import Trainer

    advance, refused = Trainer.advance, []

    def another(trainer: Trainer) -> Any:
        if trainer.step == 2:
            for start in (
                lambda: train(recipe, corpus, out=tmp_path / "run", settings={**SHORT, "learning_rate": 1.0}),
                lambda: nearer.resume(tmp_path / "run"),
            ):
                with pytest.raises(InputError, match="another process is writing it"):
                    start()
                refused.append(1)
        return advance(trainer)

    monkeypatch.setattr(Trainer, "advance", another)
    train(recipe, corpus, out=tmp_path / "run", settings=SHORT)
    assert len(refused) == 2


def test_a_run_that_cannot_begin_leaves_nothing_in_the_way(recipe: Path, corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="do not make one batch"):
        train(recipe, corpus, out=tmp_path / "run", settings={"batch_size": 500, "keep_partial": False})
    assert not (tmp_path / "run").exists()
    train(recipe, corpus, out=tmp_path / "run", settings=SHORT)


def test_a_text_that_changes_while_it_is_tokenised_becomes_no_store(
    recipe: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nearer.text import token_store

    tokenise = token_store.tokenise_counting

    def changing(*arguments: Any) -> Any:
        corpus.write_text("another text altogether\n" * 50)
        return tokenise(*arguments)

    before = corpus.read_text()
    monkeypatch.setattr(token_store, "tokenise_counting", changing)
    with pytest.raises(InputError, match="changed while it was read"):
        train(recipe, corpus, out=tmp_path / "run", settings=SHORT)
    monkeypatch.setattr(token_store, "tokenise_counting", tokenise)
    corpus.write_text(before)
    train(recipe, corpus, out=tmp_path / "run", settings=SHORT)
    train(recipe, corpus, out=tmp_path / "other", settings=SHORT)
    first, second = model_weights(tmp_path / "run"), model_weights(tmp_path / "other")
    assert all(torch.equal(first[name], second[name]) for name in first)
