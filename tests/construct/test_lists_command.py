"""`nearer construct lists` and `inspect` on tiny models: folders, tables, figures, mistakes in one line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
from tiny_language_model import make_language_model

from nearer.cli.construct_lists import MethodName, _strength, inspect, lists
from nearer.cli.main import Commands
from nearer.extras import install_command


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        assert self.code == 1
        assert "Traceback" not in self.err
        line = self.err.splitlines()[-1]
        assert line.startswith("error: ")
        return line


Command = Callable[..., Outcome]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    app = typer.Typer(cls=Commands, pretty_exceptions_enable=False)
    app.command()(lists)
    app.command()(inspect)

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["nearer", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            app()
        captured = capsys.readouterr()
        return Outcome(int(caught.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_language_model(tmp_path_factory.mktemp("llm") / "tiny")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    whats = ("eats", "comes", "jumps", "has lunch", "eats again")
    path = tmp_path / "corpus.txt"
    path.write_text("".join(f"the {who} {what}\n" for who in ("fox", "dog", "man", "rain") for what in whats))
    return path


@pytest.fixture
def template(tmp_path: Path) -> Path:
    (tmp_path / "own.txt").write_text("away {sentence} has\n")
    return tmp_path / "own.txt"


@pytest.fixture
def build(command: Command, llm: Path, corpus: Path, template: Path, tiny_model: Callable[[str], Path]) -> Command:
    """Small and drawn, since the tiny model's best tokens go round in a circle."""

    def run(out: Path, *others: object) -> Outcome:
        sizes = ("--steps", 3, "--minimum-steps", 1, "--max-new-tokens", 40)
        usual = ("--temperature", 1.0, "--device", "cpu", "--batch", 4, "--guidance", 0.5, "--seed", 2)
        models = ("--llm", llm, "--pooling", "mean", "--template", template)
        clustered = ("--corpus", corpus, "--model", tiny_model("bert"), "--clusters", 4, "--per-cluster", 3)
        text = () if "--starts" in others else clustered
        return command("lists", *text, *models, *sizes, *usual, "--out", out, *others)

    return run


def test_lists_of_clusters(build: Command, corpus: Path, tmp_path: Path) -> None:
    done = build(tmp_path / "d")
    assert done.code == 0, done.err
    records = [json.loads(line) for line in (tmp_path / "d/data.jsonl").read_text().splitlines()]
    sentences = corpus.read_text().splitlines()
    assert [record["sentences"][0] for record in records] == [sentences[record["start"]] for record in records]
    assert {record["cluster"] for record in records} <= {0, 1, 2, 3}
    header = json.loads((tmp_path / "d/about.json").read_text())
    assert header["about"]["clusters"] == 4
    assert header["about"]["guidance"] == 0.5
    assert header["about"]["template"] == "away {sentence} has"
    assert header["notes"]["text"] == str(corpus)
    result = header["result"]
    assert result["records"] + sum(result["rejected"].values()) == result["starts"]
    assert f"{tmp_path / 'd/data.jsonl'}: {len(records)} lists" in done.err
    for reason, count in result["rejected"].items():
        assert f"{count} rejected: {reason}" in done.err
    assert "tokens (" in done.err  # a second


def test_a_limit_then_all_is_all(build: Command, tmp_path: Path) -> None:
    first = build(tmp_path / "d", "--limit", 5)
    assert "start sentences are left; without --limit it goes on" in first.err
    assert build(tmp_path / "d", "--batch", 1).code == 0
    assert build(tmp_path / "whole").code == 0
    assert (tmp_path / "d/data.jsonl").read_bytes() == (tmp_path / "whole/data.jsonl").read_bytes()


def test_start_sentences_of_ones_own(build: Command, tmp_path: Path) -> None:
    own = ["rain comes", "the fox eats", "rain", "again the dog jumps", "lunch", "rain comes", "far away", "a man eats"]
    (tmp_path / "own_starts.txt").write_text("\n".join(own) + "\n")
    assert build(tmp_path / "d", "--starts", tmp_path / "own_starts.txt", "--format", "parquet").code == 0
    assert (tmp_path / "d/data.parquet").exists()
    started = [json.loads(line) for line in (tmp_path / "d/starts.jsonl").read_text().splitlines()[1:]]
    assert [start["sentence"] for start in started] == own


