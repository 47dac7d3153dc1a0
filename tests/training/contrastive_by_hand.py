"""Relatives of SimCSE as plain loops from the papers: one sentence at a time, nothing padded, float32.

Each function gives the loss of one batch. Rows are those that the method drew; what is made of them is not its code.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from nearer.training.trainer import Trainer


def rows_of(trainer: Trainer, number: int, name: str) -> list[Any]:
    return list(trainer.method.inputs(trainer.feed.batch(number)).passes[name].rows)


def cls_vector(encoder: Any, ids: Any) -> Tensor:
    """[CLS] through the head of training."""
    state = encoder.backbone(input_ids=torch.tensor(ids.tolist())[None]).last_hidden_state[0, 0]
    return torch.tanh(encoder.head.linear.weight @ state + encoder.head.linear.bias)


def cosine(one: Tensor, other: Tensor) -> Tensor:
    return torch.dot(one, other) / one.norm() / other.norm()


class MomentumQueueByHand:
    """ESimCSE's queue as a list, and its encoder as a copy whose weights are moved one by one."""

    def __init__(self, model: nn.ModuleDict, size: int, momentum: float) -> None:
        self.encoder = copy.deepcopy(model["encoder"])
        self.size, self.momentum = size, momentum
        self.vectors: list[Tensor] = []

    @torch.no_grad()
    def push(self, model: Any, rows: list[Any]) -> None:
        self.vectors = [*(cls_vector(self.encoder, ids) for ids in rows), *self.vectors][: self.size]
        for own, other in zip(self.encoder.parameters(), model["encoder"].parameters(), strict=True):
            own.copy_(self.momentum * own + (1 - self.momentum) * other)


def contrast(anchors: list[Tensor], positives: list[Tensor], more: list[Tensor], temperature: float) -> Tensor:
    losses = []
    for i, anchor in enumerate(anchors):
        near = torch.stack([cosine(anchor, other) for other in (*positives, *more)]) / temperature
        losses.append(-(near[i].exp() / near.exp().sum()).log())
    return torch.stack(losses).mean()


def esimcse(trainer: Trainer, model: Any, number: int, queue: MomentumQueueByHand) -> Tensor:
    anchors, positives = rows_of(trainer, number, "anchors"), rows_of(trainer, number, "positives")
    first, second = ([cls_vector(model["encoder"], ids) for ids in rows] for rows in (anchors, positives))
    loss = contrast(first, second, queue.vectors, 0.05)
    queue.push(model, anchors)
    return loss


def arccse(trainer: Trainer, model: Any, number: int) -> Tensor:
    settings: Any = trainer.method.settings
    vectors = {
        name: [cls_vector(model["encoder"], ids) for ids in rows_of(trainer, number, name)]
        for name in ("anchors", "positives", "less", "more")
    }
    losses, orders = [], []
    for i, anchor in enumerate(vectors["anchors"]):
        near = [cosine(anchor, other) for other in vectors["positives"]]
        margin = torch.tensor(settings.angular_margin).deg2rad()
        # without dropout both views are one: an angle of 0, whose sine has no gradient
        near[i] = near[i] * margin.cos() - (1 - near[i] ** 2).clamp(min=1e-6).sqrt() * margin.sin()
        terms = (torch.stack(near) / 0.05).exp()
        losses.append(-(terms[i] / terms.sum()).log())
        if len(rows_of(trainer, number, "anchors")[i]) >= settings.shortest_masked:
            difference = cosine(anchor, vectors["more"][i]) - cosine(anchor, vectors["less"][i])
            orders.append((difference + settings.order_margin).clamp(min=0))
    return torch.stack(losses).mean() + settings.order_weight * torch.stack(orders).mean()


