"""From a batch's tensors to its losses and gradients. The same code runs plainly, compiled, captured, in pieces."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from nearer.distributed import gather_rows, total
from nearer.methods.contract import Losses, Method
from nearer.training.prepared import Layout, Pass, Plan, tensors_of
from nearer.training.working_copy import WorkingCopy

Tensors = dict[str, Tensor]
Seed = Callable[[int], None]


def unseeded(number: int) -> None:
    """For a captured step, whose random numbers are seeded once for the whole of it."""


class Computation:
    """Forward and backward of one batch. `seed(n)` is called before pass n, so that a pass can be repeated."""

    def __init__(self, working: WorkingCopy, method: Method, layout: Layout) -> None:
        self.working = working
        self.method = method
        self.layout = layout

    def backward(self, plan: Plan, tensors: Tensors, share: float, seed: Seed) -> Losses:
        """Add `share` of the batch's gradient to that of the working weights; returns losses without graph."""
        contrast = self._in_pieces if plan.in_pieces else self._at_once
        losses = contrast(plan, tensors, share, seed)
        if not plan.masked:
            return losses
        masked = self._masked(plan, tensors, share, seed)
        return Losses(losses.total + plan.masked_weight * masked, {**losses.parts, "mlm": masked})

    def _at_once(self, plan: Plan, tensors: Tensors, share: float, seed: Seed) -> Losses:
        vectors = [self._vectors(plan, number, tensors, seed) for number in range(len(plan.passes))]
        losses = self._loss(plan, vectors, tensors)
        (losses.total * share).backward()  # type: ignore[no-untyped-call]
        return _detached(losses)

    def _in_pieces(self, plan: Plan, tensors: Tensors, share: float, seed: Seed) -> Losses:
        """Gradient caching: vectors first, then the loss' gradient for them, then each piece again with its share.

        One more forward pass, and the memory of one piece; the gradient is that of the whole batch.
        """
        with torch.no_grad():
            vectors = [self._vectors(plan, number, tensors, seed) for number in range(len(plan.passes))]
        leaves = [rows.detach().requires_grad_() for rows in vectors]
        losses = self._loss(plan, leaves, tensors)
        gradients = torch.autograd.grad(losses.total * share, leaves)
        for number, gradient in enumerate(gradients):
            self._vectors(plan, number, tensors, seed).backward(gradient)  # type: ignore[no-untyped-call]
        return _detached(losses)

    def _vectors(self, plan: Plan, number: int, tensors: Tensors, seed: Seed) -> Tensor:
        this = plan.passes[number]
        self._make_noise(0 if plan.same_noise else number, seed, again=not (plan.same_noise and number))
        return self.layout.vectors(self.working.by_name(this.encoder), tensors_of(this.name, tensors), this.rows)

    def _make_noise(self, number: int, seed: Seed, *, again: bool = True) -> None:
        seed(number)
        if self.working.noise is not None and (again or seed is not unseeded):
            self.working.noise.draw()

    def _loss(self, plan: Plan, vectors: list[Tensor], tensors: Tensors) -> Losses:
        views = [gather_rows(rows, plan.counts) for rows in _views(plan, vectors)]
        return self.method.loss(views, tensors_of("given", tensors))

    def _masked(self, plan: Plan, tensors: Tensors, share: float, seed: Seed) -> Tensor:
        """The masked language loss over the whole batch, with the gradient of this process' rows."""
        count = total(tensors["masked/count"]).clamp(min=1)
        summed = torch.zeros((), device=count.device)
        for number, this in enumerate(plan.masked):
            self._make_noise(len(plan.passes) + number, seed)
            loss = self._token_loss(this, tensors_of(this.name, tensors))
            (loss * (share * plan.masked_weight) / count).backward()  # type: ignore[no-untyped-call]
            summed += loss.detach()
        return total(summed) / count

    def _token_loss(self, this: Pass, tensors: Tensors) -> Tensor:
        states = self.layout.states(self.working.by_name(this.encoder), tensors)
        chosen = states.index_select(0, tensors["places"])
        return self.method.token_loss(self.working.modules, self.working.words, chosen, tensors["targets"])


def _views(plan: Plan, vectors: list[Tensor]) -> list[Tensor]:
    """The rows of each view, from the rows of each pass."""
    split = {}
    for encoder in dict.fromkeys(name for name, _ in plan.views):
        rows = [part for part, this in zip(vectors, plan.passes, strict=True) if this.encoder == encoder]
        counts = [count for name, count in plan.views if name == encoder]
        split[encoder] = iter(torch.split(torch.cat(rows) if len(rows) > 1 else rows[0], counts))
    return [next(split[encoder]) for encoder, _ in plan.views]


def _detached(losses: Losses) -> Losses:
    return Losses(losses.total.detach(), {name: part.detach() for name, part in losses.parts.items()})
