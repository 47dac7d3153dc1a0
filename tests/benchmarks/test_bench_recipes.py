"""`nearer bench train --recipes`: steps of other methods beside SimCSE's, on the same model and sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.models import random_generator
from benchmarks.ours import SIMCSE, training_steps
from benchmarks.recipes import find_missing, load_sentence_recipes, prepare_recipes
from benchmarks.report import FLOOR, Report
from benchmarks.steps import OURS
from benchmarks.text import write_sentences
from nearer.encoder import Encoder
from nearer.methods.generator import load_generator
from nearer.training.recipes import load_recipe, recipe_names

NAMES = ["promptbert-bert-base", "sncse-bert-base", "diffcse-bert-base"]


def test_steps_beside_simcse(bench, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    given = ("--recipes", ",".join(NAMES), "--batch", 4, "--max-length", 8, "--steps", 1, "--no-peers", "--profile")
    done = bench("train", "--shape", "tiny", *given, "--json", path)
    assert done.code == 0, done.err
    report = Report.from_json(path.read_text(encoding="utf-8"))
    rows = {row.what: row for row in report.rows}
    assert list(rows) == [OURS, FLOOR, *(f"{OURS}, {name}" for name in NAMES)]
    for name in NAMES:
        row = rows[f"{OURS}, {name}"]
        assert f"{row.seconds / rows[OURS].seconds:.2f} × a step of SimCSE" in row.note
        assert row.of_floor is None
    assert [profile["what"] for profile in report.profiles] == [OURS, *(f"{OURS}, {name}" for name in NAMES)]
    assert all(profile["busy_milliseconds"] > 0 for profile in report.profiles)
    assert f"{OURS}, {NAMES[0]}, batch 4: where the CPU time of a step goes" in " ".join(done.out.split())
    assert "its generator (distilbert-base-uncased) stands a DistilBERT of random weights: 1 layer" in done.out


class TestSteps:
    @pytest.fixture(scope="class")
    def long_lines(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        sentence = "The quick brown fox jumps over the lazy dog while someone has lunch far away in the rain"
        return write_sentences([f"{sentence} {number}." for number in range(8)], tmp_path_factory.mktemp("text") / "t")

    @pytest.fixture(autouse=True)
    def cpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")

    def test_a_template_takes_no_token_of_the_sentence(self, tiny: Path, long_lines: Path) -> None:
        rows = {}
        for name in ("promptbert-bert-base", "simcse"):
            recipe = SIMCSE if name == "simcse" else load_recipe(name).to_dict()
            steps = training_steps(tiny, long_lines, batch_size=4, max_length=12, recipe=recipe)
            rows[name] = steps._trainer.feed.batch(0).fields[0][0]
            steps.close()
        template = steps_template(tiny)
        assert rows["simcse"][1:-1].tolist() == template.sentence(rows["promptbert-bert-base"]).tolist()
        assert len(rows["simcse"]) == 12

    def test_batch_and_model_are_the_benchs_all_else_the_recipes(self, tiny: Path, long_lines: Path) -> None:
        recipe = load_recipe("sncse-bert-base")
        steps = training_steps(tiny, long_lines, batch_size=3, max_length=12, recipe=recipe.to_dict())
        trainer = steps._trainer
        steps.close()
        assert (trainer.settings.batch_size, trainer.settings.model) == (3, str(tiny))
        assert trainer.method.settings == recipe.method
        assert trainer.settings.text_normalisation == "full_stop"
        assert trainer.encoder.head is None


def steps_template(model: Path):
    return Encoder.load(model, template="promptbert", pooling="mask", device="cpu").settings.template


class TestGenerator:
    def test_half_of_the_layers_as_wide_and_with_the_same_tokens(self, tiny: Path, tmp_path: Path) -> None:
        folder, described = random_generator(tiny, tmp_path / "generator")
        generator = load_generator(str(folder), Encoder.load(tiny, pooling="cls", device="cpu"))
        config = generator.network.backbone.config
        assert (config.n_layers, config.dim, config.vocab_size) == (1, 128, 16_384)
        assert described == "a DistilBERT of random weights: 1 layer, as wide as the model"

    def test_only_recipes_that_name_one_get_it(self, tiny: Path, tmp_path: Path) -> None:
        recipes = prepare_recipes(load_sentence_recipes(["simcse-bert-base", "diffcse-bert-base"]), tiny, tmp_path)
        assert recipes.settings["simcse-bert-base"]["generator"] is None
        assert recipes.settings["diffcse-bert-base"]["generator"] == str(tmp_path / "generator")
        assert [note.partition(":")[0] for note in recipes.notes] == ["recipes", "diffcse-bert-base"]


class TestRefused:
    def test_all_that_need_more_than_sentences_are_named(self, bench) -> None:
        names = "debcse-bert-base,promptbert-bert-base,rankcse-listnet-bert-base,declutr-bert-base"
        done = bench("train", "--shape", "tiny", "--recipes", names)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith(
            "error: --recipes: debcse-bert-base needs data=debiased; rankcse-listnet-bert-base needs teachers; "
            "declutr-bert-base needs documents (running text, one a line); leave out"
        )
        assert len(done.err.splitlines()) == 1

    def test_an_unknown_recipe(self, bench) -> None:
        done = bench("train", "--shape", "tiny", "--recipes", "promtbert-bert-base")
        assert (done.code, done.out) == (1, "")
        assert "there is none named 'promtbert-bert-base'" in done.err

    def test_every_recipe_is_measured_or_refused(self) -> None:
        recipes = [load_recipe(name) for name in recipe_names()]
        measured = {recipe.training.method for recipe in recipes if find_missing(recipe) is None}
        refused = {recipe.training.method for recipe in recipes if find_missing(recipe) is not None}
        assert {"promptbert", "sncse", "diffcse", "tsdae", "infocse"} <= measured - refused
        assert {"rankcse", "rankencoder", "dclr", "refine", "lists", "sbert"} <= refused - measured
        assert "simcse" in measured & refused
