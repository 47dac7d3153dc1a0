"""Many logistic regressions at once: SentEval's classifier for all folds and strengths of a task side by side.

SentEval fits one after another: a linear layer under cross-entropy (the mean over a batch), Adam or RMSprop with the
L2 strength as weight decay of weights and bias, the accuracy on dev rows after every few epochs. The first weights
and the orders of the epochs come from one seed, set anew for each fit, so that

- all strengths of a split meet the same batches: a batch is gathered once and multiplied once for all of them;
- splits that train on equally many rows meet the same positions of them, and all splits that need equally many
  batches for an epoch take their steps together.

Each problem has what it would have alone: its first weights, its rows in their order, its batches (the last one of
an epoch shorter), its own end. What differs is the order in which float32 sums are taken, so weights agree to about
the seventh digit, and accuracies but for an example now and then.

That is so where the training itself is stable. RMSprop at its default rate, as the `fast` setting has it, is not on
vectors much longer than 1: a change of the features in the seventh digit moves TREC's accuracy by points, stacked or
not. Between such scores a few points say nothing.

Stacked, a task takes 11 to 24 times less CPU time than the same fits one after another (docs/results.md; `nearer bench
transfer` measures it), which is why no library's regression is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.adam import adam

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Training:
    """How one regression is trained.

    epoch_size: epochs from one look at the dev rows to the next. tenacity: so many looks may find no better accuracy,
    in a row or not; the next that does ends the training. max_epochs: once more have passed, no others follow.
    """

    optimiser: Literal["adam", "rmsprop"]
    batch_size: int
    tenacity: int
    epoch_size: int
    max_epochs: int = 200
    seed: int = 1111


@dataclass(frozen=True)
class Examples:
    """What is to be classified; the device of the features is the one on which regressions are fitted."""

    features: Tensor  # (rows, dimension), float32
    labels: Tensor  # (rows,), int64, from 0 to classes - 1
    classes: int


@dataclass(frozen=True)
class Split:
    """The rows that a regression learns from, and those by which it is stopped and judged.

    drawn: the size of the permutation that the fit took from its random numbers before its first epoch, 0 for none.
    """

    train: Rows
    dev: Rows
    drawn: int = 0


def held_out(rows: Rows, share: float, seed: int) -> Split:
    """A random share of the rows as dev rows, drawn as the first of the fit's random numbers."""
    order = np.random.RandomState(seed).permutation(len(rows))
    cut = int(share * len(rows))
    return Split(rows[order[cut:]], rows[order[:cut]], drawn=len(rows))


@dataclass(frozen=True)
class Fits:
    """The regressions with the best dev accuracy of each training: a row a split, a column a strength."""

    dev_accuracy: NDArray[np.float64]  # (splits, strengths)
    epochs: NDArray[np.int64]  # (splits, strengths): how long each was trained
    weights: Tensor  # (splits, strengths, classes, dimension)
    biases: Tensor  # (splits, strengths, classes)

    def predicted(self, features: Tensor, split: int, strength: int = 0) -> NDArray[np.int64]:
        """The classes of these rows (rows,)."""
        logits = torch.addmm(self.biases[split, strength], features, self.weights[split, strength].T)
        classes: NDArray[np.int64] = logits.argmax(1).cpu().numpy()
        return classes


CACHE_LINE = 16  # float32 numbers


@torch.no_grad()
def fit_stacked(examples: Examples, splits: Sequence[Split], strengths: Tensor, training: Training) -> Fits:
    """A regression for each split and each of its strengths (splits, strengths)."""
    alike: dict[int, list[int]] = {}
    for number, split in enumerate(splits):
        alike.setdefault(_batches(split, training), []).append(number)
    shape = (*strengths.shape, examples.classes)
    fits = Fits(
        dev_accuracy=np.zeros(strengths.shape),
        epochs=np.zeros(strengths.shape, dtype=np.int64),
        weights=examples.features.new_zeros((*shape, examples.features.shape[1])),
        biases=examples.features.new_zeros(shape),
    )
    widened = replace(examples, features=_with_constant(examples.features))
    for numbers in alike.values():
        members = [splits[number] for number in numbers]
        stack = _Stack(widened, examples.features.shape[1], members, strengths[numbers], training)
        stack.fit(fits, np.array(numbers))
    return fits


