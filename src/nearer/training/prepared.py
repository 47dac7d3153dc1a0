"""A method's passes as arrays of fixed kinds, ready for the device, and the plan by which they are computed.

Passes of one kind through one module go together (a *group*); a group is computed in *portions*: at once, or so many
rows at a time. The plan says all of this without a number of the batch, so batches with equal plans and shapes can
share a captured step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearer.methods.contract import Ids, Inputs, Pass

# Chosen tokens are filled up to a multiple of this, so that few counts occur
TOKEN_QUANTUM = 128
# Rows that are computed once are filled up to a multiple of this
ROW_QUANTUM = 32


class Layout(Protocol):
    """How rows of tokens stand in tensors: `encoder.padded` or `encoder.packed`.

    mixes: rows that are computed once, or have positions of their own, may stand beside others.
    """

    mixes: bool

    def arrays(
        self,
        rows: Sequence[Ids],
        *,
        pooled: Sequence[int] | None = None,
        positions: Sequence[Ids] | None = None,
        kept_features: Sequence[NDArray[np.bool_]] | None = None,
        kept_tokens: Sequence[NDArray[np.bool_]] | None = None,
    ) -> dict[str, NDArray[Any]]: ...

    def vectors(
        self, module: Any, tensors: dict[str, Tensor], rows: int, condition: Tensor | None = None
    ) -> Tensor: ...

    def states(self, module: Any, tensors: dict[str, Tensor], condition: Tensor | None = None) -> Tensor: ...

    def indices(self, rows: Sequence[NDArray[np.bool_]]) -> NDArray[np.int64]: ...

    def together(self, views: Sequence[Sequence[Ids]]) -> bool:
        """Whether the rows of several passes should be computed at once."""
        ...


class Layouts:
    """The layout of each module: the encoder's, unless the module has another one."""

    def __init__(self, usual: Layout, others: Mapping[str, Layout] | None = None) -> None:
        self.usual = usual
        self.others = dict(others or {})

    def __getitem__(self, module: str) -> Layout:
        return self.others.get(module, self.usual)


@dataclass(frozen=True)
class Portion:
    """Some rows of a group that go through its module at once.

    number: in the order of all portions, from which its dropout follows; noise: that of the portion whose dropout it
    has. start: its first row within the group. distinct: rows that are computed, where equal ones are computed once.
    """

    name: str
    number: int
    noise: int
    start: int
    rows: int
    distinct: int | None = None


@dataclass(frozen=True)
class Group:
    """Passes that are computed together: several that want vectors, or one. passes: names and rows."""

    passes: tuple[tuple[str, int], ...]
    module: str
    tokens: bool
    portions: tuple[Portion, ...]
    condition: str | None = None
    replaces: str | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What is computed, whatever the numbers. names: of all passes, as the method has them; counts: records of each
    process."""

    names: tuple[str, ...]
    groups: tuple[Group, ...]
    counts: tuple[int, ...]
    in_pieces: bool

    @cached_property
    def portions(self) -> tuple[Portion, ...]:
        return tuple(portion for group in self.groups for portion in group.portions)

    @cached_property
    def shared_noise(self) -> frozenset[int]:
        """Portions whose dropout others have as well."""
        return frozenset(portion.noise for portion in self.portions if portion.noise != portion.number)


@dataclass(frozen=True)
class Prepared:
    """One batch on the host: its plan, and tensors named `portion/tensor` (those the method gave: `given/name`)."""

    plan: Plan
    tensors: dict[str, Tensor]
    records: int

    @cached_property
    def key(self) -> tuple[Any, ...]:
        return (self.plan, *[(name, tensor.shape, tensor.dtype) for name, tensor in self.tensors.items()])


def prepare(
    inputs: Inputs,
    layouts: Layouts,
    counts: Sequence[int],
    *,
    own: int = 0,
    piece: int | None = None,
    pinned: bool = False,
) -> Prepared:
    """counts: records of each process, of which this is number `own`.

    piece: rows that go through a module at a time; None lets all passes of a group go together.
    pinned: in memory from which a GPU can fetch while the CPU goes on.
    """
    _check(inputs, counts[own])
    arrays: dict[str, NDArray[Any]] = {}
    groups: list[Group] = []
    number = 0
    for names in _grouped(inputs, layouts):
        passes = [inputs.passes[name] for name in names]
        first = passes[0]
        rows = sum(len(each.rows) for each in passes)
        portions: list[Portion] = []
        for start in range(0, rows, piece or rows):
            stop = min(rows, start + (piece or rows))
            noise = _noise_source(first, groups, len(portions), number)
            found = _portion_arrays(passes, layouts[first.module], start, stop, inputs.passes.get(first.replaces or ""))
            distinct = int(found.pop("distinct")) if "distinct" in found else None
            portions.append(Portion(f"portion{number}", number, noise, start, stop - start, distinct))
            arrays |= _named(portions[-1].name, found)
            number += 1
        groups.append(
            Group(
                tuple((name, len(inputs.passes[name].rows)) for name in names),
                first.module,
                first.wanted == "tokens",
                tuple(portions),
                first.condition,
                first.replaces,
                tuple(first.labels),
            )
        )
    arrays |= _named("given", dict(inputs.given))
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    if pinned:
        tensors = {name: tensor.pin_memory() for name, tensor in tensors.items()}
    plan = Plan(tuple(inputs.passes), tuple(groups), tuple(counts), piece is not None)
    return Prepared(plan, tensors, counts[own])


def tensors_of(name: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of one portion, without its name."""
    prefix = f"{name}/"
    return {key.removeprefix(prefix): tensor for key, tensor in tensors.items() if key.startswith(prefix)}


