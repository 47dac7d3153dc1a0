"""The exported folder in use: as a model of `nearer`, without it, and in int8."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiny_exports import Exported, short_encoder

from faulty_disk import unchecked
from nearer.errors import ModelError, SettingError
from nearer.evaluation import evaluate, load_tasks
from nearer.export import OnnxEncoder, export_onnx
from nearer.export import onnx as graph
from nearer.export.quantise import Int8Cost, quantise
from nearer.export.source import without_folders

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

GUIDE = Path(__file__).parents[2] / "docs" / "export.md"


def test_scores_are_the_encoders(exported: Callable[[str], Exported]) -> None:
    encoder, onnx_encoder, _ = exported("bert")
    ours, theirs = (evaluate(model, ["everyday"]) for model in (encoder, onnx_encoder))
    assert theirs.average == pytest.approx(ours.average, abs=0.05)
    assert theirs.protocol == ours.protocol


def test_calls_are_the_encoders(exported: Callable[[str], Exported], sentences: list[str]) -> None:
    encoder, onnx_encoder, _ = exported("mobilebert")
    assert onnx_encoder.encode(sentences[0]).shape == (24,)
    assert onnx_encoder.encode([]).shape == (0, 24)
    assert onnx_encoder.similarity("rain", "rain") == pytest.approx(1, abs=1e-5)
    ours, theirs = (model.rank("rain comes", sentences, top=4) for model in (encoder, onnx_encoder))
    assert [found.number for found in theirs] == [found.number for found in ours]
    first, second = encoder.encode(sentences[:4]), encoder.encode(sentences[4:])
    np.testing.assert_allclose(onnx_encoder.pair_scores(first, second), encoder.pair_scores(first, second))
    unit = onnx_encoder.encode(sentences, normalize=True)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)


def test_prompts_are_the_models(exported: Callable[[str], Exported], sentences: list[str]) -> None:
    """roberta's default prompt is put before each sentence, and stays out of the pooling."""
    encoder, onnx_encoder, _ = exported("roberta")
    vectors = {}
    for name in (None, "query", "other"):
        vectors[name] = onnx_encoder.encode(sentences, prompt_name=name)
        np.testing.assert_allclose(vectors[name], encoder.encode(sentences, prompt_name=name), atol=1e-5)
    np.testing.assert_array_equal(vectors[None], vectors["query"])
    assert np.abs(vectors["other"] - vectors["query"]).max() > 1e-3
    with pytest.raises(SettingError, match="no prompt 'mine'"):
        onnx_encoder.encode(sentences, prompt_name="mine")


def test_length_1_cannot_be_taken_back(exported: Callable[[str], Exported]) -> None:
    with pytest.raises(SettingError, match="length 1 only"):
        exported("bert").onnx.encode(["rain"], normalize=False)


def test_facts_say_what_a_caller_must_know(exported: Callable[[str], Exported]) -> None:
    encoder, _, made = exported("roberta")
    facts = json.loads((made.folder / "nearer_onnx.json").read_text())
    assert facts["settings"]["max_length"] == encoder.settings.max_length == 64
    assert facts["settings"]["pooling"] == "mean"
    assert facts["settings"]["text_normalisation"] == "full_stop"
    assert facts["padding_id"] == 1
    assert facts["checked"] == {"sentences": 64, "largest_difference": made.difference}


def test_the_guides_lines_run_without_torch(exported: Callable[[str], Exported], tmp_path: Path) -> None:
    encoder, _, made = exported("bert")
    shutil.copytree(made.folder, tmp_path / "mine-onnx")
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    [plain] = [block for block in blocks if "from tokenizers" in block]
    barred = "import sys\nfor name in ('torch', 'transformers', 'nearer'): sys.modules[name] = None\n"
    code = f"{barred}{plain}\nprint(json.dumps(vectors.tolist()))\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    expected = encoder.encode(["A man is eating.", "Somebody has lunch."])
    np.testing.assert_allclose(json.loads(done.stdout), expected, atol=1e-5)


@pytest.fixture
def copied(exported: Callable[[str], Exported], tmp_path: Path) -> Path:
    """An export to be changed."""
    return unchecked(Path(shutil.copytree(exported("roberta").made.folder, tmp_path / "copied")))


