"""Sweeps on a tiny model: what is run and what is not run again, what is kept, what is refused, what is drawn."""

from __future__ import annotations

import csv
import itertools
import json
import os
import re
import shutil
import signal
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from filelock import FileLock

from nearer.errors import InputError, MissingExtraError, ModelError, SettingError
from nearer.extras import install_command
from nearer.methods import SimCSE
from nearer.storage.sealed import read_sealed_json, write_sealed_json
from nearer.sweeps import sweep as sweep_module
from nearer.sweeps.heat_map import draw
from nearer.sweeps.results import SweepPoint, SweepResult, SweepRun, best_point
from nearer.sweeps.sweep import SweepStopped, sweep
from nearer.training.trainer import Trainer

GRID = {"temperature": [0.05, 0.5]}


@pytest.fixture
def run_sweep(recipe: Path, corpus: Path, tmp_path: Path) -> Callable[..., SweepResult]:
    """Runs of two steps; what the sweep says is in `run_sweep.said`."""

    def run(grid: Any = None, seeds: Sequence[int] = (0,), **arguments: Any) -> SweepResult:
        run.said.clear()
        settings = {"max_steps": 2, **arguments.pop("settings", {})}
        given = {"recipe": recipe, "corpus": corpus, "out": tmp_path / "sweep", **arguments}
        return sweep(grid=GRID if grid is None else grid, seeds=seeds, settings=settings, say=run.said.append, **given)

    run.said = []
    return run


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders of the runs that were begun or resumed."""
    folders: list[Path] = []
    fit = sweep_module.train, sweep_module.resume

    def train(**arguments: Any) -> Any:
        folders.append(arguments["out"])
        return fit[0](**arguments)

    def resume(folder: Path, **arguments: Any) -> Any:
        folders.append(folder)
        return fit[1](folder, **arguments)

    monkeypatch.setattr(sweep_module, "train", train)
    monkeypatch.setattr(sweep_module, "resume", resume)
    return folders


def spoil_loss(monkeypatch: pytest.MonkeyPatch, temperature: float) -> None:
    """Runs with this temperature end in NaN."""
    loss = SimCSE.loss

    def spoilt(self: SimCSE, *arguments: Any) -> Any:
        losses = loss(self, *arguments)
        factor = float("nan") if self.settings.temperature == temperature else 1.0
        return type(losses)(losses.total * factor, losses.parts)

    monkeypatch.setattr(SimCSE, "loss", spoilt)


class TestRuns:
    def test_every_point_with_every_seed(self, run_sweep: Any, tmp_path: Path) -> None:
        grid = {"learning_rate": ["1e-3", "3e-3"], "temperature": [0.05, 0.5]}
        result = run_sweep(grid, seeds=[0, 1], settings={"test_on": []})
        wanted = list(itertools.product([1e-3, 3e-3], [0.05, 0.5], [0, 1]))
        assert [(*run.point.values(), run.seed) for run in result.runs] == wanted
        configs = [yaml.safe_load((run.folder / "config.yaml").read_text())["settings"] for run in result.runs]
        assert [(each["learning_rate"], each["temperature"], each["seed"]) for each in configs] == wanted
        assert all(each["max_steps"] == 2 for each in configs)
        assert run_sweep.said[3] == "4 of 8: learning_rate=0.001, temperature=0.5, seed 1"
        assert result.runs[3].folder == tmp_path / "sweep" / "learning_rate=0.001,temperature=0.5" / "seed-1"
        assert result.picture == tmp_path / "sweep" / "heat-map.png"

    def test_results_are_written_and_the_best_mean_is_best(self, run_sweep: Any, tmp_path: Path) -> None:
        result = run_sweep(seeds=[0, 1])
        rows = list(csv.DictReader((tmp_path / "sweep" / "results.csv").open(encoding="utf-8")))
        found: dict[str, list[float]] = {}
        for row in rows:
            found.setdefault(row["temperature"], []).append(float(row["dev"]))
            assert float(row["test average"]) == float(row["test dev"]) == pytest.approx(float(row["dev"]), abs=1e-3)
            assert float(row["seconds"]) > 0
            assert row["best_step"] in ("0", "2")
        best = max(found, key=lambda value: statistics.mean(found[value]))
        assert result.best.settings == {"temperature": float(best)}
        content = json.loads((tmp_path / "sweep" / "results.json").read_text())
        assert content["best"] == result.best.settings
        [point] = [point for point in content["points"] if point["settings"] == content["best"]]
        expected = {"mean": statistics.mean(found[best]), "sd": statistics.stdev(found[best]), "runs": 2}
        assert point["dev"] == pytest.approx(expected)

    def test_only_the_best_points_models_are_kept(self, run_sweep: Any) -> None:
        result = run_sweep(seeds=[0, 1])
        kept = [run for run in result.runs if run.model is not None]
        assert kept == result.best.runs
        assert not [run for run in result.runs if (run.folder / "checkpoints").exists()]
        assert all((run.folder / name).exists() for run in result.runs for name in ("metrics.jsonl", "scores.json"))

    def test_all_models_are_kept_if_asked_for_once(self, run_sweep: Any) -> None:
        run_sweep(keep_models=True)
        result = run_sweep()
        assert len(result.runs) == 2
        assert all(run.model is not None for run in result.runs)

    def test_without_matplotlib_the_rest_is_done(self, run_sweep: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        result = run_sweep({"temperature": [0.05, 0.5]})
        assert result.picture is None
        assert result.remarks == (
            f"no picture: the picture of a sweep needs the package 'matplotlib': {install_command('plots')}",
        )
        with pytest.raises(MissingExtraError):
            draw(result)


class TestGoingOn:
    def test_finished_runs_are_not_repeated(self, run_sweep: Any, trained: list[Path]) -> None:
        first = run_sweep()
        trained.clear()
        again = run_sweep()
        assert trained == []
        assert again.runs == first.runs
        assert run_sweep.said[0].startswith("1 of 2: temperature=0.05, seed 0: done before, dev ")

    def test_values_settings_and_seeds_can_be_added(self, run_sweep: Any, trained: list[Path]) -> None:
        first = run_sweep({"learning_rate": [1e-3]})
        trained.clear()
        more = {"learning_rate": [3e-3, 1e-3], "temperature": [0.05]}  # the recipe's
        result = run_sweep(more, seeds=[1, 0])
        assert len(trained) == 3
        same = result.runs[3]
        assert same.point == {"learning_rate": 1e-3, "temperature": 0.05}
        assert (same.folder, same.dev) == (first.runs[0].folder, first.runs[0].dev)

    def test_runs_of_another_grid_are_counted_and_left_alone(self, run_sweep: Any) -> None:
        first = run_sweep()
        result = run_sweep({"temperature": [0.1]})
        assert run_sweep.said[0].startswith("2 earlier runs in ")
        assert len(result.runs) == 1
        assert first.best.best_run.model is not None

    def test_a_best_model_that_was_removed_is_told(self, run_sweep: Any) -> None:
        first = run_sweep()
        shutil.rmtree(first.best.best_run.model)
        assert run_sweep().remarks == (
            "the best point's models of seeds 0 were removed while another was best (--keep-models)",
        )

    def test_an_interrupted_run_is_resumed_where_it_stopped(
        self, run_sweep: Any, trained: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        grid = {"temperature": [0.05, 0.5, 0.1]}
        straight = run_sweep(grid, out=tmp_path / "straight", settings={"max_steps": 6})
        trained.clear()
        advance, steps = Trainer.advance, []

        def interrupting(trainer: Trainer) -> Any:
            steps.append(trainer.step)
            if len(steps) == 9:
                os.kill(os.getpid(), signal.SIGINT)
            return advance(trainer)

        monkeypatch.setattr(Trainer, "advance", interrupting)
        message = "stopped in run 2 of 3 after its step 3; the same command goes on from there"
        with pytest.raises(SweepStopped, match=f"^{message}$"):
            run_sweep(grid, settings={"max_steps": 6})
        record = trained[1] / "sweep-run.json"
        write_sealed_json(record, {**read_sealed_json(record, ""), "seconds": 1000.0})
        rows = (tmp_path / "sweep" / "results.csv").read_text().splitlines()
        assert len(rows) == 2  # a head and what is finished
        result = run_sweep(grid, settings={"max_steps": 6})
        assert trained == [result.runs[n].folder for n in (0, 1, 1, 2)]
        assert steps[9:12] == [3, 4, 5]
        assert run_sweep.said[1].endswith("seed 0: goes on")
        assert [run.dev for run in result.runs] == [run.dev for run in straight.runs]
        assert 1000 < result.runs[1].seconds < 1100

    def test_a_kill_before_the_figures_are_recorded_loses_nothing(
        self, run_sweep: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        grid = {"temperature": [0.05]}
        with monkeypatch.context() as patch:
            patch.setattr(sweep_module, "_figures", lambda trained: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(SweepStopped, match="stopped in run 1 of 1; the same command"):
                run_sweep(grid)
        monkeypatch.setattr(Trainer, "advance", lambda trainer: pytest.fail("a step was taken again"))
        assert run_sweep(grid).runs[0].dev is not None


def test_the_corpus_is_read_as_asked_for(run_sweep: Any, tmp_path: Path) -> None:
    latin = tmp_path / "latin.txt"
    latin.write_bytes("".join(f"Über {number} lazy dogs jumps the fox\n" for number in range(60)).encode("latin-1"))
    result = run_sweep({"temperature": [0.05]}, corpus=latin, reading={"encoding": "latin-1"})
    config = yaml.safe_load((result.runs[0].folder / "config.yaml").read_text())
    assert config["reading"] == {"encoding": "latin-1"}
    with pytest.raises(InputError, match="encoding"):
        run_sweep({"temperature": [0.05]}, corpus=latin, out=tmp_path / "other")


class TestFailures:
    def test_a_failed_run_is_noted_and_the_others_go_on(
        self, run_sweep: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            spoil_loss(patch, 0.05)
            result = run_sweep()
        assert [run.state for run in result.runs] == ["failed", "finished"]
        assert "failed: step 1: the loss or its gradient is not a number" in run_sweep.said[1]
        assert result.best.settings["temperature"] == 0.5
        rows = list(csv.DictReader((tmp_path / "sweep" / "results.csv").open(encoding="utf-8")))
        assert rows[0]["dev"] == ""
        assert rows[0]["reason"].startswith("step 1: the loss or its gradient is not a number")
        again = run_sweep()  # the cause is gone: tried again
        assert [run.state for run in again.runs] == ["finished"] * 2
        assert again.runs[0].reason == ""

    def test_when_all_fail_there_is_no_best(self, run_sweep: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        spoil_loss(monkeypatch, 0.05)
        result = run_sweep({"temperature": [0.05]})
        assert (result.best, result.picture, len(result.failed)) == (None, None, 1)

    def test_a_mistake_that_one_point_alone_makes_does_not_end_the_sweep(self, run_sweep: Any) -> None:
        result = run_sweep({"batch_size": [8, 500]}, settings={"keep_partial": False})
        assert [run.state for run in result.runs] == ["finished", "failed"]
        assert "do not make one batch" in result.runs[1].reason

    def test_a_mistake_in_the_first_run_ends_it_and_can_be_mended(self, run_sweep: Any, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="do not make one batch"):
            run_sweep({"batch_size": [500, 600]}, settings={"keep_partial": False})
        assert {path.name for path in (tmp_path / "sweep").iterdir()} <= {"sweep.json", ".sweep.lock", "batch_size=500"}
        assert run_sweep({"batch_size": [500]}, settings={"keep_partial": True}).best is not None

    def test_points_with_fewer_failures_come_first(self) -> None:
        def point(*scores: float | None) -> SweepPoint:
            states = ["failed" if score is None else "finished" for score in scores]
            runs = [SweepRun({}, n, Path("x"), states[n], dev=score) for n, score in enumerate(scores)]  # type: ignore[arg-type]
            return SweepPoint({}, runs)

        lucky, steady, worse = point(90.0, None), point(80.0, 81.0), point(79.0, 81.0)
        assert best_point([lucky, worse, steady]) is steady
        assert best_point([lucky, point(None, None)]) is lucky


class TestRefused:
    @pytest.mark.parametrize(
        ("grid", "seeds", "settings", "message"),
        [
            ({}, [0], {}, "grid: is empty"),
            ({"learning_rat": [1e-3]}, [0], {}, "learning_rat: no such setting, did you mean 'learning_rate'?"),
            ({"learning_rate": [1e-3, "fast"]}, [0], {}, "learning_rate: Input should be a valid number"),
            ({"learning_rate": [1e-3, -1]}, [0], {}, "learning_rate: Input should be greater than 0"),
            ({"learning_rate": []}, [0], {}, "learning_rate has no values"),
            ({"learning_rate": "1e-3"}, [0], {}, "learning_rate needs a list of values"),
            ({"learning_rate": ["2e-5", 0.00002]}, [0], {}, "learning_rate has the value 2e-05 twice"),
            ({"seed": [0, 1]}, [0], {}, "every point is run with every seed; name them"),
            ({"epochs": [1, 2]}, [0], {"seed": 3}, "every point is run with every seed; name them"),
            ({"max_steps": [1, 2]}, [0], {}, "max_steps is in the grid and fixed to 2 as well"),
            ({"epochs": [1, 2]}, [], {}, r"seeds: [] is empty"),
            ({"epochs": [1, 2]}, [1, 1], {}, "repeats one"),
            ({"epochs": [1, 2]}, [-1], {}, "seed: Input should be greater than or equal to 0"),
            ({"epochs": [1, 2]}, [0], {"select_on": []}, "select_on: is empty"),
            ({"select_on": ["everyday", "stsb-dev"]}, [0], {}, "'stsb-dev' needs the folder of the STS sets"),
            ({"test_on": ["everyday", "none.tsv"]}, [0], {}, "none.tsv"),
            ({"model": ["wiki-mini", "./nowhere"]}, [0], {}, "nowhere"),
        ],
    )
    def test_mistakes_are_told_before_the_first_run(
        self,
        grid: Any,
        seeds: list[int],
        settings: Any,
        message: str,
        run_sweep: Any,
        trained: list[Path],
        tmp_path: Path,
    ) -> None:
        with pytest.raises((SettingError, InputError, ModelError), match=re.escape(message)) as error:
            run_sweep(grid, seeds, settings=settings)
        assert "\n" not in str(error.value)
        assert trained == []
        assert not (tmp_path / "sweep").exists()

    def test_points_with_other_teachers_have_no_common_held_out_task(
        self, run_sweep: Any, tiny_model: Callable[[str], Path]
    ) -> None:
        teachers = [{"model": str(tiny_model(kind)), "pooling": "mean"} for kind in ("bert", "roberta")]
        fixed = {"method": "rankcse", "select_on": "held-out", "teachers": teachers}
        with pytest.raises(SettingError, match="in the teachers' order, and the points have different teachers"):
            run_sweep({"teacher_weights": [[0.3, 0.7], [0.5, 0.5]]}, settings=fixed)
        found = run_sweep({"temperature": [0.05, 0.5]}, settings=fixed)
        assert [len(point.dev) for point in found.points] == [1, 1]

    def test_a_model_in_the_grid_and_as_argument(self, run_sweep: Any) -> None:
        with pytest.raises(SettingError, match="model is in the grid and fixed"):
            run_sweep({"model": ["wiki-mini"]}, model="wiki-mini")

    def test_an_unreadable_corpus(self, run_sweep: Any, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"none\.txt: no such file"):
            run_sweep(corpus=tmp_path / "none.txt")
        (tmp_path / "empty.txt").touch()
        with pytest.raises(InputError, match="nothing in it could be used"):
            run_sweep(corpus=tmp_path / "empty.txt")

    def test_several_processes(self, run_sweep: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WORLD_SIZE", "2")
        with pytest.raises(SettingError, match="trains in one process"):
            run_sweep()

    def test_a_folder_with_something_else(self, run_sweep: Any, tmp_path: Path) -> None:
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "thesis.tex").touch()
        with pytest.raises(SettingError, match=r"full: holds something else than a sweep \(thesis.tex\)"):
            run_sweep(out=tmp_path / "full")
        with pytest.raises(SettingError, match="cannot be used as a folder"):
            run_sweep(out=tmp_path / "full" / "thesis.tex")

    def test_a_folder_where_a_sweep_is_running(self, run_sweep: Any, tmp_path: Path) -> None:
        (tmp_path / "sweep").mkdir()
        with (
            FileLock(tmp_path / "sweep" / ".sweep.lock"),
            pytest.raises(SettingError, match="another sweep is running there"),
        ):
            run_sweep()

    def test_a_folder_with_another_sweep(self, run_sweep: Any, recipe: Path, corpus: Path, tmp_path: Path) -> None:
        grid = {"temperature": [0.05]}
        run_sweep(grid)
        with pytest.raises(SettingError, match=r"with another batch_size \(8 there, 4 now\); name another --out"):
            run_sweep(grid, settings={"batch_size": 4})
        with pytest.raises(SettingError, match="with another data"):
            run_sweep(grid, data=tmp_path, settings={"test_on": []})
        other = tmp_path / "other.yaml"
        other.write_text(recipe.read_text())
        with pytest.raises(SettingError, match=r"with another recipe \(tiny there, other now\)"):
            run_sweep(grid, recipe=other)
        corpus.write_text(corpus.read_text() + "one more line\n")
        with pytest.raises(SettingError, match=r"with another corpus \(its text has changed\)"):
            run_sweep(grid)

    def test_a_setting_that_left_the_grid_must_stay_what_it_was(self, run_sweep: Any) -> None:
        run_sweep({"temperature": [0.05]})
        run_sweep({"temperature": [0.05], "weight_decay": [0.0, 0.1]})
        with pytest.raises(SettingError, match=r"another weight_decay \(0.0 there, 0.1 now\)"):
            run_sweep({"temperature": [0.05]}, settings={"weight_decay": 0.1})

    def test_a_damaged_record(self, run_sweep: Any) -> None:
        result = run_sweep({"temperature": [0.05]})
        (result.runs[0].folder / "sweep-run.json").write_text("{")
        with pytest.raises(SettingError, match=r"sweep-run\.json: cannot be read"):
            run_sweep({"temperature": [0.05]})
