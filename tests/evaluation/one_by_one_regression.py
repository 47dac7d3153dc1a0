"""SentEval's protocol as it is usually run, one fit after another: what the stacked computation is held against."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import numpy as np
import torch
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold
from torch import nn

STRENGTHS = [1e-5, 1e-4, 1e-3, 1e-2]
SEED = 1111


@dataclass
class Setting:
    folds: int
    optimiser: str
    batch_size: int
    tenacity: int
    epoch_size: int
    max_epochs: int = 200


SETTINGS = {"test": Setting(10, "adam", 64, 5, 4), "fast": Setting(5, "rmsprop", 128, 3, 2)}


@dataclass
class Outcome:
    dev_accuracy: float
    accuracy: float
    strengths: list[float]
    accuracies: list[float] = field(default_factory=list)
    f1: float = 0.0


class Regression:
    """A linear layer with its optimiser, trained on batches of shuffled rows until dev rows no longer improve."""

    def __init__(self, dimension: int, classes: int, strength: float, setting: Setting) -> None:
        self.random = np.random.RandomState(SEED)
        torch.manual_seed(SEED)
        self.layer = nn.Linear(dimension, classes)
        kind = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}[setting.optimiser]
        self.optimiser = kind(self.layer.parameters(), weight_decay=strength)
        self.setting = setting
        self.epochs = 0

    def fit(self, x: np.ndarray, y: np.ndarray, dev_x: np.ndarray, dev_y: np.ndarray) -> float:
        train_x, train_y = torch.from_numpy(x), torch.from_numpy(y)
        self.layer.to(train_x.dtype)
        best, kept, misses, stop = -1.0, self.layer, 0, False
        while not stop and self.epochs <= self.setting.max_epochs:
            for _ in range(self.setting.epoch_size):
                self.epoch(train_x, train_y)
            self.epochs += self.setting.epoch_size
            accuracy = self.accuracy(dev_x, dev_y)
            if accuracy > best:
                best, kept = accuracy, copy.deepcopy(self.layer)
            else:
                stop = misses >= self.setting.tenacity
                misses += 1
        self.layer = kept
        return best

    def fit_holding_out(self, x: np.ndarray, y: np.ndarray, share: float = 0.05) -> float:
        order = self.random.permutation(len(x))
        cut = int(share * len(x))
        return self.fit(x[order[cut:]], y[order[cut:]], x[order[:cut]], y[order[:cut]])

    def epoch(self, x: torch.Tensor, y: torch.Tensor) -> None:
        order = self.random.permutation(len(x))
        for start in range(0, len(x), self.setting.batch_size):
            rows = torch.from_numpy(order[start : start + self.setting.batch_size])
            loss = nn.functional.cross_entropy(self.layer(x.index_select(0, rows)), y.index_select(0, rows))
            self.optimiser.zero_grad()
            loss.backward()
            self.optimiser.step()

    @torch.no_grad()
    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.layer(torch.from_numpy(x)).argmax(1).numpy()

    def accuracy(self, x: np.ndarray, y: np.ndarray) -> float:
        return float((self.predict(x) == y).mean())


def percent(share: float) -> float:
    return float(np.round(100 * share, 2))


def cross_validated(x: np.ndarray, y: np.ndarray, setting: Setting) -> list[float]:
    """The mean dev accuracy of each strength."""
    folds = StratifiedKFold(setting.folds, shuffle=True, random_state=SEED)
    means = []
    for strength in STRENGTHS:
        accuracies = []
        for train, dev in folds.split(x, y):
            regression = Regression(x.shape[1], y.max() + 1, strength, setting)
            accuracies.append(regression.fit(x[train], y[train], x[dev], y[dev]))
        means.append(percent(np.mean(accuracies)))
    return means


def nested_folds(x: np.ndarray, y: np.ndarray, setting: Setting) -> Outcome:
    """MR, CR, SUBJ, MPQA."""
    folds = StratifiedKFold(setting.folds, shuffle=True, random_state=SEED)
    dev, test, chosen = [], [], []
    for train, held in folds.split(x, y):
        means = cross_validated(x[train], y[train], setting)
        chosen.append(STRENGTHS[int(np.argmax(means))])
        dev.append(max(means))
        regression = Regression(x.shape[1], y.max() + 1, chosen[-1], setting)
        regression.fit_holding_out(x[train], y[train])
        test.append(percent(regression.accuracy(x[held], y[held])))
    return Outcome(float(np.round(np.mean(dev), 2)), float(np.round(np.mean(test), 2)), chosen, test)


def folds_then_test(x: np.ndarray, y: np.ndarray, test_x: np.ndarray, test_y: np.ndarray, setting: Setting) -> Outcome:
    """TREC, MRPC."""
    means = cross_validated(x, y, setting)
    strength = STRENGTHS[int(np.argmax(means))]
    regression = Regression(x.shape[1], y.max() + 1, strength, setting)
    regression.fit_holding_out(x, y)
    f1 = percent(f1_score(test_y, regression.predict(test_x))) if y.max() == 1 else 0.0
    return Outcome(max(means), percent(regression.accuracy(test_x, test_y)), [strength], f1=f1)


def three_parts(x: dict[str, np.ndarray], y: dict[str, np.ndarray], setting: Setting) -> Outcome:
    """SST-2."""
    dimension, classes = x["train"].shape[1], y["train"].max() + 1
    accuracies = []
    for strength in STRENGTHS:
        regression = Regression(dimension, classes, strength, setting)
        accuracies.append(percent(regression.fit(x["train"], y["train"], x["dev"], y["dev"])))
    strength = STRENGTHS[int(np.argmax(accuracies))]
    regression = Regression(dimension, classes, strength, setting)
    regression.fit(x["train"], y["train"], x["dev"], y["dev"])
    return Outcome(max(accuracies), percent(regression.accuracy(x["test"], y["test"])), [strength])