def _check(inputs: Inputs, records: int) -> None:
    """What a method's author may have got wrong."""
    before: dict[str, Pass] = {}
    for name, this in inputs.passes.items():
        if not len(this.rows) or len(this.rows) % records:
            raise ValueError(f"pass {name!r}: has {len(this.rows)} rows for {records} records; k for each are needed")
        for link in ("noise_of", "condition", "replaces"):
            other = getattr(this, link)
            if other is None:
                continue
            if other not in before:
                raise ValueError(f"pass {name!r}: {link} names {other!r}, which is no earlier pass")
            if len(before[other].rows) != len(this.rows):
                raise ValueError(f"pass {name!r}: {link} names {other!r}, which has another number of rows")
        if this.condition is not None and before[this.condition].wanted != "vectors":
            raise ValueError(f"pass {name!r}: condition names {this.condition!r}, which gives no vectors")
        if this.replaces is not None and before[this.replaces].wanted != "tokens":
            raise ValueError(f"pass {name!r}: replaces names {this.replaces!r}, which gives no tokens")
        if (this.chosen is not None or this.labels) and this.wanted != "tokens":
            raise ValueError(f"pass {name!r}: has chosen tokens or labels, but wants vectors")
        cut = this.kept_features is not None or this.kept_tokens is not None
        if cut and (this.wanted != "vectors" or this.once):
            raise ValueError(f"pass {name!r}: embeddings are cut of rows that want vectors, each computed for itself")
        if this.once and (this.wanted != "vectors" or this.noise_of or this.condition or this.replaces):
            raise ValueError(f"pass {name!r}: rows that are computed once want vectors, and depend on no other pass")
        before[name] = this


def _grouped(inputs: Inputs, layouts: Layouts) -> Iterator[list[str]]:
    """The names of the passes that are computed together.

    All that want vectors of one module in the same way; each by itself where passes share dropout, depend on each
    other, or are of unequal lengths, as titles and texts are.
    """
    sources = {this.noise_of for this in inputs.passes.values()}
    done: set[str] = set()
    for name, this in inputs.passes.items():
        if name in done:
            continue
        alike = [name]
        if _can_group(this) and name not in sources:
            alike = [
                other
                for other, that in inputs.passes.items()
                if other not in done
                and other not in sources
                and _can_group(that)
                and _way(that, layouts) == _way(this, layouts)
            ]
        if len(alike) > 1 and not layouts[this.module].together([inputs.passes[other].rows for other in alike]):
            yield from ([other] for other in alike)
        else:
            yield alike
        done |= set(alike)


def _can_group(this: Pass) -> bool:
    return this.wanted == "vectors" and this.noise_of is None and this.condition is None and this.replaces is None


def _way(this: Pass, layouts: Layouts) -> tuple[str | bool, ...]:
    """What passes that are computed together have in common."""
    cut = this.kept_features is not None or this.kept_tokens is not None
    alike = (this.module, this.pooled is None, this.kept_features is None, this.kept_tokens is None)
    # what is cut is computed row by row
    return alike if layouts[this.module].mixes and not cut else (*alike, this.once, this.positions is None)


