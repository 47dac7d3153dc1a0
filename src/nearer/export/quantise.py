"""A graph with 8-bit integer matrices, and what they cost: the score of a task before and after."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearer.encoder.layout import write_json
from nearer.encoder.onnx_encoder import FACTS_FILE, GRAPH_FILE, OnnxEncoder
from nearer.errors import ModelError, first_line
from nearer.evaluation import evaluate
from nearer.evaluation.task import Task
from nearer.extras import require

# Products with constant matrices, and tables of embeddings: nearly all the weights of an encoder. On wiki-mini the
# tables cost nothing that STS-B can tell, and make the file a third of what it is without.
QUANTISED = ["MatMul", "Gather"]


@dataclass(frozen=True)
class Int8Cost:
    """A task's figure in percent before and after, and the file's size in megabytes; None where it is undefined."""

    task: str
    measure: str
    before: float | None
    after: float | None
    megabytes_before: float
    megabytes_after: float

    def __str__(self) -> str:
        sizes = f"{self.megabytes_before:.1f} MB → {self.megabytes_after:.1f} MB"
        if self.before is None or self.after is None:
            return f"int8: {sizes}; {self.task} ({self.measure}) is undefined for this model"
        change = round(self.after, 2) - round(self.before, 2)  # of what is shown
        return f"int8: {sizes}; {self.task} ({self.measure}) {self.before:.2f} → {self.after:.2f} ({change:+.2f})"


def quantise(folder: Path, exported: OnnxEncoder, facts: dict[str, Any], task: Task) -> Int8Cost:
    """Replace the graph in an export's folder by its int8 version. exported: what is there now, loaded.

    Weights are quantised ahead, row by row; activations when the graph runs, so no calibration text is needed.
    """
    before = evaluate(exported, task).scores[0]
    size = megabytes(folder)
    graph, external, quantised = (folder / name for name in (GRAPH_FILE, f"{GRAPH_FILE}.data", f"int8-{GRAPH_FILE}"))
    tools: Any = require("onnxruntime.quantization", "onnx", "int8 export")
    try:
        with _without_remarks():
            tools.quantize_dynamic(
                graph,
                quantised,
                op_types_to_quantize=QUANTISED,
                per_channel=True,
                # 7 bits of weight: without them sums overflow on processors that lack VNNI
                reduce_range=True,
            )
    except Exception as error:  # onnxruntime's and onnx' errors alike
        raise ModelError(f"{exported.name}: cannot be quantised ({first_line(error)}).") from error
    _check_quantised(quantised, exported.name)
    graph.unlink()
    external.unlink(missing_ok=True)
    quantised.rename(graph)
    facts["precision"] = "int8"
    write_json(folder / FACTS_FILE, facts)
    after = evaluate(OnnxEncoder(folder), task).scores[0]
    return Int8Cost(before.task, before.measure, before.score, after.score, size, megabytes(folder))


def _check_quantised(path: Path, name: str) -> None:
    """That there is anything in it to be quantised: else the cost of nothing would be told."""
    onnx: Any = require("onnx", "onnx", "int8 export")
    nodes = onnx.load(path, load_external_data=False).graph.node
    if not any(node.op_type == "MatMulInteger" for node in nodes):
        raise ModelError(f"{name}: has no product with a constant matrix that could be quantised.")


def megabytes(folder: Path) -> float:
    """Size of an export's graph, with the weights that may lie beside it."""
    return sum(path.stat().st_size for path in folder.glob(f"{GRAPH_FILE}*")) / 1e6


@contextlib.contextmanager
def _without_remarks() -> Iterator[None]:
    """onnxruntime advises its own preprocessing, which the exporter has done already."""
    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
