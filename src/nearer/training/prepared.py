"""A method's inputs as arrays of fixed kinds, ready for the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearer.encoder import Encoder
from nearer.methods.contract import Ids, Inputs, MaskedTokens
from nearer.objectives.masked_language import NOTHING

# Masked tokens are filled up to a multiple of this, so that few counts occur
MASKED_QUANTUM = 128


class Layout(Protocol):
    """How rows of tokens stand in tensors: `encoder.padded` or `encoder.packed`."""

    def arrays(self, rows: Sequence[Ids]) -> dict[str, NDArray[Any]]: ...

    def vectors(self, encoder: Encoder, tensors: dict[str, Tensor], rows: int) -> Tensor: ...

    def states(self, encoder: Encoder, tensors: dict[str, Tensor]) -> Tensor: ...

    def places(self, rows: Sequence[NDArray[np.bool_]]) -> NDArray[np.int64]: ...

    def together(self, views: Sequence[Sequence[Ids]]) -> bool:
        """Whether the rows of several views should pass in one piece."""
        ...


@dataclass(frozen=True)
class Pass:
    """Some rows that go through an encoder together."""

    name: str
    encoder: str
    rows: int


@dataclass(frozen=True)
class Plan:
    """What is computed, whatever the numbers: batches with equal plans and shapes can share a captured step."""

    views: tuple[tuple[str, int], ...]  # encoder and rows of each view
    passes: tuple[Pass, ...]
    masked: tuple[Pass, ...]
    masked_weight: float
    counts: tuple[int, ...]  # rows of each process
    same_noise: bool
    in_pieces: bool


@dataclass(frozen=True)
class Prepared:
    """One batch on the host: its plan, and tensors named `pass/tensor` (those the method gave: `given/name`)."""

    plan: Plan
    tensors: dict[str, Tensor]
    records: int

    @cached_property
    def key(self) -> tuple[Any, ...]:
        return (self.plan, *[(name, tensor.shape, tensor.dtype) for name, tensor in self.tensors.items()])


def prepare(
    inputs: Inputs, layout: Layout, counts: Sequence[int], *, piece: int | None = None, pinned: bool = False
) -> Prepared:
    """piece: rows that pass an encoder at a time; None lets all views of an encoder pass together.

    pinned: in memory from which a GPU can fetch while the CPU goes on.
    """
    arrays: dict[str, NDArray[Any]] = {}
    passes: list[Pass] = []
    for encoder, rows in _grouped(inputs, layout):
        for part in _pieces(rows, piece):
            passes.append(Pass(f"pass{len(passes)}", encoder, len(part)))
            arrays |= _named(passes[-1].name, layout.arrays(part))
    masked: list[Pass] = []
    if inputs.masked is not None:
        for some in _masked_pieces(inputs.masked, piece):
            masked.append(Pass(f"masked{len(masked)}", "encoder", len(some.rows)))
            arrays |= _named(masked[-1].name, {**layout.arrays(some.rows), **_targets(some, layout)})
        arrays["masked/count"] = np.array(sum(int(row.sum()) for row in inputs.masked.chosen), dtype=np.float32)
    arrays |= _named("given", dict(inputs.given))
    plan = Plan(
        views=tuple((view.encoder, len(view.rows)) for view in inputs.views),
        passes=tuple(passes),
        masked=tuple(masked),
        masked_weight=inputs.masked.weight if inputs.masked else 0.0,
        counts=tuple(counts),
        same_noise=inputs.same_noise,
        in_pieces=piece is not None,
    )
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    if pinned:
        tensors = {name: tensor.pin_memory() for name, tensor in tensors.items()}
    return Prepared(plan, tensors, len(inputs.views[0].rows))


def tensors_of(name: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of one pass, without its name."""
    prefix = f"{name}/"
    return {key.removeprefix(prefix): tensor for key, tensor in tensors.items() if key.startswith(prefix)}


def _grouped(inputs: Inputs, layout: Layout) -> Iterator[tuple[str, Sequence[Ids]]]:
    """The rows that pass together: all views of an encoder, or each view for itself.

    The latter under the same noise, and where views are of unequal lengths, as titles and texts are.
    """
    if inputs.same_noise:
        yield from ((view.encoder, view.rows) for view in inputs.views)
        return
    for encoder in dict.fromkeys(view.encoder for view in inputs.views):
        views = [view.rows for view in inputs.views if view.encoder == encoder]
        if layout.together(views):
            yield encoder, [row for rows in views for row in rows]
        else:
            yield from ((encoder, rows) for rows in views)


def _pieces(rows: Sequence[Ids], size: int | None) -> list[Sequence[Ids]]:
    if size is None:
        return [rows]
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _masked_pieces(masked: MaskedTokens, size: int | None) -> list[MaskedTokens]:
    size = size or len(masked.rows)
    spans = [slice(start, start + size) for start in range(0, len(masked.rows), size)]
    return [MaskedTokens(masked.rows[span], masked.chosen[span], masked.targets[span], masked.weight) for span in spans]


def _targets(masked: MaskedTokens, layout: Layout) -> dict[str, NDArray[np.int64]]:
    places = layout.places(masked.chosen)
    targets = np.concatenate([ids[chosen] for ids, chosen in zip(masked.targets, masked.chosen, strict=True)])
    size = max(1, -(-len(places) // MASKED_QUANTUM)) * MASKED_QUANTUM
    filled = np.zeros(size, dtype=np.int64), np.full(size, NOTHING, dtype=np.int64)
    filled[0][: len(places)], filled[1][: len(places)] = places, targets
    return {"places": filled[0], "targets": filled[1]}


def _named(name: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {f"{name}/{key}": array for key, array in arrays.items()}
