"""A masked language model that stays as it is and puts tokens into sentences (DiffCSE; views with replaced words)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from nearer.encoder import Encoder
from nearer.encoder.fingerprint import encoder_fingerprint
from nearer.encoder.language_head import LanguageHead, language_head
from nearer.errors import ModelError
from nearer.methods.contract import Tokens

BLOCK = 128  # tokens of the vocabulary


class Generator(nn.Module):
    """States of tokens, and from these the scores of all tokens of the vocabulary."""

    def __init__(self, network: Encoder, head: LanguageHead, fingerprint: str) -> None:
        super().__init__()
        self.network = network
        self.head = head
        self.fingerprint = fingerprint
        self.requires_grad_(False)

    def states(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.network.states(ids, mask)

    def forward(self, states: Tensor) -> Tensor:
        """Logits (tokens, vocabulary)."""
        table = self.network.backbone.get_input_embeddings()  # type: ignore[operator]
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
    made = Generator(loaded, head, encoder_fingerprint(loaded)).to(encoder.device)
    made.eval()
    return made


@torch.no_grad()
def drawn(logits: Tensor, tokens: Tokens) -> Tensor:
    """Ids (tokens,) drawn from what a generator predicts, by the uniform numbers that came with the batch.

    Inverse transform sampling in two steps, first a block of the vocabulary and then a token of it: shares are summed
    up over the few blocks instead of over all tokens.
    """
    vocabulary = logits.shape[1]
    shares = pad(logits.float().softmax(dim=-1), (0, -vocabulary % BLOCK)).view(len(logits), -1, BLOCK)
    of_blocks = shares.sum(dim=-1)  # (tokens, blocks)
    up_to = of_blocks.cumsum(dim=-1)
    wanted = tokens.labels["uniform"][:, None] * up_to[:, -1:]
    block = (up_to < wanted).sum(dim=-1, keepdim=True).clamp(max=of_blocks.shape[1] - 1)
    left = wanted - (up_to - of_blocks).gather(1, block)
    within = shares.gather(1, block[..., None].expand(-1, -1, BLOCK)).squeeze(1).cumsum(dim=-1)  # (tokens, BLOCK)
    # rounding may leave more than the whole block: its last token with a share is meant then
    found = (within < left.minimum(within[:, -1:])).sum(dim=-1)
    return (block.squeeze(1) * BLOCK + found).clamp(max=vocabulary - 1)
