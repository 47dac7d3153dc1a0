"""A league on a tiny model: what is run and what is not run again, what is kept, what a failing method leaves alone."""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
from pathlib import Path
from typing import Any

import pytest
from tiny_league import Ground

from nearer.errors import SettingError
from nearer.leagues import runs as runs_module
from nearer.leagues.league import LeagueStopped, announce, league
from nearer.leagues.outcome import LeagueOutcome, Standing
from nearer.methods import METHODS, SimCSE
from nearer.runs.folder import read_run
from nearer.storage.sealed import read_sealed_json
from nearer.training.trainer import Trainer
from patience import HANG

OWN = '''
"""A method from outside: SimCSE under another name, which fails where it is told to."""
from nearer.methods import Losses, MethodFacts, Paper, SimCSE, SimCSESettings


class Settings(SimCSESettings):
    fails: bool = False


class Own(SimCSE):
    paper = Paper("a2026", "A", ("B, C",), "D", 2026)
    facts = MethodFacts("own", "Own", "As SimCSE.", "sentences", paper, ("sentences",))
    Settings = Settings

    def loss(self, outputs, given, modules):
        if self.settings.fails:
            raise IndexError("the method's own mistake")
        return super().loss(outputs, given, modules)
'''


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs that were begun or gone on with, by their folders."""
    folders: list[str] = []
    carry_out = runs_module.carry_out

    def note(run: Any, *arguments: Any, **options: Any) -> Any:
        folders.append("/".join(run.folder.parts[-3:]))
        return carry_out(run, *arguments, **options)

    monkeypatch.setattr(runs_module, "carry_out", note)
    return folders


@pytest.fixture
def own_method(ground: Ground) -> Any:
    (ground.folder / "own_method_of_a_test.py").write_text(OWN)
    yield "own_method_of_a_test:Own"
    METHODS.pop("own", None)


def standings(outcome: LeagueOutcome) -> dict[str, Standing]:
    [division] = outcome.divisions
    return {standing.method: standing for standing in (*division.standings, *division.unplaced)}


def figures(outcome: LeagueOutcome) -> Any:
    """All that a league found, without what a clock says."""
    found = outcome.to_dict()
    for division in found["divisions"]:
        for standing in (*division["standings"], *division["unplaced"]):
            del standing["step_seconds"]
            for run in standing["seeds"]:
                del run["cost"]
    return json.loads(json.dumps({**found, "seconds": 0}))


class TestAWholeLeague:
    def test_every_run_is_a_run_folder(self, whole: tuple[Ground, LeagueOutcome]) -> None:
        ground, outcome = whole
        found = sorted(path.parent for path in ground.out.rglob("config.yaml"))
        assert len(found) == outcome.runs == 2 * (2 + 1)
        for folder in found:
            run = read_run(folder)
            assert run.settings["max_steps"] == run.metrics.last_step == 3
            assert run.settings["test_on"] == []

    def test_the_dev_set_alone_chooses(self, whole: tuple[Ground, LeagueOutcome]) -> None:
        for standing in standings(whole[1]).values():
            best = max(standing.trials, key=lambda trial: trial.dev or 0.0)
            assert [trial for trial in standing.trials if trial.chosen] == [best]
            assert standing.tuned == best.settings
            assert standing.seeds[0].dev == best.dev  # the trial is one of the runs

    def test_trials_do_not_meet_the_tests(self, whole: tuple[Ground, LeagueOutcome]) -> None:
        ground, outcome = whole
        scored = {path.parent.relative_to(ground.out) for path in ground.out.rglob("scores.json")}
        chosen = {Path(run.folder) for each in standings(outcome).values() for run in each.seeds}
        assert scored == chosen
        assert len(scored) == 4
        assert {path.parent.relative_to(ground.out) for path in ground.out.rglob("model")} == chosen

    def test_figures_are_those_of_the_saved_models(self, whole: tuple[Ground, LeagueOutcome]) -> None:
        from nearer import Encoder, evaluate

        ground, outcome = whole
        standing = standings(outcome)["repeated"]
        for run in standing.seeds:
            model = Encoder.load(ground.out / run.folder / "model", device="cpu")
            right = evaluate(model, ground.values["test_on"])
            assert run.figures == right.by_name()
            assert run.averages == right.averages
        average = standing.average_of("sts")
        assert average is not None
        assert average.mean == pytest.approx(statistics.fmean(run.averages["sts"] for run in standing.seeds))

    def test_differences(self, whole: tuple[Ground, LeagueOutcome]) -> None:
        [division] = whole[1].divisions
        first, second = division.standings
        means = [standing.average_of("sts").mean for standing in (first, second)]
        assert means[0] >= means[1]
        assert first.against_best.keys() == {"transfer"} or "transfer" not in first.against_best
        assert second.against_best["sts"].difference == pytest.approx(means[1] - means[0])
        assert second.against_best["sts"].items
        other = standings(whole[1])["repeated"]
        assert other.against_baseline.keys() == {"sts", "transfer"}
        assert not other.against_baseline["transfer"].items  # a classifier's accuracy has no items
        assert standings(whole[1])["simcse"].against_baseline == {}
        assert 0 <= division.flips["sts"]["simcse"]["repeated"] <= 0.5
        assert [(one, two) for one, two, _ in division.agreement] == [("sts", "transfer")]

    def test_costs_and_curves(self, whole: tuple[Ground, LeagueOutcome]) -> None:
        for standing in standings(whole[1]).values():
            assert standing.step_seconds is not None
            assert standing.step_seconds > 0
            assert standing.peak_memory is None  # of a GPU
            assert [step for step, _ in standing.seeds[0].curve] == [0, 2, 3]

    def test_results_are_written(self, whole: tuple[Ground, LeagueOutcome]) -> None:
        ground, outcome = whole
        written = read_sealed_json(ground.out / "results.json", "run it again")
        assert written == json.loads(json.dumps(outcome.to_dict()))
        assert (ground.out / "league.html").read_text().count("<h1>") == 1

    def test_again_nothing_is_run(self, whole: tuple[Ground, LeagueOutcome], trained: list[str]) -> None:
        ground, outcome = whole
        assert figures(league(ground.file, ground.out)) == figures(outcome)
        assert trained == []

    def test_what_is_announced(self, whole: tuple[Ground, LeagueOutcome], ground: Ground) -> None:
        done, _ = whole
        total = "6 runs of 3 steps: 4 of tuning (seed 0) and 2 more of the chosen settings"
        assert announce(done.file, done.out)[-1] == f"{total}; 6 are done"
        lines = announce(ground.file, ground.out)
        assert lines[-1] == f"{total}; 0 are done"
        assert lines[0].startswith("simcse on tiny: temperature=0.05; temperature=0.5")
        assert not ground.out.exists()


class TestGoingOn:
    def test_a_stopped_league_ends_as_one_that_was_not(
        self, whole: tuple[Ground, LeagueOutcome], ground: Ground, trained: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Ctrl-C in the middle of a trial, then a death in the middle of a run of the chosen setting."""
        advance = Trainer.advance
        steps = 0

        def stop(self: Trainer) -> Any:
            nonlocal steps
            steps += 1
            if steps == 5:
                os.kill(os.getpid(), signal.SIGINT)
            if steps == 15:
                raise SystemExit  # as a killed process: nobody gets to note anything
            return advance(self)

        monkeypatch.setattr(Trainer, "advance", stop)
        with pytest.raises(LeagueStopped, match=r"stopped in run 2 of 8 after its step 2; the same command goes on"):
            league(ground.file, ground.out)
        partly = league(ground.file, ground.out, run=False)
        assert partly.divisions[0].standings == []
        assert any(failure.endswith("1 runs are not done") for failure in partly.failures)
        with pytest.raises(SystemExit):
            league(ground.file, ground.out)
        trained.clear()
        outcome = league(ground.file, ground.out)
        assert len(trained) == 2
        right = figures(whole[1])
        found = figures(outcome)
        for each in (right, found):
            del each["league"]  # names of files
        assert found == right

    def test_seeds_trials_tests_and_methods_may_be_added(self, ground: Ground, trained: list[str]) -> None:
        methods = ground.values["methods"]
        ground.write(methods={"simcse": methods["simcse"]}, seeds=[0], trials=1, test_on=ground.values["test_on"][:1])
        league(ground.file, ground.out)
        assert trained == ["simcse/temperature=0.05/seed-0"]
        ground.write(methods={"simcse": methods["simcse"], "other": methods["simcse"]}, seeds=[0, 4])
        ground.write(test_on=[str(ground.folder / "first.tsv"), str(ground.folder / "second.tsv")])
        trained.clear()
        outcome = league(ground.file, ground.out)
        assert sorted(trained) == [
            f"{name}/temperature=0.05/seed-{seed}" for name, seed in (("other", 0), ("other", 4), ("simcse", 4))
        ]
        found = standings(outcome)
        assert list(found["simcse"].seeds[0].figures) == ["first", "second"]
        assert found["simcse"].seeds[0].figures == found["other"].seeds[0].figures  # one method under two names

    @pytest.mark.slow
    def test_removed_models_are_trained_again_for_new_tests(self, ground: Ground, trained: list[str]) -> None:
        ground.write(methods={"simcse": ground.values["methods"]["simcse"]}, seeds=[0], trials=1)
        before = league(ground.file, ground.out, keep_models=False)
        assert not list(ground.out.rglob("model"))
        ground.write(test_on=[ground.values["test_on"][1]])
        said: list[str] = []
        after = league(ground.file, ground.out, say=said.append)
        assert "simcse on tiny, seed 0: its model was removed, and is trained again" in said
        assert len(trained) == 2
        figure = standings(before)["simcse"].seeds[0].figures["second"]
        assert standings(after)["simcse"].seeds[0].figures == {"second": figure}

    def test_another_league_is_refused(self, ground: Ground) -> None:
        ground.write(methods={"simcse": ground.values["methods"]["simcse"]}, seeds=[0], trials=1)
        league(ground.file, ground.out)
        with pytest.raises(
            SettingError, match=r"0.05/seed-0: is a run of simcse with other settings than now; name the"
        ):
            league(ground.write(steps=4), ground.out)
        with open(ground.folder / "corpus.txt", "a") as file:
            file.write("one more line\n")
        with pytest.raises(SettingError, match=r"tiny/simcse: learned from another text; name another --out"):
            league(ground.write(steps=3), ground.out)

    def test_what_is_no_league(self, ground: Ground) -> None:
        (ground.out / "thesis").mkdir(parents=True)
        with pytest.raises(SettingError, match=r"holds something else than a league \(thesis\)"):
            league(ground.file, ground.out)