def changed_views(trainer: Trainer, model: Any, number: int) -> list[list[Tensor]]:
    """Two views of each sentence. Embeddings by hand: words, positions and kinds summed, normalised, then cut."""
    passes = trainer.method.inputs(trainer.feed.batch(number)).passes
    encoder = model["encoder"]
    table = encoder.backbone.embeddings
    views: list[list[Tensor]] = []
    for each in (passes["first"], passes["second"]):
        found = []
        for i, row in enumerate(each.rows):
            ids = torch.tensor(row.tolist())
            positions = torch.arange(len(ids)) if each.positions is None else torch.tensor(each.positions[i].tolist())
            summed = table.word_embeddings.weight[ids] + table.position_embeddings.weight[positions]
            states = table.LayerNorm(summed + table.token_type_embeddings.weight[0])
            if each.kept_features is not None:
                states = states * torch.tensor(each.kept_features[i]).float()
            if each.kept_tokens is not None:
                states = states * torch.tensor(each.kept_tokens[i]).float()[:, None]
            states = states[None]
            for block in encoder.backbone.encoder.layer:
                states = block(states)
                states = states[0] if isinstance(states, tuple) else states
            found.append(torch.tanh(encoder.head.linear.weight @ states[0, 0] + encoder.head.linear.bias))
        views.append(found)
    return views


def consert(trainer: Trainer, model: Any, number: int) -> Tensor:
    views = changed_views(trainer, model, number)
    losses = []
    for own, other in (views, views[::-1]):
        for i, vector in enumerate(own):
            near = (cosine(vector, other[i]) / 0.1).exp()
            far = [(cosine(vector, each[j]) / 0.1).exp() for each in views for j in range(len(own)) if j != i]
            losses.append(-(near / (near + torch.stack(far).sum())).log())
    return torch.stack(losses).mean()


def contrast_of_changed_views(trainer: Trainer, model: Any, number: int) -> Tensor:
    """In one direction, from the first views to the second, at SimCSE's temperature."""
    first, second = changed_views(trainer, model, number)
    losses = []
    for i, anchor in enumerate(first):
        near = torch.stack([cosine(anchor, other) / 0.05 for other in second]).exp()
        losses.append(-(near[i] / near.sum()).log())
    return torch.stack(losses).mean()


def dclr(trainer: Trainer, model: Any, number: int, known: Tensor) -> Tensor:
    """Without steps of the noise, which have a test of their own. known: the other model's vectors of the batch."""
    inputs = trainer.method.inputs(trainer.feed.batch(number))
    found = [cls_vector(model["encoder"], ids) for ids in inputs.passes["anchors"].rows]
    noise = list(torch.from_numpy(inputs.given["noise"]))
    losses = []
    for i, anchor in enumerate(found):
        near = [
            other
            for j, other in enumerate(found)
            if j == i or cosine(known[i], known[j]) <= trainer.method.settings.false_negative
        ]
        terms = torch.stack([(cosine(anchor, other) / 0.05).exp() for other in (*near, *noise)])
        losses.append(-((cosine(anchor, anchor) / 0.05).exp() / terms.sum()).log())
    return torch.stack(losses).mean()


def pcl(trainer: Trainer, model: Any, number: int) -> Tensor:
    rows, count = rows_of(trainer, number, "views"), 2 + len(trainer.method.settings.edits)
    networks = []
    for encoder in (model["encoder"], model["method"]["peer"]):
        flat = [cls_vector(encoder, ids) for ids in rows]
        networks.append([flat[start : start + count] for start in range(0, len(flat), count)])

    def shares(anchors: list[list[Tensor]], others: list[list[Tensor]], i: int) -> Tensor:
        near = [cosine(anchors[i][0], other) for other in others[i][1:]]
        near += [cosine(anchors[i][0], others[j][0]) for j in range(len(others)) if j != i]
        return (torch.stack(near) / 0.05).softmax(dim=0)

    def divergence(wanted: Tensor, found: Tensor) -> Tensor:
        return (wanted * (wanted / found).log()).sum()

    first, second = networks
    total = contrast([views[0] for views in first], [views[1] for views in first], [], 0.05)
    total = total + contrast([views[0] for views in second], [views[1] for views in second], [], 0.05)
    for i in range(len(first)):
        terms = [-shares(each, each, i)[: count - 1].log().mean() for each in networks]
        terms.append(divergence(shares(second, second, i), shares(first, first, i)))
        terms.append(divergence(shares(second, first, i), shares(first, second, i)))
        total = total + torch.stack(terms).sum() / len(first)
    return total
