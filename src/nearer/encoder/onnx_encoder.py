"""An exported encoder under onnxruntime, with the calls of `Encoder` that evaluation, analysis and ranking use.

Its folder:

    model.onnx          the graph, with model.onnx.data beside it for models above 2 GB
    nearer_onnx.json    what a caller must know besides: maximum length, text normalisation, pooling, prompts
    tokenizer.json …    the tokenizer
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from nearer.encoder.batching import (
    OF_THIS_PROCESS,
    CutCounter,
    CutTexts,
    Tokenised,
    check_batches,
    cut,
    longest_first,
    tokenise_and_count,
)
from nearer.encoder.comparing import ByCosine, Vectors, listed, unit_rows
from nearer.encoder.encoding import TOKENS_ON_CPU, check_sentences, once_each
from nearer.encoder.parts import EncoderSettings
from nearer.encoder.tokenizer import load_tokenizer
from nearer.errors import ModelError, SettingError, first_line
from nearer.extras import require
from nearer.storage.checksums import check_folder
from nearer.terminal import progress_bar
from nearer.text.tokenise import normalisation
from nearer.typed_files import FileFacts, read_json

GRAPH_FILE, FACTS_FILE = "model.onnx", "nearer_onnx.json"
OUTPUT = "sentence_embedding"
FORMAT = 1
PROVIDERS = ("CPUExecutionProvider",)


class OnnxFacts(FileFacts):
    format: int = FORMAT
    settings: EncoderSettings
    inputs: list[Literal["input_ids", "attention_mask", "token_type_ids", "pooled_mask"]]
    padding_id: int = Field(ge=0, lt=2**31)
    dimension: int = Field(ge=1)
    prompt_tokens: dict[str, int]
    precision: str
    equal_lengths: bool = False
    head: bool


class OnnxEncoder(ByCosine):
    """Loads a folder that `nearer export onnx` wrote; `nearer.evaluate` takes it as it takes any model."""

    scoring: ClassVar[str] = "cosine"
    device: ClassVar[torch.device] = torch.device("cpu")

    def __init__(self, folder: str | Path, *, providers: Sequence[str] = PROVIDERS) -> None:
        """providers: of onnxruntime, in the order in which they are tried."""
        runtime = require("onnxruntime", "onnx", "an ONNX model")
        path = Path(folder)
        if not (path / FACTS_FILE).exists():
            raise ModelError(f"{folder}: is no ONNX export (no {FACTS_FILE}); `nearer export onnx` writes one.")
        check_folder(path, "export it anew")
        facts = read_json(path / FACTS_FILE, OnnxFacts, format=FORMAT, error=ModelError, mend="export it anew")
        self.settings = facts.settings
        self.inputs = facts.inputs
        self.padding_id, self.dimension = facts.padding_id, facts.dimension
        self.prompt_tokens = facts.prompt_tokens
        self.precision = facts.precision
        self.equal_lengths = facts.equal_lengths
        self.head = "in the graph" if facts.head else None
        self.name = str(folder)
        self.cut_counter = CutCounter()
        self.tokenizer = load_tokenizer(path)
        if not (path / GRAPH_FILE).exists():
            raise ModelError(f"{path / GRAPH_FILE}: is missing; export it anew, or name a whole copy of the folder.")
        options: Any = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()  # which heeds what the user says of threads
        options.log_severity_level = 3
        try:
            self.session: Any = runtime.InferenceSession(str(path / GRAPH_FILE), options, providers=list(providers))
        except Exception as error:  # onnxruntime's errors have no common ancestor
            raise ModelError(f"{path / GRAPH_FILE}: onnxruntime cannot load it ({first_line(error)}).") from None
        if not self._fits():
            raise ModelError(f"{path}: {GRAPH_FILE} is not the graph that {FACTS_FILE} speaks of; export it anew.")

    def encode(
        self,
        sentences: str | Iterable[str],
        *,
        batch_tokens: int | None = None,
        batch_size: int | None = None,
        normalize: bool | None = None,
        progress: bool = False,
        prompt_name: str | None = None,
    ) -> Vectors:
        """Vectors of sentences, float32: (dimension,) for one string, (sentences, dimension) for several.

        The options are those of `Encoder.encode`; a graph that gives vectors of length 1 can give no others.
        """
        if isinstance(sentences, str):
            one: Vectors = self.encode([sentences], normalize=normalize, prompt_name=prompt_name)[0]
            return one
        if normalize is False and self.settings.normalize:
            raise SettingError(f"normalize: the graph of {self.name} gives vectors of length 1 only.")
        check_batches(batch_tokens, batch_size)
        texts = listed(sentences, "sentences")
        check_sentences(texts)
        unique, inverse = once_each(texts)
        tokens = self._tokens(unique, prompt_name)
        order = longest_first(tokens.lengths)
        vectors = np.empty((len(unique), self.dimension), dtype=np.float32)
        done = 0
        with progress_bar("encoding", len(unique), "sentences", shown=progress) as advance:
            batches = cut(
                tokens.lengths[order], batch_tokens or TOKENS_ON_CPU, batch_size, equal_lengths=self.equal_lengths
            )
            for count in batches:
                rows = order[done : done + count]
                vectors[rows] = self._run(tokens, rows)
                done += count
                advance(count)
        found: Vectors = vectors if inverse is None else vectors[inverse]
        return unit_rows(found) if normalize else found

    def _fits(self) -> bool:
        """Whether the graph has the inputs and the width that were noted of it."""
        widths = {found.name: found.shape[-1] for found in self.session.get_outputs()}
        width = widths.get(OUTPUT)  # a name where the graph leaves it open
        inputs = {found.name for found in self.session.get_inputs()}
        return inputs == set(self.inputs) and (width == self.dimension or isinstance(width, str))

    def _tokens(self, sentences: Sequence[str], prompt_name: str | None) -> Tokenised:
        prompt = self.settings.prompt(prompt_name)
        normalise = normalisation(self.settings.text_normalisation)
        texts = [prompt + normalise(sentence) for sentence in sentences]
        left_out = self.prompt_tokens.get(prompt_name or self.settings.default_prompt or "", 0)
        longest = self.settings.max_length
        tokens = tokenise_and_count(self.tokenizer, texts, longest, self.cut_counter, OF_THIS_PROCESS)
        return Tokenised.of(tokens, left_out)

    @property
    def cut_texts(self) -> CutTexts:
        """How many texts it encoded so far, and of how many it left out the end."""
        return self.cut_counter.found(self.settings.max_length)

    def _run(self, tokens: Tokenised, rows: NDArray[np.int64]) -> Vectors:
        lengths, starts = tokens.lengths[rows], tokens.starts[rows]
        columns = np.arange(max(1, lengths.max()))
        mask = columns < lengths[:, None]  # (batch, length)
        ids = np.full(mask.shape, self.padding_id, dtype=np.int64)
        ids[mask] = tokens.ids[(starts[:, None] + columns)[mask]]
        given = {
            "input_ids": ids,
            "attention_mask": mask.astype(np.int64),
            "token_type_ids": np.zeros_like(ids),
            "pooled_mask": (mask & (columns >= tokens.prompt_length)).astype(np.int64),
        }
        [vectors] = self.session.run([OUTPUT], {name: given[name] for name in self.inputs})
        found: Vectors = vectors
        return found