def first_weights(dimension: int, classes: int, seed: int) -> tuple[Tensor, Tensor]:
    """What torch gives a new linear layer after `torch.manual_seed(seed)`: (classes, dimension) and (classes,)."""
    generator = torch.Generator().manual_seed(seed)
    bound = dimension**-0.5
    weights = torch.empty(classes, dimension).uniform_(-bound, bound, generator=generator)
    return weights, torch.empty(classes).uniform_(-bound, bound, generator=generator)


def _with_constant(columns: Tensor, constant: Tensor | float = 1.0) -> Tensor:
    """One more column, and as many of zeros as make each row end with a cache line.

    With a feature that is always 1, the bias is a weight like the others, and a step has one product to take and one
    update to make instead of two.
    """
    rows, dimension = columns.shape
    width = math.ceil((dimension + 1) / CACHE_LINE) * CACHE_LINE
    widened = columns.new_zeros((rows, width))
    widened[:, :dimension] = columns
    widened[:, dimension] = constant
    return widened


class _Stack:
    """The problems still in training: splits with equally many batches an epoch, all strengths of each.

    A split leaves the stack when its last strength has come to its end.
    """

    def __init__(
        self, widened: Examples, dimension: int, splits: Sequence[Split], strengths: Tensor, training: Training
    ) -> None:
        self.features, self.labels, self.classes = widened.features, widened.labels, widened.classes
        self.dimension = dimension
        self.splits, self.training = list(splits), training
        self.strengths = strengths.shape[1]
        self.batches = _batches(splits[0], training)
        # (splits, strengths * classes, width)
        first = _with_constant(*first_weights(dimension, self.classes, training.seed))
        self.weights = first.repeat(len(splits), self.strengths, 1).to(self.features)
        self.decay = strengths.to(self.features).repeat_interleave(self.classes, dim=1)[:, :, None]
        self.optimiser = OPTIMISERS[training.optimiser](self.weights)
        self.shares = self._shares()
        self.shufflers = {key: _shuffler(training.seed, key) for key in {_randomness(split) for split in splits}}

    def fit(self, fits: Fits, numbers: NDArray[np.int64]) -> None:
        """Train all of them to their ends; the best of each goes to the rows `numbers` of `fits`."""
        best = torch.full((len(self.splits), self.strengths), -1)
        misses = torch.zeros_like(best)
        running = torch.ones_like(best, dtype=torch.bool)
        epochs = 0
        while len(numbers) and epochs <= self.training.max_epochs:
            for _ in range(self.training.epoch_size):
                self._train_epoch()
            epochs += self.training.epoch_size
            correct = self._correct()
            better = running & (correct > best)
            self._store(fits, numbers, better, correct)
            fits.epochs[numbers] += self.training.epoch_size * running.numpy()
            best = torch.where(better, correct, best)
            running &= better | (misses < self.training.tenacity)
            misses += ~better
            kept = running.any(1).nonzero()[:, 0]
            if len(kept) < len(numbers):
                self._keep(kept)
                best, misses, running, numbers = best[kept], misses[kept], running[kept], numbers[kept.numpy()]

    def _train_epoch(self) -> None:
        rows, targets = self._epoch()
        gathered = self.features.new_empty((len(self.splits), self.training.batch_size, self.features.shape[1]))
        logits = self.features.new_empty((*self.weights.shape[:2], self.training.batch_size))
        gradient = torch.empty_like(self.weights)
        for batch in range(self.batches):
            torch.index_select(self.features, 0, rows[batch], out=gathered.view(-1, gathered.shape[2]))
            torch.bmm(self.weights, gathered.mT, out=logits)
            residuals = logits.view(len(self.splits), self.strengths, self.classes, -1).softmax(2)
            residuals.sub_(targets[batch]).mul_(self.shares[batch])
            torch.bmm(residuals.view_as(logits), gathered, out=gradient)
            gradient.addcmul_(self.weights, self.decay)
            self.optimiser.step(self.weights, gradient)

    def _epoch(self) -> tuple[Tensor, Tensor]:
        """The rows of each batch (batches, splits * batch), and which classes they have (…, splits, 1, classes, batch).

        Where a split has no row left for its last batch, row 0 stands, with a share of 0.
        """
        orders = {key: shuffler.permutation(key[0]) for key, shuffler in self.shufflers.items()}
        rows = np.zeros((len(self.splits), self.batches * self.training.batch_size), dtype=np.int64)
        for number, split in enumerate(self.splits):
            rows[number, : len(split.train)] = split.train[orders[_randomness(split)]]
        batches = torch.from_numpy(rows).view(len(self.splits), self.batches, -1).transpose(0, 1)
        batches = batches.contiguous().to(self.features.device)
        values = torch.arange(self.classes, device=batches.device)[:, None]
        targets = self.labels[batches][:, :, None, None, :] == values
        return batches.flatten(1), targets.to(self.features.dtype)

    def _shares(self) -> Tensor:
        """What each example counts in the mean over its batch (batches, splits, 1, 1, batch)."""
        indices = torch.arange(self.batches * self.training.batch_size).view(self.batches, 1, -1)
        there = indices < torch.tensor([len(split.train) for split in self.splits])[:, None]
        shares = there / there.sum(2, keepdim=True)
        return shares[:, :, None, None, :].to(self.features)

    def _correct(self) -> Tensor:
        """How many dev rows each problem gets right (splits, strengths)."""
        counts = []
        for split, weights in zip(self.splits, self.weights, strict=True):
            rows = torch.from_numpy(split.dev).to(self.features.device)
            logits = weights @ self.features[rows].T
            classes = logits.view(self.strengths, self.classes, -1).argmax(1)
            counts.append((classes == self.labels[rows]).sum(1))
        return torch.stack(counts).cpu()

    def _store(self, fits: Fits, numbers: NDArray[np.int64], better: Tensor, correct: Tensor) -> None:
        splits, strengths = better.nonzero(as_tuple=True)
        sizes = np.array([len(split.dev) for split in self.splits])
        rows, columns = numbers[splits.numpy()], strengths.numpy()
        fits.dev_accuracy[rows, columns] = correct[splits, strengths].numpy() / sizes[splits.numpy()]
        found = self.weights.view(len(self.splits), self.strengths, self.classes, -1)[splits, strengths]
        fits.weights[rows, columns] = found[:, :, : self.dimension]
        fits.biases[rows, columns] = found[:, :, self.dimension]

    def _keep(self, kept: Tensor) -> None:
        self.splits = [self.splits[number] for number in kept.tolist()]
        self.shares, self.weights, self.decay = self.shares[:, kept], self.weights[kept], self.decay[kept]
        self.optimiser.keep(kept)


