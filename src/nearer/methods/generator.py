"""A masked language model that stays as it is and puts tokens into sentences (DiffCSE; views with replaced words)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.encoder.fingerprint import encoder_fingerprint
from nearer.encoder.language_head import LanguageHead, language_head
from nearer.errors import ModelError
from nearer.methods.contract import Tokens


class Generator(nn.Module):
    """States of tokens, and from these the scores of all tokens of the vocabulary."""

    def __init__(self, backbone: nn.Module, head: LanguageHead, fingerprint: str) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.fingerprint = fingerprint
        self.requires_grad_(False)

    def states(self, ids: Tensor, mask: Tensor) -> Tensor:
        states: Tensor = self.backbone(input_ids=ids, attention_mask=mask).last_hidden_state
        return states

    def forward(self, states: Tensor) -> Tensor:
        """Logits (tokens, vocabulary)."""
        table = self.backbone.get_input_embeddings()  # type: ignore[operator]
        logits: Tensor = self.head(states, table.weight.to(states.dtype))
        return logits


def load_generator(name: str, encoder: Encoder) -> Generator:
    """name: of a checkpoint with a head for masked tokens, whose tokenizer gives the ids that the encoder's gives."""
    loaded = Encoder.load(name, pooling="mean", device=encoder.device)
    if loaded.tokenizer.get_vocab() != encoder.tokenizer.get_vocab():
        raise ModelError(f"generator: {name} has another vocabulary than {encoder.name}; one with the same is needed.")
    head, remark = language_head(loaded.backbone, loaded.source)
    if remark is not None:
        raise ModelError(f"generator: {name} has no head for masked tokens that could be used; name a model with one.")
    made = Generator(loaded.backbone, head, encoder_fingerprint(loaded)).to(encoder.device)
    made.eval()
    return made


@torch.no_grad()
def drawn(logits: Tensor, tokens: Tokens) -> Tensor:
    """Ids (tokens,) drawn from what a generator predicts, by the uniform numbers that came with the batch."""
    shares = logits.float().softmax(dim=-1).cumsum(dim=-1)  # (tokens, vocabulary)
    wanted = tokens.labels["uniform"][:, None] * shares[:, -1:]
    return (shares < wanted).sum(dim=-1).clamp(max=logits.shape[1] - 1)