def test_int8_is_near_and_its_cost_is_measured(
    copied: Path, exported: Callable[[str], Exported], sentences: list[str]
) -> None:
    whole = exported("roberta").onnx
    [task] = load_tasks(["everyday"], None)
    cost = quantise(copied, OnnxEncoder(copied), json.loads((copied / "nearer_onnx.json").read_text()), task)
    small = OnnxEncoder(copied)
    assert small.precision == "int8"
    assert evaluate(small, [task]).protocol["precision"] == "int8"
    kinds = [node.op_type for node in onnx.load(copied / "model.onnx").graph.node]
    assert kinds.count("MatMulInteger") >= 6  # query, key, value, output and the two of the block
    assert cost.before == evaluate(whole, [task]).average
    assert cost.after == evaluate(small, [task]).average
    assert cost.megabytes_after < cost.megabytes_before
    cosines = small.pair_scores(small.encode(sentences), whole.encode(sentences))
    assert cosines.min() > 0.98
    assert np.abs(small.encode(sentences) - whole.encode(sentences)).max() > 1e-4  # it is another graph
    assert sorted(path.name for path in copied.iterdir()) == sorted(
        path.name for path in exported("roberta").made.folder.iterdir() if path.name != "checksums.json"
    )


def test_cost_in_words() -> None:
    cost = Int8Cost("STS-B", "spearman", 75.126, 74.9, 92.14, 23.04)
    assert str(cost) == "int8: 92.1 MB → 23.0 MB; STS-B (spearman) 75.13 → 74.90 (-0.23)"
    assert "undefined" in str(Int8Cost("everyday", "spearman", None, None, 1, 1))


def test_a_folder_that_is_no_export_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no nearer_onnx\.json"):
        OnnxEncoder(tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("nearer_onnx.json", "{", "cannot be read"),
        ("nearer_onnx.json", '{"format": 1}', "export it anew"),
        ("nearer_onnx.json", '{"format": 2}', "this version reads 1"),
        ("model.onnx", "not a graph", "onnxruntime cannot load it"),
    ],
)
def test_damage_is_told(copied: Path, file: str, content: str, told: str) -> None:
    (copied / file).write_text(content)
    with pytest.raises(ModelError, match=told):
        OnnxEncoder(copied)


def test_a_folder_that_is_there_is_left_alone(exported: Callable[[str], Exported], copied: Path) -> None:
    before = (copied / "model.onnx").stat().st_mtime_ns
    with pytest.raises(ModelError, match="is there already"):
        export_onnx(exported("roberta").encoder, copied)
    assert (copied / "model.onnx").stat().st_mtime_ns == before


def test_paths_become_names(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    facts = {"model": "/home/me/secret/base", "list": ["~/x/pairs.tsv", 3, None], "hub": "owner/name", "data": "hf:a/b"}
    public = {"model": "base", "list": ["pairs.tsv", 3, None], "hub": "owner/name", "data": "hf:a/b"}
    assert without_folders(facts) == public
    assert without_folders(str(tmp_path / "here")) == "here"


@pytest.mark.slow
def test_weights_beside_the_graph(
    tiny_model: Callable[[str], Path], sentences: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is too large for one file lies in two; as int8 it is a quarter, and in one again."""
    monkeypatch.setattr(graph, "LARGEST_FILE", 0)
    encoder = short_encoder(tiny_model, "bert", "mean", layers=1)
    assert export_onnx(encoder, tmp_path / "whole").difference < 1e-5
    assert (tmp_path / "whole" / "model.onnx.data").stat().st_size > (tmp_path / "whole" / "model.onnx").stat().st_size
    made = export_onnx(encoder, tmp_path / "small", int8=True)
    assert not list((tmp_path / "small").glob("*.data"))
    assert made.int8 is not None
    assert made.int8.megabytes_before > made.int8.megabytes_after
    assert OnnxEncoder(tmp_path / "small").encode(sentences).shape == (len(sentences), 32)


@pytest.mark.slow
def test_int8_costs_a_real_model_little(real_model: Callable[[str], Path], shared_data: Path, tmp_path: Path) -> None:
    from nearer.encoder import Encoder

    encoder = Encoder.load(real_model("all-MiniLM-L6-v2"), device="cpu")
    made = export_onnx(encoder, tmp_path / "onnx", int8=True, data=shared_data)
    assert made.difference < 1e-5
    assert made.int8 is not None
    assert made.int8.task == "STS-B"
    assert made.int8.before == pytest.approx(82.03, abs=0.1)
    assert made.int8.before - made.int8.after < 1  # type: ignore[operator]
