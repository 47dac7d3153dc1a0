"""Every recipe's losses are those that were recorded, to the bit on a machine of the same kind.

A change that is not meant to change what is computed must leave `recorded_losses.json` as it is. To record anew:

    NEARER_RECORD=1 pytest -n0 tests/training/test_recorded_losses.py
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, DistilBertConfig, DistilBertForMaskedLM

from nearer.encoder import Encoder
from nearer.methods import METHODS
from nearer.text.reading import Reading, ReadOptions
from nearer.text.scored_lists import ScoredLists
from nearer.text.shapes import SHAPES
from nearer.training.corpus import open_corpus
from nearer.training.numerics import choose_numerics, pinned
from nearer.training.recipes import load_recipe, recipe_names
from nearer.training.trainer import Trainer

STEPS = 4
RECORDED = Path(__file__).parent / "recorded_losses.json"
# torch computes with other instructions, and in another order, on another kind of machine
MACHINE = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()} torch {torch.__version__}"
# Ways of taking a step that no recipe asks for
VARIANTS: dict[str, dict[str, Any]] = {
    "simcse-bert-base +mlm": {"mlm_weight": 0.1},
    "simcse-bert-base +fixed_masks": {"fixed_masks": True},
    "simcse-bert-base +two_encoders": {"two_encoders": True},
    "simcse-bert-base +word_deletion": {"augmentation": "word_deletion"},
    "simcse-bert-base +piece": {"piece": 5},
    "simcse-bert-base +accumulation": {"accumulation": 2},
    "simcse-supervised-bert-base +piece": {"piece": 5},
    "debcse-bert-base +piece": {"piece": 5},
    "debcse-bert-base +plain": {"alternating": False, "mined_negatives": False},
    "rankencoder-bert-base +released": {"variant": "released", "approximate": True},
    "simcse-bert-base +word_repetition": {"augmentation": "word_repetition", "augmentation_rate": 0.3},
    "rankencoder-bert-base +mlm": {"mlm_weight": 0.1},
    "refine-bert-base +order": {"target": "order", "teachers": []},
    "promptbert-bert-base +piece": {"piece": 5},
    "diffcse-bert-base +piece": {"piece": 5},
    "diffcse-bert-base +released": {"replacement": "argmax", "replaced": "all"},
    "dclr-bert-base +released": {"variant": "released", "false_negative": 0.5},
    "pcl-bert-base +released": {"variant": "released"},
    "refine-bert-base +shuffled": {"shuffle_lists": True, "batch_size": 2},
    "tsdae-bert-base +small": {"decoder": "small", "piece": 5},
    "ct-bert-base +released": {"variant": "released", "negatives": 1},
    "lists +contrast": {"teachers": [], "query_max_length": 8},
    "lists +list_mle": {"loss": "list_mle", "in_batch_weight": 0, "piece": 5},
}


def tiny_kind(recipe: str) -> str:
    return next((kind for kind in ("roberta", "mobilebert") if kind in recipe), "bert")


def write_text(data: str, path: Path, lines: list[str]) -> Path:
    draw = random.Random(5)
    if data in ("sentences", "pairs", "triplets"):
        count = {"sentences": 1, "pairs": 2, "triplets": 3}[data]
        rows = [
            "\t".join([*lines[n : n + count], *([str(n % 6)] * (data == "pairs"))]) for n in range(len(lines) - count)
        ]
        path = path.with_suffix(".txt" if count == 1 else ".tsv")
        path.write_text("\n".join(rows) + "\n")
        return path
    if data == "labelled":
        path = path.with_suffix(".tsv")
        kinds = ("entailment", "neutral", "contradiction")
        rows = [f"{first}\t{second}\t{draw.choice(kinds)}\n" for first, second in itertools.pairwise(lines)]
        path.write_text("premise\thypothesis\tlabel\n" + "".join(rows))
        return path
    records: list[dict[str, Any]]
    if data == "debiased":
        records = [
            {"anchor": line, "positives": draw.sample(lines, 2), "negatives": draw.sample(lines, 2)} for line in lines
        ]
    elif data == "scored":
        records = [
            {"query": query, "passages": draw.sample(lines, 20), "scores": [draw.random() for _ in range(20)]}
            for query in lines[:20]
        ]
    else:
        records = [{"sentences": draw.sample(lines, 6)} for _ in range(20)]
    path = path.with_suffix(".jsonl")
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def _generator(kind: str, model: Path, tmp_path: Path) -> Path:
    """A masked language model with the tiny model's tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    sizes = {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 32, "vocab_size": len(tokenizer)}
    torch.manual_seed(3)
    DistilBertForMaskedLM(DistilBertConfig(**sizes, max_position_embeddings=66)).save_pretrained(tmp_path / "generator")
    tokenizer.save_pretrained(tmp_path / "generator")
    return tmp_path / "generator"


