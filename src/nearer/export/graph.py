"""The whole encoder as one ONNX graph: token ids in, sentence vectors out, any batch, any length.

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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.encoder.network import at_inference
from nearer.encoder.pooling import attended, needs_hidden_states, pool
from nearer.errors import ModelError, SettingError, first_line
from nearer.extras import require

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
        vectors = pool(pooling, states.last_hidden_state, states.hidden_states if layered else None, pooled)
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
