"""Teachers: how they are named, weighted and asked."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from teacher_text import Watch, different_sentences, write_lines
from torch import nn

from nearer.encoder import Encoder
from nearer.encoder.precision import LoweredBackbones
from nearer.errors import InputError, ModelError, SettingError
from nearer.teachers import Teacher, TeacherList, Teachers, TeacherSettings
from nearer.teachers.teacher import teacher_precision
from nearer.text import read_sentences

Tiny = Callable[[str], Path]
CPU = torch.device("cpu")
SENTENCES = different_sentences(12)
parse: Callable[[Any], list[TeacherSettings]] = TypeAdapter(TeacherList).validate_python


class TestNaming:
    @pytest.mark.parametrize(
        "value",
        [
            "one",
            ["one"],
            {"model": "one"},
            [{"model": "one"}],
            [TeacherSettings(model="one")],
        ],
    )
    def test_one_teacher(self, value: object) -> None:
        assert parse(value) == [TeacherSettings(model="one")]

    def test_several_with_and_without_settings(self) -> None:
        found = parse(["one", {"model": "two", "pooling": "cls", "max_length": 64, "pooler_as_head": True}])
        assert [teacher.model for teacher in found] == ["one", "two"]
        assert found[1].model_dump() == {
            "model": "two",
            "pooling": "cls",
            "max_length": 64,
            "text_normalisation": None,
            "template": None,
            "pooler_as_head": True,
            "allow_pickle": False,
        }

    def test_none(self) -> None:
        assert parse([]) == []

    @pytest.mark.parametrize(
        ("value", "told"),
        [
            ({"model": "one", "poling": "cls"}, "poling"),
            ({"pooling": "cls"}, "model"),
            (["one", {"model": "two", "max_length": 2}], "max_length"),
            ([3], "model"),
            (3, "list"),
            ([["one"]], "TeacherSettings"),
        ],
    )
    def test_what_cannot_be_one(self, value: object, told: str) -> None:
        with pytest.raises(ValidationError, match=told):
            parse(value)

    def test_all_settings_reach_the_encoder(self, tiny_model: Tiny) -> None:
        settings = TeacherSettings(
            model=str(tiny_model("bert")),
            pooling="cls",
            max_length=9,
            text_normalisation="full_stop",
            pooler_as_head=True,
        )
        encoder = settings.load(CPU)
        assert encoder.head is not None
        assert (encoder.settings.pooling, encoder.settings.max_length) == ("cls", 9)
        assert encoder.settings.text_normalisation == "full_stop"

    def test_a_plain_checkpoint_needs_its_pooling(self, tiny_model: Tiny) -> None:
        with pytest.raises(ModelError, match="name the pooling"):
            TeacherSettings(model=str(tiny_model("bert"))).load(CPU)


class TestWeights:
    @staticmethod
    def weighted(count: int, weights: list[float] | None) -> list[float]:
        return Teachers([TeacherSettings(model=str(place)) for place in range(count)], weights).weights

    def test_they_sum_to_one(self) -> None:
        assert self.weighted(2, [1, 3]) == pytest.approx([0.25, 0.75])
        assert self.weighted(3, [0, 0.2, 0.2]) == pytest.approx([0, 0.5, 0.5])
        assert self.weighted(1, [7]) == [1]

    def test_equal_by_default(self) -> None:
        assert self.weighted(4, None) == [0.25] * 4
        assert self.weighted(0, None) == []

    @pytest.mark.parametrize(
        ("count", "weights", "told"),
        [
            (2, [1.0], "teacher_weights: 1 given for 2 teachers"),
            (1, [0.5, 0.5], "teacher_weights: 2 given for 1 teachers"),
            (0, [1.0], "teacher_weights: 1 given for 0 teachers"),
            (2, [2.0, -1.0], r"teacher_weights: \[2.0, -1.0\] must be finite, not below 0"),
            (2, [0.0, 0.0], "not all 0"),
            (2, [float("nan"), 1.0], "must be finite"),
            (2, [float("inf"), 1.0], "must be finite"),
        ],
    )
    def test_what_they_cannot_be(self, count: int, weights: list[float], told: str) -> None:
        with pytest.raises(SettingError, match=told):
            self.weighted(count, weights)


class TestScores:
    @pytest.fixture
    def text(self, tmp_path: Path) -> Path:
        return write_lines(tmp_path / "text.txt", [*SENTENCES, SENTENCES[2]])

    @pytest.fixture
    def teachers(self, tiny_model: Tiny, text: Path) -> Teachers:
        """Two of different families, sizes of vectors and tokenizers."""
        settings = [
            TeacherSettings(model=str(tiny_model("bert")), pooling="max+mean"),
            TeacherSettings(model=str(tiny_model("roberta")), pooling="mean"),
        ]
        teachers = Teachers(settings, [1, 3])
        teachers.prepare(read_sentences(text), CPU)
        return teachers

    def test_they_are_the_weighted_cosines(self, teachers: Teachers) -> None:
        records = np.array([3, 0, 12, 7, 3, 2])
        given = {name: torch.from_numpy(array) for name, array in teachers.given(records).items()}
        assert {name: tuple(array.shape) for name, array in given.items()} == {"teacher0": (6, 64), "teacher1": (6, 32)}
        found = teachers.scores(given)
        assert found.dtype == torch.float32
        asked = [[*SENTENCES, SENTENCES[2]][record] for record in records]
        from_model, from_given = np.zeros((6, 6)), np.zeros((6, 6))
        for place, weight in enumerate((0.25, 0.75)):
            spoken = teachers.members[place].store.encoder.encode(asked).astype(np.float64)
            for vectors, sums in ((spoken, from_model), (given[f"teacher{place}"].double().numpy(), from_given)):
                for row in range(6):
                    for column in range(6):
                        a, b = vectors[row], vectors[column]
                        sums[row, column] += weight * (a @ b) / np.sqrt((a @ a) * (b @ b))
        np.testing.assert_allclose(found.numpy(), from_given, atol=1e-6)
        np.testing.assert_allclose(found.numpy(), from_model, atol=1e-3)
        assert np.ptp(from_model) > 0.05  # else any other cosines would have passed

    def test_a_step_s_given_is_a_copy_in_half_precision(self, teachers: Teachers) -> None:
        given = teachers.given(np.array([1, 2]))["teacher0"]
        assert given.dtype == np.float16
        given[:] = 0  # may not reach the store
        assert teachers.given(np.array([1, 2]))["teacher0"].any()

    def test_they_are_asked_once_and_again_only_of_what_is_new(
        self, teachers: Teachers, text: Path, watch: Watch
    ) -> None:
        text.write_text(text.read_text() + "the rain again\n")
        teachers.prepare(read_sentences(text), CPU)
        assert watch.sentences == 2  # the new one, by both
        assert len(teachers.members) == 2
        assert teachers.given(np.array([13]))["teacher1"].shape == (1, 32)

    def test_of_a_part_of_the_text_nothing_else_is_asked(self, tiny_model: Tiny, text: Path, watch: Watch) -> None:
        reading = read_sentences(text)
        wanted = np.zeros(len(list(reading)), dtype=bool)
        wanted[[1, 4]] = True
        teacher = Teacher(TeacherSettings(model=str(tiny_model("mpnet")), pooling="mean"), CPU)
        teacher.learn(reading, wanted=wanted)
        assert watch.sentences == 2
        part = teacher.of(np.array([4, 1]))
        with pytest.raises(AssertionError, match="not wanted"):
            teacher.of(np.array([1, 2]))
        teacher = Teacher(TeacherSettings(model=str(tiny_model("mpnet")), pooling="mean"), CPU)
        teacher.learn(reading)  # which is known in part alone
        assert watch.sentences == len(set(reading))
        np.testing.assert_array_equal(teacher.of(np.array([4, 1])), part)

    def test_each_has_an_identity_also_two_of_one_model(self, tiny_model: Tiny, text: Path) -> None:
        folder = str(tiny_model("bert"))
        teachers = Teachers([TeacherSettings(model=folder, pooling=pooling) for pooling in ("cls", "mean")], None)
        teachers.prepare(read_sentences(text), CPU)
        found = teachers.identity()
        assert list(found.values()) == [member.store.fingerprint for member in teachers.members]
        assert len(set(found.values())) == 2
        assert all(folder in name for name in found)

    def test_they_can_be_described(self, teachers: Teachers, tiny_model: Tiny) -> None:
        assert teachers.describe() == [
            {"model": str(tiny_model("bert")), "pooling": "max+mean", "weight": 0.25},
            {"model": str(tiny_model("roberta")), "pooling": "mean", "weight": 0.75},
        ]

    def test_what_it_computed_with_is_let_go(
        self, tiny_model: Tiny, text: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also the copy of its backbone in bf16, which no `cpu()` moves off a GPU."""
        copies = []
        lowered = LoweredBackbones.backbone

        def seen(self: LoweredBackbones, backbone: nn.Module, precision: str) -> nn.Module:
            found = lowered(self, backbone, precision)
            copies.append(weakref.ref(found))
            return found

        monkeypatch.setattr(LoweredBackbones, "backbone", seen)
        monkeypatch.setattr("nearer.teachers.teacher.teacher_precision", lambda device: "bf16")
        teacher = Teacher(TeacherSettings(model=str(tiny_model("bert")), pooling="mean"), CPU)
        teacher.learn(read_sentences(text))
        gc.collect()
        assert copies
        assert all(copy() is None for copy in copies)
        assert teacher.of(np.array([0, 2])).any()

    def test_a_teacher_without_a_text_knows_nothing(self, tiny_model: Tiny) -> None:
        teacher = Teacher(TeacherSettings(model=str(tiny_model("bert")), pooling="cls"), CPU)
        assert len(teacher.rows) == len(teacher.vectors) == 0
        assert teacher.fingerprint.endswith("-float32")

    def test_an_unusable_text_is_named(self, tiny_model: Tiny, tmp_path: Path) -> None:
        teachers = Teachers([TeacherSettings(model=str(tiny_model("bert")), pooling="cls")], None)
        with pytest.raises(InputError, match=r"none\.txt: no such file"):
            teachers.prepare(read_sentences(tmp_path / "none.txt"), CPU)


def test_precision_goes_by_the_device() -> None:
    assert teacher_precision(CPU) == "float32"
    assert teacher_precision(torch.device("cuda", 1)) == "bf16"


def test_an_encoder_is_loaded_as_a_teacher_is(tiny_model: Tiny) -> None:
    named = TeacherSettings(model=str(tiny_model("bert")), pooling="mean").load(CPU)
    plain = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")
    np.testing.assert_array_equal(named.encode("rain"), plain.encode("rain"))
