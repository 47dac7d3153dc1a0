"""Whitening (Su et al., 2021): a linear map after which the vectors of some text have mean 0 and covariance 1.

    x̃ = (x − μ) W,   W = U Λ^(−1/2) of the covariance U Λ Uᵀ

A linear map is a Dense layer with bias −μ W, so a whitened model is an `Encoder` like any other: it saves, loads, and
is read by sentence-transformers. In the papers' target setting the text is the task's own test sentences, in the NLI
setting the sentences of SNLI and MNLI; any other text will do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nearer.encoder import Encoder
from nearer.encoder.parts import Dense
from nearer.errors import InputError, SettingError
from nearer.terminal import progress_bar
from nearer.text.batches import chunks

Values = NDArray[np.float64]
WINDOW = 8192  # sentences whose vectors are held at a time
# A direction along which vectors spread by less than this share of their length holds rounding errors alone
LEAST_SPREAD = 1e-6


@dataclass(frozen=True, eq=False)
class Whitening:
    """mean: μ (dimension,); matrix: W (dimension, kept), the directions of most variance first."""

    mean: Values
    matrix: Values
    sentences: int

    @classmethod
    def fit(cls, vectors: NDArray[Any] | Iterable[NDArray[Any]], *, dimension: int | None = None) -> Whitening:
        """vectors: (sentences, dimension), all together or in blocks, which are not held.

        dimension: keep so many directions, those of most variance; None for all along which the vectors vary.
        """
        moments = _Moments()
        for block in [vectors] if isinstance(vectors, np.ndarray) else vectors:
            moments.add(block)
        return cls._from(moments, dimension)

    @classmethod
    def _from(cls, moments: _Moments, dimension: int | None) -> Whitening:
        if moments.count < 2:
            raise InputError(f"whitening: {moments.count} vectors given, at least 2 are needed; give it more text.")
        variances, directions = np.linalg.eigh(moments.scatter / moments.count)
        variances, directions = variances[::-1], directions[:, ::-1]  # falling
        length = variances.sum() + moments.mean @ moments.mean
        usable = int((variances > LEAST_SPREAD**2 * length).sum())
        if not usable:
            raise InputError("whitening: all vectors are equal, they have no covariance; give it different sentences.")
        if dimension is not None and not 1 <= dimension <= usable:
            raise SettingError(
                f"dimension: {dimension} is not between 1 and {usable}, the directions along which the vectors of "
                f"{moments.count:,} sentences vary."
            )
        kept = dimension or usable
        return cls(moments.mean, directions[:, :kept] / np.sqrt(variances[:kept]), moments.count)

    @property
    def dimension(self) -> int:
        """Size of a whitened vector."""
        return int(self.matrix.shape[1])

    def __call__(self, vectors: NDArray[Any]) -> Values:
        whitened: Values = (vectors - self.mean) @ self.matrix
        return whitened

    def dense(self) -> Dense:
        """The same map as a layer, in float32."""
        layer = Dense(len(self.mean), self.dimension, activation="Identity")
        with torch.no_grad():
            layer.linear.weight.copy_(torch.from_numpy(self.matrix.T.copy()))
            layer.linear.bias.copy_(torch.from_numpy(-self.mean @ self.matrix))
        return layer.requires_grad_(False)

    def put_behind(self, encoder: Encoder, *, text: str = "") -> Encoder:
        """A new encoder that whitens what `encoder` gives and shares all else with it. text: what it was fitted on."""
        if encoder.dimension != len(self.mean):
            raise SettingError(
                f"whitening: is of vectors with {len(self.mean)} dimensions, {encoder.name} gives {encoder.dimension}."
            )
        layer = self.dense()
        if encoder.full_dimension > encoder.dimension:  # of what is truncated the layer sees nothing
            layer = _widened(layer, encoder.full_dimension)
        facts = {"text": text, "sentences": self.sentences, "dimension": self.dimension}
        return encoder.with_layers([layer], name=f"{encoder.name} (whitened)", facts={"whitening": facts})


def _widened(layer: Dense, size: int) -> Dense:
    """The same map of vectors with further numbers behind, which are left out."""
    wide = Dense(size, layer.size_out, activation="Identity")
    with torch.no_grad():
        wide.linear.weight.zero_()
        wide.linear.weight[:, : layer.linear.in_features] = layer.linear.weight
        wide.linear.bias.copy_(layer.linear.bias)
    return wide.requires_grad_(False)


def whiten(
    encoder: Encoder,
    sentences: Iterable[str],
    *,
    dimension: int | None = None,
    text: str = "",
    progress: bool = False,
) -> Encoder:
    """Fit on these sentences, each of a kind once, and put behind the encoder. text: their name, for the record."""
    fitted = Whitening.fit(_vectors(encoder, dict.fromkeys(sentences), progress), dimension=dimension)
    return fitted.put_behind(encoder, text=text)


def _vectors(encoder: Encoder, sentences: dict[str, None], progress: bool) -> Iterator[NDArray[np.float32]]:
    with progress_bar("whitening", len(sentences), "sentences", shown=progress) as advance:
        for window in chunks(sentences, WINDOW):
            # as they come out of the layers before: a Normalize module of the model stands behind the whitening
            yield encoder.encode(window, normalize=False)
            advance(len(window))


class _Moments:
    """Mean and scatter of vectors that come in blocks, summed in float64 around the mean of what came before."""

    def __init__(self) -> None:
        self.count = 0
        self.mean: Values = np.zeros(0)
        self.scatter: Values = np.zeros((0, 0))

    def add(self, block: NDArray[Any]) -> None:
        if block.ndim != 2 or (self.count and block.shape[1] != len(self.mean)):
            raise InputError(f"whitening: vectors of shape {block.shape}, (sentences, dimension) is needed, all alike.")
        if not len(block):
            return
        values = block.astype(np.float64)
        if not np.isfinite(values).all():
            raise InputError("whitening: some vectors are not finite numbers; their model is broken.")
        mean = values.mean(axis=0)
        centred = values - mean
        scatter = centred.T @ centred
        if not self.count:
            self.count, self.mean, self.scatter = len(block), mean, scatter
            return
        # two samples as one (Chan et al., 1979)
        away, total = mean - self.mean, self.count + len(block)
        self.scatter += scatter + np.outer(away, away) * (self.count * len(block) / total)
        self.mean = self.mean + away * (len(block) / total)
        self.count = total