class TestMethodsFromOutside:
    def test_one_that_fails_does_not_end_the_others(self, ground: Ground, own_method: str) -> None:
        simcse = ground.values["methods"]["simcse"]
        always = {**simcse, "method": own_method, "settings": {**simcse["settings"], "fails": True}}
        half = {"method": own_method, "settings": simcse["settings"], "tune": {"fails": [True]}}
        ground.write(methods={"always": always, "simcse": simcse, "half": half}, seeds=[0])
        said: list[str] = []
        outcome = league(ground.file, ground.out, say=said.append)
        found = standings(outcome)
        assert [standing.method for standing in outcome.divisions[0].unplaced] == ["always"]
        assert "always on tiny: all trials failed (IndexError: the method's own mistake)" in said
        assert (found["half"].title, found["half"].tuned) == ("Own", {"fails": False})
        assert len(found["half"].seeds) == len(found["simcse"].seeds) == 1
        assert [trial.state for trial in found["half"].trials] == ["finished", "failed"]
        assert sum("IndexError" in failure for failure in outcome.failures) == 2 + 1
        *lines, last = [line for line in said if re.match(r"(trial|run) \d", line)]
        assert len([line for line in lines if line.startswith("trial ")]) == 6
        assert last.startswith("run 8 of 8: ")
        assert all(re.search(r"; about \d.* left$", line) for line in lines)
        assert "left" not in last

    def test_what_all_runs_remark_is_said_once(self, ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
        methods = {"simcse": ground.values["methods"]["simcse"]}
        ground.write(methods=methods, seeds=[0], trials=2, settings={"batch_size": 8, "max_length": 4})
        outcome = league(ground.file, ground.out)
        assert outcome.runs == 2
        assert capsys.readouterr().err.count("texts are cut at 4 tokens (max_length)") == 1

    @pytest.mark.slow
    def test_a_diverging_trial_is_not_chosen(self, ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
        loss = SimCSE.loss

        def spoilt(self: SimCSE, *arguments: Any) -> Any:
            losses = loss(self, *arguments)
            factor = float("nan") if self.settings.temperature == 0.05 else 1.0
            return type(losses)(losses.total * factor, losses.parts)

        monkeypatch.setattr(SimCSE, "loss", spoilt)
        ground.write(methods={"simcse": ground.values["methods"]["simcse"]}, seeds=[0])
        standing = standings(league(ground.file, ground.out))["simcse"]
        assert standing.tuned == {"temperature": 0.5}
        assert "is not a number" in standing.failures[0]


def test_a_method_with_a_template_takes_part(ground: Ground) -> None:
    """Its checkpoint can only be loaded with the template that [MASK] stands in."""
    prompted = {
        "method": "promptbert",
        "settings": {
            "template": "promptbert",
            "second_template": "promptbert-untrained",
            "pooling": "mask",
            "head": False,
            "max_length": 32,
        },
    }
    methods = {"simcse": ground.values["methods"]["simcse"], "promptbert": prompted}
    ground.write(methods=methods, trials=1, seeds=[0], steps=1, evaluate_every=1)
    found = standings(league(ground.file, ground.out))
    assert set(found) == {"simcse", "promptbert"}
    assert all(len(standing.seeds) == 1 for standing in found.values())


def test_a_text_that_nothing_can_be_held_out_of(ground: Ground) -> None:
    (ground.folder / "corpus.txt").write_text("".join(f"{word} rain\n" for word in ("fox", "dog", "lunch", "away")))
    ground.write(methods={"simcse": ground.values["methods"]["simcse"]}, seeds=[0], trials=1, select_on="held-out")
    for _ in range(2):
        outcome = league(ground.file, ground.out)
        assert "no dev score: nothing could be held out of" in outcome.failures[0]


def test_mistakes_are_told_before_anything_runs(ground: Ground, trained: list[str]) -> None:
    with pytest.raises(SettingError, match=r"line \d+: select_on: 'stsb' is a test set"):
        league(ground.write(select_on=["stsb"]), ground.out)
    with pytest.raises(SettingError, match=r"line \d+: test_on: 'stsb' needs the folder"):
        league(ground.write(select_on=["everyday"], test_on=["stsb"]), ground.out)
    assert trained == []


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "workers"), [("ray", 1), ("process", 2)])
def test_workers_find_the_same(
    whole: tuple[Ground, LeagueOutcome], ground: Ground, monkeypatch: pytest.MonkeyPatch, engine: str, workers: int
) -> None:
    if engine == "ray":
        pytest.importorskip("ray")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    right, found = figures(whole[1]), figures(league(ground.file, ground.out, engine=engine, workers=workers))
    for each in (right, found):
        del each["league"]
    assert found == right


