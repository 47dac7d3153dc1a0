"""How much of a sentence teachers and judges read: as much as the student, unless the recipe says otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nearer.encoder import Encoder
from nearer.methods import METHODS
from nearer.teachers import TeacherSettings
from nearer.text import read_ranking_lists, read_sentences
from nearer.training.recipes import load_recipe, recipe_names

LONG = "the quick brown fox jumps over the lazy dog again and again until the evening comes"


@pytest.fixture
def student(tiny_model: Callable[[str], Path]) -> Encoder:
    return Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(f"{word} {LONG}" for word in ("rain", "lunch", "a meal")) + "\n")
    return path


def prepared(method: str, student: Encoder, text: Path, teacher: Path, **settings: Any) -> tuple[Any, list[str]]:
    made, settings_class = METHODS[method], METHODS[method].Settings
    if method == "refine":
        lists = text.with_name("lists.jsonl")
        lists.write_text(json.dumps({"sentences": text.read_text().splitlines()}) + "\n")
        reading: Any = read_ranking_lists(lists)
    else:
        reading = read_sentences(text)
    asked = {"teachers": [{"model": str(teacher), "pooling": "mean"}], **settings}
    found = made(settings_class(**asked))
    remarks = found.prepare(student, reading, max_length=8)
    members = getattr(found, "judges", getattr(found, "teachers", None))
    return (found.teacher if members is None else members.members[0]), remarks


@pytest.mark.parametrize("method", ["rankcse", "rankencoder", "refine"])
class TestMethods:
    def test_as_much_as_the_student(
        self, method: str, student: Encoder, corpus: Path, tiny_model: Callable[[str], Path]
    ) -> None:
        teacher, remarks = prepared(method, student, corpus, tiny_model("roberta"))
        assert teacher.max_length == 8
        assert not any("teachers read" in remark for remark in remarks)

    @pytest.mark.parametrize(("asked", "read"), [("whole", 64), (20, 20)])
    def test_another_length_is_said(
        self, asked: Any, read: int, method: str, student: Encoder, corpus: Path, tiny_model: Callable[[str], Path]
    ) -> None:
        teacher, remarks = prepared(method, student, corpus, tiny_model("roberta"), teacher_max_length=asked)
        assert teacher.max_length == read
        [remark] = [remark for remark in remarks if "teachers read" in remark]
        assert f"the first {read} tokens" in remark
        assert "the student the first 8; teacher_max_length" in remark

    def test_a_teacher_s_own_setting_comes_first(
        self, method: str, student: Encoder, corpus: Path, tiny_model: Callable[[str], Path]
    ) -> None:
        own = [{"model": str(tiny_model("roberta")), "pooling": "mean", "max_length": 12}]
        teacher, remarks = prepared(method, student, corpus, tiny_model("roberta"), teachers=own)
        assert teacher.max_length == 12
        assert any("the first 12 tokens" in remark for remark in remarks)


def test_a_model_that_judges_itself_reads_as_the_student(student: Encoder, corpus: Path) -> None:
    student.name = str(student.source)
    judge, _ = prepared("refine", student, corpus, Path("none"), teachers=[])
    assert judge.max_length == 8


def test_a_teacher_cannot_read_more_than_it_can(tiny_model: Callable[[str], Path]) -> None:
    settings = TeacherSettings(model=str(tiny_model("bert")), pooling="mean")
    assert settings.load(torch.device("cpu"), 1000).settings.max_length == 64


def test_vectors_of_another_length_are_kept_apart(
    student: Encoder, corpus: Path, tiny_model: Callable[[str], Path]
) -> None:
    short, _ = prepared("rankcse", student, corpus, tiny_model("roberta"))
    whole, _ = prepared("rankcse", student, corpus, tiny_model("roberta"), teacher_max_length="whole")
    assert short.fingerprint != whole.fingerprint
    assert short.store.folder != whole.store.folder
    # three sentences that differ in their first words alone: the shorter the reading, the more they differ
    rows = torch.from_numpy(short.of([0, 1])).float(), torch.from_numpy(whole.of([0, 1])).float()
    assert not torch.allclose(*rows, atol=1e-3)


@pytest.mark.parametrize("name", [name for name in recipe_names() if name.startswith(("rank", "refine"))])
def test_every_recipe_with_teachers_says_what_they_read(name: str) -> None:
    wanted = "whole" if "mobilebert" in name or "wiki-mini" in name else "student"
    assert load_recipe(name).method.teacher_max_length == wanted  # type: ignore[attr-defined]
