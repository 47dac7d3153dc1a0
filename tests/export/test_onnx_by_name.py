"""A folder that `nearer export onnx` wrote, named where any model is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_exports import Exported

from faulty_disk import unchecked
from nearer.baselines import load_scorer
from nearer.encoder import Encoder
from nearer.encoder.onnx_encoder import OnnxEncoder
from nearer.errors import ModelError, SettingError
from nearer.evaluation import evaluate, load_tasks

pytest.importorskip("onnxruntime")

# A correlation of ranks moves by steps: random models have pairs whose cosines differ by less than float32 can tell.
OF_RANKS = 1e-2  # in percent: 1e-4 of a correlation
# One of the values errs as the cosines do, by up to 1e-7, in units of their spread, which is more than SPREAD.
SPREAD = 2e-3
OF_VALUES = 5e-3  # in percent: 5e-5 of a correlation

Nearer = Callable[..., tuple[int, str, str]]


def cosines_of_everyday(encoder: Encoder) -> np.ndarray:
    pairs = list(load_tasks(["everyday"], None)[0].pairs)  # type: ignore[attr-defined]
    first, second = (encoder.encode(side) for side in ([pair.first for pair in pairs], [pair.second for pair in pairs]))
    return (first * second).sum(axis=1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)


@pytest.fixture
def copied(exported: Callable[[str], Exported], tmp_path: Path) -> Path:
    """An export to be changed."""
    shutil.copytree(exported("mobilebert").made.folder, tmp_path / "copied")
    return tmp_path / "copied"


@pytest.mark.parametrize("kind", ["bert", "roberta", "mobilebert"])
def test_its_scores_are_those_of_the_model_it_was_made_of(exported: Callable[[str], Exported], kind: str) -> None:
    encoder, _, made = exported(kind)
    assert cosines_of_everyday(encoder).std() > SPREAD
    model = load_scorer(made.folder)
    assert isinstance(model, OnnxEncoder)
    ours, theirs = (evaluate(scorer, ["everyday"]) for scorer in (encoder, model))
    assert [score.data_hash for score in ours.scores] == [score.data_hash for score in theirs.scores]
    for torchs, graphs in zip(ours.scores, theirs.scores, strict=True):
        assert graphs.figures == pytest.approx(torchs.figures, abs=OF_RANKS)
    pairs = ours.scores[0].figures["pearson"], theirs.scores[0].figures["pearson"]
    assert pairs[1] == pytest.approx(pairs[0], abs=OF_VALUES)
    assert ours.protocol == theirs.protocol


def test_evaluate_and_compare(exported: Callable[[str], Exported], nearer: Nearer, tmp_path: Path) -> None:
    encoder, _, made = exported("bert")
    expected = evaluate(encoder, ["everyday"]).scores[0].figures
    code, _, told = nearer("evaluate", made.folder, "--tasks", "everyday", "--json", tmp_path / "scores.json")
    assert code == 0, told
    found = json.loads((tmp_path / "scores.json").read_text())
    assert found["scores"][0]["figures"]["pearson"] == pytest.approx(expected["pearson"], abs=OF_VALUES)
    assert found["scores"][0]["figures"]["spearman"] == pytest.approx(expected["spearman"], abs=OF_RANKS)
    encoder.save(tmp_path / "torch")
    arguments = ("--tasks", "everyday", "--resamples", 100, "--json", "-")
    code, shown, told = nearer("compare", tmp_path / "torch", made.folder, *arguments)
    assert code == 0, told
    figures: list[Any] = [model["scores"][0]["figures"]["spearman"] for model in json.loads(shown)["results"]]
    assert figures[1] == pytest.approx(figures[0], abs=OF_RANKS)


def test_similarity_and_rank(exported: Callable[[str], Exported], nearer: Nearer, tmp_path: Path) -> None:
    encoder, _, made = exported("mobilebert")
    code, shown, told = nearer("similarity", made.folder, "the quick fox", "a lazy dog")
    assert code == 0, told
    assert float(shown) == pytest.approx(encoder.similarity("the quick fox", "a lazy dog"), abs=1e-4)
    sentences = ["the lazy dog and lunch", "rain comes", "a quick brown fox"]
    (tmp_path / "lines.txt").write_text("".join(f"{sentence}\n" for sentence in sentences))
    code, shown, told = nearer("rank", made.folder, "the quick fox", tmp_path / "lines.txt")
    assert code == 0, told
    ranked = encoder.rank("the quick fox", sentences)
    assert [line.split("\t")[2] for line in shown.splitlines()] == [one.sentence for one in ranked]


def test_analyse_and_report(exported: Callable[[str], Exported], nearer: Nearer, tmp_path: Path) -> None:
    folder = exported("bert").made.folder
    code, shown, told = nearer("analyse", folder, "--tasks", "everyday")
    assert code == 0, told
    assert "everyday" in shown
    code, _, told = nearer("report", folder, "--tasks", "everyday", "--out", tmp_path / "page.html")
    assert code == 0, told
    assert folder.name in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "options", [{"pooling": "mean"}, {"max_length": 8}, {"text_normalisation": "lowercase"}, {"precision": "bf16"}]
)
def test_what_the_graph_has_fixed_cannot_be_chosen(
    exported: Callable[[str], Exported], options: dict[str, Any]
) -> None:
    [name] = options
    with pytest.raises(SettingError, match=f"^{name}: .* is an ONNX export, whose graph has it fixed"):
        load_scorer(exported("bert").made.folder, **options)


def test_options_that_ask_for_nothing_are_no_hindrance(exported: Callable[[str], Exported]) -> None:
    folder = exported("bert").made.folder
    assert isinstance(load_scorer(folder, pooling=None, pooler_as_head=False, device="cpu"), OnnxEncoder)


def _facts(**changed: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "nearer_onnx.json"
        facts = json.loads(path.read_text())
        path.write_text(json.dumps({**facts, **changed}))

    return change


def _cut(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return change


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (_cut("model.onnx"), r"model\.onnx: onnxruntime cannot load it"),
        (_cut("nearer_onnx.json"), r"nearer_onnx\.json: cannot be read"),
        (_cut("tokenizer.json"), r"its tokenizer cannot be loaded"),
        (lambda folder: (folder / "model.onnx").unlink(), r"model\.onnx: is missing; export it anew"),
        (_facts(dimension="wide"), r"nearer_onnx\.json: dimension: .*; export it anew"),
        (_facts(settings={"pooling": "none such", "max_length": 8}), r"nearer_onnx\.json: settings: pooling: "),
        (_facts(dimension=25), r"model\.onnx is not the graph that nearer_onnx\.json speaks of"),
        (_facts(inputs=["input_ids"]), r"model\.onnx is not the graph that nearer_onnx\.json speaks of"),
        (_facts(format=2), r"has format 2, this version reads 1"),
    ],
)
def test_damage_is_told_in_one_line(copied: Path, nearer: Nearer, damage: Callable[[Path], None], told: str) -> None:
    damage(unchecked(copied))
    with pytest.raises(ModelError, match=told):
        load_scorer(copied)
    code, shown, error = nearer("similarity", copied, "rain", "lunch")
    assert (code, shown) == (1, "")
    assert error.count("\n") == 1
    assert str(copied) in error
