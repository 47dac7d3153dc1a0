"""From a batch's tensors to its losses and gradients. The same code runs plainly, compiled, captured, in pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from nearer.distributed import gather_rows, gather_unequal, own_rows, rank, world_size
from nearer.methods.contract import Losses, Method, Outputs, Tokens
from nearer.training.prepared import Group, Layouts, Plan, Portion, tensors_of
from nearer.training.working_copy import WorkingCopy

Tensors = dict[str, Tensor]
Seed = Callable[[int], None]


def unseeded(number: int) -> None:
    """For a captured step, whose random numbers are seeded once for the whole of it."""


class Computation:
    """Forward and backward of one batch. `seed(n)` is called before portion n, so that it can be repeated."""

    def __init__(self, working: WorkingCopy, method: Method, layouts: Layouts) -> None:
        self.working = working
        self.method = method
        self.layouts = layouts

    def backward(self, plan: Plan, tensors: Tensors, share: float, seed: Seed) -> Losses:
        """Add `share` of the batch's gradient to that of the working weights; returns losses without graph."""
        step = _Step(self, plan, tensors, seed)
        losses = step.backward_in_pieces(share) if plan.in_pieces else step.backward_at_once(share)
        parts, kept = (
            {name: tensor.detach() for name, tensor in named.items()} for named in (losses.parts, losses.kept)
        )
        return Losses(losses.total.detach(), parts, kept)

    @torch.no_grad()
    def remember(self, losses: Losses) -> None:
        """Let the method keep what a batch left; not part of `backward`, which may be tried without a step."""
        if losses.kept:
            self.method.remember(losses.kept)
            self.working.renew_frozen()


