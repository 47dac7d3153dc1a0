"""The auxiliary masked language modelling loss (SimCSE, Appendix A)."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cross_entropy

from nearer.objectives.similarity import at_least_float32

NOTHING = -100  # the target where there is nothing to predict


def masked_language(logits: Tensor, targets: Tensor) -> Tensor:
    """The summed cross-entropy of the masked tokens: logits (masked, vocabulary), targets (masked,).

    A sum, not a mean: only the caller knows how many tokens are masked in the whole batch, over all processes.
    """
    return cross_entropy(at_least_float32(logits), targets, reduction="sum", ignore_index=NOTHING)