def test_a_guidance_is_for_the_directional_method(build: Command, tmp_path: Path) -> None:
    assert "step-by-step method has none" in build(tmp_path / "d", "--method", "step-by-step").error
    assert build(tmp_path / "d", "--method", "step-by-step", "--guidance", 0).code == 0


def test_the_strength_has_two_names(build: Command, tmp_path: Path) -> None:
    both = build(tmp_path / "d", "--guidance-scale", 1.5)
    assert "--guidance (λ) and --guidance-scale (1 + λ) are two names of one strength" in both.error
    for scale, strength in ((None, 0.5), (1.1, 0.1), (2, 1.0)):
        assert _strength(None, scale, MethodName.directional) == strength


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--clusters", 21), "has 20 different sentences, fewer than the 21 clusters"),
        (("--starts", "x.txt", "--corpus", "y.txt"), "one is needed"),
        (("--starts", "none.txt"), "none.txt"),
        (("--starts", "none.txt", "--clusters", 4), "--clusters: chooses among the sentences of a --corpus"),
        (("--starts", "none.txt", "--model", "wiki-mini"), "--model: chooses"),
        (("--workers", 3), "--engine ray"),
        (("--minimum-steps", 4), "minimum_steps: 4"),
        (("--llm", "no/such/model"), "no/such/model"),
        (("--llm", "http://localhost:1"), "directional decoding needs the scores of all tokens"),
        (("--model", "no/such/model"), "no/such/model"),
    ],
)
def test_mistakes(build: Command, tmp_path: Path, options: tuple[object, ...], said: str) -> None:
    assert said in build(tmp_path / "d", *options).error
    assert not (tmp_path / "d/data.jsonl").exists()


def test_ray_is_an_extra(build: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "ray.data", None)
    assert install_command("ray") in build(tmp_path / "d", "--engine", "ray").error


def test_a_template_without_a_place(build: Command, tmp_path: Path, template: Path) -> None:
    template.write_text("say it again")
    assert "own.txt: has no {sentence}" in build(tmp_path / "d").error


def test_folders_that_cannot_be_used(build: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be written" in build(tmp_path / "file/d").error
    (tmp_path / "other").mkdir()
    (tmp_path / "other/mine.txt").write_text("")
    assert "holds other files" in build(tmp_path / "other").error
    assert build(tmp_path / "d", "--limit", 4).code == 0
    assert "was begun with seed 2, 3 asked now" in build(tmp_path / "d", "--seed", 3).error


def test_inspecting_one_and_several(build: Command, command: Command, tmp_path: Path) -> None:
    build(tmp_path / "one")
    build(tmp_path / "two", "--guidance", 2)
    done = command("inspect", tmp_path / "one", tmp_path / "two", "--show", 2, "--out", tmp_path / "map.svg")
    assert done.code == 0, done.err
    assert "neighbouring pairs in descending order" in done.out
    assert (tmp_path / "map.svg").read_text().count("mean cosine") == 2
    assert "wiki-mini, mean pooling" in done.err
    one = command("inspect", tmp_path / "one/data.jsonl", "--show", 1, "--limit", 1)
    first = json.loads((tmp_path / "one/data.jsonl").read_text().splitlines()[0])["sentences"]
    assert all(sentence in " ".join(one.out.split()) for sentence in first)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--out", "map.pdf"), "neither .svg nor .png"),
        (("--out", "no/map.svg"), "does not exist"),
        ((), "no about.json"),
    ],
)
def test_mistakes_of_inspecting(command: Command, tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    assert said in command("inspect", tmp_path, *arguments).error


def test_nothing_to_inspect(command: Command, tmp_path: Path) -> None:
    said = command("inspect", tmp_path / "none").error
    assert said.endswith("none: no such file or folder; `nearer construct lists` makes lists.")
