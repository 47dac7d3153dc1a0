"""CONTRIBUTING.md: the files that it names are there, and its examples work as they are printed."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from nearer.analysis.compare import compare
from nearer.encoder import Encoder, pooling
from nearer.evaluation import evaluate, tasks
from nearer.methods import METHODS
from nearer.training import train

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NEW = {  # a reader would make them
    "src/nearer/evaluation/odd_one_out.py",
    "src/nearer/methods/shorter.py",
    "src/nearer/recipes/shorter-bert-base.yaml",
    "tests/evaluation/test_odd_one_out.py",
    "tests/methods/test_shorter.py",
}
PLACEHOLDERS = {"src/nearer/PART/", "tests/PART/"}


def section(heading: str) -> str:
    [found] = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    return found


def program(heading: str) -> str:
    [found] = re.findall(r"^ *```python\n(.*?)^ *```", section(heading), re.MULTILINE | re.DOTALL)
    return textwrap.dedent(found)


def module(name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of this source; it can be imported until the test ends, which dataclasses ask for."""
    made = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, made)
    exec(compile(source, name, "exec"), made.__dict__)
    return made


def test_files_are_there() -> None:
    named = set(re.findall(r"`((?:src|tests|docs)/[\w./-]*)`", TEXT)) - NEW - PLACEHOLDERS
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []
    assert [name for name in NEW if (ROOT / name).exists()] == []


def test_names_in_the_files_are_there() -> None:
    for heading, file, names in (
        ("Add a method", "src/nearer/methods/__init__.py", ("METHODS", "__all__")),
        ("Add a method", "src/nearer/cli/completion.py", ("METHODS",)),
        ("Add a task", "src/nearer/evaluation/tasks.py", ("KINDS",)),
        ("Add a task", "src/nearer/evaluation/task.py", ("Task",)),
        ("Add a pooling", "src/nearer/encoder/pooling.py", ("LAYER_PAIRS", "POOLINGS", "_pool_one")),
        ("Add a pooling", "src/nearer/encoder/layout.py", ("MODES",)),
        ("Add a pooling", "tests/encoder/test_pooling.py", ("by_hand",)),
    ):
        source = (ROOT / file).read_text(encoding="utf-8")
        assert f"`{file}`" in section(heading)
        for name in names:
            assert f"`{name}`" in section(heading)
            assert re.search(rf"^(def |class )?{name}\b", source, re.MULTILINE), f"{file} has no {name}"


def test_each_word_of_the_glossary_stands_there_once() -> None:
    rows = re.findall(r"^\| (\*\*.*?) \|", section("Glossary"), re.MULTILINE)
    words = [word for row in rows for word in re.findall(r"\*\*(.*?)\*\*", row)]
    wanted = {"anchor", "positive", "view", "teacher", "rank vector", "ranking list", "token index", "row", "path"}
    assert wanted <= set(words)
    assert len(words) == len(set(words))


class TestMethod:
    def test_it_trains(
        self, tiny_model: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = module("shorter", program("Add a method"), monkeypatch)
        monkeypatch.setitem(METHODS, "shorter", made.Shorter)
        corpus, recipe = tmp_path / "corpus.txt", tmp_path / "shorter.yaml"
        corpus.write_text("".join(f"the quick brown fox jumps over {n} lazy dogs again and again\n" for n in range(40)))
        recipe.write_text(
            f"method: shorter\nmodel: {tiny_model('bert')}\npooling: cls\nhead: false\nbatch_size: 8\nmax_length: 16\n"
            "learning_rate: 1e-3\nselect_on: []\ntest_on: []\n"
        )
        run = train(recipe, corpus, out=tmp_path / "run")
        lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
        assert lines[-1]["contrastive"] < lines[0]["contrastive"]
        assert run.load().encode(["rain"]).shape == (1, 32)


class TestTask:
    @pytest.fixture
    def made(self, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
        return module("odd_one_out", program("Add a task"), monkeypatch)

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "mine.tsv"
        path.write_text(
            "A man eats lunch.\tA man has lunch.\tThe engine does not start.\n"
            "It rains again.\tIt is raining.\tThe engine does not start.\n"
            "It rains again.\tThe engine does not start.\tIt rains again.\n",
            encoding="utf-8",
        )
        return path

    def test_it_is_evaluated(self, made: ModuleType, file: Path) -> None:
        encoder = Encoder.load("wiki-mini", pooling="mean", device="cpu")
        results = evaluate(encoder, [made.load_odd_one_out(str(file), None, False)])
        assert results["mine"] == pytest.approx(200 / 3)
        assert results.scores[0].kind == "odd-one-out"

    def test_it_has_a_name(self, made: ModuleType, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tasks, "_registered", {})
        tasks.register_kind(made.ODD_ONE_OUT_KIND)
        [task] = tasks.load_tasks([f"odd-one-out:{file}"], None)
        assert (task.name, task.kind) == ("mine", "odd-one-out")

    def test_it_is_compared_with_an_interval(self, made: ModuleType, file: Path, tiny_model) -> None:
        models = [Encoder.load("wiki-mini", pooling=name, device="cpu") for name in ("mean", "max")]
        [difference] = compare(models, [made.load_odd_one_out(str(file), None, False)]).differences
        assert difference.interval is not None


class TestPooling:
    def test_it_works_where_the_text_says(self, monkeypatch: pytest.MonkeyPatch) -> None:
        source = Path(pooling.__file__).read_text(encoding="utf-8")
        source, count = re.subn(r"^(POOLINGS = \(.*)\)$", r'\1, "min")', source, flags=re.MULTILINE)
        assert count == 1
        lines = textwrap.indent(program("Add a pooling"), "    ")
        source, count = re.subn(r"^(def _pool_one\(.*:\n)", lambda head: head[1] + lines, source, flags=re.MULTILINE)
        assert count == 1
        changed = module("changed_pooling", source, monkeypatch)
        states = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(0))
        mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]])
        found = changed.pool(changed.check_pooling("min"), states, None, mask).numpy()
        wanted = [states[0].amin(dim=0), states[1, :2].amin(dim=0), torch.zeros(6)]
        np.testing.assert_array_equal(found, np.stack(wanted))
