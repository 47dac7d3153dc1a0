"""What a method is to the loop: passes of rows through modules, and one loss over everything that comes out.

How passes are computed (padded or packed, compiled, captured, in pieces, on several processes) is none of a method's
business. A method is a class with `facts`, `Settings`, `inputs` and `loss`; CONTRIBUTING.md adds one step by step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.methods.facts import MethodFacts
from nearer.teachers.teacher import Teachers
from nearer.text.batches import Topics
from nearer.text.reading import Reading

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """One process' part of a batch.

    fields: the token ids of its records, by field (a sentence has one, a pair two, a triplet three) and row;
    records: the numbers of the whole batch's records in the corpus; random: draws for this step and process alone;
    common_random: draws for this step that are the same in all processes. first: which of the whole batch's records is
    this process' first. lengths: the tokens of the whole batch's records, of the first text of each.
    """

    fields: Sequence[Sequence[Ids]]
    records: NDArray[np.int64]
    random: np.random.Generator
    common_random: np.random.Generator
    first: int = 0
    lengths: NDArray[np.int64] | None = None

    @property
    def own_records(self) -> NDArray[np.int64]:
        """The numbers of this process' records."""
        return self.records[self.first : self.first + len(self.fields[0])]


@dataclass(frozen=True)
class Pass:
    """Rows of token ids that go through a module, and what is wanted of them.

    rows: one for each record of the batch, or k for each, those of a record one after the other.
    module: "encoder", or the name of one of the method's own (`Method.modules`), trained or frozen.
    wanted: a vector of each row, or the states of its tokens.
    pooled: of each row the index of the token whose state becomes the vector; None: the model's own pooling.
    positions: of each row the position of each token, counted from 0; None: 0, 1, 2 and so on.
    kept_features: of each row which features of its embedded tokens are kept (width,); the others are 0.
    kept_tokens: of each row which tokens' embeddings are kept (tokens,); those of the others are 0.
    noise_of: an earlier pass with as many rows, whose dropout masks this pass has too.
    condition: an earlier pass with as many rows, whose vectors, or what `Method.condition` makes of them, the module
        gets beside the rows.
    once: equal rows with equal positions are computed once, under one dropout mask; for rows that repeat, such as
        templates without a sentence.
    replaces: an earlier pass of tokens. `Method.replace` makes new ids of what came out of it, which replace the ids of
        the tokens that are chosen there.
    chosen: of each row which tokens are wanted, if tokens are; None: all.
    labels: by name, an array for each row with one value for each token. The loss gets those of the chosen tokens.
    """

    rows: Sequence[Ids]
    module: str = "encoder"
    wanted: Literal["vectors", "tokens"] = "vectors"
    pooled: Sequence[int] | None = None
    positions: Sequence[Ids] | None = None
    kept_features: Sequence[NDArray[np.bool_]] | None = None
    kept_tokens: Sequence[NDArray[np.bool_]] | None = None
    noise_of: str | None = None
    condition: str | None = None
    replaces: str | None = None
    once: bool = False
    chosen: Sequence[NDArray[np.bool_]] | None = None
    labels: Mapping[str, Sequence[NDArray[Any]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Inputs:
    """What a step computes on.

    passes: by the names under which the loss finds what came out, in the order in which they are computed.
    given: arrays of the whole batch (not of this process' part alone) that the loss needs besides, such as the
        teachers' rows.
    """

    passes: Mapping[str, Pass]
    given: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Tokens:
    """The chosen tokens of a pass, one after the other, filled up so that few counts occur.

    states: (tokens, width); ids: (tokens,) as they passed; labels: by name, (tokens,); real: (tokens,), false where
    there is only filling.
    """

    states: Tensor
    ids: Tensor
    real: Tensor
    labels: Mapping[str, Tensor]


@dataclass(frozen=True)
class Outputs:
    """What came out of all passes of the whole batch: vectors (rows, dimension) and tokens, by the passes' names."""

    vectors: Mapping[str, Tensor]
    tokens: Mapping[str, Tokens]


class Modules(Protocol):
    """The method's modules as they compute in this step."""

    def __getitem__(self, name: str) -> Callable[..., Tensor]: ...

    @property
    def word_embeddings(self) -> Tensor:
        """Those of the encoder's backbone (vocabulary, size)."""


@dataclass(frozen=True)
class RecordForm:
    """How the records' own texts become tokens. setting: the name of what cuts them, for messages."""

    max_length: int
    prompt: str = ""
    setting: str = "max_length"


@dataclass(frozen=True)
class Losses:
    """The loss to follow, the named parts it is made of for the log, and what `Method.remember` is to keep."""

    total: Tensor
    parts: dict[str, Tensor] = field(default_factory=dict)
    kept: dict[str, Tensor] = field(default_factory=dict)


class Saveable(Protocol):
    """What a run ends with: an encoder, or something around one."""

    def save(self, folder: str | Path) -> None: ...


class Method(ABC):
    """A method's settings become an object of this kind; the loop knows nothing else of it.

    facts: everything that is known of the method, for recipes, reports, model cards and documents.
    Settings: what a recipe can set beside the loop's settings. draws_rows: passes have rows that are not the records'
    own, such as passages that a step draws. seen: which records the run's steps will see; None: all. The loop sets it
    before `prepare`, for batches that are drawn at random: a method that has topics cannot go by it.
    """

    facts: ClassVar[MethodFacts]
    Settings: ClassVar[type[BaseModel]]
    draws_rows: ClassVar[bool] = False
    seen: NDArray[np.bool_] | None = None
    settings: Any

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    def relies_on_dropout(self, data: str) -> bool:
        """Whether two views of a record differ by dropout alone. data: what the recipe's records are."""
        return False

    def record_form(self, encoder: Encoder, reading: Reading[Any], max_length: int) -> RecordForm:
        """max_length: the loop's, which no row of any pass may exceed."""
        return RecordForm(max_length)

    def prepare(
        self,
        encoder: Encoder,
        reading: Reading[Any],
        *,
        max_length: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        """Make ready what the method needs besides the encoder; returns remarks for the user.

        reading: the training text, whose record n is the batches' record n. max_length: tokens at which the encoder's
        training sentences are cut; None: where it cuts them at inference.
        """
        return []

    def followed_teachers(self) -> Teachers | None:
        """Those whose order of sentences the encoder is to come near to; None: there are none.

        Held-out sentences are then asked about in their order, which tells what the method learns. Asked before
        `prepare`.
        """
        return None

    def topics(self) -> Topics | None:
        """By which records that are alike stand in a batch together; None: all are drawn at random. Asked after
        `prepare`."""
        return None

    def modules(self) -> nn.ModuleDict:
        """What is checkpointed besides the encoder, and trained where its parameters require a gradient.

        A module that passes go through has `forward(ids, mask)` for vectors (rows, dimension), or `states(ids, mask)`
        for tokens (rows, tokens, width), and takes `condition`, `positions`, `pooled`, `kept_features` and
        `kept_tokens` by these names where a pass has them. One without a parameter that is trained is frozen: it stays
        in evaluation mode. A module that computes token states with an encoder of its own has it as `network`: on a GPU
        its tokens are then packed as the encoder's are. If it takes a condition, `conditioned(condition, first)` is a
        context in which the vectors stand where they belong; first: the index of each row's first token.
        """
        return nn.ModuleDict()

    @abstractmethod
    def inputs(self, batch: Batch) -> Inputs:
        """On the host, in a thread of its own, ahead of the step: no tensors here.

        Everything random of a step is drawn here from the batch's generators, also what a sample inside the step needs
        (as labels), so that every way of taking the step gets the same numbers.
        """

    def condition(self, name: str, vectors: Mapping[str, Tensor], modules: Modules) -> Tensor | None:
        """The condition of pass `name` for the whole batch, from all rows of the passes before it.

        None: the vectors of the pass that it names, as they are. For what sees all rows at once, such as a batch norm.
        """
        return None

    def replace(self, name: str, tokens: Tokens, modules: Modules) -> Tensor:
        """The ids (tokens,) that replace those of the chosen tokens in pass `name`, from the tokens of an earlier one.

        Without gradient, and a function of its arguments alone.
        """
        raise NotImplementedError(f"{type(self).__name__}: pass {name} replaces tokens, so it needs `replace`")

    @abstractmethod
    def loss(self, outputs: Outputs, given: Mapping[str, Tensor], modules: Modules) -> Losses:
        """From what came out of all passes. Tensors alone: it is replayed without Python.

        Modules are called through `modules`, which takes care that several processes count their gradient once.
        """

    def remember(self, kept: Mapping[str, Tensor]) -> None:
        """Change what is not trained, in place: a queue of earlier vectors, an encoder that follows the trained one.

        Once for each batch whose loss has something `kept`, after its gradient and before the weights change. It may
        change buffers and frozen weights of `modules()` alone, by tensors alone: it is replayed without Python. All
        processes are given the same.
        """
        raise NotImplementedError(f"{type(self).__name__}: its loss keeps something, so it needs `remember`")

    def identity(self) -> dict[str, str]:
        """By name, digests of what the method learns from besides the corpus: a run goes on only with the same."""
        return {}

    def finished(self, encoder: Encoder, *, progress: bool = False) -> Saveable:
        """What is saved at the end of a run: the trained encoder, or what is used for inference around it."""
        return encoder

    def describe(self) -> dict[str, Any]:
        """What a saved model should say about how it was trained."""
        return {"method": self.facts.name, **self.settings.model_dump()}
