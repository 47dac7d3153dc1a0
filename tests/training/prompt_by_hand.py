"""PromptBERT, SNCSE, DiffCSE and ranking in two templates as plain loops: a sentence at a time, no padding, float32.

Each function gives the loss of one batch, from the backbone and modules that it is given.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nearer.methods.prompt_views import PromptViews
from nearer.objectives import list_net, rank_regression, ranking_consistency
from nearer.training.trainer import Trainer


def batch_sentences(trainer: Trainer, number: int) -> list[list[int]]:
    """The tokens of the batch's sentences, without the encoder's template or [CLS] and [SEP]."""
    template = trainer.encoder.settings.template
    before, after = (1, 1) if template is None else (len(template.before), len(template.after))
    return [row[before : len(row) - after].tolist() for row in trainer.feed.batch(number).fields[0]]


def contrast(first: list[Tensor], second: list[Tensor], temperature: float) -> Tensor:
    losses = []
    for i, one in enumerate(first):
        near = torch.stack([torch.dot(one, other) / one.norm() / other.norm() for other in second]) / temperature
        losses.append(-(near[i].exp() / near.exp().sum()).log())
    return torch.stack(losses).mean()


def mask_state(backbone: nn.Module, ids: list[int], mask: int, positions: list[int] | None = None) -> Tensor:
    given: dict[str, Any] = {} if positions is None else {"position_ids": torch.tensor([positions])}
    states = backbone(input_ids=torch.tensor([ids]), **given).last_hidden_state[0]
    return states[len(ids) - 1 - ids[::-1].index(mask)]


def promptbert(trainer: Trainer, model: nn.ModuleDict, number: int, *, denoising: bool) -> Tensor:
    method: Any = trainer.method
    return contrast(
        *in_two_templates(trainer, model, number, method.views, denoising=denoising), method.settings.temperature
    )


def in_two_templates(
    trainer: Trainer, model: nn.ModuleDict, number: int, views: PromptViews, *, denoising: bool = False
) -> list[list[Tensor]]:
    backbone: Any = model["encoder"].backbone
    mask = trainer.encoder.tokenizer.mask_token_id
    sides: list[list[Tensor]] = []
    for template in (views.first, views.second):
        before, after = list(template.before), list(template.after)
        found = []
        for sentence in batch_sentences(trainer, number):
            vector = mask_state(backbone, [*before, *sentence, *after], mask)
            if denoising:
                positions = [*range(len(before)), *(n + len(before) + len(sentence) for n in range(len(after)))]
                vector = vector - mask_state(backbone, [*before, *after], mask, positions)
            head = model["method"]["head"].linear
            found.append(torch.tanh(head.weight @ vector + head.bias))
        sides.append(found)
    return sides


def ranking(trainer: Trainer, model: nn.ModuleDict, number: int) -> Tensor:
    """RankCSE (Eq. 6) or RankEncoder (the released sum) in two templates."""
    method: Any = trainer.method
    settings = method.settings
    first, second = in_two_templates(trainer, model, number, method.views.prompts)
    scores = torch.stack([torch.stack([torch.dot(a, b) / a.norm() / b.norm() for b in second]) for a in first])
    given = {name: torch.from_numpy(rows) for name, rows in method.inputs(trainer.feed.batch(number)).given.items()}
    if method.facts.name == "rankcse":
        more = ranking_consistency(scores, temperature=settings.temperature) + list_net(
            scores, method.teachers.scores(given), student_temperature=0.025, teacher_temperature=0.0125
        )
    else:
        wanted = method.ranks.similarities(given["teacher"], given["teacher"])
        more = settings.rank_weight * rank_regression(
            scores, wanted, lower=settings.lower_threshold, upper=settings.upper
        )
    return contrast(first, second, settings.temperature) + more


def sncse(trainer: Trainer, model: nn.ModuleDict, number: int, negated: list[list[int]]) -> Tensor:
    method: Any = trainer.method
    backbone: Any = model["encoder"].backbone
    mask = trainer.encoder.tokenizer.mask_token_id
    head = model["method"]["head"].linear

    def vectors(template: Any, sentences: list[list[int]]) -> list[Tensor]:
        rows = [[*template.before, *sentence, *template.after] for sentence in sentences]
        return [torch.tanh(head.weight @ mask_state(backbone, row, mask) + head.bias) for row in rows]

    sentences = batch_sentences(trainer, number)
    first, second = vectors(method.views.first, sentences), vectors(method.views.second, sentences)
    third = vectors(method.views.second, negated)
    margins = []
    for a, p, n in zip(first, second, third, strict=True):
        cosines = [torch.dot(a, other) / a.norm() / other.norm() for other in (n, p)]
        difference = cosines[0] - cosines[1]
        margins.append((difference + 0.1).clamp(min=0) + (-difference - 0.3).clamp(min=0))
    settings = method.settings
    return contrast(first, second, settings.temperature) + settings.margin_weight * torch.stack(margins).mean()


def batch_norm(rows: Tensor) -> Tensor:
    return (rows - rows.mean(dim=0)) / (rows.var(dim=0, unbiased=False) + 1e-5).sqrt()


def diffcse(trainer: Trainer, model: nn.ModuleDict, number: int, generator: Any) -> Tensor:
    """generator: transformers' own model with its head. Random numbers are those that the method drew."""
    method: Any = trainer.method
    parts: Any = model["method"]
    drawn = method.inputs(trainer.feed.batch(number)).passes["guesses"]
    rows = [row.tolist() for row in trainer.feed.batch(number).fields[0] for _ in range(2)]
    raw = torch.stack(
        [model["encoder"].backbone(input_ids=torch.tensor([row])).last_hidden_state[0, 0] for row in rows]
    )
    norm = parts["projector"].first_norm
    hidden = torch.relu(batch_norm(raw @ parts["projector"].first.weight.T) * norm.weight + norm.bias)
    projected = batch_norm(hidden @ parts["projector"].second.weight.T)
    losses = []
    for n, row in enumerate(rows):
        with torch.no_grad():
            shares = generator(input_ids=torch.tensor(drawn.rows[n])[None]).logits[0].softmax(dim=-1)
        edited = list(row)
        for token in drawn.chosen[n].nonzero()[0]:
            if method.settings.replacement == "argmax":
                edited[token] = int(shares[token].argmax())
                continue
            total, wanted = 0.0, float(drawn.labels["uniform"][n][token])
            for id, share in enumerate(shares[token].double().tolist()):
                total += share
                if total >= wanted:
                    edited[token] = id
                    break
        backbone = parts["discriminator"].network.backbone
        embedded = backbone.embeddings(input_ids=torch.tensor([edited]))
        embedded = torch.cat([projected[n][None, None], embedded[:, 1:]], dim=1)
        states = backbone.encoder(embedded).last_hidden_state[0]
        scores = parts["discriminator"].score(states)
        for token, (id, right) in enumerate(zip(edited, row, strict=True)):
            losses.append(-scores[token].softmax(dim=-1)[int(id != right)].log())
    first, second = list(projected[0::2]), list(projected[1::2])
    detection = method.settings.detection_weight * torch.stack(losses).mean()
    return contrast(first, second, method.settings.temperature) + detection
