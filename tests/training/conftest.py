"""A tiny run: a random model, a few hundred sentences, a dev file."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from nearer.encoder import Encoder
from nearer.methods import METHODS
from nearer.text.reading import Reading, ReadOptions
from nearer.text.scored_lists import ScoredLists
from nearer.text.shapes import SHAPES
from nearer.training.corpus import open_corpus
from nearer.training.settings import TrainingSettings
from nearer.training.trainer import Trainer

WORDS = """the quick brown fox jumps over a lazy dog and rain comes
until someone has lunch far away""".split()  # noqa: SIM905


def sentences(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(3, 12))) for _ in range(count)]


def write_scored(path: Path, lines: list[str]) -> Path:
    """Scored lists of unequal lengths with short queries, whose scores are the words that query and passage share."""
    draw = random.Random(4)
    records = []
    for line in lines[:64]:
        query, passages = " ".join(line.split()[:3]), draw.sample(lines[64:-1], draw.randint(12, 20))
        scores = [len(set(query.split()) & set(passage.split())) + draw.random() for passage in passages]
        records.append({"query": query, "passages": passages, "scores": scores})
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture
def recipe(tmp_path: Path, tiny_model: Callable[[str], Path]) -> Path:
    """A YAML recipe on the tiny model, with a dev file beside it."""
    draw = random.Random(3)
    pairs = zip(sentences(20, 8), sentences(20, 9), strict=True)
    dev = tmp_path / "dev.tsv"
    dev.write_text("".join(f"{first}\t{second}\t{draw.randint(0, 50) / 10}\n" for first, second in pairs))
    path = tmp_path / "tiny.yaml"
    path.write_text(
        f"""# nearer train tiny.yaml --corpus corpus.txt
# A recipe for tests.
method: simcse
model: {tiny_model("bert")}
pooling: cls_before_head
head: true
batch_size: 8
learning_rate: 1e-3
max_length: 16
epochs: 2
select_on: {dev}
evaluate_every: 7
test_on: {dev}
"""
    )
    return path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(dict.fromkeys(sentences(150, 1))) + "\n")
    return path


@pytest.fixture
def make_trainer(tiny_model: Callable[[str], Path], corpus: Path, tmp_path: Path) -> Callable[..., Trainer]:
    """A trainer on a tiny model, by settings of loop and method; slow to learn, so that rounding stays small.

    kind: of the tiny model, or the folder of another.
    """

    def make(
        kind: str = "bert",
        *,
        device: str = "cpu",
        overrides: dict[str, Any] | None = None,
        method: str = "simcse",
        **settings: Any,
    ) -> Trainer:
        method_class = METHODS[method]
        method_settings = method_class.Settings
        own = {name: settings.pop(name) for name in list(settings) if name in method_settings.model_fields}
        if "teachers" in own:  # kinds of tiny models
            own["teachers"] = [{"model": str(tiny_model(name)), "pooling": "mean"} for name in own["teachers"]]
        data = settings.setdefault("data", "sentences")
        text = corpus
        if data == "triplets":
            lines = corpus.read_text().split("\n")
            text = tmp_path / "triplets.tsv"
            text.write_text("".join("\t".join(lines[n : n + 3]) + "\n" for n in range(0, 120)))
        if data in ("pairs", "labelled"):  # the third column: how many words both have
            lines = corpus.read_text().split("\n")[:-1]
            shared = [len(set(a.split()) & set(b.split())) for a, b in itertools.pairwise(lines)]
            rows = [f"{a}\t{b}\t{n}\n" for (a, b), n in zip(itertools.pairwise(lines), shared, strict=True)]
            text = tmp_path / f"{data}.tsv"
            text.write_text("".join(rows))
        usual = {"head": True, "pooling": "cls_before_head", "dropout": 0.0, "learning_rate": 3e-5}
        sizes = {"batch_size": 8, "max_length": 16, "epochs": 9}
        made = TrainingSettings(
            method=method,
            model=kind if Path(kind).is_dir() else str(tiny_model(kind)),
            **{**usual, **sizes, **settings},
        )
        torch.manual_seed(0)
        encoder = Encoder.load(
            made.model,
            pooling=made.pooling,
            template=made.template,
            device=device,
            dropout=made.dropout,
            overrides=overrides,
        )
        if made.head:
            encoder.add_head(torch.Generator().manual_seed(0))
        taught = method_class(method_settings(**own))
        if data == "scored":
            lists = ScoredLists(write_scored(tmp_path / "scored.jsonl", corpus.read_text().split("\n")), ReadOptions())
            taught.prepare(encoder, lists, max_length=made.longest)
            return Trainer(encoder, taught, open_corpus(lists, encoder, taught, made.longest, progress=False)[0], made)
        reading: Reading[Any] = Reading(text, SHAPES[data], ReadOptions())
        taught.prepare(encoder, reading, max_length=made.longest)
        return Trainer(encoder, taught, open_corpus(reading, encoder, taught, made.longest, progress=False)[0], made)

    return make


@pytest.fixture
def take_steps() -> Callable[[Trainer, int], torch.Tensor]:
    """What so many steps measure (steps, values), the loss first and the gradient's norm last."""

    def take(trainer: Trainer, steps: int) -> torch.Tensor:
        try:
            return torch.stack([trainer.advance().values for _ in range(steps)]).cpu()
        finally:
            trainer.close()

    return take


@pytest.fixture
def weights() -> Callable[[Path], dict[str, Any]]:
    """All weights of a finished run: of its model and of its last checkpoint, head and moments included."""
    from safetensors.torch import load_file

    def load(folder: Path) -> dict[str, Any]:
        files = sorted([*folder.glob("model/**/*.safetensors"), *folder.glob("checkpoints/**/*.safetensors")])
        return {f"{file.relative_to(folder)}:{k}": v for file in files for k, v in load_file(file).items()}

    return load


@pytest.fixture
def stop_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], AbstractContextManager[None]]:
    """Within it a run dies in the step after so many, without a word to anybody."""

    class Died(BaseException):
        pass

    @contextmanager
    def dying(steps: int) -> Iterator[None]:
        advance = Trainer.advance

        def advance_or_die(self: Trainer) -> Any:
            if self.step == steps:
                raise Died
            return advance(self)

        with monkeypatch.context() as patched:
            patched.setattr(Trainer, "advance", advance_or_die)
            with pytest.raises(Died):
                yield

    return dying