class _Step:
    """One batch on its way. values: of each group, vectors or states (rows, size) of all its portions."""

    def __init__(self, computation: Computation, plan: Plan, tensors: Tensors, seed: Seed) -> None:
        self.working = computation.working
        self.method = computation.method
        self.layouts = computation.layouts
        self.modules = LossModules(computation.working)
        self.plan = plan
        self.tensors = {portion.name: tensors_of(portion.name, tensors) for portion in plan.portions}
        self.given = tensors_of("given", tensors)
        self.seed = seed
        self.values: list[Tensor] = []

    def backward_at_once(self, share: float) -> Losses:
        for group in self.plan.groups:
            self.values.append(self._compute_all(group))
        losses = self._loss()
        (losses.total * share).backward()  # type: ignore[no-untyped-call]
        return losses

    def backward_in_pieces(self, share: float) -> Losses:
        """Gradient caching: everything first without a graph, then the loss' gradient for it, then each portion again.

        One more forward pass, and the memory of one portion; the gradient is that of the whole batch.
        """
        for group in self.plan.groups:
            with torch.no_grad():
                value = self._compute_all(group)
            self.values.append(value.detach().requires_grad_(not self.working.is_frozen(group.module)))
        losses = self._loss()
        (losses.total * share).backward()  # type: ignore[no-untyped-call]
        # what has a condition adds to the gradient of that, so it comes before it
        conditioned = [number for number, group in enumerate(self.plan.groups) if group.condition is not None]
        others = [number for number, group in enumerate(self.plan.groups) if group.condition is None]
        for number in (*reversed(conditioned), *others):
            self._backward_again(number)
        return losses

    def _backward_again(self, number: int) -> None:
        group, gradient = self.plan.groups[number], self.values[number].grad
        if gradient is None:
            return
        start, made, of_made = 0, self._made_condition(group), []
        for portion in group.portions:
            condition = None if made is None else made[portion.start : portion.start + portion.rows]
            if condition is None:
                condition = self._condition(group, portion)
            if condition is not None:
                condition = condition.detach().requires_grad_()
            value = self._compute(group, portion, condition)
            value.backward(gradient[start : start + len(value)])  # type: ignore[no-untyped-call]
            start += len(value)
            if condition is None or condition.grad is None:
                continue
            if made is None:
                self._add_gradient(group.condition, portion, condition.grad)
            else:
                of_made.append(condition.grad)
        if made is not None and len(of_made) == len(group.portions):
            made.backward(torch.cat(of_made))  # type: ignore[no-untyped-call]

    def _compute_all(self, group: Group) -> Tensor:
        frozen = self.working.is_frozen(group.module)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not frozen):
            found, made = [], self._made_condition(group)
            for portion in group.portions:
                if group.replaces is not None:
                    self._replace_tokens(group, portion)
                own = None if made is None else made[portion.start : portion.start + portion.rows]
                found.append(self._compute(group, portion, self._condition(group, portion) if own is None else own))
        return found[0] if len(found) == 1 else torch.cat(found)

    def _compute(self, group: Group, portion: Portion, condition: Tensor | None) -> Tensor:
        self._make_noise(portion)
        module, layout = self.working.by_name(group.module), self.layouts[group.module]
        tensors = self.tensors[portion.name]
        if portion.distinct is not None:
            vectors = layout.vectors(module, tensors, portion.distinct)
            # as a product, whose gradient is summed in an order that never changes
            number = torch.arange(portion.distinct, device=vectors.device)
            return (tensors["copies"][:, None] == number).to(vectors.dtype) @ vectors
        if not group.tokens:
            return layout.vectors(module, tensors, portion.rows, condition)
        return layout.states(module, tensors, condition).index_select(0, tensors["chosen"])

    def _make_noise(self, portion: Portion) -> None:
        self.seed(portion.noise)
        noise = self.working.noise
        if noise is None:
            return
        if portion.noise == portion.number or self.seed is not unseeded:
            noise.draw(portion.number)
        else:
            noise.use(portion.noise)

    def _condition(self, group: Group, portion: Portion) -> Tensor | None:
        """The vectors of the pass that the group names, those of the portion's rows."""
        if group.condition is None:
            return None
        value, first = self._rows_of(group.condition)
        return value[first + portion.start : first + portion.start + portion.rows]

    def _made_condition(self, group: Group) -> Tensor | None:
        """What the method makes of the whole batch's vectors, those of this process' rows of the group."""
        if group.condition is None:
            return None
        name, rows = group.passes[0]
        made = self.method.condition(name, self._gathered_vectors(), self.modules)
        return None if made is None else own_rows(made, self._counts(rows))

    def _gathered_vectors(self) -> dict[str, Tensor]:
        """Of all passes that are computed, the vectors of all processes."""
        vectors: dict[str, Tensor] = {}
        for group, value in zip(self.plan.groups, self.values, strict=False):
            if group.tokens:
                continue
            rows = [count for _, count in group.passes]
            for (name, count), own in zip(group.passes, torch.split(value, rows), strict=True):
                vectors[name] = gather_rows(own, self._counts(count))
        return {name: vectors[name] for name in self.plan.names if name in vectors}

    def _add_gradient(self, name: str | None, portion: Portion, gradient: Tensor) -> None:
        assert name is not None
        value, first = self._rows_of(name)
        if not value.requires_grad:
            return
        if value.grad is None:
            value.grad = torch.zeros_like(value)
        value.grad[first + portion.start : first + portion.start + portion.rows] += gradient

    def _rows_of(self, name: str) -> tuple[Tensor, int]:
        """The value of the group that a pass is in, and the pass' first row there."""
        for group, value in zip(self.plan.groups, self.values, strict=False):
            first = 0
            for other, rows in group.passes:
                if other == name:
                    return value, first
                first += rows
        raise KeyError(name)

    @torch.no_grad()
    def _replace_tokens(self, group: Group, portion: Portion) -> None:
        """New ids instead of the chosen ones, from what came out of the same rows of an earlier pass."""
        number, source = next(
            (number, each) for number, each in enumerate(self.plan.groups) if each.passes[0][0] == group.replaces
        )
        [earlier] = [each for each in source.portions if each.start == portion.start]
        sizes = [len(self.tensors[each.name]["chosen"]) for each in source.portions]
        start = sum(sizes[: source.portions.index(earlier)])
        states = self.values[number][start : start + len(self.tensors[earlier.name]["chosen"])]
        tokens = self._tokens(states.detach(), source, [earlier])
        ids = self.method.replace(group.passes[0][0], tokens, self.modules)
        self.tensors[portion.name] = replace_ids(self.tensors[portion.name], ids)

    def _tokens(self, states: Tensor, group: Group, portions: Sequence[Portion]) -> Tokens:
        def joined(name: str) -> Tensor:
            found = [self.tensors[portion.name][name] for portion in portions]
            return found[0] if len(found) == 1 else torch.cat(found)

        ids = [chosen_ids(self.tensors[portion.name]) for portion in portions]
        labels = {name: joined(f"label {name}") for name in group.labels}
        return Tokens(states, ids[0] if len(ids) == 1 else torch.cat(ids), joined("real"), labels)

    def _loss(self) -> Losses:
        tokens: dict[str, Tokens] = {}
        for group, value in zip(self.plan.groups, self.values, strict=True):
            if group.tokens:
                tokens[group.passes[0][0]] = _gathered(self._tokens(value, group, group.portions))
        return self.method.loss(Outputs(self._gathered_vectors(), tokens), self.given, self.modules)

    def _counts(self, rows: int) -> list[int]:
        """Rows of each process in a pass that has so many here."""
        of_each = rows // self.plan.counts[rank()]
        return [of_each * count for count in self.plan.counts]


