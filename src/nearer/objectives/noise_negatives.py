"""DCLR's parts beside InfoNCE: noise that becomes harder negatives, and the loss that its released code computes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy, normalize

from nearer.objectives.info_nce import info_nce
from nearer.objectives.similarity import similarities


def harder_noise(
    anchors: Tensor,
    positives: Tensor,
    noise: Tensor,
    *,
    temperature: float = 0.05,
    steps: int = 4,
    size: float = 1e-3,
) -> Tensor:
    """Noise vectors moved so that the contrast becomes harder (DCLR): n ← n + size · g/‖g‖, so many times.

    g is the gradient of InfoNCE with the noise as more negatives. What comes out has no gradient, nor do the vectors.

    Args:
        anchors: The vectors h_i.
        positives: The vectors h_i⁺.
        noise: Vectors drawn at random.
        temperature: τ of InfoNCE.
        steps: How often noise is moved; 0 leaves it as it is.
        size: How far it is moved each time.

    Shapes:
        anchors, positives: (batch, dimension); noise: (count, dimension), and so is the result.

    Examples:
        >>> import torch
        >>> from nearer.objectives import harder_noise
        >>> anchor, noise = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
        >>> [round(value, 2) for value in harder_noise(anchor, anchor, noise, steps=1, size=0.5)[0].tolist()]
        [0.5, 1.0]
    """
    anchors, positives = anchors.detach(), positives.detach()
    all_real = torch.ones(len(noise), dtype=torch.bool, device=noise.device)
    for _ in range(steps):
        with torch.enable_grad():
            moved = noise.detach().requires_grad_()
            loss = info_nce(anchors, positives, temperature=temperature, more_negatives=(moved, all_real))
            (gradient,) = torch.autograd.grad(loss, moved)
        noise = noise + size * normalize(gradient, dim=-1)  # 0 where there is no gradient
    return noise.detach()


def noise_cross_entropy(
    anchors: Tensor, positives: Tensor, noise: Tensor, excluded: Tensor, *, temperature: float = 0.05
) -> Tensor:
    """The mean over all entries of  − [y log p + (1 − y) log(1 − p)],  p = softmax(w · S)  (DCLR's released code).

    S are the similarities with positives and noise, y is 1 for an anchor's own positive. w is 0 where a positive is
    excluded: it is not taken out of the sum, but stays there with e^0.

    Args:
        anchors: The vectors h_i.
        positives: The vectors h_i⁺.
        noise: More negatives.
        excluded: Which positives of others count as false negatives.
        temperature: τ.

    Shapes:
        anchors, positives: (batch, dimension); noise: (count, dimension); excluded: (batch, batch) of booleans. The
        loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import noise_cross_entropy
        >>> none = torch.zeros(2, 2, dtype=torch.bool)
        >>> round(noise_cross_entropy(torch.eye(2), torch.eye(2), torch.zeros(0, 2), none, temperature=1.0).item(), 4)
        0.3133
    """
    own = torch.eye(len(anchors), dtype=torch.bool, device=anchors.device)
    logits = similarities(anchors, positives).masked_fill(excluded & ~own, 0.0)
    logits = torch.cat([logits, similarities(anchors, noise)], dim=1) / temperature  # (batch, batch + count)
    wanted = torch.cat([own, own.new_zeros(len(own), len(noise))], dim=1).to(logits.dtype)
    return binary_cross_entropy(logits.softmax(dim=1), wanted)
