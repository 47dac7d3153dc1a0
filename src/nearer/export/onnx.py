"""An encoder as a folder for onnxruntime, compared with the encoder before it gets its name.

The whole encoder is one ONNX graph: token ids in, sentence vectors out, any batch, any length.

    input_ids, attention_mask   (batch, length), int64
    token_type_ids              the same, where tokenizer and model both have them
    pooled_mask                 the same, where a model leaves its prompts out of the pooling: 1 for tokens that count
    sentence_embedding          (batch, dimension), float32: pooled, projected, of length 1 if the model says so
    last_hidden_state           (batch, length, width), float32: the last layer's states, as optimum calls them
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.encoder.backbone import quiet
from nearer.encoder.folder import write_around_graph
from nearer.encoder.layout import write_json
from nearer.encoder.network import PADDING_TOKENS, at_inference
from nearer.encoder.onnx_encoder import FACTS_FILE, FORMAT, GRAPH_FILE, OnnxEncoder
from nearer.encoder.pooling import WeightedLayers, attended, needs_hidden_states, pool
from nearer.encoder.static import StaticBackbone
from nearer.encoder.tokenizer import save_tokenizer
from nearer.errors import ModelError, SettingError, first_line
from nearer.evaluation.tasks import load_tasks
from nearer.export.quantise import Int8Cost, megabytes, quantise
from nearer.export.source import without_folders
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
    path = Path(out)
    # what can be wrong with the data is found before the graph is traced
    [task] = load_tasks(["everyday" if data is None else "stsb"], data) if int8 else [None]
    samples = list(sentences) if sentences is not None else sample_sentences()
    with whole_folder(path) as built:
        inputs = write_graph(encoder, built / GRAPH_FILE)
        obstacle = sentence_transformers_obstacle(encoder)
        if obstacle is None:
            write_around_graph(encoder, built)
        else:
            with quiet():
                templated = encoder.settings.template is not None
                save_tokenizer(encoder.tokenizer, built, PADDING_TOKENS, templated=templated)
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
    return OnnxExport(path, found, len(samples), size, cost, obstacle)


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


OUTPUTS = ("sentence_embedding", "last_hidden_state")
OPSET = 18  # the oldest with all that is needed, so that older runtimes read it too
LARGEST_FILE = 2**31 - 2**27  # what one protobuf file can hold, with room for the graph itself


class SentenceGraph(nn.Module):
    """What is traced. Padding that must follow every sentence (MobileBERT) is added inside: callers need not know."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.trailing = encoder.trailing_padding

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
        pooled_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        encoder, length = self.encoder, input_ids.shape[1]
        ids, mask = self._followed(input_ids, encoder.padding_id), self._followed(attention_mask)
        types = {} if token_type_ids is None else {"token_type_ids": self._followed(token_type_ids)}
        pooling = encoder.settings.pooling
        layered = needs_hidden_states(pooling)
        seen = attended(mask)
        states = encoder.backbone(input_ids=ids, attention_mask=seen, output_hidden_states=layered, **types)
        pooled = mask if pooled_mask is None else self._followed(pooled_mask)
        layers = states.hidden_states if layered else None
        vectors = pool(pooling, states.last_hidden_state, layers, pooled, encoder.settings.pooled_token)
        vectors = encoder.project(vectors)
        if encoder.settings.normalize:
            vectors = torch.nn.functional.normalize(vectors, dim=-1)
        return vectors, states.last_hidden_state[:, :length]

    def _followed(self, tokens: Tensor, value: int = 0) -> Tensor:
        return torch.nn.functional.pad(tokens, (0, self.trailing), value=value) if self.trailing else tokens


def graph_inputs(encoder: Encoder) -> list[str]:
    """The names of the inputs that a graph of this encoder has."""
    names = ["input_ids", "attention_mask"]
    taken = inspect.signature(encoder.backbone.forward).parameters
    if "token_type_ids" in taken and "token_type_ids" in encoder.tokenizer.model_input_names:
        names.append("token_type_ids")
    if any(encoder.settings.prompts.values()) and not encoder.settings.pool_prompt:
        names.append("pooled_mask")
    return names


def write_graph(encoder: Encoder, path: Path) -> list[str]:
    """Trace the encoder as it is at inference and write it; the names of its inputs."""
    require("onnx", "onnx", "ONNX export")
    require("onnxscript", "onnx", "ONNX export")
    if encoder.device.type != "cpu":
        raise SettingError(f"device: {encoder.name} is on {encoder.device}; load it with device='cpu' to export it.")
    names = graph_inputs(encoder)
    shape = (2, 7)  # any but 0 and 1, which torch takes for constants
    samples = {name: torch.zeros(shape, dtype=torch.int64) for name in names}
    for name in names:
        if name.endswith("_mask"):
            samples[name] += 1
    try:
        with at_inference(encoder), torch.no_grad(), _without_remarks():
            program: Any = torch.onnx.export(
                SentenceGraph(encoder).eval(),
                kwargs=samples,
                input_names=names,
                output_names=list(OUTPUTS),
                dynamic_shapes={name: {0: "batch", 1: "length"} for name in names},
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
    except Exception as error:  # whatever code of the model's the tracer stumbles over
        raise ModelError(
            f"{encoder.name}: cannot be written as an ONNX graph; its code cannot be traced ({_reason(error)})."
        ) from error
    _leave_out_traces(program.model)
    weights = sum(tensor.numel() * tensor.element_size() for tensor in encoder.state_dict().values())
    program.save(str(path), external_data=weights > LARGEST_FILE)
    return names


def _leave_out_traces(model: Any) -> None:
    """Without where in the Python code each node comes from, which would tell of this machine's folders."""
    for value in (model, model.graph, *model.functions.values(), *model.graph.all_nodes()):
        value.metadata_props.clear()


def _reason(error: BaseException) -> str:
    """torch wraps the reason into advice of many lines; the cause at the bottom is what helps."""
    while error.__cause__ is not None:
        error = error.__cause__
    return first_line(error)


@contextlib.contextmanager
def _without_remarks() -> Iterator[None]:
    """torch tells of packages that are not installed and of what it tries; what matters is raised."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