class LossModules:
    """A method's modules for its loss, which every process computes for the whole batch.

    Gradients of all processes are summed, and all of them get the same one here: each contributes its share.
    """

    def __init__(self, working: WorkingCopy) -> None:
        self.working = working

    def __getitem__(self, name: str) -> Callable[..., Any]:
        module = self.working.modules[name]
        if world_size() == 1:
            return module
        parameters = {each: _shared(parameter) for each, parameter in module.named_parameters()}
        return lambda *given, **named: functional_call(module, parameters, given, named)

    @property
    def word_embeddings(self) -> Tensor:
        words = self.working.words
        return words if world_size() == 1 else _shared(words)


def _shared(parameter: Tensor) -> Tensor:
    shared: Tensor = _Share.apply(parameter, 1 / world_size())  # type: ignore[no-untyped-call]
    return shared


class _Share(torch.autograd.Function):
    """The same tensor, with a part of its gradient."""

    @staticmethod
    def forward(context: Any, parameter: Tensor, part: float) -> Tensor:
        context.part = part
        return parameter.view_as(parameter)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] * context.part, None


def _gathered(tokens: Tokens) -> Tokens:
    """Those of all processes."""
    if world_size() == 1:
        return tokens
    labels = {name: gather_unequal(values) for name, values in tokens.labels.items()}
    return Tokens(gather_unequal(tokens.states), gather_unequal(tokens.ids), gather_unequal(tokens.real), labels)


def _ids_by_name(tensors: Tensors) -> dict[str, Tensor]:
    """The ids of a portion: one tensor, or those of each of its rectangles."""
    return {name: tensor for name, tensor in tensors.items() if name.removeprefix("ids").isdigit() or name == "ids"}


def chosen_ids(tensors: Tensors) -> Tensor:
    flat = torch.cat([ids.flatten() for ids in _ids_by_name(tensors).values()])
    return flat.index_select(0, tensors["chosen"])


def replace_ids(tensors: Tensors, new: Tensor) -> Tensors:
    """The same tensors with other ids for the tokens that are to be replaced."""
    named = _ids_by_name(tensors)
    flat = torch.cat([*[ids.flatten() for ids in named.values()], tensors["replaced"].new_zeros(1)])
    # what only fills up is written behind all ids
    where = tensors["replaced"].where(tensors["replaced real"], len(flat) - 1)
    flat = flat.scatter(0, where, new.to(flat.dtype))
    parts = torch.split(flat[:-1], [ids.numel() for ids in named.values()])
    replaced = {name: part.view_as(ids) for (name, ids), part in zip(named.items(), parts, strict=True)}
    return {**tensors, **replaced}
