"""Unit vectors on a plane: t-SNE (van der Maaten and Hinton, 2008) with exact gradients, begun from PCA.

Our own, because a few thousand points need nothing but matrix products, and no package has to be installed for a map.
No step is random: equal vectors give equal maps.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

PERPLEXITY = 30.0  # about how many neighbours each point keeps near
ROUNDS, EXAGGERATED_ROUNDS = 500, 150
EXAGGERATION = 12.0  # of attraction, in the first rounds: clusters find together before they settle
FEWEST = 8  # fewer points have no neighbourhoods to keep: they are shown by PCA


def plane(points: Tensor) -> tuple[Tensor, tuple[float, float]]:
    """The two directions of largest variance (PCA): coordinates (points, 2), and the share of the variance of each."""
    centred = (points - points.mean(dim=0)).double()
    values, directions = torch.linalg.eigh(centred.T @ centred)  # rising
    coordinates = centred @ directions[:, -2:].flip(1)
    # a direction's sign is arbitrary: the point farthest along it is on its positive side
    farthest = coordinates.abs().argmax(dim=0)
    signs = torch.where(coordinates[farthest, torch.arange(coordinates.shape[1])] < 0, -1.0, 1.0)
    coordinates = coordinates * signs
    if coordinates.shape[1] < 2:  # vectors of one dimension
        coordinates = torch.cat([coordinates, torch.zeros_like(coordinates)], dim=1)
    shares = values.clamp(min=0).flip(0) / values.clamp(min=0).sum().clamp(min=1e-300)
    return coordinates.float(), (float(shares[0]), float(shares[1:2].sum()))


def tsne(points: Tensor, *, rounds: int = ROUNDS, go_on: Callable[[], None] = lambda: None) -> Tensor:
    """Coordinates (points, 2) of unit vectors (points, dimension).

    go_on: called before each round, to end it by raising.
    """
    near = joint_neighbours(points)
    exaggerated = near * EXAGGERATION
    copies = _first_copies(points)
    coordinates = plane(points)[0][copies]
    coordinates = coordinates * (1e-4 / coordinates[:, 0].std().clamp(min=1e-12))
    step = max(len(points) / EXAGGERATION / 4, 50.0)
    velocity, gains = torch.zeros_like(coordinates), torch.ones_like(coordinates)
    for number in range(rounds):
        go_on()
        early = number < EXAGGERATED_ROUNDS
        # copies repel each other: the last digit of a matrix product, which differs from row to row, would part them
        slope = gradient(coordinates, exaggerated if early else near)[copies]
        # a step grows while it goes one way and shrinks where it swings (delta-bar-delta)
        swings = velocity * slope > 0
        gains = torch.where(swings, gains * 0.8, gains + 0.2).clamp(min=0.01)
        velocity = (0.5 if early else 0.8) * velocity - step * gains * slope
        coordinates = coordinates + velocity
        coordinates = coordinates - coordinates.mean(dim=0)
    return coordinates


def _first_copies(points: Tensor) -> Tensor:
    """For each point the number of the first one that is equal to it."""
    distinct, group = torch.unique(points, dim=0, return_inverse=True)
    numbers = torch.arange(len(points))
    return torch.full((len(distinct),), len(points)).scatter_reduce(0, group, numbers, "amin")[group]


def gradient(coordinates: Tensor, near: Tensor) -> Tensor:
    """Of KL(P ‖ Q) in the coordinates, Eq. 5: 4 Σ_j (p_ij − q_ij) (1 + ‖y_i − y_j‖²)⁻¹ (y_i − y_j)."""
    closeness = _closeness(coordinates)
    pulls = torch.add(near, closeness, alpha=-1 / float(closeness.sum())).mul_(closeness)  # (points, points)
    # (points, 3): the last column is the sum of the pulls
    towards = pulls @ torch.cat([coordinates, torch.ones(len(coordinates), 1)], dim=1)
    return 4 * (towards[:, 2:] * coordinates - towards[:, :2])


def divergence(coordinates: Tensor, near: Tensor) -> float:
    """KL(P ‖ Q): what is lost of the neighbourhoods."""
    closeness = _closeness(coordinates)
    shares = (closeness / closeness.sum()).clamp(min=1e-12)
    return float(torch.where(near > 0, near * (near.clamp(min=1e-30) / shares).log(), near).sum())


def joint_neighbours(points: Tensor, perplexity: float = PERPLEXITY) -> Tensor:
    """p_ij (points, points), Eq. 1 and section 3.1: symmetric, zero with itself, together 1."""
    count = len(points)
    distances = (2 - 2 * (points @ points.T)).clamp_(min=0)
    shares = neighbours(distances, min(perplexity, (count - 1) / 3))
    return (shares + shares.T) / (2 * count)


def neighbours(distances: Tensor, perplexity: float) -> Tensor:
    """p_j|i of squared distances (points, points): a Gaussian around each point, as wide as the perplexity asks."""
    count = len(distances)
    own = torch.eye(count, dtype=torch.bool)
    wanted = torch.log(torch.tensor(perplexity))
    low, high = torch.zeros(count, 1), torch.full((count, 1), torch.inf)
    narrowness = torch.ones(count, 1)
    shares = torch.empty_like(distances)
    # measured from the nearest, so that no row is nothing but underflow
    distances = distances - distances.masked_fill(own, torch.inf).min(dim=1, keepdim=True).values
    for _ in range(40):  # halvings
        shares = torch.exp(-narrowness * distances).masked_fill_(own, 0)
        total = shares.sum(dim=1, keepdim=True)
        shares /= total
        entropy = total.log() + narrowness * (shares * distances).sum(dim=1, keepdim=True)
        wide = entropy > wanted
        low, high = torch.where(wide, narrowness, low), torch.where(wide, high, narrowness)
        narrowness = torch.where(high.isinf(), narrowness * 2, (low + high) / 2)
    return shares


def _closeness(coordinates: Tensor) -> Tensor:
    """(1 + ‖y_i − y_j‖²)⁻¹ of each two, zero with itself."""
    lengths, ones = coordinates.square().sum(dim=1, keepdim=True), torch.ones(len(coordinates), 1)
    # in one product, since passes over (points, points) are what all this costs: 1 + ‖y_i‖² + ‖y_j‖² − 2 y_i·y_j
    raised = torch.cat([-2 * coordinates, lengths, ones], dim=1) @ torch.cat([coordinates, ones, lengths + 1], dim=1).T
    return raised.clamp_(min=1).reciprocal_().fill_diagonal_(0)
