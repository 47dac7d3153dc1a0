"""Runs of a tiny model on hostile text, as training leaves them: finished, stopped half way, several seeds."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nearer.encoder import Encoder
from nearer.training import train, train_seeds
from nearer.training.loop import Interrupted
from nearer.training.trainer import Trainer

WORDS = """the quick brown fox jumps over a lazy dog and rain comes
until someone has lunch far away""".split()  # noqa: SIM905

# what must stand on the page as text, and do nothing else
HOSTILE = [
    "<script>window.harmed = true</script> the fox",
    'rain"><img src=x onerror="window.harmed = true">',
    "</script></style></title></table></svg><h1>lunch",
    "a dog &lt;b&gt; &amp; a fox &#60;i&#62; {{7*7}} ${dog}",
    "the dog \u202eawa raf semoc \u001b[31m rain",
    "a" * 400,
    "rain and away",
]


class Runs(NamedTuple):
    """Folders that tests leave as they are."""

    finished: Path
    stopped: Path
    seeds: Path
    model: Path


def make_runs(root: Path, model: Path, other_model: Path) -> Runs:
    """model: what the runs start from; other_model: what is saved as a model of no run."""
    dev, recipe, corpus = root / "dev pairs.jsonl", root / "tiny.yaml", root / "corpus.txt"
    _write_dev(dev)
    corpus.write_text("\n".join(dict.fromkeys(_sentences(150, 1))) + "\n")
    recipe.write_text(
        f"method: simcse\nmodel: {model}\npooling: cls_before_head\nhead: true\nbatch_size: 8\n"
        f"learning_rate: 1e-3\nmax_length: 16\nepochs: 1\nselect_on: [{json.dumps(str(dev))}]\nevaluate_every: 4\n"
        f"test_on: [{json.dumps(str(dev))}]\n"
    )
    made = Runs(root / "first <i>run", root / "stopped", root / "seeds", root / "model & more")
    train(recipe, corpus, out=made.finished)
    _train_and_stop(recipe, corpus, made.stopped)
    train_seeds([0, 10, 2], made.seeds, recipe=recipe, corpus=corpus, settings={"max_steps": 6, "mlm_weight": 0.1})
    Encoder.load(other_model, pooling="mean", device="cpu").save(made.model)
    return made


def _sentences(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(3, 12))) for _ in range(count)]


def _write_dev(path: Path) -> None:
    """Pairs of hostile sentences, each of which has more than three partners, and of others."""
    draw = random.Random(3)
    pairs = [(first, second) for first in HOSTILE for second in HOSTILE if first < second]
    pairs += zip(_sentences(20, 8), _sentences(20, 9), strict=True)
    rows = [{"sentence1": one, "sentence2": two, "score": draw.randint(0, 50) / 10} for one, two in pairs]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _train_and_stop(recipe: Path, corpus: Path, folder: Path) -> None:
    """A run that its user interrupted."""
    advance = Trainer.advance

    def interrupting(trainer: Trainer) -> Any:
        if trainer.step == 9:
            os.kill(os.getpid(), signal.SIGINT)
        return advance(trainer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "advance", interrupting)
        with pytest.raises(Interrupted):
            train(recipe, corpus, out=folder)
