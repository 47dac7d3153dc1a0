"""An exported folder in sentence-transformers with backend="onnx": with optimum, and with what it needs of optimum."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from tiny_exports import Exported, short_encoder
from torch import nn

from nearer.encoder import Encoder
from nearer.encoder.pooling import WeightedLayers
from nearer.errors import ModelError
from nearer.export.onnx import sentence_transformers_obstacle

sentence_transformers = pytest.importorskip("sentence_transformers")

LOADABLE = ("bert", "mobilebert")


class GraphUnderOptimum(nn.Module):
    """What optimum does with a graph: inputs by name, and of all outputs `last_hidden_state`."""

    @classmethod
    def from_pretrained(cls, folder: str, *, config: Any, export: bool, **options: Any) -> Any:
        assert not export  # it found a graph
        assert "add_pooling_layer" not in options  # an argument of torch models, which optimum does not know
        found = cls()
        found.config = config
        found.session = onnxruntime.InferenceSession(
            str(Path(folder) / "model.onnx"), providers=["CPUExecutionProvider"]
        )
        return found

    def _save_pretrained(self, folder: Path) -> None: ...

    def forward(self, **given: Any) -> SimpleNamespace:
        names = [one.name for one in self.session.get_inputs()]
        inputs = {name: given[name].numpy() if name in given else np.zeros_like(given["input_ids"]) for name in names}
        outputs = [one.name for one in self.session.get_outputs()]
        states = self.session.run(None, inputs)[outputs.index("last_hidden_state")]
        return SimpleNamespace(last_hidden_state=torch.from_numpy(states))


@pytest.fixture
def like_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its releases need an older transformers than sentence-transformers 6 does, so it is on few machines."""
    package, runtime = ModuleType("optimum"), ModuleType("optimum.onnxruntime")
    names = ("CausalLM", "FeatureExtraction", "MaskedLM", "SequenceClassification")
    for name in names:
        setattr(runtime, f"ORTModelFor{name}", GraphUnderOptimum)
    runtime.ONNX_WEIGHTS_NAME = "model.onnx"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "optimum", package)
    monkeypatch.setitem(sys.modules, "optimum.onnxruntime", runtime)


def loaded_vectors(folder: Path, sentences: list[str]) -> np.ndarray:
    model = sentence_transformers.SentenceTransformer(str(folder), backend="onnx", device="cpu")
    return np.asarray(model.encode(sentences))


@pytest.mark.parametrize("kind", LOADABLE)
def test_gives_the_encoders_vectors(
    like_optimum: None, exported: Callable[[str], Exported], sentences: list[str], kind: str
) -> None:
    encoder, _, made = exported(kind)
    assert made.sentence_transformers_obstacle is None
    texts = [*sentences, "rain " * 200]
    np.testing.assert_allclose(loaded_vectors(made.folder, texts), encoder.encode(texts), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", LOADABLE)
def test_with_optimum_itself(exported: Callable[[str], Exported], sentences: list[str], kind: str) -> None:
    pytest.importorskip("optimum.onnxruntime")
    encoder, _, made = exported(kind)
    np.testing.assert_allclose(loaded_vectors(made.folder, sentences), encoder.encode(sentences), rtol=1e-4, atol=1e-5)


def test_what_cannot_be_loaded_there_is_not_offered(exported: Callable[[str], Exported]) -> None:
    """roberta's prompt stays out of the pooling: sentence-transformers could not tell the graph so."""
    _, _, made = exported("roberta")
    assert made.sentence_transformers_obstacle is not None
    assert "prompts are left out of the pooling" in made.sentence_transformers_obstacle
    assert not (made.folder / "modules.json").exists()


def test_obstacles(tiny_model: Callable[[str], Path]) -> None:
    from dataclasses import replace

    encoder = short_encoder(tiny_model, "bert", "mean", layers=1)
    assert sentence_transformers_obstacle(encoder) is None
    encoder.settings = replace(encoder.settings, text_normalisation="full_stop")
    assert "full_stop" in str(sentence_transformers_obstacle(encoder))
    encoder.settings = replace(encoder.settings, text_normalisation="none", pooling="first_last_mean")
    assert "several layers" in str(sentence_transformers_obstacle(encoder))
    encoder.settings = replace(encoder.settings, pooling="mean")
    encoder.backbone = WeightedLayers(encoder.backbone, [0.5, 0.5])
    assert "several layers" in str(sentence_transformers_obstacle(encoder))


def test_the_folder_is_no_torch_model(exported: Callable[[str], Exported]) -> None:
    """It has modules.json, and a line says that no weights are beside it."""
    with pytest.raises(ModelError, match="ONNX export") as refused:
        Encoder.load(exported("bert").made.folder)
    assert "\n" not in str(refused.value)
