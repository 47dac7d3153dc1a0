"""ArcCSE's losses: the contrast with an angular margin, and the order of a sentence's masked copies."""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn.functional import cosine_similarity

from nearer.objectives.info_nce import contrast
from nearer.objectives.similarity import at_least_float32, similarities

# Below, sin²θ is rounding alone, and the root's gradient has no bounds
SMALLEST = 1e-6


def with_angular_margin(cosines: Tensor, margin: float) -> Tensor:
    """The same cosines, but cos(θ_ii + m) on the diagonal: for any loss that takes similarities.

    Args:
        cosines: cos θ_ij of anchors i and positives j.
        margin: m, in radians.

    Shapes:
        cosines: (batch, candidates), the positives first. So is the result.

    Examples:
        >>> import math, torch
        >>> from nearer.objectives.angular_margin import with_angular_margin
        >>> found = with_angular_margin(torch.tensor([[0.5, 0.1], [0.2, 0.0]]), math.pi / 6)
        >>> [[round(value, 4) for value in row] for row in found.tolist()]
        [[0.0, 0.1], [0.2, -0.5]]
    """
    own = cosines.diagonal()
    sines = (1 - own**2).clamp(min=SMALLEST).sqrt()
    moved = own * math.cos(margin) - sines * math.sin(margin)
    return cosines.diagonal_scatter(moved)


def arc_con(anchors: Tensor, positives: Tensor, *, temperature: float = 0.05, margin: float = math.pi / 18) -> Tensor:
    """The mean over i of (ArcCSE, its pairwise loss)

        − log  exp(cos(θ_ii + m)/τ)  /  [ exp(cos(θ_ii + m)/τ) + Σ_{j≠i} exp(cos θ_ij/τ) ]

    with θ_ij the angle of h_i and h_j⁺.

    Args:
        anchors: The vectors h_i.
        positives: The vectors h_i⁺.
        temperature: τ.
        margin: m, in radians; 0 gives InfoNCE.

    Shapes:
        anchors, positives: (batch, dimension). The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import arc_con, info_nce
        >>> vectors = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
        >>> bool(arc_con(vectors, vectors.flip(1)) > info_nce(vectors, vectors.flip(1)))
        True
    """
    return contrast(with_angular_margin(similarities(anchors, positives), margin) / temperature)


def masked_order(sentences: Tensor, less: Tensor, more: Tensor, counted: Tensor, *, margin: float = 0.0) -> Tensor:
    """The mean over the counted i of (ArcCSE, its triple-wise loss)  max(0, cos(h_i, h_i″) − cos(h_i, h_i′) + m).

    Args:
        sentences: The vectors h_i.
        less: The vectors h_i′ of the same sentences with some tokens masked.
        more: The vectors h_i″ with these and further ones masked.
        counted: Which sentences count; the loss is 0 if none does.
        margin: m.

    Shapes:
        sentences, less, more: (batch, dimension); counted: (batch,) of booleans. The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import masked_order
        >>> one, other = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
        >>> masked_order(one, other, one, torch.tensor([True])).item()
        1.0
    """
    sentences, less, more = (at_least_float32(each) for each in (sentences, less, more))
    near, far = cosine_similarity(sentences, less, dim=-1), cosine_similarity(sentences, more, dim=-1)  # (batch,)
    each = (far - near + margin).clamp(min=0)
    return each.where(counted, 0.0).sum() / counted.sum().clamp(min=1)
