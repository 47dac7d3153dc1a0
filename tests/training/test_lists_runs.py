"""Whole runs on scored lists: against a plain loop, in pieces, on two processes, resumed; a planted order is learnt."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch.nn.functional import kl_div, log_softmax, normalize, softmax
from typer.testing import CliRunner

from nearer.cli.main import app
from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.text import ReadOptions, write_lists
from nearer.text.scored_lists import ScoredLists
from nearer.training import resume, train
from nearer.training.trainer import Trainer
from patience import HANG

WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "rain", "comes", "until", "lunch"]
QUICK = {"batch_size": 6, "passages_per_query": 4, "max_length": 16, "learning_rate": 1e-3, "pooling": "mean"}
DRIVER = """
import sys
import nearer, yaml
nearer.train("lists", sys.argv[1], out=sys.argv[2], settings=yaml.safe_load(sys.argv[3]))
"""


def write_folder(folder: Path, seed: int = 5, queries: int = 40, deaf_to: str = "") -> Path:
    """A judge who counts the query's words in a passage; the words of `deaf_to` count for nothing."""
    draw = random.Random(seed)
    passages = [{"_id": f"p{n}", "text": " ".join(draw.choices(WORDS, k=draw.randint(4, 12)))} for n in range(60)]
    asked, lists = [], []
    for n in range(queries):
        words = draw.sample(WORDS, 3)
        asked.append({"_id": f"q{n}", "text": " ".join(words)})
        some = draw.sample(passages, draw.randint(12, 20))
        heard = set(words) - set(deaf_to.split())
        scores = [len(heard & set(str(each["text"]).split())) + 0.01 * draw.random() for each in some]
        lists.append({"query": f"q{n}", "passages": [each["_id"] for each in some], "scores": scores})
    write_lists(folder, passages, asked, lists)
    return folder


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "lists")


@pytest.fixture
def run(tiny_model: Callable[[str], Path], lists: Path, tmp_path: Path) -> Callable[..., Any]:
    def go(name: str, **settings: Any) -> Any:
        return train("lists", lists, model=tiny_model("bert"), out=tmp_path / name, settings={**QUICK, **settings})

    return go


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def order_agreement(model: Encoder, folder: Path) -> float:
    """How often of two passages of a list the one with the higher score is nearer to the query."""
    reading = ScoredLists(folder, ReadOptions())
    texts, found = list(reading.passages()), []
    for record, query in enumerate(reading):
        some = reading.lists.passages[reading.lists.starts[record] : reading.lists.starts[record + 1]]
        near = np.asarray(model.similarity([query], [texts[number] for number in some]))[0]
        found += [near[i] > near[j] for i in range(len(near)) for j in range(i + 1, len(near))]
    return float(np.mean(found))


