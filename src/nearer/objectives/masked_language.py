"""The auxiliary masked language modelling loss (SimCSE, Appendix A)."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cross_entropy

from nearer.objectives.similarity import at_least_float32

NOTHING = -100  # the target where there is nothing to predict


def masked_language(logits: Tensor, targets: Tensor) -> Tensor:
    """The summed cross-entropy of the masked tokens.

    A sum, not a mean: only the caller knows how many tokens are masked in the whole batch, over all processes.

    Args:
        logits: What the language model's head gives for each masked token.
        targets: The ids of the tokens that were masked; −100 where there is nothing to predict.

    Shapes:
        logits: (masked, vocabulary). targets: (masked,). The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import masked_language
        >>> logits = 100 * torch.eye(5)[[2, 4]]
        >>> masked_language(logits, torch.tensor([2, 4])).item()
        0.0
    """
    return cross_entropy(at_least_float32(logits), targets, reduction="sum", ignore_index=NOTHING)