def _noise_source(this: Pass, groups: Sequence[Group], portion: int, number: int) -> int:
    if this.noise_of is None:
        return number
    [source] = [group for group in groups if group.passes[0][0] == this.noise_of]
    return source.portions[portion].noise


def _portion_arrays(
    passes: Sequence[Pass], layout: Layout, start: int, stop: int, replaced: Pass | None
) -> dict[str, NDArray[Any]]:
    """replaced: the pass whose chosen tokens get other ids in this one."""
    first = passes[0]
    rows = [row for each in passes for row in each.rows][start:stop]
    pooled = None if first.pooled is None else [n for each in passes for n in each.pooled or ()][start:stop]
    positions = None
    if any(each.positions is not None for each in passes):
        positions = [p for each in passes for p in each.positions or map(_usual_positions, each.rows)][start:stop]
    if any(each.once for each in passes):
        once = [each.once for each in passes for _ in each.rows][start:stop]
        return _once(rows, once, pooled, positions, layout)
    features, tokens = (
        None if getattr(first, name) is None else [kept for each in passes for kept in getattr(each, name)][start:stop]
        for name in ("kept_features", "kept_tokens")
    )
    arrays = layout.arrays(rows, pooled=pooled, positions=positions, kept_features=features, kept_tokens=tokens)
    if replaced is not None:
        indices, real = _filled_indices(_marks(replaced, rows, start, stop), layout)
        arrays |= {"replaced": indices, "replaced real": real}
    if first.wanted == "tokens":
        arrays |= _chosen_arrays(first, rows, layout, start, stop)
    return arrays


def _chosen_arrays(this: Pass, rows: Sequence[Ids], layout: Layout, start: int, stop: int) -> dict[str, NDArray[Any]]:
    """Which tokens are wanted, filled up, and their labels."""
    chosen = _marks(this, rows, start, stop)
    indices, real = _filled_indices(chosen, layout)
    arrays: dict[str, NDArray[Any]] = {"chosen": indices, "real": real}
    for name, values in this.labels.items():
        of_chosen = np.concatenate([each[marks] for each, marks in zip(values[start:stop], chosen, strict=True)])
        arrays[f"label {name}"] = _filled(of_chosen, len(real))
    return arrays


def _marks(this: Pass, rows: Sequence[Ids], start: int, stop: int) -> list[NDArray[np.bool_]]:
    """Of each row which tokens are chosen."""
    return [np.ones(len(row), dtype=bool) for row in rows] if this.chosen is None else list(this.chosen[start:stop])


def _filled_indices(marks: list[NDArray[np.bool_]], layout: Layout) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The indices of the marked tokens, filled up, and which of them are real."""
    indices = layout.indices(marks)
    size = max(1, -(-len(indices) // TOKEN_QUANTUM)) * TOKEN_QUANTUM
    return _filled(indices, size), np.arange(size) < len(indices)


def _usual_positions(row: Ids) -> Ids:
    return np.arange(len(row))


def _once(
    rows: Sequence[Ids],
    once: Sequence[bool],
    pooled: Sequence[int] | None,
    positions: Sequence[Ids] | None,
    layout: Layout,
) -> dict[str, NDArray[Any]]:
    """Each distinct row, filled up, and which of them each row is (`copies`).

    once: of each row whether equal ones are computed once; others are distinct, whatever they are.
    """
    keys = [
        (row.tobytes(), b"" if positions is None else positions[n].tobytes(), 0 if pooled is None else pooled[n])
        if once[n]
        else n
        for n, row in enumerate(rows)
    ]
    number: dict[tuple[bytes, bytes, int] | int, int] = {}
    copies = np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.int64)
    first = [int(n) for n in np.unique(copies, return_index=True)[1]]
    # with one that is computed once: those are short
    first += [next((n for n in first if once[n]), first[0])] * (-len(first) % ROW_QUANTUM)
    arrays = layout.arrays(
        [rows[n] for n in first],
        pooled=None if pooled is None else [pooled[n] for n in first],
        positions=None if positions is None else [positions[n] for n in first],
    )
    return {**arrays, "copies": copies, "distinct": np.array(len(first))}


def _filled(values: NDArray[Any], size: int) -> NDArray[Any]:
    filled = np.zeros(size, dtype=values.dtype)
    filled[: len(values)] = values
    return filled


def _named(name: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {f"{name}/{key}": array for key, array in arrays.items()}
