"""The losses in real training: a tiny model, sentence-transformers' own trainer, and the example."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nearer.encoder import Encoder
from nearer.integrations.sentence_transformers import (
    ListMLELoss,
    ListNetLoss,
    RankCSELoss,
    RankingConsistencyLoss,
    teacher_labels,
)

EXAMPLE = Path(__file__).parents[2] / "examples" / "sentence_transformers_listwise.py"
WHO, DOES, WHAT = ("A man", "Someone", "The fox"), ("has", "eats"), ("lunch", "rain", "a dog")
TEXTS = [f"{who} {does} {what}." for who in WHO for does in DOES for what in WHAT]
BATCH = 6


class WordTeacher:
    """Sentences are near that share words."""

    def encode(self, sentences: list[str]) -> Any:
        words = sorted({word for text in TEXTS for word in text.split()})
        return np.array([[word in text.split() for word in words] for text in sentences], dtype=np.float32)


def disagreement(model: Any) -> float:
    """How far the student's cosines are from the teacher's order, over all texts; dropout off."""
    labels = torch.from_numpy(WordTeacher().encode(TEXTS))
    vectors = model.encode(TEXTS, convert_to_tensor=True)
    with torch.no_grad():
        loss = ListNetLoss(model, teacher_temperature=0.1, student_temperature=0.1)
        return float(loss.compute_loss_from_embeddings([vectors, vectors], labels))


@pytest.mark.parametrize("loss_class", [ListNetLoss, ListMLELoss, RankCSELoss])
def test_a_real_model_learns_the_teacher_s_ranking(student: Any, loss_class: Any) -> None:
    torch.manual_seed(0)
    labels = torch.from_numpy(WordTeacher().encode(TEXTS))
    before = disagreement(student)
    loss, optimiser = loss_class(student), torch.optim.AdamW(student.parameters(), lr=2e-3)
    student.train()
    for _ in range(20):
        loss([student.preprocess(TEXTS)], labels).backward()
        optimiser.step()
        optimiser.zero_grad()
    student.eval()
    assert disagreement(student) < before - 0.05


def test_in_matryoshka_loss(student: Any) -> None:
    from sentence_transformers.sentence_transformer.losses import MatryoshkaLoss

    loss = MatryoshkaLoss(student, RankCSELoss(student), [32, 16])
    loss([student.preprocess(TEXTS)], torch.from_numpy(WordTeacher().encode(TEXTS))).backward()
    assert all(p.grad is not None for n, p in student.named_parameters() if "query.weight" in n)


def listed() -> Any:
    """Queries with three candidates each and the teacher's scores of them."""
    from datasets import Dataset

    vectors = WordTeacher().encode(TEXTS)
    rows = [(i, [(i + k) % len(TEXTS) for k in (1, 5, 9)]) for i in range(len(TEXTS))]
    return Dataset.from_dict(
        {
            "query": TEXTS,
            **{f"candidate_{k}": [TEXTS[chosen[k]] for _, chosen in rows] for k in range(3)},
            "scores": [[float(vectors[i] @ vectors[j]) for j in chosen] for i, chosen in rows],
        }
    )


def in_batch() -> Any:
    from datasets import Dataset

    return teacher_labels(Dataset.from_dict({"sentence": TEXTS}), WordTeacher())


def pairs() -> Any:
    from datasets import Dataset

    texts = Dataset.from_dict({"anchor": TEXTS, "positive": TEXTS[1:] + TEXTS[:1]})
    return teacher_labels(texts, WordTeacher(), ("anchor", "positive"))


@pytest.fixture
def trained(student: Any, tmp_path: Path) -> Callable[[Any, Any], Any]:
    """The trainer after four epochs of three steps."""
    pytest.importorskip("datasets")
    pytest.importorskip("accelerate")
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments

    def train(loss: Any, dataset: Any) -> Any:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=str(tmp_path / "run"),
            per_device_train_batch_size=BATCH,
            num_train_epochs=4,
            learning_rate=2e-3,
            logging_steps=1,
            eval_strategy="epoch",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = SentenceTransformerTrainer(
            model=student, args=arguments, train_dataset=dataset, eval_dataset=dataset, loss=loss
        )
        trainer.train()
        return trainer

    return train


@pytest.mark.parametrize(
    ("loss_class", "settings", "dataset"),
    [
        (ListNetLoss, {}, in_batch),
        (ListMLELoss, {}, pairs),
        (ListMLELoss, {"labels": "scores"}, listed),
        (RankCSELoss, {"ranking": "list_mle"}, in_batch),
    ],
)
def test_the_trainer_brings_the_loss_down(
    student: Any, trained: Callable[[Any, Any], Any], loss_class: Any, settings: dict[str, Any], dataset: Any
) -> None:
    history = trained(loss_class(student, **settings), dataset()).state.log_history
    losses = [entry["eval_loss"] for entry in history if "eval_loss" in entry]
    assert len(losses) == 4
    assert losses[-1] < losses[0]


def test_consistency_trains_without_labels(student: Any, trained: Callable[[Any, Any], Any]) -> None:
    before = {name: weight.detach().clone() for name, weight in student.named_parameters()}
    trained(RankingConsistencyLoss(student), in_batch().remove_columns("label"))
    assert any(not torch.equal(weight, before[name]) for name, weight in student.named_parameters())


def test_parts_are_logged_and_add_up(student: Any, trained: Callable[[Any, Any], Any]) -> None:
    history = trained(RankCSELoss(student, log_parts=True), in_batch()).state.log_history
    for entry in (entry for entry in history if "loss" in entry):
        parts = [float(entry[name]) for name in ("contrastive", "consistency", "ranking")]
        assert float(entry["loss"]) == pytest.approx(sum(parts), abs=0.01)


def test_the_model_card_tells_of_the_loss(student: Any, trained: Callable[[Any, Any], Any], tmp_path: Path) -> None:
    trained(RankCSELoss(student, ranking_weight=0.75), in_batch())
    student.save_pretrained(str(tmp_path / "model"))
    card = (tmp_path / "model" / "README.md").read_text()
    assert "nearer.integrations.sentence_transformers.RankCSELoss" in card
    assert '"ranking_weight": 0.75' in card
    assert "liu-etal-2023-rankcse" in card


def test_the_example_runs(
    student_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("datasets")
    pytest.importorskip("accelerate")
    (tmp_path / "text.txt").write_text("\n".join(TEXTS))
    options = ["--teacher", str(student_folder), "--batch-size", "8", "--out", str(tmp_path / "model")]
    monkeypatch.setattr("sys.argv", [str(EXAMPLE), str(tmp_path / "text.txt"), *options])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert "everyday pairs, Spearman × 100: 48.3 before, " in capsys.readouterr().out
    assert Encoder.load(tmp_path / "model", device="cpu").encode(["rain"]).shape == (1, 256)
