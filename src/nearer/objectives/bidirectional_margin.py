"""The loss of SNCSE that keeps a soft negative between its anchor's positive and the other sentences."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cosine_similarity, relu

from nearer.objectives.similarity import at_least_float32


def bidirectional_margin(
    anchors: Tensor, positives: Tensor, soft_negatives: Tensor, *, smallest: float = 0.1, largest: float = 0.3
) -> Tensor:
    """The mean over i of (SNCSE, Eq. 4 and 5)

        relu(Δ_i + α) + relu(− Δ_i − β)     with  Δ_i = cos(h_i, h_i⁻) − cos(h_i, h_i⁺)

    Nothing is lost while a soft negative is by α to β less near than the positive: it should be further away than a
    sentence of the same meaning, and not as far as an unrelated one.

    Args:
        anchors: The vectors h_i.
        positives: The vectors h_i⁺, other views of the anchors.
        soft_negatives: The vectors h_i⁻: sentences of nearly the same words and another meaning, such as negations.
        smallest: α, the least difference of the two cosines that costs nothing.
        largest: β, the largest.

    Shapes:
        anchors, positives, soft_negatives: (batch, dimension). The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import bidirectional_margin
        >>> anchors, negatives = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.8, 0.6]])
        >>> round(bidirectional_margin(anchors, anchors, negatives).item(), 4)
        0.0
        >>> round(bidirectional_margin(anchors, anchors, anchors).item(), 4)
        0.1
    """
    first, second, third = (at_least_float32(each) for each in (anchors, positives, soft_negatives))
    difference = cosine_similarity(first, third) - cosine_similarity(first, second)  # (batch,)
    return (relu(difference + smallest) + relu(-difference - largest)).mean()