def recorded_steps(name: str, tiny_model: Callable[[str], Path], corpus: Path, tmp_path: Path) -> list[list[float]]:
    recipe_name = name.split(" ")[0]
    kind = tiny_kind(recipe_name)
    overrides: dict[str, Any] = {"model": str(tiny_model(kind)), "batch_size": 8, "max_length": 16, "epochs": 9}
    plain = load_recipe(recipe_name, {"teachers": ["x"]} if recipe_name.startswith("rank") else {})
    if plain.training.pooling is None:
        overrides["pooling"] = "cls"
    if recipe_name.startswith(("rank", "refine", "lists", "multicsr", "dclr")):
        overrides["teachers"] = [{"model": str(tiny_model("bert")), "pooling": "mean"}]
    if plain.training.template is not None:  # the papers' are long in the tiny model's letters
        overrides |= {"template": "a man {sentence} is [MASK]", "max_length": 24}
    if getattr(plain.method, "second_template", None) is not None:
        overrides["second_template"] = "a dog {sentence} is [MASK]"
    if plain.training.method == "diffcse":
        overrides["generator"] = str(_generator(kind, tiny_model(kind), tmp_path))
    lines = corpus.read_text().split("\n")[:-1]
    if plain.training.method == "declutr":
        overrides |= {"shortest_span": 3, "document_tokens": 120}
        lines = [" ".join(lines[start : start + 9]) for start in range(len(lines) - 9)]
    recipe = load_recipe(recipe_name, overrides | VARIANTS.get(name, {}))
    settings = recipe.training
    torch.manual_seed(settings.seed)
    method: Any = METHODS[settings.method](recipe.method)
    encoder = Encoder.load(
        settings.model,
        pooling=settings.pooling,
        template=settings.template,
        device="cpu",
        dropout=settings.dropout,
    )
    if settings.head:
        encoder.add_head(torch.Generator().manual_seed(settings.seed))
    text = write_text(settings.data, tmp_path / "text", lines)
    reading: Reading[Any] = Reading(text, SHAPES[settings.data], ReadOptions())
    if settings.data == "scored":
        reading = ScoredLists(text, ReadOptions())
    method.prepare(encoder, reading, max_length=settings.longest)
    store, _ = open_corpus(reading, encoder, method, settings.longest, progress=False)
    trainer = Trainer(encoder, method, store, settings)
    try:
        return [trainer.advance().values.tolist() for _ in range(STEPS)]
    finally:
        trainer.close()


@pytest.fixture
def _as_in_a_run() -> Iterator[None]:
    """With the kernels that a run chooses, and one thread: sums depend on how many share them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    device = torch.device("cpu")
    with pinned(choose_numerics(None, device, "float32")[0], device):
        yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_as_in_a_run")
@pytest.mark.parametrize("name", [*recipe_names(), *VARIANTS])
def test_losses_are_those_recorded(name: str, tiny_model: Callable[[str], Path], corpus: Path, tmp_path: Path) -> None:
    found = recorded_steps(name, tiny_model, corpus, tmp_path)
    if "NEARER_RECORD" in os.environ:
        recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
        recorded.setdefault(MACHINE, {})[name] = found
        RECORDED.write_text(json.dumps(recorded, indent=0, sort_keys=True) + "\n")
        pytest.skip("recorded")
    recorded = json.loads(RECORDED.read_text())
    if MACHINE in recorded:
        assert found == recorded[MACHINE][name]
    for machine in recorded.values():
        for step, (ours, theirs) in enumerate(zip(found, machine[name], strict=True)):
            # each step begins where the one before has ended, so what was rounded otherwise grows
            apart = {"rtol": 2e-3, "atol": 2e-4} if step == 0 else {"rtol": 2e-2, "atol": 2e-3}
            torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), **apart)
