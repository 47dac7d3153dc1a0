"""An ONNX export behind the service, beside the encoder it was made of."""

from __future__ import annotations

import numpy as np
import pytest

from nearer.encoder import Encoder
from nearer.errors import SettingError
from nearer.serve.model import ServedModel

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def exported(encoder: Encoder, tmp_path_factory: pytest.TempPathFactory):
    from nearer.encoder.onnx_encoder import OnnxEncoder
    from nearer.export import export_onnx

    folder = tmp_path_factory.mktemp("onnx") / "export"
    export_onnx(encoder, folder)
    return OnnxEncoder(folder)


def test_vectors_and_counts(client_of, served, exported) -> None:
    texts = ["rain", " ".join(["rain"] * 62), " ".join(["rain"] * 63), "rain"]
    asked = {"input": texts, "model": "tiny"}
    ours = client_of(served).post("/v1/embeddings", json=asked).json()
    theirs = client_of(ServedModel(exported, "tiny")).post("/v1/embeddings", json=asked).json()
    assert theirs["usage"] == ours["usage"] == {"prompt_tokens": 134, "total_tokens": 134, "cut_texts": 1}
    vectors = [[item["embedding"] for item in answer["data"]] for answer in (ours, theirs)]
    np.testing.assert_allclose(*vectors, rtol=1e-3, atol=1e-4)


def test_lengths_that_the_graph_cannot_undo(exported, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        exported, "settings", exported.settings.__class__(pooling="mean", max_length=64, normalize=True)
    )
    with pytest.raises(SettingError, match="gives vectors of length 1 only"):
        ServedModel(exported, normalize=False)