@pytest.mark.slow
def test_a_process_that_dies_costs_its_own_run(
    ground: Ground, own_method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the next run gets another process."""
    dying = OWN.replace('raise IndexError("the method\'s own mistake")', "import os; os._exit(3)")
    (ground.folder / "own_method_of_a_test.py").write_text(dying)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    others = dict(ground.values["methods"])
    settings = {**others["simcse"]["settings"], "fails": True}
    own = {"method": own_method, "settings": settings, "tune": {"temperature": [0.05, 0.5]}}
    outcome = league(ground.write(methods={"own": own, **others}), ground.out, workers=2)
    found = standings(outcome)
    assert "its process ended with 3" in " ".join(outcome.failures)
    assert {name for name in found if found[name].seeds} == set(others)


@pytest.mark.slow
@pytest.mark.usefixtures("own_method")  # which forgets it afterwards
def test_a_slow_trial_holds_no_other_method(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slow one ends only when another method's chosen setting is being run with its second seed."""
    simcse = ground.values["methods"]["simcse"]
    awaited = ground.out / "tiny/simcse/temperature=0.05/seed-1/config.yaml"
    waits = f"""
            import pathlib, threading
            for _ in range(100 * {HANG}):
                if pathlib.Path({str(awaited)!r}).exists():
                    break
                threading.Event().wait(0.01)
            else:
                raise IndexError("nothing else was run")
"""
    slow = OWN.replace('            raise IndexError("the method\'s own mistake")\n', waits)
    (ground.folder / "waiting_method_of_a_test.py").write_text(slow)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    own = {"method": "waiting_method_of_a_test:Own", "settings": {**simcse["settings"], "fails": True}}
    outcome = league(ground.write(methods={"own": own, "simcse": simcse}, trials=1), ground.out, workers=2)
    assert outcome.failures == []
    assert {name: len(found.seeds) for name, found in standings(outcome).items()} == {"own": 2, "simcse": 2}
