"""The folder with its card: loads with the same vectors, says what is on record, and nothing of this machine."""

from __future__ import annotations

import fnmatch
import json
import re
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tiny_exports import short_encoder

import nearer
from nearer.encoder import Encoder
from nearer.errors import InputError, ModelError, SettingError
from nearer.evaluation import evaluate
from nearer.export import Source, export_folder, load_source
from nearer.export.card import TEMPLATE, Told, markdown_table, model_card
from nearer.storage.sealed import read_sealed_json
from nearer.teachers import RankEncoder

Model = Callable[[str], Path]


@pytest.fixture(scope="session")
def folder(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run's export, to be left as it is."""
    out = tmp_path_factory.mktemp("folder") / "mine"
    return export_folder(load_source(run), out, languages=["en", "de"], licence="apache-2.0")


@pytest.fixture(scope="session")
def card(folder: Path) -> str:
    return (folder / "README.md").read_text(encoding="utf-8")


def front_matter(card: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(card.split("---\n")[1])
    return loaded


def test_loads_back_with_the_same_vectors(folder: Path, run: Path, sentences: list[str]) -> None:
    from sentence_transformers import SentenceTransformer

    expected = nearer.load_model(run / "model", device="cpu").encode(sentences)
    theirs = SentenceTransformer(str(folder), device="cpu").encode(sentences)
    np.testing.assert_allclose(theirs, expected, atol=1e-5)
    np.testing.assert_array_equal(nearer.load_model(folder, device="cpu").encode(sentences), expected)


def test_front_matter(card: str) -> None:
    facts = front_matter(card)
    assert facts["library_name"] == "sentence-transformers"
    assert facts["pipeline_tag"] == "sentence-similarity"
    assert facts["language"] == ["en", "de"]
    assert facts["license"] == "apache-2.0"
    assert {"sentence-transformers", "simcse"} <= set(facts["tags"])
    assert "base_model" not in facts  # a folder of this machine is none
    assert "datasets" not in facts


def test_the_hub_reads_the_card(card: str) -> None:
    from huggingface_hub import ModelCard

    read = ModelCard(card)
    assert read.data.to_dict() == front_matter(card)
    assert (read.data.license, read.data.library_name) == ("apache-2.0", "sentence-transformers")
    assert read.text.lstrip().startswith("# mine")


def test_what_a_user_names_is_no_part_of_the_template(run: Path) -> None:
    card = model_card(load_source(run), Told("{{ 6 * 7 }}"), None)
    assert "\n# {{ 6 * 7 }}\n" in card
    assert 'SentenceTransformer("{{ 6 * 7 }}")' in card


def test_the_template_is_installed_with_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["nearer"]
    assert any(fnmatch.fnmatch(f"export/{TEMPLATE.name}", pattern) for pattern in patterns)


def test_training_is_told_as_it_was(card: str, run: Path) -> None:
    noted = json.loads((run / "model" / "nearer.json").read_text())["provenance"]
    assert "Method: SimCSE." in card
    assert "| recipe | `tiny` |" in card
    assert "| starts from | bert |" in card
    assert "| text | corpus.txt |" in card
    assert f"| records | {noted['records']:,} sentences |" in card
    assert noted["tokens"] in card
    assert "| seed | 5 |" in card
    assert "| steps | 4 |" in card
    assert f"| kept | step {noted['best_step']}, the best on everyday" in card
    assert f"| machine | {noted['machine']} |" in card
    settings = yaml.safe_load(card.split("```yaml\n")[1].split("```")[0])
    assert settings["temperature"] == 0.05
    assert settings["learning_rate"] == 1e-3
    assert "@inproceedings{gao2021simcse," in card


def test_scores_stand_with_their_protocol(card: str, run: Path) -> None:
    [score] = json.loads((run / "scores.json").read_text())["scores"]
    [row] = [line for line in card.splitlines() if line.startswith("| everyday |")]
    assert f"| {score['figures'][score['measure']]:.2f}".replace("-", "−") in row
    assert f"{score['count']:,} pairs" in row
    assert score["data_hash"][:16] in row
    assert "pooling mean" in card
    assert "chosen by everyday: the score there flatters it" in card


def test_nothing_of_this_machine_leaves_it(folder: Path, run: Path, tiny_model: Model) -> None:
    """Neither the card nor what the model notes tells where text and base model lie."""
    for path in (path for path in folder.rglob("*") if path.suffix in (".md", ".json")):
        content = path.read_text(encoding="utf-8")
        assert str(run.parent) not in content, path
        assert str(tiny_model("bert").parent) not in content, path
    assert json.loads((folder / "nearer.json").read_text())["provenance"]["corpus"] == "corpus.txt"


def test_the_cards_lines_run(
    folder: Path, card: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder.parent)
    ours, theirs = re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)
    spaces: list[dict[str, Any]] = [{}, {}]
    exec(ours, spaces[0])
    printed = capsys.readouterr().out.splitlines()
    assert {line.split("  ")[1] for line in printed} == {"A man is eating.", "It rains."}
    exec(theirs, spaces[1])
    np.testing.assert_allclose(spaces[1]["vectors"][1:], spaces[0]["vectors"], atol=1e-5)


def test_a_runs_model_knows_its_run(run: Path) -> None:
    assert load_source(run / "model").run is not None


def test_a_model_alone_tells_what_it_notes(run: Path, tmp_path: Path, card: str) -> None:
    """Without the run's folder the settings come from the model; what only the run knew is left out."""
    shutil.copytree(run / "model", tmp_path / "alone")
    alone = model_card(load_source(tmp_path / "alone"), Told("alone"), None)
    assert "| seed | 5 |" in alone
    assert "| steps |" not in alone
    assert "temperature: 0.05" in alone
    assert "None are on record." in alone
    assert "Not stated." in alone
    assert "Which languages it serves is not on record." in alone
    assert "license" not in front_matter(alone)


def test_an_unknown_past_is_said_to_be_unknown(tiny_model: Model) -> None:
    encoder = short_encoder(tiny_model, "bert", "mean", layers=1)
    card = model_card(Source("x", encoder, None), Told("x"), None)
    assert "How it was trained is not on record." in card
    assert "## Citation" not in card


@pytest.mark.parametrize(
    ("model", "linked"),
    [
        ("owner/base", True),
        ("bert-base-uncased", True),
        ("wiki-mini", False),
        ("runs/a/model", False),
        ("a/model", False),
    ],
)
def test_names_on_the_hub_are_linked(model: str, linked: bool, run: Path) -> None:
    source = load_source(run)
    assert source.run is not None
    settings = {**source.run.settings, "model": model}
    config = source.run.config.changed(settings=settings, corpus="hf:owner/text?split=train")
    told = front_matter(model_card(replace(source, run=replace(source.run, config=config)), Told("x"), None))
    assert told.get("base_model") == (model if linked else None)
    assert told["datasets"] == ["owner/text"]


def test_scores_from_a_file(run: Path, tmp_path: Path) -> None:
    source = load_source(run / "model")
    evaluate(source.encoder, ["everyday", "ranking:everyday"]).write_json(tmp_path / "scores.json")
    out = export_folder(source, tmp_path / "out", scores=tmp_path / "scores.json")
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "| STS | split |" in card
    assert "| ranking | split |" in card
    content = read_sealed_json(tmp_path / "scores.json", "")
    content["protocol"]["pooling"] = "cls"
    (tmp_path / "scores.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="measured with pooling cls, the model has mean"):
        export_folder(source, tmp_path / "other", scores=tmp_path / "scores.json")


def test_a_rank_encoder_keeps_its_corpus(tiny_model: Model, sentences: list[str], tmp_path: Path) -> None:
    encoder = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")
    RankEncoder.build(encoder, [*sentences, "lunch", "a dog"], inference_weight=0.5).save(tmp_path / "ranks")
    out = export_folder(load_source(tmp_path / "ranks"), tmp_path / "out")
    loaded = nearer.load_model(out, device="cpu")
    assert isinstance(loaded, RankEncoder)
    assert "the rank vectors count in `nearer` only" in (out / "README.md").read_text(encoding="utf-8")


def test_cards_warn_of_mobilebert_in_sentence_transformers(tiny_model: Model) -> None:
    encoder = short_encoder(tiny_model, "mobilebert", "mean", layers=1)
    assert "vectors vary a little with the batch" in model_card(Source("x", encoder, None), Told("x"), None)


def test_cells_hold_anything() -> None:
    table = markdown_table(["a"], [["one | two\nthree <script>"]])
    assert table.splitlines()[2] == "| one \\| two three &lt;script> |"


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"languages": ("English",)}, "--language"),
        ({"licence": "my own licence"}, "--license"),
        ({"name": 'a"); import os  #'}, "--name"),
        ({"name": "a\nb"}, "--name"),
    ],
)
def test_what_the_hub_would_refuse_is_told(told: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Told(**{"name": "x", **told})


def test_what_cannot_be_exported_is_told(run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "static_words.json").write_text("{}")
    shutil.copytree(run, tmp_path / "stopped", ignore=shutil.ignore_patterns("model"))
    for name, message in (("empty", "neither a run"), ("words", "static words"), ("stopped", "--resume")):
        with pytest.raises(ModelError, match=message):
            load_source(tmp_path / name)


def test_a_place_that_cannot_be_written_is_told(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match="cannot be written"):
        export_folder(load_source(run), tmp_path / "file" / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("")
    with pytest.raises(ModelError, match="is there already"):
        export_folder(load_source(run), tmp_path / "full")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]
