"""The contrastive loss of SimCSE."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from nearer.objectives.similarity import Similarity, similarities


def info_nce(
    anchors: Tensor,
    positives: Tensor,
    hard_negatives: Tensor | Sequence[Tensor] | None = None,
    *,
    temperature: float = 0.05,
    hard_negative_weight: float = 1.0,
    similarity: Similarity = "cosine",
    excluded: Tensor | None = None,
    more_negatives: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """The mean over i of (SimCSE, Eq. 1 and 4; with hard negatives Eq. 5 and 8)

        − log  exp(sim(h_i, h_i⁺)/τ)  /  Σ_j [ exp(sim(h_i, h_j⁺)/τ) + α^[i=j] exp(sim(h_i, h_j⁻)/τ) ]

    One direction only, anchors against positives. Row i of all tensors belongs together. What is excluded is left out
    of the sum, as if it were not in the batch. With more negatives q_m, which belong to no anchor,
    Σ_m exp(sim(h_i, q_m)/τ) is added below (ESimCSE).

    Args:
        anchors: The vectors h_i.
        positives: The vectors h_i⁺: other views of the anchors, or sentences that belong to them.
        hard_negatives: The vectors h_i⁻; None leaves them out of the sum. Of several for each anchor, a sequence.
        temperature: τ. With 1 the dot product is taken as it is (the "N/A" of Table D.1).
        hard_negative_weight: α. It counts for an anchor's own hard negative; those of other rows are plain negatives.
        similarity: sim, "cosine" or "dot".
        excluded: Which candidates are no negatives of an anchor: positives first, then hard negatives. An anchor's own
            positive stays whatever it says.
        more_negatives: The vectors q_m, such as those of earlier batches, and which of them count.

    Shapes:
        anchors, positives, (each of the) hard_negatives: (batch, dimension). excluded: (batch, candidates), with
        (1 + hard negatives of an anchor) · batch candidates. more_negatives: (count, dimension) and (count,) of
        booleans. The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import info_nce
        >>> anchors, others = torch.eye(4), torch.eye(4).roll(1, 0)
        >>> round(info_nce(anchors, anchors).item(), 4), round(info_nce(anchors, others).item(), 4)
        (0.0, 20.0)
    """
    logits = similarities(anchors, positives, similarity) / temperature  # (batch, batch)
    several = [hard_negatives] if isinstance(hard_negatives, Tensor) else hard_negatives or []
    for each in several:
        hard = similarities(anchors, each, similarity) / temperature  # (batch, batch)
        if hard_negative_weight != 1:
            own = torch.eye(len(hard), dtype=hard.dtype, device=hard.device)
            hard = hard + math.log(hard_negative_weight) * own
        logits = torch.cat([logits, hard], dim=1)  # (batch, 2 · batch) and more
    if excluded is not None:
        own = torch.eye(*logits.shape, dtype=torch.bool, device=logits.device)
        logits = logits.masked_fill(excluded & ~own, -math.inf)
    if more_negatives is not None:
        vectors, real = more_negatives
        far = similarities(anchors, vectors, similarity) / temperature  # (batch, count)
        logits = torch.cat([logits, far.masked_fill(~real, -torch.inf)], dim=1)
    return contrast(logits)


def contrast(logits: Tensor) -> Tensor:
    """The mean over i of  − log softmax(logits)_ii:  for those who have the similarities already.

    Args:
        logits: Similarities divided by the temperature; those of row i with its own positive stand on the diagonal.

    Shapes:
        logits: (batch, candidates), with at least as many candidates as rows. The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import contrast
        >>> logits = torch.tensor([[20.0, 0.0], [0.0, 20.0]])
        >>> round(contrast(logits).item(), 4)
        0.0
    """
    return cross_entropy(logits, torch.arange(len(logits), device=logits.device))
