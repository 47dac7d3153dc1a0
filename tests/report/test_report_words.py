"""What the page says in words: the outcome, the recipe's comments, and commands that do it again."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import Runs

from nearer.evaluation import load_tasks
from nearer.report.markup import signed
from nearer.report.subjects import Measured, Subject, measure, read_subjects
from nearer.report.training_section import (
    page_command,
    recipe_notes,
    reproduce_section,
    shown,
    trained_section,
    training_command,
)
from nearer.report.verdict import title, verdict
from nearer.runs.config import RunConfig
from nearer.runs.folder import Line, MetricsLog, Run, read_run


def a_run(*dev: tuple[int, float], finished: bool = True, **settings: Any) -> Subject:
    """A run whose dev scores went so."""
    lines = tuple(Line(step, {"dev": score}) for step, score in dev)
    told = {"method": "simcse", "model": "bert", **settings}
    config = RunConfig(recipe="own", settings=told, corpus="wiki.txt")
    folder = Path(__file__).parent  # without a model
    run = Run(folder, config, MetricsLog(Path("m"), lines, ()), None, {"records": 1_000_000} if finished else {})
    return Subject("own", "own", 0, _Finished(**vars(run)) if finished else run, None)


class _Finished(Run):
    finished = True  # type: ignore[assignment]


def told(*subjects: Subject) -> str:
    return unescape(re.sub("<[^>]*>", "", verdict(subjects, Measured([[] for _ in subjects]))))


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        (a_run((0, 50.0), (10, 60.0)), "SimCSE from bert on 1,000,000 records of wiki.txt, 10 steps."),
        (a_run((0, 50.0), (10, 60.0)), "On dev it went from 50.00 to 60.00 at step 10, which was kept."),
        (a_run((0, 50.0), (10, 60.0), (20, 55.5)), "After that it fell, by 4.50 at the last step."),
        (
            a_run((0, 50.0), (10, 40.0)),
            "Untrained: no step was better on dev than the model it started from (50.00), which was kept.",
        ),
        (a_run((10, 40.0)), "Its best on dev is 40.00 at step 10."),
        (a_run(), "No dev score was taken, so the last step was kept"),
        (a_run((0, 1.0), finished=False), "Not finished: 0 steps so far."),
        (a_run((0, 1.0), teachers=[{"model": "big", "pooling": "cls"}, "small"]), "taught by big, small, on"),
    ],
)
def test_the_outcome_in_plain_words(subject: Subject, words: str) -> None:
    assert words in told(subject)


def test_a_dev_score_that_stays_is_not_said_to_fall() -> None:
    assert "fell" not in told(a_run((0, 50.0), (10, 60.0), (20, 59.9)))


def test_seeds_are_told_of_together() -> None:
    seeds = [replace(a_run((0, 1.0), (4, score)), label=f"s/{score}", group="s") for score in (60.0, 62.0)]
    assert title(seeds) == "s (2 seeds)"
    assert "Best on dev over 2 seeds: 61.00 ± 1.41." in told(*seeds)


@pytest.mark.parametrize("turned", [False, True])
def test_a_difference_that_may_be_chance_is_called_so(runs: Runs, turned: bool) -> None:
    """As the leader less the other, whichever of them was named first."""
    targets = [runs.finished, runs.model]
    subjects = read_subjects(targets[::-1] if turned else targets)
    measured = measure(subjects, load_tasks([str(runs.finished.parent / "dev pairs.jsonl")], None), device="cpu")
    [[found]] = measured.differences  # second − first
    assert found is not None
    leads = found.difference > 0
    for low, high, words in [(-1.0, 2.0, ", which may be chance"), (1.0, 3.0, "")]:
        interval = (low, high) if leads else (-high, -low)
        known = replace(measured, differences=[[replace(found, low=interval[0], high=interval[1])]])
        shown = f"{words} (95 % interval {signed(low)} … {signed(high)})."
        assert shown in verdict(subjects, known)


def test_titles() -> None:
    named = [replace(a_run(), label=label) for label in "abcde"]
    assert title(named[:3]) == "a, b and c"
    assert title(named) == "a, b and 3 more"


class TestRecipes:
    def test_comments_are_those_of_the_recipe(self) -> None:
        notes = recipe_notes("rankcse-wiki-mini")
        assert notes is not None
        assert notes.summary.startswith("Distil a large encoder")
        assert (
            notes.said("student_temperature", 0.1)
            == "softer than the paper's: the whole list counts, not its first entries"
        )
        # the same, however it is written
        assert notes.said("learning_rate", 0.001) == "5e-4 and four epochs end two points lower"
        assert notes.said("warmup", 0.05) == ""  # nothing is said of it
        assert notes.said("test_on", ["everyday"]) == ""  # a list of one is written without brackets

    def test_of_a_changed_setting_the_recipe_says_something_else(self) -> None:
        notes = recipe_notes("rankcse-wiki-mini")
        assert notes is not None
        assert notes.said("student_temperature", 0.05) == "the recipe has 0.1"

    @pytest.mark.parametrize("name", ["my-own", "../recipes/simcse-bert-base", ""])
    def test_of_others_nothing_is_known(self, name: str) -> None:
        assert recipe_notes(name) is None

    def test_settings_as_one_writes_them(self) -> None:
        values = [None, True, False, 3e-05, ["a", "b"], [], {"model": "m", "pooling": None}]
        assert [shown(value) for value in values] == ["none", "yes", "no", "3e-05", "a, b", "none", "model m"]


class TestDoingItAgain:
    def test_the_commands_on_the_page_train_the_same_model(self, runs: Runs, tmp_path: Path) -> None:
        """Taken from the page and given to a shell, with all the characters that the paths hold."""
        page = reproduce_section(read_subjects([runs.finished]), "")
        command = unescape(re.findall(r'<code class="language-sh">(.*?)</code>', page, flags=re.DOTALL)[0])
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-ec", command],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        again = read_run(tmp_path / f"{runs.finished.name}-again")
        first = read_run(runs.finished)
        assert again.scores is not None
        assert first.scores is not None
        assert again.scores.scores[0].figures == pytest.approx(first.scores.scores[0].figures, abs=1e-3)
        assert again.settings == first.settings

    def test_settings_that_hold_the_mark_of_their_end(self, runs: Runs) -> None:
        run = read_run(runs.finished)
        run = replace(run, config=run.config.changed(settings={"note": "a\n\nEND\n"}))
        lines = training_command(run).split("\n")
        assert lines.count(re.findall("<< '(.*)'", lines[0])[0]) == 1

    def test_a_stopped_run_says_how_to_go_on(self, runs: Runs) -> None:
        page = unescape(reproduce_section(read_subjects([runs.stopped]), ""))
        assert f"nearer train --resume {shlex.quote(str(runs.stopped))}" in page
        assert "the run is not finished; the last step noted is 10." in trained_section(read_subjects([runs.stopped]))

    def test_the_page_itself(self) -> None:
        given = {"pooling": "mean", "pooler_as_head": True, "max_length": None}
        assert page_command(["a b", "c"], Path("x.html"), ["sts"], "d", given) == (
            "nearer report 'a b' c --out x.html --tasks sts --data d --pooling mean --pooler-as-head"
        )


def test_what_runs_share_is_said_once_and_what_differs_side_by_side(runs: Runs) -> None:
    page = trained_section(read_subjects([runs.finished, runs.seeds])).replace("<wbr>", "")
    differing = page[page.index("What differs") : page.index("<details>")]
    assert "mlm_weight" in differing
    assert "max_steps" in differing
    assert "batch" not in differing
    assert page.index("batch size") < page.index("What differs")
