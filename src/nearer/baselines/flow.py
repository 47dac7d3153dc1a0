"""BERT-flow (Li et al., 2020): an invertible map after which the vectors of some text are spread as a standard normal.

    maximise the mean of  log N(f(x); 0, 1) + log |det ∂f/∂x|

f is a small Glow: three levels of three steps; a step is a scale and shift of each number (actnorm), all numbers
reversed, and the second half shifted by a network of the first half (additive coupling). After a level the second half
of what is left is done. Coupling and reversal keep volumes, so the determinant is that of the scales.

With x = relu(x) − relu(−x) each step is three Dense layers, so a model with a flow is an `Encoder` like any other: it
saves, loads, and is read by sentence-transformers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.encoder.parts import Dense
from nearer.errors import InputError, SettingError
from nearer.terminal import progress_bar

LEVELS, STEPS, WIDTH = 3, 3, 32
BATCH, RATE, DECAY, CLIP = 32, 1e-3, 0.01, 1.0
SMALLEST = 4 * 2**LEVELS  # numbers of a vector
LEAST_SPREAD = 1e-6  # below, a number is the same in all vectors but for rounding


class FlowStep(nn.Module):
    """One step on the first `size` numbers of a vector; the others pass as they are."""

    log_scale: Tensor
    shift: Tensor

    def __init__(self, size: int, width: int = WIDTH) -> None:
        super().__init__()
        self.size, self.kept = size, size // 2
        self.log_scale = nn.Parameter(torch.zeros(size))
        self.shift = nn.Parameter(torch.zeros(size))
        inner, outer = nn.Linear(self.kept, width), nn.Linear(width, size - self.kept)
        self.network = nn.Sequential(inner, nn.ReLU(), nn.Linear(width, width), nn.ReLU(), outer)
        nn.init.zeros_(outer.weight)  # the map begins as actnorm alone
        nn.init.zeros_(outer.bias)

    @torch.no_grad()
    def start(self, vectors: Tensor) -> None:
        """Scale and shift so that these vectors have mean 0 and variance 1 in each number."""
        active = vectors[:, : self.size]
        self.shift.copy_(-active.mean(dim=0))
        spread = active.std(dim=0)
        self.log_scale.copy_(-spread.where(spread > LEAST_SPREAD, 1.0).log())

    def forward(self, vectors: Tensor) -> Tensor:
        active, rest = vectors[:, : self.size], vectors[:, self.size :]
        active = ((active + self.shift) * self.log_scale.exp()).flip(-1)
        first, second = active[:, : self.kept], active[:, self.kept :]
        return torch.cat([first, second + self.network(first), rest], dim=1)

    def inverse(self, vectors: Tensor) -> Tensor:
        first, rest = vectors[:, : self.kept], vectors[:, self.size :]
        second = vectors[:, self.kept : self.size] - self.network(first)
        active = torch.cat([first, second], dim=1).flip(-1)
        return torch.cat([active * (-self.log_scale).exp() - self.shift, rest], dim=1)

    @torch.no_grad()
    def dense(self, dimension: int) -> list[Dense]:
        """The same map of whole vectors as layers."""
        linears: list[nn.Linear] = [layer for layer in self.network if isinstance(layer, nn.Linear)]
        (first, one), (second, two), (third, three) = ((each.weight, each.bias) for each in linears)
        size, half, whole = self.size, self.kept, 2 * dimension
        scale, same = self.log_scale.exp(), torch.eye(dimension)
        # scaled, shifted and reversed
        affine, bias = same.clone(), torch.zeros(dimension)
        affine[:size, :size] = torch.diag(scale).flip(0)
        bias[:size] = (scale * self.shift).flip(0)
        inner = _dense(
            torch.cat([affine, -affine, first @ affine[:half]]),
            torch.cat([bias, -bias, first @ bias[:half] + one]),
            "ReLU",
        )
        joined = torch.eye(whole + len(two))
        joined[whole:, whole:] = second
        middle = _dense(joined, torch.cat([torch.zeros(whole), two]), "ReLU")
        weight, shift = torch.cat([same, -same, torch.zeros(dimension, len(two))], dim=1), torch.zeros(dimension)
        weight[half:size, whole:], shift[half:size] = third, three
        return [inner, middle, _dense(weight, shift, "Identity")]


def _dense(weight: Tensor, bias: Tensor, activation: str) -> Dense:
    layer = Dense(weight.shape[1], len(weight), activation=activation)
    layer.linear.weight.copy_(weight)
    layer.linear.bias.copy_(bias)
    return layer.requires_grad_(False)


class Flow(nn.Module):
    """The whole map. sentences: how many it was fitted on."""

    def __init__(self, dimension: int, *, levels: int = LEVELS, steps: int = STEPS, width: int = WIDTH) -> None:
        super().__init__()
        if dimension < SMALLEST:
            raise SettingError(f"flow: vectors of {dimension} numbers are too short to be halved; {SMALLEST} at least.")
        self.dimension, self.sentences = dimension, 0
        self.steps = [FlowStep(dimension // 2**level, width) for level in range(levels) for _ in range(steps)]
        self.parts = nn.ModuleList(self.steps)

    def forward(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Mapped vectors (batch, dimension), and the logarithm of the determinant, which is the same for all."""
        for step in self.steps:
            vectors = step(vectors)
        return vectors, torch.stack([step.log_scale.sum() for step in self.steps]).sum()

    def inverse(self, vectors: Tensor) -> Tensor:
        for step in reversed(self.steps):
            vectors = step.inverse(vectors)
        return vectors

    def bits(self, vectors: Tensor) -> Tensor:
        """The mean negative log-likelihood in bits for each number of a vector, which fitting makes small."""
        mapped, determinant = self.forward(vectors)
        normal = -0.5 * (mapped**2 + math.log(2 * math.pi)).sum(dim=1).mean()
        return -(normal + determinant) / (self.dimension * math.log(2))

    @classmethod
    def fit(
        cls,
        vectors: NDArray[Any],
        *,
        epochs: int = 1,
        seed: int = 0,
        device: str | torch.device = "cpu",
        progress: bool = False,
    ) -> Flow:
        """vectors: (sentences, dimension). By Adam with the released code's numbers, batches of 32 in a drawn order."""
        if vectors.ndim != 2 or len(vectors) < BATCH:
            raise InputError(f"flow: {len(vectors)} vectors given, at least {BATCH} are needed; give it more text.")
        if not np.isfinite(vectors).all():
            raise InputError("flow: some vectors are not finite numbers; their model is broken.")
        if float(vectors.std(axis=0).max()) <= LEAST_SPREAD * float(np.abs(vectors).max() or 1):
            raise InputError("flow: all vectors are equal, there is nothing to spread; give it different sentences.")
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            flow = cls(vectors.shape[1])
        flow = flow.to(device)
        flow.sentences = len(vectors)
        rows = torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float32)).to(device)
        current = rows[: 32 * BATCH]
        for step in flow.steps:
            step.start(current)
            current = step(current)
        optimiser = torch.optim.AdamW(flow.parameters(), lr=RATE, weight_decay=DECAY)
        with progress_bar("flow", epochs * len(rows), "sentences", shown=progress) as advance:
            for batch in _batches(len(rows), epochs, seed):
                loss = flow.bits(rows[batch])
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(flow.parameters(), CLIP)
                optimiser.step()
                advance(len(batch))
        return flow.requires_grad_(False).cpu()

    def put_behind(self, encoder: Encoder, *, text: str = "") -> Encoder:
        """A new encoder that maps what `encoder` gives and shares all else with it. text: what it was fitted on."""
        if encoder.full_dimension != self.dimension:
            raise SettingError(
                f"flow: is of vectors with {self.dimension} numbers, {encoder.name} gives {encoder.full_dimension} "
                "before it is truncated."
            )
        layers = [layer for step in self.steps for layer in step.dense(self.dimension)]
        facts = {"text": text, "sentences": self.sentences, "levels": LEVELS, "steps": STEPS, "width": WIDTH}
        return encoder.with_layers(layers, name=f"{encoder.name} (flow)", facts={"flow": facts})


def _batches(count: int, epochs: int, seed: int) -> Iterator[Tensor]:
    """Rows in a drawn order, without the few at an epoch's end that fill no batch."""
    draw = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        order = torch.randperm(count, generator=draw)
        yield from order[: count // BATCH * BATCH].view(-1, BATCH)


def fit_flow(
    encoder: Encoder,
    sentences: Iterable[str],
    *,
    epochs: int = 1,
    seed: int = 0,
    text: str = "",
    progress: bool = False,
) -> Encoder:
    """Fit on these sentences, each of a kind once, and put behind the encoder. text: their name, for the record."""
    if encoder.settings.truncate_dim is not None:
        raise SettingError("flow: the model's vectors are truncated; fit on whole ones, and truncate nothing.")
    vectors = encoder.encode(list(dict.fromkeys(sentences)), normalize=False)
    fitted = Flow.fit(vectors, epochs=epochs, seed=seed, device=encoder.device, progress=progress)
    return fitted.put_behind(encoder, text=text)
