"""Transfer tasks: how well a linear classifier on frozen vectors tells classes of sentences apart, as SentEval does it.

SentEval puts examples in order of length before it makes vectors of them, and leaves them so: the folds and batches
that its seed draws belong to that order. It is the order here too.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from nearer.distributed import local_device
from nearer.errors import InputError, SettingError
from nearer.evaluation.stacked_regression import Examples, fit_stacked
from nearer.evaluation.task import Scorer, SentenceVectors, Task, TaskScore, Vectors
from nearer.evaluation.transfer_designs import DESIGNS, HELD_OUT, SETTINGS, STRENGTHS, Outcome, Parts

ACCURACY, DEV_ACCURACY, F1 = "accuracy", "dev accuracy", "f1"
MEASURES = (ACCURACY, DEV_ACCURACY)


class Example(NamedTuple):
    """A sentence, or two sentences of which the relation is asked, and the number of its class."""

    texts: tuple[str, ...]
    label: int


def in_order(examples: Iterable[Example]) -> list[Example]:
    """By the number of words, equally long ones by class."""
    return sorted(examples, key=lambda example: (*(len(text.split()) for text in example.texts), example.label))


@dataclass(frozen=True)
class TransferTask(Task):
    """Labelled examples and the design by which they are learned and tested (see `transfer_designs`).

    measure: `accuracy` is the test's; with `dev accuracy` nothing is tested and no test example has to be there, so
    that models can be chosen by it. source: what messages name, the task itself or a file. device: where the
    regressions are fitted, None for a GPU where there is one.
    """

    kind: ClassVar[str] = "transfer"
    name: str
    design: str
    classes: tuple[str, ...]
    train: list[Example]
    dev: list[Example]
    test: list[Example]
    setting: str = "test"
    measure: str = ACCURACY
    layout: str = "senteval"
    source: str = ""
    device: str | None = None

    def __post_init__(self) -> None:
        for what, value, known in (("setting", self.setting, SETTINGS), ("measure", self.measure, MEASURES)):
            if value not in known:
                raise SettingError(f"{what}: {value!r} is not one of {', '.join(known)}.")
        self._check_classes()

    @cached_property
    def split(self) -> str:  # type: ignore[override]
        if self.measure == DEV_ACCURACY:
            return "dev"
        return f"{SETTINGS[self.setting].folds}-fold" if self._tests_folds else "test"

    @property
    def unit(self) -> str:
        return "sentences" if self._texts_each == 1 else "pairs"

    def sentences(self) -> Iterator[str]:
        return (text for example in self._examples for text in example.texts)

    def data_hash(self) -> str:
        digest = hashlib.sha256()
        for part in (self.train, self.dev, self.test):
            digest.update(json.dumps(part).encode())  # quoted: no sentence can look like two
        return digest.hexdigest()[:16]

    def score(self, model: Scorer, vectors: SentenceVectors) -> TaskScore:
        features = self._features(vectors)
        finite = bool(np.isfinite(features).all())
        outcome = self._outcome(features) if finite else None
        return self.make_score(
            count=len(self._judged),
            unit=self.unit,
            measure=self.measure,
            figures=self._figures(outcome),
            protocol=self._protocol(),
            details={} if outcome is None else _details(outcome),
            remark="" if finite else "some vectors are not finite numbers",
        )

    def parts(self, vectors: SentenceVectors) -> Parts:
        """The examples as the designs take them, on the device."""
        return self._parts(self._features(vectors))

    @cached_property
    def _examples(self) -> list[Example]:
        return [*self.train, *self.dev, *self.test]

    @property
    def _tests_folds(self) -> bool:
        return self.design == "nested folds"

    @property
    def _texts_each(self) -> int:
        return len(self.train[0].texts)

    @property
    def _judged(self) -> list[Example]:
        """The examples on which the measure is taken."""
        if self.measure == DEV_ACCURACY:
            return self.dev or self.train
        return self.train if self._tests_folds else self.test

    def _features(self, vectors: SentenceVectors) -> Vectors:
        """A sentence's vector; of two sentences |u − v| beside u · v, component by component."""
        texts = [vectors.of(texts) for texts in zip(*(example.texts for example in self._examples), strict=True)]
        if len(texts) == 1:
            return texts[0]
        first, second = texts
        return np.concatenate([np.abs(first - second), first * second], axis=1)

    def _parts(self, features: Vectors) -> Parts:
        device = local_device() if self.device is None else torch.device(self.device)
        labels = torch.tensor([example.label for example in self._examples])
        examples = Examples(torch.from_numpy(features).to(device), labels.to(device), len(self.classes))
        train, dev, test = _ranges(len(self.train), len(self.dev), len(self.test))
        if self._tests_folds and self.measure == ACCURACY:
            test = train
        return Parts(examples, train, dev, test)

    def _outcome(self, features: Vectors) -> Outcome:
        return DESIGNS[self.design](self._parts(features), SETTINGS[self.setting], fit_stacked)

    def _figures(self, outcome: Outcome | None) -> dict[str, float | None]:
        figures = {DEV_ACCURACY: None if outcome is None else outcome.dev_accuracy}
        if self.measure == DEV_ACCURACY:
            return figures
        figures = {ACCURACY: None if outcome is None else outcome.accuracy, **figures}
        if self._texts_each == 2:
            gold = np.array([example.label for example in self.test])
            predicted = None if outcome is None else outcome.predicted
            figures[F1] = None if predicted is None else f1_percent(gold, predicted)
        return figures

    def _protocol(self) -> dict[str, Any]:
        setting = SETTINGS[self.setting]
        return {
            "setting": self.setting,
            "design": self.design,
            **({} if self.design == "split" else {"folds": setting.folds}),
            **asdict(setting.training),
            "strengths": list(STRENGTHS),
            "features": "u" if self._texts_each == 1 else "|u − v|, u · v",
        }

    def _check_classes(self) -> None:
        source = self.source or self.name
        counts = Counter(example.label for example in self.train)
        if len(counts) < 2:
            only = f"all are {self.classes[next(iter(counts))]!r}" if counts else "none is there"
            raise InputError(f"{source}: {len(self.train):,} labels, {only}; a classifier needs two classes.")
        if self.design == "split":
            return
        folds = SETTINGS[self.setting].folds
        mend = "" if self.setting == "fast" else f", or the setting 'fast' with its {SETTINGS['fast'].folds} folds"
        rare, count = min(((self.classes[label], count) for label, count in counts.items()), key=lambda pair: pair[1])
        if count < folds:
            raise InputError(
                f"{source}: the class {rare!r} has {count} examples, {folds} folds need at least {folds} of each; "
                f"add some{mend}."
            )
        trained_on = len(self.train) - (math.ceil(len(self.train) / folds) if self._tests_folds else 0)
        if trained_on < 1 / HELD_OUT:
            raise InputError(
                f"{source}: {len(self.train)} examples leave {trained_on} to train on at a time, one in "
                f"{1 / HELD_OUT:.0f} of which is held out; add some."
            )


def _ranges(*lengths: int) -> list[NDArray[np.int64]]:
    """The rows of parts that stand one after another."""
    ends = np.cumsum(lengths)
    return [np.arange(end - length, end) for end, length in zip(ends, lengths, strict=True)]


def f1_percent(gold: NDArray[np.int64], predicted: NDArray[np.int64]) -> float:
    """F1 of class 1; 0 where it is neither there nor predicted."""
    found = int(((gold == 1) & (predicted == 1)).sum())
    both = int((gold == 1).sum() + (predicted == 1).sum())
    return round(200 * found / both, 2) if both else 0.0


def _details(outcome: Outcome) -> dict[str, Any]:
    details: dict[str, Any] = {"chosen strengths": outcome.strengths, "fits": outcome.fits}
    return {**details, "fold accuracies": outcome.fold_accuracies} if outcome.fold_accuracies else details
