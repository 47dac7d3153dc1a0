"""Losses for pairs with scores, by their order alone: a pair with a higher score should be nearer (CoSENT, AnglE)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from nearer.objectives.similarity import at_least_float32


def cosent(first: Tensor, second: Tensor, scores: Tensor, *, temperature: float = 0.05) -> Tensor:
    """log( 1 + Σ exp((cos_k − cos_i)/τ) ), the sum over all pairs i, k of the batch with score_i > score_k (CoSENT).

    Args:
        first: The vectors of the pairs' first sentences.
        second: Those of their second sentences.
        scores: How similar people found the two, in any unit: only the order counts.
        temperature: τ.

    Shapes:
        first, second: (batch, dimension). scores: (batch,). The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import cosent
        >>> first, second = torch.eye(2), torch.tensor([[1.0, 0.0], [1.0, 0.0]])
        >>> round(cosent(first, second, torch.tensor([5.0, 1.0])).item(), 4)
        0.0
        >>> round(cosent(first, second, torch.tensor([1.0, 5.0])).item(), 4)
        20.0
    """
    near = cosine_similarity(at_least_float32(first), at_least_float32(second))  # (batch,)
    return ordered(near / temperature, scores)


def angle(first: Tensor, second: Tensor, scores: Tensor, *, temperature: float = 0.05) -> Tensor:
    """As `cosent`, with the angle between two vectors in the complex plane in place of the cosine (AnglE).

    The halves of a vector are the real and the imaginary parts of one with half as many numbers. The two vectors are
    divided as complex numbers, made of length 1; real and imaginary parts of the quotient are summed, and their size
    says how near the two are. Where a cosine saturates, this still has a gradient.

    Args:
        first: The vectors of the pairs' first sentences.
        second: Those of their second sentences.
        scores: How similar people found the two, in any unit: only the order counts.
        temperature: τ.

    Shapes:
        first, second: (batch, dimension), an even dimension. scores: (batch,). The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import angle
        >>> first, second = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[1.0, 0.0], [1.0, 1.0]])
        >>> round(angle(first, second, torch.tensor([5.0, 1.0])).item(), 4)
        0.0
    """
    one_real, one_imaginary = at_least_float32(first).chunk(2, dim=-1)
    other_real, other_imaginary = at_least_float32(second).chunk(2, dim=-1)
    one_length = (one_real**2 + one_imaginary**2).sum(dim=-1).sqrt()
    other_length = (other_real**2 + other_imaginary**2).sum(dim=-1).sqrt()
    real = (one_real * other_real + one_imaginary * other_imaginary).sum(dim=-1)
    imaginary = (one_imaginary * other_real - one_real * other_imaginary).sum(dim=-1)
    lengths = (one_length * other_length).clamp(min=1e-8)
    return ordered(((real + imaginary) / lengths).abs() / temperature, scores)


def ordered(near: Tensor, scores: Tensor) -> Tensor:
    """log( 1 + Σ exp(near_k − near_i) ), the sum over all i, k with score_i > score_k.

    Args:
        near: How near the two sentences of each pair are, divided by the temperature.
        scores: How similar people found them.

    Shapes:
        near, scores: (batch,). The loss is a scalar.
    """
    differences = near[:, None] - near[None, :]  # (batch, batch): [k, i]
    wrong = scores[:, None] < scores[None, :]
    exponents = differences.masked_fill(~wrong, float("-inf")).flatten()
    return torch.logsumexp(torch.cat([exponents.new_zeros(1), exponents]), dim=0)
