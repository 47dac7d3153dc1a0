"""PCL's losses over groups of positives: their contrast, and how two networks agree on it."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from nearer.objectives.similarity import similarities

Variant = Literal["paper", "released"]


def group_logits(anchors: Tensor, positives: Tensor, others: Tensor, *, temperature: float = 0.05) -> Tensor:
    """For each i  [ sim(a_i, p_i^k)/τ for its positives k  |  sim(a_i, o_j)/τ for all j ≠ i ]  (PCL).

    Args:
        anchors: The vectors a_i.
        positives: The vectors p_i^k: other views of the same sentences.
        others: The vectors o_j, whose sentences are negatives of all others.
        temperature: τ.

    Shapes:
        anchors, others: (batch, dimension); positives: (batch, views, dimension). The result is of shape
        (batch, views + batch − 1).

    Examples:
        >>> import torch
        >>> from nearer.objectives.peer_contrast import group_logits
        >>> group_logits(torch.eye(2), torch.eye(2)[:, None], torch.eye(2), temperature=1.0).tolist()
        [[1.0, 0.0], [1.0, 0.0]]
    """
    near = similarities(anchors[:, None], positives)[:, 0]  # (batch, views)
    pairs = similarities(anchors, others)  # (batch, batch)
    batch = len(pairs)
    # without its diagonal: from the second entry on, each run of batch + 1 ends with one of the diagonal
    far = pairs.flatten()[1:].view(batch - 1, batch + 1)[:, :-1].reshape(batch, batch - 1)
    return torch.cat([near, far], dim=1) / temperature


def group_contrast(logits: Tensor, positives: int, *, variant: Variant = "paper") -> Tensor:
    """The mean over i and its positives k of  − log softmax(r_i)_k.

    released: the element-wise cross-entropy of a sigmoid of the softmax, as PCL's code has it.

    Args:
        logits: r_i of `group_logits`.
        positives: How many of the first columns are positives.
        variant: Which of the two.

    Shapes:
        logits: (batch, candidates). The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives.peer_contrast import group_contrast
        >>> round(group_contrast(torch.zeros(1, 4), 2).item(), 4)  # log 4
        1.3863
    """
    if variant == "paper":
        return -logits.log_softmax(dim=1)[:, :positives].mean()
    wanted = torch.zeros_like(logits)
    wanted[:, :positives] = 1
    return binary_cross_entropy_with_logits(logits.softmax(dim=1), wanted)


def agreement(target: Tensor, logits: Tensor, *, variant: Variant = "paper") -> Tensor:
    """The mean over i of  KL( softmax(target_i) ‖ softmax(logits_i) ).  Both get a gradient.

    released: the mean over all entries, which is so many times smaller as there are candidates.

    Args:
        target: Logits of the distribution that is to be met.
        logits: Those of the one that meets it.
        variant: Which mean.

    Shapes:
        target, logits: (batch, candidates). The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives.peer_contrast import agreement
        >>> agreement(torch.zeros(2, 3), torch.ones(2, 3)).item()
        0.0
    """
    wanted, found = target.log_softmax(dim=1), logits.log_softmax(dim=1)
    each = wanted.exp() * (wanted - found)  # (batch, candidates)
    return each.sum(dim=1).mean() if variant == "paper" else each.mean()
