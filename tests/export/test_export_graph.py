"""Graphs under onnxruntime beside the encoders that they were traced from."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_exports import KINDS, TRACED, Exported, short_encoder
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.encoder.pooling import POOLINGS, pool
from nearer.errors import ModelError, SettingError
from nearer.export import OnnxEncoder, export_onnx, onnx
from nearer.export import onnx as graph

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

ALL = (*POOLINGS, "cls+mean")


@pytest.mark.parametrize("kind", TRACED)
def test_vectors_are_the_encoders(kind: str, exported: Callable[[str], Exported], sentences: list[str]) -> None:
    encoder, onnx, made = exported(kind)
    expected = encoder.encode(sentences)
    np.testing.assert_allclose(onnx.encode(sentences), expected, atol=1e-5)
    np.testing.assert_allclose(onnx.encode(sentences, batch_size=1), expected, atol=1e-5)
    assert made.difference < 1e-5
    assert made.sentences == 64


@pytest.mark.parametrize("kind", TRACED)
def test_batch_and_length_are_free(kind: str, exported: Callable[[str], Exported]) -> None:
    onnx = exported(kind).onnx
    for shape in ((1, 2), (1, 31), (5, 3), (17, 9)):
        given = {name: np.ones(shape, dtype=np.int64) for name in onnx.inputs}
        vectors, states = onnx.session.run(["sentence_embedding", "last_hidden_state"], given)
        assert vectors.shape == (shape[0], onnx.dimension)
        assert states.shape == (*shape, 32)


def test_last_hidden_states_are_the_last_layers_states(exported: Callable[[str], Exported]) -> None:
    encoder, onnx, _ = exported("bert")
    ids, mask = np.array([[2, 9, 8, 3], [2, 7, 3, 0]]), np.array([[1, 1, 1, 1], [1, 1, 1, 0]])
    [states] = onnx.session.run(["last_hidden_state"], _given(onnx, ids, mask))
    with torch.no_grad():
        expected = encoder.states(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()
    np.testing.assert_allclose(states[mask == 1], expected[mask == 1], atol=1e-5)


def test_what_follows_in_the_batch_makes_no_difference_to_mobilebert(exported: Callable[[str], Exported]) -> None:
    """Callers that know nothing of the padding it needs get the same vector from any batch."""
    onnx = exported("mobilebert").onnx
    ids = np.array([[2, 9, 8, 3]])
    [alone] = onnx.session.run(["sentence_embedding"], _given(onnx, ids, np.ones_like(ids)))
    padded = np.concatenate([ids, np.full((1, 5), onnx.padding_id)], axis=1)
    mask = (np.arange(9) < 4)[None].astype(np.int64)
    [beside] = onnx.session.run(["sentence_embedding"], _given(onnx, padded, mask))
    np.testing.assert_allclose(alone, beside, atol=1e-6)


def _given(onnx: OnnxEncoder, ids: np.ndarray, mask: np.ndarray) -> dict[str, np.ndarray]:
    every = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    return {name: every[name] for name in onnx.inputs}


def test_inputs_are_those_that_the_model_has(exported: Callable[[str], Exported]) -> None:
    assert exported("bert").onnx.inputs == ["input_ids", "attention_mask", "token_type_ids"]
    assert exported("mobilebert").onnx.inputs == ["input_ids", "attention_mask"]
    assert exported("roberta").onnx.inputs == ["input_ids", "attention_mask", "pooled_mask"]
    shown = exported("bert").onnx.session.get_inputs()[0]
    assert shown.shape == ["batch", "length"]


def test_nothing_of_this_machine_is_in_it(exported: Callable[[str], Exported]) -> None:
    content = (exported("bert").made.folder / "model.onnx").read_bytes()
    for part in (b"site-packages", b"modeling_bert", str(Path(graph.__file__).parent).encode()):
        assert part not in content


class EveryPooling(graph.SentenceGraph):
    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        states = self.encoder.backbone(input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=True)
        last, layers = states.last_hidden_state, states.hidden_states
        return tuple(pool(name, last, layers, attention_mask) for name in ALL)


def test_every_pooling(
    tiny_model: Callable[[str], Path], sentences: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One trace with all of them as outputs, since a trace takes seconds; test_every_export makes each by itself."""
    monkeypatch.setattr(graph, "SentenceGraph", EveryPooling)
    monkeypatch.setattr(graph, "OUTPUTS", ALL)
    encoder = short_encoder(tiny_model, "bert", "mean", layers=3)
    graph.write_graph(encoder, tmp_path / "all.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "all.onnx")
    tokens = encoder.tokenised(sentences)
    rows = [tokens.ids[start : start + length] for start, length in zip(tokens.starts, tokens.lengths, strict=True)]
    mask = np.arange(tokens.lengths.max()) < tokens.lengths[:, None]
    ids = np.zeros(mask.shape, dtype=np.int64)
    ids[mask] = np.concatenate(rows)
    found = session.run(list(ALL), {"input_ids": ids, "attention_mask": mask.astype(np.int64)})
    for pooling, vectors in zip(ALL, found, strict=True):
        settings = replace(encoder.settings, pooling=pooling)
        expected = Encoder(encoder.backbone, encoder.tokenizer, settings).eval().encode(sentences)
        np.testing.assert_allclose(vectors, expected, atol=1e-5, err_msg=pooling)


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ALL)
@pytest.mark.parametrize("kind", KINDS)
def test_every_export(kind: str, pooling: str, tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    made = export_onnx(short_encoder(tiny_model, kind, pooling), tmp_path / "onnx")
    assert made.difference < 1e-5


def test_a_graph_that_gives_other_vectors_is_refused(
    exported: Callable[[str], Exported], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from a model that computes something else when it is traced: here the graph before one weight changed."""
    encoder, _, made = exported("roberta")

    def traced(encoder: Encoder, path: Path) -> list[str]:
        shutil.copy(made.folder / "model.onnx", path)
        return graph.graph_inputs(encoder)

    monkeypatch.setattr(onnx, "write_graph", traced)
    assert export_onnx(encoder, tmp_path / "right").difference < 1e-5
    changed = copy.deepcopy(encoder)
    with torch.no_grad():
        next(changed.backbone.encoder.layer[-1].output.dense.parameters())[0, 0] += 0.01
    with pytest.raises(ModelError, match=r"gives other vectors.*nothing was written"):
        export_onnx(changed, tmp_path / "wrong")
    assert [path.name for path in tmp_path.iterdir()] == ["right"]


class Untraceable(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.config = inner.config
        self.get_input_embeddings = inner.get_input_embeddings
        self.embedding = inner.get_input_embeddings()

    def forward(self, input_ids: Tensor, **_: object):  # type: ignore[no-untyped-def]
        return self.embedding(torch.from_numpy(input_ids.numpy()))  # leaves torch, as some models' code does


def test_code_that_cannot_be_traced_is_told(
    tiny_model: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = short_encoder(tiny_model, "bert", "mean", layers=1)
    encoder.backbone = Untraceable(encoder.backbone)
    with pytest.raises(ModelError, match="its code cannot be traced") as caught:
        export_onnx(encoder, tmp_path / "onnx")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
    assert capsys.readouterr().out == ""


def test_a_model_on_another_device_is_told(tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    encoder = short_encoder(tiny_model, "bert", "mean", layers=1).to("meta")
    with pytest.raises(SettingError, match="device='cpu'"):
        graph.write_graph(encoder, tmp_path / "model.onnx")


@pytest.mark.parametrize("kind", ["bert", pytest.param("mobilebert", marks=pytest.mark.slow)])
def test_a_templates_mask_is_pooled_in_the_graph(
    tiny_model: Callable[[str], Path], sentences: list[str], tmp_path: Path, kind: str
) -> None:
    template = 'This man of "{sentence}" is [MASK].'
    encoder = Encoder.load(tiny_model(kind), template=template, max_length=32, device="cpu")
    made = export_onnx(encoder, tmp_path / "onnx", sentences=sentences)
    exported = OnnxEncoder(made.folder)
    assert exported.settings == encoder.settings
    some = [*sentences, "a man is eating lunch " * 20]
    np.testing.assert_allclose(exported.encode(some), encoder.encode(some), atol=1e-4)
