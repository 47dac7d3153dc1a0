"""The training loop of the papers' released code, written plainly: what most results so far were computed with.

As in SimCSE's code: tokenised beforehand, padded by the tokenizer to the longest of the batch, both views through
the model as one batch of twice the size, eager attention, cosines of all pairs by broadcasting, fp16 autocast with a
scaled loss on a GPU, linear decay, the loss read at every step. Clipping and AdamW go through the weights one by one,
as torch 1.7 and the AdamW of transformers 4.2.1 do, which that code is pinned to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader

from nearer.encoder.backbone import quiet

TEMPERATURE = 0.05
LEARNING_RATE = 3e-5
CLIP = 1.0
# the schedule's length; speed does not depend on it
SCHEDULE = 100_000


class PapersLoop:
    """One step of the loop at a time."""

    def __init__(
        self,
        folder: Path,
        sentences: Sequence[str],
        *,
        batch_size: int,
        max_length: int,
        device: torch.device,
        learning_rate: float = LEARNING_RATE,
    ) -> None:
        from transformers import AutoTokenizer, get_linear_schedule_with_warmup

        self.device = device
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        ids = self.tokenizer(list(sentences), truncation=True, max_length=max_length)["input_ids"]
        self.loader: DataLoader[Any] = DataLoader(
            ids, batch_size=batch_size, shuffle=True, drop_last=True, collate_fn=self._collate
        )
        self.batches = self._endless()
        self.backbone = _backbone(folder).to(device).train()
        width = self.backbone.config.hidden_size
        self.head = nn.Linear(width, width).to(device)
        self.parameters = [*self.backbone.parameters(), *self.head.parameters()]
        self.optimiser = torch.optim.AdamW(self.parameters, lr=learning_rate, weight_decay=0.0, foreach=False)
        self.schedule = get_linear_schedule_with_warmup(self.optimiser, 0, SCHEDULE)  # type: ignore[no-untyped-call]
        self.scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
        self.last_loss = float("nan")

    def advance(self) -> None:
        batch = {name: tensor.to(self.device) for name, tensor in next(self.batches).items()}
        with torch.autocast(self.device.type, dtype=torch.float16, enabled=self.device.type == "cuda"):
            loss = self.loss(batch)
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self.scaler.unscale_(self.optimiser)
        nn.utils.clip_grad_norm_(self.parameters, CLIP, foreach=False)
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.schedule.step()
        self.optimiser.zero_grad()
        self.last_loss = loss.item()

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def close(self) -> None:
        self.__dict__.clear()

    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        states = self.backbone(**batch).last_hidden_state[:, 0]  # (2 · batch, width)
        first, second = torch.tanh(self.head(states)).view(-1, 2, states.shape[-1]).unbind(1)
        cosines = F.cosine_similarity(first.unsqueeze(1), second.unsqueeze(0), dim=-1)  # (batch, batch)
        return F.cross_entropy(cosines / TEMPERATURE, torch.arange(len(cosines), device=self.device))

    def _collate(self, rows: list[list[int]]) -> dict[str, Tensor]:
        """Each sentence twice in succession, padded."""
        twice = [{"input_ids": row} for row in rows for _ in range(2)]
        padded = self.tokenizer.pad(twice, padding="longest", return_tensors="pt")
        return {name: padded[name] for name in ("input_ids", "attention_mask")}

    def _endless(self) -> Iterator[dict[str, Tensor]]:
        while True:
            yield from self.loader


def _backbone(folder: Path) -> Any:
    from transformers import AutoModel

    options: dict[str, Any] = {"dtype": torch.float32, "attn_implementation": "eager"}
    with quiet():
        try:
            return AutoModel.from_pretrained(folder, add_pooling_layer=False, **options)
        except TypeError:  # an architecture without a pooling layer of its own
            return AutoModel.from_pretrained(folder, **options)
