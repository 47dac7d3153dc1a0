"""SBERT's losses on pairs that people labelled: a class of each pair, or a score of each."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy, mse_loss

from nearer.objectives.similarity import at_least_float32


def pair_classes(logits: Tensor, classes: Tensor) -> Tensor:
    """The mean cross-entropy of pairs' classes, o = softmax(W (u, v, |u − v|)) (SBERT, §3).

    Args:
        logits: What a classifier says of each pair.
        classes: The number of each pair's class.

    Shapes:
        logits: (pairs, classes). classes: (pairs,). The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import pair_classes
        >>> pair_classes(100 * torch.eye(3), torch.tensor([0, 1, 2])).item()
        0.0
    """
    return cross_entropy(at_least_float32(logits), classes)


def cosine_regression(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
    """The mean squared difference between cosines and scores (SBERT, §3, regression objective).

    Args:
        first: Vectors of the pairs' first sentences.
        second: Those of their second ones.
        scores: What the cosines should be, so at most 1.

    Shapes:
        first, second: (pairs, dimension). scores: (pairs,). The loss is a scalar.

    Examples:
        >>> import torch
        >>> from nearer.objectives import cosine_regression
        >>> cosine_regression(torch.eye(2), torch.ones(2, 2), torch.tensor([0.5 ** 0.5, 0.5 ** 0.5 + 1])).item()
        0.5
    """
    cosines = cosine_similarity(at_least_float32(first), at_least_float32(second), dim=-1)
    return mse_loss(cosines, scores.to(cosines.dtype))
