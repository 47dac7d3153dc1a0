"""Vectors on a plane: gradients and neighbourhoods beside loops, and the whole beside scikit-learn's."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.manifold import TSNE, trustworthiness

from nearer.serve import index_overview
from nearer.serve.index_overview import divergence, gradient, joint_neighbours, neighbours, plane, tsne


def unit(rows: np.ndarray) -> torch.Tensor:
    return torch.from_numpy((rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32))


@pytest.fixture(scope="module")
def points() -> torch.Tensor:
    """Three hundred vectors around twelve directions, too many for a plane through them."""
    random = np.random.default_rng(3)
    centres, labels = random.normal(size=(12, 40)), np.arange(300) % 12
    return unit(centres[labels] + 0.5 * random.normal(size=(300, 40)))


class TestNeighbours:
    def test_each_row_has_the_perplexity(self) -> None:
        points = unit(np.random.default_rng(0).normal(size=(40, 6)))
        shares = neighbours(2 - 2 * points @ points.T, 7.0).double().numpy()
        for place, row in enumerate(shares):
            assert row[place] == 0
            assert row.sum() == pytest.approx(1, abs=1e-5)
            entropy = -sum(share * math.log(share) for share in row if share > 0)
            assert math.exp(entropy) == pytest.approx(7, rel=1e-3)

    def test_together_they_are_one_and_symmetric(self) -> None:
        near = joint_neighbours(unit(np.random.default_rng(1).normal(size=(20, 5))))
        assert float(near.sum()) == pytest.approx(1, abs=1e-5)
        assert torch.equal(near, near.T)

    def test_equal_points(self) -> None:
        near = joint_neighbours(torch.ones(10, 1))
        assert near.sum() == pytest.approx(1, abs=1e-5)
        assert near[0, 1:].tolist() == pytest.approx([1 / 90] * 9, rel=1e-4)


def test_gradient_is_that_of_the_divergence() -> None:
    """By hand, with differences in float64."""
    random = np.random.default_rng(2)
    near = joint_neighbours(unit(random.normal(size=(9, 4))))
    places = random.normal(size=(9, 2))

    def divergence_by_hand(at: np.ndarray) -> float:
        pairs = [(i, j) for i in range(9) for j in range(9) if i != j]
        close = {pair: 1 / (1 + ((at[pair[0]] - at[pair[1]]) ** 2).sum()) for pair in pairs}
        total = sum(close.values())
        return sum(float(near[pair]) * math.log(float(near[pair]) / (close[pair] / total)) for pair in pairs)

    assert divergence(torch.from_numpy(places).float(), near) == pytest.approx(divergence_by_hand(places), abs=1e-5)
    found = gradient(torch.from_numpy(places).float(), near).numpy()
    for place in np.ndindex(9, 2):
        step = np.zeros((9, 2))
        step[place] = 1e-5
        slope = (divergence_by_hand(places + step) - divergence_by_hand(places - step)) / 2e-5
        assert found[place] == pytest.approx(slope, abs=1e-5)


class TestWhole:
    def test_beside_scikit_learn(self, points) -> None:
        near = joint_neighbours(points)
        peer = TSNE(method="exact", init="pca", random_state=0).fit(points.numpy())
        ours = tsne(points)
        assert divergence(ours, near) <= divergence(torch.from_numpy(peer.embedding_), near) + 0.05
        assert divergence(torch.from_numpy(peer.embedding_), near) == pytest.approx(peer.kl_divergence_, abs=0.02)

    def test_keeps_neighbourhoods_that_pca_loses(self, points) -> None:
        flat, (first, second) = plane(points)
        assert 1 > first >= second > 0
        kept = {name: trustworthiness(points, y, n_neighbors=10) for name, y in (("pca", flat), ("ours", tsne(points)))}
        assert kept["ours"] > 0.9
        assert kept["ours"] > kept["pca"] + 0.1

    def test_equal_vectors_equal_maps(self, points) -> None:
        assert torch.equal(tsne(points[:50], rounds=60), tsne(points[:50].clone(), rounds=60))

    @pytest.mark.parametrize("points", [torch.ones(9, 4) / 2, unit(np.eye(9)), unit(np.repeat(np.eye(3), 4, axis=0))])
    def test_odd_points(self, points: torch.Tensor) -> None:
        """All alike, all equally far, copies: places are numbers, and copies lie together."""
        places = tsne(points)
        assert places.isfinite().all()
        for one, place in zip(points, places, strict=True):
            same = (points == one).all(dim=1)
            assert torch.equal(places[same], place.expand(int(same.sum()), 2))

    def test_copies_lie_together_whatever_the_rounding(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """On some processors equal rows of a matrix product differ in the last digit, and copies repel each other."""
        exact = index_overview.gradient
        points = unit(np.random.default_rng(0).normal(size=(12, 6)))[torch.arange(36) % 12]
        noise = 1 + 1e-6 * torch.randn(36, 2, generator=torch.Generator().manual_seed(0))
        monkeypatch.setattr(index_overview, "gradient", lambda places, near: exact(places, near) * noise)
        places = tsne(points)
        assert torch.equal(places[:12], places[12:24])
        assert torch.equal(places[:12], places[24:])
        assert len(places.unique(dim=0)) == 12

    def test_ended_from_outside(self, points) -> None:
        asked = []

        def go_on() -> None:
            asked.append(1)
            if len(asked) == 3:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            tsne(points, go_on=go_on)
        assert len(asked) == 3


class TestPlane:
    def test_beside_singular_vectors(self) -> None:
        rows = np.random.default_rng(5).normal(size=(30, 4)) * [4, 2, 1, 0.5]
        places, shares = plane(torch.from_numpy(rows).float())
        left, values, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
        np.testing.assert_allclose(abs(places.numpy()), abs(left[:, :2] * values[:2]), atol=1e-4)
        assert shares == pytest.approx(tuple((values**2 / (values**2).sum())[:2]), abs=1e-6)
        assert (places.numpy()[abs(places.numpy()).argmax(axis=0), [0, 1]] > 0).all()

    @pytest.mark.parametrize("points", [torch.ones(1, 3), torch.ones(4, 3), torch.ones(2, 1)])
    def test_without_any_spread(self, points: torch.Tensor) -> None:
        places, shares = plane(points)
        assert places.tolist() == [[0, 0]] * len(points)
        assert shares == (0, 0)
