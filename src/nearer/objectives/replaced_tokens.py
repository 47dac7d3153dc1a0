"""The loss of DiffCSE on tokens: which of them did a generator replace?"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cross_entropy

from nearer.objectives.similarity import at_least_float32


def replaced_tokens(logits: Tensor, replaced: Tensor, real: Tensor) -> Tensor:
    """The mean cross-entropy over all real tokens of "replaced, or not" (DiffCSE, Eq. 4 and 5).

    Args:
        logits: The discriminator's scores of "kept" and "replaced" for each token.
        replaced: Which tokens were replaced.
        real: Which entries are tokens at all; the others only fill up.

    Shapes:
        logits: (tokens, 2). replaced, real: (tokens,). The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import replaced_tokens
        >>> logits, replaced = torch.tensor([[50.0, 0.0], [0.0, 50.0]]), torch.tensor([False, True])
        >>> replaced_tokens(logits, replaced, torch.tensor([True, True])).item()
        0.0
    """
    each = cross_entropy(at_least_float32(logits), replaced.long(), reduction="none")
    return each.where(real, 0.0).sum() / real.sum().clamp(min=1)
