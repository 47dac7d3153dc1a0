"""An encoder as a folder for onnxruntime, compared with the encoder before it takes its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from nearer.encoder import Encoder
from nearer.encoder.backbone import quiet
from nearer.encoder.folder import write_around_graph
from nearer.encoder.layout import write_json
from nearer.encoder.onnx_encoder import FACTS_FILE, FORMAT, GRAPH_FILE, OnnxEncoder
from nearer.encoder.pooling import WeightedLayers, needs_hidden_states
from nearer.encoder.static import StaticBackbone
from nearer.errors import ModelError
from nearer.evaluation.tasks import load_tasks
from nearer.export.graph import OPSET, OUTPUTS, graph_inputs, write_graph
from nearer.export.public import without_folders
from nearer.export.quantise import Int8Cost, megabytes, quantise
from nearer.extras import require
from nearer.storage.whole import whole_folder
from nearer.versions import library_versions

TOLERANCE = 1e-4
SENTENCES = 64


@dataclass(frozen=True)
class OnnxExport:
    """What was written. difference: the largest between the graph's vectors and the encoder's (see `difference`).

    sentence_transformers_obstacle: why it does not load there with backend="onnx"; None if it does.
    """

    folder: Path
    difference: float
    sentences: int
    megabytes: float
    int8: Int8Cost | None
    sentence_transformers_obstacle: str | None

    def __str__(self) -> str:
        return f"largest difference {self.difference:.0e} over {self.sentences} sentences"


def export_onnx(
    encoder: Encoder,
    out: str | Path,
    *,
    int8: bool = False,
    data: str | Path | None = None,
    sentences: Sequence[str] | None = None,
) -> OnnxExport:
    """Write the whole encoder (backbone, pooling, head, projections, normalisation) as one graph, with its tokenizer.

    The graph is run on sample sentences, or on those given, and refused if its vectors are not the encoder's to 1e-4.
    int8: its matrices as 8-bit integers; what that costs is measured on STS-B, if `data` is the folder of the STS sets,
    else on the bundled task `everyday`.
    """
    require("onnxruntime", "onnx", "ONNX export")
    place = Path(out)
    # what can be wrong with the data is found before the graph is traced
    [task] = load_tasks(["everyday" if data is None else "stsb"], data) if int8 else [None]
    samples = list(sentences) if sentences is not None else sample_sentences()
    with whole_folder(place) as built:
        inputs = write_graph(encoder, built / GRAPH_FILE)
        obstacle = sentence_transformers_obstacle(encoder)
        if obstacle is None:
            write_around_graph(encoder, built)
        else:
            with quiet():
                encoder.tokenizer.save_pretrained(built)
        facts = _facts(encoder, inputs)
        write_json(built / FACTS_FILE, facts)
        exported = OnnxEncoder(built)
        found = difference(exported, encoder, samples)
        if not found <= TOLERANCE:
            raise ModelError(
                f"{encoder.name}: its ONNX graph gives other vectors (largest difference {found:.0e}, {TOLERANCE:.0e} "
                "allowed); nothing was written."
            )
        facts["checked"] = {"sentences": len(samples), "largest_difference": found}
        write_json(built / FACTS_FILE, facts)
        cost = None
        if task is not None:
            cost = quantise(built, exported, facts, task)
        del exported
        size = megabytes(built)
    return OnnxExport(place, found, len(samples), size, cost, obstacle)


def sentence_transformers_obstacle(encoder: Encoder) -> str | None:
    """Why `SentenceTransformer(folder, backend="onnx")` would give other vectors than the encoder; None if it does not.

    It takes the last layer's states from the graph alone and does the rest by itself.
    """
    settings = encoder.settings
    if isinstance(encoder.backbone, StaticBackbone):
        return "it is a table of embeddings, for which it has no graphs"
    if isinstance(encoder.backbone, WeightedLayers) or needs_hidden_states(settings.pooling):
        return "its vectors are pooled over several layers, of which a graph gives the last"
    if "pooled_mask" in graph_inputs(encoder):
        return "its prompts are left out of the pooling, for which the graph needs an input of its own"
    if settings.text_normalisation not in ("none", "lowercase"):
        return f"its text normalisation ({settings.text_normalisation}) is not known there"
    if encoder.needs_equal_lengths:
        return "padding would change its vectors"
    return None


def difference(exported: OnnxEncoder, encoder: Encoder, sentences: Sequence[str]) -> float:
    """The largest difference of two coordinates; of vectors with coordinates above 1 (raw MobileBERT), as a share.

    A share of the largest coordinate, since that is what the rounding of float32 goes by.
    """
    expected = encoder.encode(sentences, precision="float32")
    # alone, and in batches with much padding: neither may make a difference
    alone = exported.encode(sentences[:8], batch_size=1)
    together = exported.encode(sentences, batch_tokens=2**14)
    apart = max(float(np.abs(alone - expected[:8]).max()), float(np.abs(together - expected).max()))
    return apart / max(1.0, float(np.abs(expected).max()))


def sample_sentences() -> list[str]:
    """Of the bundled task, and some that are no ordinary sentences."""
    odd = ["", "rain", "Naïve café: 東京 is far away! 🙂", "word " * 2000]
    [everyday] = load_tasks(["everyday"], None)
    return [*odd, *islice(dict.fromkeys(everyday.sentences()), SENTENCES - len(odd))]


def _facts(encoder: Encoder, inputs: Sequence[str]) -> dict[str, Any]:
    """What a caller must know besides the graph, and where it comes from."""
    settings = encoder.settings
    prompts = {name: encoder.tokenised(["a"], prompt_name=name).prompt_length for name in settings.prompts}
    return {
        "format": FORMAT,
        "precision": "float32",
        "inputs": list(inputs),
        "outputs": list(OUTPUTS),
        "opset": OPSET,
        "dimension": encoder.dimension,
        "padding_id": encoder.padding_id,
        "equal_lengths": encoder.needs_equal_lengths,  # padding would change the vectors
        "head": encoder.head is not None and encoder.keeps_head,
        "settings": asdict(settings),
        "prompt_tokens": prompts,
        "libraries": library_versions(),
        "provenance": without_folders(encoder.provenance),
    }
