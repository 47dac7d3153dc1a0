"""Reading what runs leave behind: whole, half-written, broken, and what is no run at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tiny_runs import Runs

from nearer.errors import InputError, ModelError, SettingError
from nearer.report.subjects import read_subjects
from nearer.runs.folder import read_metrics, read_run


def test_a_finished_run(runs: Runs) -> None:
    run = read_run(runs.finished)
    own = json.loads((runs.finished / "model" / "nearer.json").read_text())["provenance"]
    assert run.finished
    assert run.model == runs.finished / "model"
    assert run.best == (own["best_step"], pytest.approx(own["dev_score"], abs=1e-4))
    assert run.provenance["records"] == 150
    assert run.scores is not None
    assert run.scores.scores[0].score == json.loads((runs.finished / "scores.json").read_text())["average"]


def test_a_stopped_run_has_its_best_so_far(runs: Runs) -> None:
    run = read_run(runs.stopped)
    assert not run.finished
    assert run.metrics.last_step == 10
    assert run.model is not None
    assert (run.model.parent, run.model.name[:5]) == (runs.stopped / "checkpoints", "best-")
    assert run.scores is None


def test_the_first_of_equal_dev_scores_is_the_one_kept(copied: Path) -> None:
    (copied / "metrics.jsonl").write_text("".join(f'{{"step": {step}, "dev": 5.0}}\n' for step in (0, 4, 8)))
    assert read_run(copied).best == (0, 5.0)


class TestMetrics:
    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ('{"step": 2, "loss"', "not JSON"),
            ("", "not JSON"),
            ("\udcff", "not JSON"),
            ('{"loss": 1.0}', "no step"),
            ('{"step": true}', "no step"),
            ("[1]", "no object"),
            ('{"step": 2, "loss": NaN}', "loss is not a number"),
            ('{"step": 2, "loss": "1"}', "loss is not a number"),
            ('{"step": 2, "loss": null}', "loss is not a number"),
        ],
    )
    def test_a_bad_line_is_counted_by_its_number(self, tmp_path: Path, line: str, reason: str) -> None:
        path = tmp_path / "metrics.jsonl"
        path.write_text(f'{{"step": 1, "loss": 1.0}}\n{line}\n{{"step": 3, "loss": 2.0}}\n', errors="surrogateescape")
        log = read_metrics(path)
        assert [found.step for found in log.lines] == [1, 3]
        assert [(fault.number, fault.reason.split(":")[0]) for fault in log.faults] == [(2, reason)]

    def test_the_line_that_was_being_written_is_one_of_them(self, tmp_path: Path) -> None:
        path = tmp_path / "metrics.jsonl"
        path.write_text('{"step": 1, "loss": 1.0}\n{"step": 2, "loss": 1.0}')  # even if it can be read
        log = read_metrics(path)
        assert len(log.lines) == 1
        assert log.faults[0] == (2, "not written to its end")

    def test_a_run_that_has_noted_nothing(self, tmp_path: Path) -> None:
        assert read_metrics(tmp_path / "metrics.jsonl").lines == ()


class TestBrokenFolders:
    def test_without_its_config(self, copied: Path) -> None:
        (copied / "config.yaml").unlink()
        with pytest.raises(InputError, match=r"is not a whole run \(no config.yaml\)"):
            read_subjects([copied])

    @pytest.mark.parametrize(
        ("content", "told"),
        [
            ("recipe: [", r"config.yaml: cannot be read \(not YAML: while parsing"),
            ("- 1", r"is not that of a run \(no recipe, settings, corpus\)"),
            ("recipe: a\ncorpus: b", r"\(no settings\)"),
            ("recipe: a\ncorpus: b\nsettings: 3", "settings are not a list of `setting: value` lines"),
            ("\x00", "cannot be read"),
        ],
    )
    def test_with_a_config_that_is_none(self, copied: Path, content: str, told: str) -> None:
        (copied / "config.yaml").write_text(content)
        with pytest.raises(InputError, match=told) as error:
            read_run(copied)
        assert "\n" not in str(error.value)

    @pytest.mark.parametrize(
        ("content", "told"),
        [
            ('{"scores": [', r"scores.json: cannot be read .*; write it anew with `nearer evaluate"),
            ("[]", "holds no scores"),
            ('{"scores": [{"task": "STS-B"}]}', "score 1 has no usable kind; was it written by another version"),
        ],
    )
    def test_with_scores_that_are_none(self, copied: Path, content: str, told: str) -> None:
        (copied / "scores.json").write_text(content)
        with pytest.raises(InputError, match=told):
            read_run(copied)

    @pytest.mark.parametrize(
        ("field", "value"), [("task", 3), ("count", "many"), ("figures", {}), ("figures", {"spearman": "high"})]
    )
    def test_with_a_score_that_is_not_as_it_should_be(self, copied: Path, field: str, value: object) -> None:
        content = json.loads((copied / "scores.json").read_text())
        content["scores"][0][field] = value
        (copied / "scores.json").write_text(json.dumps(content))
        with pytest.raises(InputError, match=f"score 1 has no usable {field}"):
            read_run(copied)

    def test_without_its_model(self, copied: Path) -> None:
        """As sweeps leave runs that were beaten."""
        for place in sorted((copied / "model").rglob("*"), reverse=True):
            place.unlink() if place.is_file() else place.rmdir()
        (copied / "model").rmdir()
        [subject] = read_subjects([copied])
        assert subject.model is None

    def test_with_a_model_whose_facts_are_broken(self, copied: Path) -> None:
        (copied / "model" / "nearer.json").write_text("{")
        with pytest.raises(ModelError, match=r"nearer.json: cannot be read"):
            read_run(copied)


class TestTargets:
    def test_seeds_are_runs_in_the_order_of_their_numbers(self, runs: Runs) -> None:
        subjects = read_subjects([runs.seeds])
        assert [subject.label for subject in subjects] == ["seed-0", "seed-2", "seed-10"]
        assert {subject.group for subject in subjects} == {"seeds"}
        beside = read_subjects([runs.finished, runs.seeds])
        assert [subject.label for subject in beside] == ["first <i>run", *(f"seeds/seed-{n}" for n in (0, 2, 10))]
        assert [subject.series for subject in beside] == [0, 1, 2, 3]

    def test_names_are_models(self) -> None:
        [subject] = read_subjects(["wiki-mini"])
        assert (subject.run, subject.model) == (None, "wiki-mini")

    def test_what_is_neither(self, tmp_path: Path, copied: Path) -> None:
        with pytest.raises(InputError, match=r"is neither a run \(no config.yaml\) nor a model"):
            read_subjects([tmp_path])
        with pytest.raises(InputError, match="is not a folder"):
            read_subjects([copied / "config.yaml"])
        with pytest.raises(InputError, match="is not a folder"):
            read_subjects([tmp_path / "nowhere"])
        with pytest.raises(SettingError, match="nothing named"):
            read_subjects([])

    def test_a_sweep_is_not_a_run_but_holds_some(self, tmp_path: Path) -> None:
        inner = tmp_path / "lr-1" / "seed-0"
        inner.mkdir(parents=True)
        (inner / "config.yaml").write_text(yaml.safe_dump({"recipe": "x"}))
        (tmp_path / "sweep.json").write_text("{}")
        with pytest.raises(InputError, match=f"is a sweep; name runs in it, such as {inner}"):
            read_subjects([tmp_path])

    def test_the_same_folder_by_two_names(self, runs: Runs) -> None:
        with pytest.raises(SettingError, match="is named twice"):
            read_subjects([runs.finished, runs.seeds / ".." / runs.finished.name])