def test_a_planted_order_is_learnt_for_queries_that_training_never_saw(
    run: Callable[..., Any], tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    held_out = write_folder(tmp_path / "others", seed=9)
    done = run("run", max_steps=60, dropout=0.0, in_batch_weight=0)
    losses = [line["ranking"] for line in metrics(done.folder)]
    assert len(losses) == 60
    assert np.mean(losses[-10:]) < np.mean(losses[:10]) - 0.02
    before = order_agreement(Encoder.load(tiny_model("bert"), pooling="mean", device="cpu"), held_out)
    assert order_agreement(done.load("cpu"), held_out) > before + 0.03
    told = json.loads((done.model / "nearer.json").read_text())["provenance"]
    assert (told["method"], told["records"], told["passages"]) == ("lists", 40, 60)
    assert done.best_step is None  # the last step is kept


def test_steps_are_those_of_a_plain_loop(
    run: Callable[..., Any],
    tiny_model: Callable[[str], Path],
    lists: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loop of a script: ListNet within lists, a teacher's order of the batch, AdamW with warm-up and decay."""
    teacher = {"model": str(tiny_model("roberta")), "pooling": "mean"}
    drawn: list[Any] = []
    prepared = Trainer._prepare

    def recorded(self: Trainer, number: int) -> Any:
        inputs = self.method.inputs(self.feed.batch(number))
        drawn.append((inputs.passes["queries"].rows, inputs.passes["passages"].rows, dict(inputs.given)))
        return prepared(self, number)

    monkeypatch.setattr(Trainer, "_prepare", recorded)
    asked = {"max_steps": 5, "dropout": 0.0, "teachers": [teacher], "warmup": 0.4, "weight_decay": 0.01}
    done = run("run", **asked)
    encoder = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu", dropout=0.0).train()
    optimiser = torch.optim.AdamW(encoder.parameters(), lr=1e-3, weight_decay=0.01)
    rates = [0.5, 1, 1, 2 / 3, 1 / 3]  # two steps of warm-up, then down to 0
    # the first of all is for the estimate of memory
    for (queries, passages, given), rate, line in zip(drawn[1:], rates, metrics(done.folder), strict=True):
        for group in optimiser.param_groups:
            group["lr"] = 1e-3 * rate
        q, x = (normalize(encoder(*padded(rows)), dim=-1) for rows in (queries, passages))
        scores = q @ x.T / 0.05
        own = scores.view(6, 6, 4)[torch.arange(6), torch.arange(6)]
        target = softmax(2 * torch.from_numpy(given["wanted"]), dim=1)
        sides = [torch.from_numpy(given[f"{side} teacher0"]).float() for side in ("query", "passage")]
        theirs = softmax(normalize(sides[0], dim=-1) @ normalize(sides[1], dim=-1).T / 0.05, dim=1)
        entropies = [-(wanted * wanted.log()).sum(dim=1).mean() for wanted in (target, theirs)]
        loss = kl_div(log_softmax(own, 1), target, reduction="batchmean")
        loss = loss + kl_div(log_softmax(scores, 1), theirs, reduction="batchmean")
        optimiser.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        optimiser.step()
        # the method has the cross-entropy, which is larger by the target's entropy
        assert line["loss"] == pytest.approx((loss + sum(entropies)).item(), rel=1e-5)
        assert line["gradient_norm"] == pytest.approx(float(norm), rel=1e-4)
    trained = done.load("cpu")
    for (name, wanted), found in zip(encoder.named_parameters(), trained.parameters(), strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-3, msg=name)


def padded(rows: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(map(len, rows))
    ids = torch.tensor([[*row.tolist(), *[0] * (width - len(row))] for row in rows])
    return ids, torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])


def test_a_teachers_vectors_are_learnt(run: Callable[..., Any], tiny_model: Callable[[str], Path]) -> None:
    teacher = {"model": str(tiny_model("roberta")), "pooling": "mean"}
    done = run("run", max_steps=60, dropout=0.0, teachers=[teacher], vector_weight=100.0, in_batch_weight=0)
    lines = metrics(done.folder)
    first, last = (np.mean([line["vectors"] for line in some]) for some in (lines[:5], lines[-5:]))
    assert last < 0.8 * first
    assert lines[0]["loss"] == pytest.approx(lines[0]["ranking"] + 100 * lines[0]["vectors"], rel=1e-4)


def test_queries_of_a_topic_stand_in_a_batch_together(
    run: Callable[..., Any], tiny_model: Callable[[str], Path], lists: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch's queries are nearer to each other, by the teacher, than queries that are drawn at random."""
    drawn: list[tuple[int, ...]] = []
    prepared = Trainer._prepare

    def recorded(self: Trainer, number: int) -> Any:
        drawn.append(tuple(self.feed.plan.batch(number).tolist()))
        return prepared(self, number)

    monkeypatch.setattr(Trainer, "_prepare", recorded)
    teacher = {"model": str(tiny_model("roberta")), "pooling": "mean"}
    done = run("run", max_steps=12, teachers=[teacher], topic_size=6, keep_partial=False)
    assert all(np.isfinite(line["loss"]) for line in metrics(done.folder))
    texts = [json.loads(line)["text"] for line in (lists / "queries.jsonl").read_text().splitlines()]
    near = np.asarray(Encoder.load(tiny_model("roberta"), pooling="mean", device="cpu").similarity(texts, texts))
    pairs = [near[one, other] for batch in drawn for one in batch for other in batch if one < other]
    assert np.mean(pairs) > near[np.triu_indices(len(near), 1)].mean() + 0.3 * near[np.triu_indices(len(near), 1)].std()
    with pytest.raises(SettingError, match="topic_size needs a teacher"):
        run("other", topic_size=6)


def test_a_resumed_run_gives_the_same_weights(
    run: Callable[..., Any],
    tiny_model: Callable[[str], Path],
    tmp_path: Path,
    weights: Callable[[Path], dict[str, Any]],
    stop_after: Callable[[int], AbstractContextManager[None]],
) -> None:
    teacher = {"model": str(tiny_model("roberta")), "pooling": "mean"}
    settings = {"max_steps": 9, "checkpoint_every": 2, "loss": "list_mle", "query_max_length": 4}
    settings |= {"teachers": [teacher], "vector_weight": 10.0}  # the turn into the student's space is kept with the run
    settings |= {"topic_size": 3}
    whole = run("whole", **settings)
    with stop_after(5):
        run("parts", **settings)
    resume(tmp_path / "parts")
    one, other = weights(whole.folder), weights(tmp_path / "parts")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_run_that_is_stopped_on_the_way_goes_on_to_the_same_weights(
    run: Callable[..., Any],
    tiny_model: Callable[[str], Path],
    lists: Path,
    tmp_path: Path,
    weights: Callable[[Path], dict[str, Any]],
) -> None:
    """By rates of the whole run; what it had learnt when it stopped is a model until the run ends."""
    settings = {**QUICK, "max_steps": 9, "warmup": 0.2}
    whole, out = run("whole", **settings), tmp_path / "parts"
    first = train("lists", lists, model=tiny_model("bert"), out=out, settings=settings, stop_after=4)
    assert (first.stopped_after, first.model.name) == (4, "stopped-00000004")
    assert not (out / "model").exists()
    again = resume(out, stop_after=4)  # it is there already
    assert again == first
    assert len(metrics(out)) == 4
    second = resume(out, stop_after=6)
    assert second.stopped_after == 6
    kept = {name: tensor for name, tensor in weights(out).items() if "step-00000006/weights" in name}
    loaded = {f"encoder.{name}": tensor for name, tensor in Encoder.load(second.model).state_dict().items()}
    assert kept
    for name, tensor in kept.items():
        assert torch.equal(tensor, loaded[name.split(":")[1]])
    ended = resume(out, stop_after=20)
    assert (ended.stopped_after, ended.model) == (None, out / "model")
    assert metrics(out) == metrics(whole.folder)
    one, other = weights(whole.folder), weights(out)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    with pytest.raises(SettingError, match="stop_after: 0 is no number of steps"):
        resume(out, stop_after=0)


def test_a_run_goes_on_only_with_the_same_lists(
    run: Callable[..., Any], lists: Path, tmp_path: Path, stop_after: Callable[[int], AbstractContextManager[None]]
) -> None:
    with stop_after(3):
        run("parts", max_steps=4, checkpoint_every=2)
    text = (lists / "lists.jsonl").read_text()
    (lists / "checksums.json").unlink()
    (lists / "lists.jsonl").write_text(text.replace("p1", "p2", 1))
    with pytest.raises(InputError, match="is not the text that"):
        resume(tmp_path / "parts")


@pytest.mark.slow  # the contract's own test takes every kind of pass through two processes
@pytest.mark.parametrize("settings", [{"loss": "list_mle"}, {"teachers": True}], ids=str)
def test_two_processes_equal_one(
    settings: dict[str, Any],
    tiny_model: Callable[[str], Path],
    lists: Path,
    tmp_path: Path,
    weights: Callable[[Path], dict[str, Any]],
) -> None:
    """Shares of 4 and 3 queries with their passages."""
    if settings.get("teachers"):
        settings = {"teachers": [{"model": str(tiny_model("bert")), "pooling": "cls"}], "passage_weight": 0.5}
    usual = {**QUICK, "model": str(tiny_model("bert")), "batch_size": 7, "learning_rate": 1e-5, "dropout": 0.0}
    asked = {**usual, "max_steps": 3, **settings}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(lists), str(tmp_path / "two"), yaml.safe_dump(asked)],
            env={**shared, "WORLD_SIZE": "2", "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    ended = [(process.communicate(timeout=HANG)[1], process.returncode) for process in processes]
    assert [code for _, code in ended] == [0, 0], ended
    train("lists", lists, out=tmp_path / "one", settings=asked)
    for alone, together in zip(metrics(tmp_path / "one"), metrics(tmp_path / "two"), strict=True):
        assert together["loss"] == pytest.approx(alone["loss"], rel=1e-5)
        assert together["gradient_norm"] == pytest.approx(alone["gradient_norm"], rel=1e-3)
    alone, together = weights(tmp_path / "one"), weights(tmp_path / "two")
    moments = [name for name in alone if name.endswith(":exp_avg")]
    assert moments
    for name in moments:
        torch.testing.assert_close(together[name], alone[name], atol=1e-6, rtol=1e-3)


def test_the_command_and_records_in_memory(tiny_model: Callable[[str], Path], lists: Path, tmp_path: Path) -> None:
    asked = ["--set", "pooling=mean", "--set", "batch_size=6", "--set", "passages_per_query=4", "--max-steps", "2"]
    command = ["train", "lists", "--corpus", str(lists), "--model", str(tiny_model("bert")), *asked]
    done = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "run"), "--no-report"])
    assert done.exit_code == 0, done.output
    reading = ScoredLists(lists, ReadOptions())
    texts = list(reading.passages())
    records = []
    for record, query in enumerate(reading):
        some = slice(reading.lists.starts[record], reading.lists.starts[record + 1])
        named = [texts[number] for number in reading.lists.passages[some]]
        records.append({"query": query, "passages": named, "scores": reading.lists.scores[some].tolist()})
    settings = {"pooling": "mean", "batch_size": 6, "passages_per_query": 4, "max_steps": 2}
    other = train("lists", records, model=tiny_model("bert"), out=tmp_path / "memory", settings=settings)
    assert metrics(other.folder) == metrics(tmp_path / "run")


def test_data_read_tells_of_a_folder(lists: Path) -> None:
    done = CliRunner().invoke(app, ["data", "read", str(lists), "--as", "scored", "--show", "1"])
    assert done.exit_code == 0, done.output
    assert "40 read, 40 kept, 0 dropped" in " ".join(done.output.split())
    refused = CliRunner().invoke(app, ["data", "tokenize", "MODEL", str(lists), "--as", "scored"])
    assert "scored lists are tokenised when they are trained on" in " ".join(refused.output.split())


@pytest.mark.parametrize(
    ("settings", "error", "told"),
    [
        ({"select_on": ["held-out"]}, SettingError, "select_on: nothing is held out of scored lists"),
        ({"passages_per_query": 21, "top": 20}, InputError, "nothing in it could be used"),
        ({"batch_size": 64}, InputError, "40 records do not make one batch of 64"),
        ({"query_max_length": 20}, SettingError, r"query_max_length: 20 is above max_length \(16\)"),
        ({"method": "simcse"}, SettingError, "loss: no such setting"),
    ],
)
def test_what_cannot_be_trained_leaves_nothing(
    run: Callable[..., Any], tmp_path: Path, settings: dict[str, Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        run("run", **settings)
    assert not (tmp_path / "run").exists()
