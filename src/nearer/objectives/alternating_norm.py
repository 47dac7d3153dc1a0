"""The alternative normalisation contrastive loss of DebCSE: each side's batch-normalised vectors against the other's
plain ones, with mined negatives beside those of the batch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from nearer.errors import InputError
from nearer.objectives.similarity import at_least_float32, similarities

EPSILON = 1e-5  # of batch normalisation, as torch has it


def alternating_norm(
    anchors: Tensor,
    positives: Tensor,
    negatives: Tensor | None = None,
    *,
    temperature: float = 0.05,
    normalise: bool = True,
    as_printed: bool = False,
) -> Tensor:
    """The mean over i of  L(z_i, h_i⁺) + L(z_i⁺, h_i)  (DebCSE, Eq. 7), each term a debiased InfoNCE (Eq. 8, 9):

        L(z_i, h_i⁺) = − log  e(z_i, h_i⁺) / [ e(z_i, h_i⁺) + Σ_k e(z_i, z_ik⁻) + Σ_{j ≠ i} e(z_i, z_j⁺) ]

    with e(a, b) = exp(cos(a, b)/τ). h are the vectors as given, z those of the same tower in batch normalisation.
    The batch's other sentences are taken from the opposite tower, as in InfoNCE: the paper's z_j leaves that open. All
    mined negatives are one tower.

    Args:
        anchors: The vectors h_i.
        positives: The vectors h_i⁺.
        negatives: Row i has the vectors that were mined for anchor i, which count for it alone; None: none were.
        temperature: τ.
        normalise: Without it z is h, and the loss is InfoNCE in both directions with mined negatives (Table 3, "w/o
            Alternative Norm").
        as_printed: The positive is missing from the denominator, as in the paper's equations.

    Shapes:
        anchors, positives: (batch, dimension), with a batch of 2 at least. negatives: (batch, mined, dimension). The
        loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import alternating_norm
        >>> anchors, others = torch.eye(4), torch.eye(4).roll(1, 0)
        >>> bool(alternating_norm(anchors, anchors) < alternating_norm(anchors, others))
        True
    """
    _check(anchors, positives, negatives)
    anchors, positives = at_least_float32(anchors), at_least_float32(positives)
    if negatives is None:
        negatives = anchors.new_empty(len(anchors), 0, anchors.shape[1])
    negatives = at_least_float32(negatives)
    z_anchors, z_positives, z_negatives = anchors, positives, negatives
    if normalise:
        z_anchors, z_positives = batch_norm(anchors), batch_norm(positives)
        if negatives.shape[1]:
            z_negatives = batch_norm(negatives.flatten(0, 1)).view_as(negatives)
    terms = [
        _debiased(z_anchors, positives, z_positives, z_negatives, temperature, as_printed),  # Eq. 8
        _debiased(z_positives, anchors, z_anchors, z_negatives, temperature, as_printed),  # Eq. 9
    ]
    return terms[0] + terms[1]


def batch_norm(vectors: Tensor) -> Tensor:
    """(rows, dimension) with mean 0 and variance 1 in each dimension; 0 where all rows agree. Nothing is learnt."""
    centred = vectors - vectors.mean(dim=0)
    return centred * torch.rsqrt(centred.square().mean(dim=0) + EPSILON)


def _debiased(
    queries: Tensor, targets: Tensor, others: Tensor, negatives: Tensor, temperature: float, as_printed: bool
) -> Tensor:
    """Each query predicts its target, against its own mined negatives and the other rows' `others`."""
    unit = normalize(queries, dim=-1)
    own = (unit * normalize(targets, dim=-1)).sum(dim=-1, keepdim=True) / temperature  # (batch, 1)
    beside = similarities(queries, others) / temperature  # (batch, batch)
    mined = torch.einsum("bd,bmd->bm", unit, normalize(negatives, dim=-1)) / temperature  # (batch, m)
    # the diagonal is the query's own partner in z, which Eq. 8 has not: the positive stands there instead
    diagonal = torch.eye(len(beside), dtype=torch.bool, device=beside.device)
    beside = torch.where(diagonal, beside.new_full((), -torch.inf) if as_printed else own, beside)
    return (torch.logsumexp(torch.cat([beside, mined], dim=1), dim=1) - own.squeeze(1)).mean()


def _check(anchors: Tensor, positives: Tensor, negatives: Tensor | None) -> None:
    """Shapes, and on the CPU values: on a GPU a look at them would make the CPU wait."""
    if anchors.dim() != 2 or len(anchors) < 2:
        raise InputError(
            f"anchors: a batch of 2 at least is needed, of which a variance can be taken; {tuple(anchors.shape)} given."
        )
    if positives.shape != anchors.shape:
        shapes = f"{tuple(anchors.shape)} and {tuple(positives.shape)}"
        raise InputError(f"positives: must have the shape of anchors; {shapes} given.")
    if negatives is not None and (negatives.dim() != 3 or negatives.shape[::2] != anchors.shape):
        wanted = f"({len(anchors)}, m, {anchors.shape[1]})"
        raise InputError(f"negatives: {wanted} expected, {tuple(negatives.shape)} given.")
    for name, tensor in (("anchors", anchors), ("positives", positives), ("negatives", negatives)):
        if tensor is not None and tensor.device.type == "cpu" and not bool(torch.isfinite(tensor.detach()).all()):
            raise InputError(f"{name}: holds values that are not finite numbers.")