def _batches(split: Split, training: Training) -> int:
    """Of an epoch."""
    return math.ceil(len(split.train) / training.batch_size)


def _randomness(split: Split) -> tuple[int, int]:
    """Splits that are alike in this meet the same positions of their rows in the same order."""
    return len(split.train), split.drawn


def _shuffler(seed: int, randomness: tuple[int, int]) -> np.random.RandomState:
    """The random numbers of a fit as they stand before its first epoch."""
    shuffler = np.random.RandomState(seed)
    if randomness[1]:
        shuffler.permutation(randomness[1])
    return shuffler


class Optimiser(Protocol):
    """The state for weights whose first dimension counts the problems; these take each step together."""

    def step(self, weights: Tensor, gradient: Tensor) -> None: ...

    def keep(self, kept: Tensor) -> None:
        """Forget all problems but these."""


class Adam:
    """In one fused pass."""

    def __init__(self, weights: Tensor) -> None:
        self.mean, self.square = torch.zeros_like(weights), torch.zeros_like(weights)
        self.steps = torch.zeros((), device=weights.device)

    def step(self, weights: Tensor, gradient: Tensor) -> None:
        adam(
            [weights],
            [gradient],
            [self.mean],
            [self.square],
            [],
            [self.steps],
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=1e-3,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )

    def keep(self, kept: Tensor) -> None:
        self.mean, self.square = self.mean[kept], self.square[kept]


class RMSprop:
    def __init__(self, weights: Tensor) -> None:
        self.square = torch.zeros_like(weights)

    def step(self, weights: Tensor, gradient: Tensor) -> None:
        self.square.mul_(0.99).addcmul_(gradient, gradient, value=0.01)
        weights.addcdiv_(gradient, self.square.sqrt().add_(1e-8), value=-0.01)

    def keep(self, kept: Tensor) -> None:
        self.square = self.square[kept]


OPTIMISERS: dict[str, Callable[[Tensor], Optimiser]] = {"adam": Adam, "rmsprop": RMSprop}
