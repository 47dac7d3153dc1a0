"""A run on the user's own text: what is held out, how long texts are, what is told, and what is kept."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.evaluation import evaluate
from nearer.text.reading_filters import same_text
from nearer.training import resume, train
from nearer.training.numerics import choose_numerics, pinned

WORDS = "heat wing flow drag lift shock wave rain wind test tube model plate edge nose speed".split()  # noqa: SIM905
SETTINGS = {"select_on": "held-out", "watch_on": "everyday", "test_on": [], "max_length": "auto", "evaluate_every": 5}


def texts(count: int, seed: int = 0, *, sentences: int = 3) -> list[str]:
    draw = random.Random(seed)
    return [
        " ".join(f"{' '.join(draw.choices(WORDS, k=draw.randint(6, 12))).capitalize()}." for _ in range(sentences))
        for _ in range(count)
    ]


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    path = tmp_path / "documents.txt"
    path.write_text("\n".join(texts(200)))
    return path


def metrics(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


class TestHeldOut:
    def test_the_dev_task_is_made_of_records_that_are_not_trained_on(
        self, recipe: Path, documents: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        # means over tokens: a tiny model's [CLS] is so much alike in all texts that rounding decides who is nearer
        settings = {**SETTINGS, "max_steps": 5, "pooling": "mean"}
        run = train(recipe, documents, out=tmp_path / "run", settings=settings, progress=True)
        said = capsys.readouterr().err
        assert "dev task: 20 records held out of training, first sentence → the rest of its text" in " ".join(
            said.split()
        )
        queries = [
            json.loads(line)["text"] for line in (run.folder / "held-out/queries.jsonl").read_text().splitlines()
        ]
        assert len(queries) == 20
        whole = [
            text for text in documents.read_text().splitlines() if any(text.startswith(query) for query in queries)
        ]
        assert len(whole) == 20
        noted = run.load(device="cpu").provenance
        assert (noted["records"], noted["dropped"], noted["held_out"]["records"]) == (180, 0, 20)
        # what chose the step is what anybody finds on that folder with the model that was kept
        found = evaluate(run.load(device="cpu"), f"retrieval:{run.folder / 'held-out'}")
        assert found.average == pytest.approx(run.best_score, abs=1e-4)

    def test_a_watched_task_is_noted_and_chooses_nothing(self, recipe: Path, documents: Path, tmp_path: Path) -> None:
        train(recipe, documents, out=tmp_path / "run", settings={**SETTINGS, "max_steps": 10})
        looks = [line for line in metrics(tmp_path / "run") if "dev" in line]
        assert [look["step"] for look in looks] == [0, 5, 10]
        for look in looks:
            assert look["dev"] == look["held-out dev"]
            assert -100 <= look["everyday file (watched)"] <= 100
            assert "alignment" in look

    def test_all_seeds_hold_out_the_same(self, recipe: Path, documents: Path, tmp_path: Path) -> None:
        for seed in (1, 2):
            train(recipe, documents, out=tmp_path / f"{seed}", settings={**SETTINGS, "max_steps": 1, "seed": seed})
        first, second = ((tmp_path / f"{seed}" / "held-out/corpus.jsonl").read_text() for seed in (1, 2))
        assert first == second

    def test_a_small_text_keeps_all_its_records(
        self, recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run = train(recipe, texts(60), out=tmp_path / "run", settings={**SETTINGS, "max_steps": 2}, progress=True)
        assert "nothing is held out for a dev task" in " ".join(capsys.readouterr().err.split())
        assert (run.best_step, run.untrained) == (None, False)
        assert run.load(device="cpu").provenance["records"] == 60

    def test_a_resumed_run_goes_on_as_if_nothing_had_happened(
        self,
        recipe: Path,
        documents: Path,
        tmp_path: Path,
        weights: Callable[[Path], dict[str, Any]],
        stop_after: Callable[[int], Any],
    ) -> None:
        settings = {**SETTINGS, "max_steps": 12, "checkpoint_every": 4}
        train(recipe, documents, out=tmp_path / "straight", settings=settings)
        with stop_after(6):
            train(recipe, documents, out=tmp_path / "stopped", settings=settings)
        resume(tmp_path / "stopped")
        straight, stopped = weights(tmp_path / "straight"), weights(tmp_path / "stopped")
        assert straight.keys() == stopped.keys()
        assert all((straight[name] == stopped[name]).all() for name in straight)

    def test_none_of_pairs_share_a_text_with_the_task(self, recipe: Path, tmp_path: Path) -> None:
        sides = zip(texts(150, 1, sentences=1), texts(150, 2, sentences=1), strict=True)
        pairs = [*sides, *((f"Again {place}", second) for place, second in enumerate(texts(150, 2, sentences=1)))]
        settings = {**SETTINGS, "data": "pairs", "max_steps": 1}
        run = train(recipe, pairs, out=tmp_path / "run", settings=settings)
        answers = [json.loads(line)["text"] for line in (run.folder / "held-out/corpus.jsonl").read_text().splitlines()]
        held = {same_text(answer) for answer in answers}
        shared = sum(same_text(second) in held for _, second in pairs)
        assert shared > len(held)  # the repetitions among them
        assert run.load(device="cpu").provenance["records"] == len(pairs) - shared


class TestTeachersOrder:
    """Held-out sentences of a method that follows teachers."""

    @pytest.fixture
    def sentences(self, tmp_path: Path) -> Path:
        path = tmp_path / "sentences.txt"
        path.write_text("\n".join(texts(300, sentences=1)))
        return path

    def settings(self, teacher: Path, **more: Any) -> dict[str, Any]:
        named = {"model": str(teacher), "pooling": "mean"}
        return {**SETTINGS, "method": "rankcse", "teachers": [named], "max_steps": 2, **more}

    def test_a_student_is_asked_for_what_its_teacher_finds_nearest(
        self, recipe: Path, sentences: Path, tmp_path: Path, tiny_model: Callable[[str], Path], capsys: Any
    ) -> None:
        teacher = tiny_model("roberta")
        run = train(recipe, sentences, out=tmp_path / "run", settings=self.settings(teacher), progress=True)
        said = " ".join(capsys.readouterr().err.split())
        assert "30 records held out of training, a sentence → those that the teachers find nearest to it" in said
        written = f"retrieval:{run.folder / 'held-out'}"
        device = torch.device("cpu")
        with pinned(choose_numerics(None, device, "float32")[0], device):
            found = evaluate(run.load(device="cpu"), written)
            its_own = evaluate(Encoder.load(teacher, pooling="mean", device=device), written)
        assert found.average == pytest.approx(run.best_score, abs=3)  # rounding swaps sentences that are equally near
        assert its_own.average > 97 > found.average

    def test_without_ranking_sentences_are_asked_for_their_halves(
        self, recipe: Path, sentences: Path, tmp_path: Path, tiny_model: Callable[[str], Path]
    ) -> None:
        settings = self.settings(tiny_model("roberta"), ranking_weight=0)
        run = train(recipe, sentences, out=tmp_path / "run", settings=settings)
        assert run.load(device="cpu").provenance["held_out"]["asks"].startswith("half of a sentence's words")


class TestUntrained:
    @pytest.fixture
    def spoilt(self, recipe: Path, documents: Path, tmp_path: Path) -> Path:
        """A run whose dev task any model solves: both sides are the same text."""
        pairs = tmp_path / "pairs.tsv"
        pairs.write_text("".join(f"{text}\t{text}\n" for text in documents.read_text().splitlines()))
        settings = {**SETTINGS, "data": "pairs", "max_steps": 5}
        command = ["train", str(recipe), "--corpus", str(pairs), "--out", str(tmp_path / "run")]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        self.said = _nearer(*command)
        return tmp_path / "run"

    def test_the_last_line_and_the_card_say_so(self, spoilt: Path, tmp_path: Path) -> None:
        assert yaml.safe_load((spoilt / "model" / "nearer.json").read_text())["provenance"]["best_step"] == 0
        assert self.said.strip().splitlines()[-1].startswith("untrained: no step was better on dev")
        _nearer("export", "folder", str(spoilt), "--out", str(tmp_path / "exported"), "--name", "mine")
        card = (tmp_path / "exported" / "README.md").read_text()
        body = card.split("---\n", 2)[2].strip()
        assert body.splitlines()[0] == "# mine (untrained)"
        assert "trained by" not in body
        assert "step 0, the model as it was" in body


def _nearer(*arguments: str) -> str:
    """What a command says; it must end well."""
    from typer.testing import CliRunner

    from nearer.cli.main import app

    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stderr


class TestLength:
    def test_auto_holds_most_texts_and_is_noted_as_a_number(
        self, recipe: Path, documents: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        train(recipe, documents, out=tmp_path / "run", settings={**SETTINGS, "max_steps": 1}, progress=True)
        noted = yaml.safe_load((tmp_path / "run/config.yaml").read_text())["settings"]["max_length"]
        assert noted > 16
        assert noted % 8 == 0 or noted == 64  # the tiny model's own
        told = train(recipe, documents, out=tmp_path / "cut", settings={**SETTINGS, "max_steps": 1, "max_length": 8})
        assert told.load(device="cpu").provenance["settings"]["max_length"] == 8

    def test_what_is_cut_is_told(
        self, recipe: Path, documents: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        settings = {**SETTINGS, "max_steps": 1, "max_length": 8}
        train(recipe, documents, out=tmp_path / "run", settings=settings, progress=True)
        assert "180 of 180 texts are cut at 8 tokens (max_length)" in " ".join(capsys.readouterr().err.split())

    @pytest.mark.parametrize("length", [2, 10_000_000, "whole", 3.5, True])
    def test_other_lengths_are_refused(self, recipe: Path, documents: Path, tmp_path: Path, length: Any) -> None:
        with pytest.raises(SettingError, match="max_length"):
            train(recipe, documents, out=tmp_path / "run", settings={"max_length": length})


class TestInMemory:
    @pytest.mark.parametrize("as_iterator", [False, True])
    def test_records_are_kept_with_the_run(
        self,
        recipe: Path,
        documents: Path,
        tmp_path: Path,
        weights: Callable[[Path], dict[str, Any]],
        as_iterator: bool,
    ) -> None:
        settings = {**SETTINGS, "max_steps": 4}
        records = documents.read_text().splitlines()
        train(recipe, documents, out=tmp_path / "file", settings=settings)
        train(recipe, iter(records) if as_iterator else records, out=tmp_path / "memory", settings=settings)
        assert len((tmp_path / "memory/corpus.jsonl").read_text().splitlines()) == 200
        file, memory = weights(tmp_path / "file"), weights(tmp_path / "memory")
        assert all((file[name] == memory[name]).all() for name in file)

    def test_a_data_frame_with_columns(self, recipe: Path, tmp_path: Path) -> None:
        pandas = pytest.importorskip("pandas", reason="needs pandas")
        frame = pandas.DataFrame({"id": range(150), "title": texts(150, 1, sentences=1), "body": texts(150, 2)})
        settings = {**SETTINGS, "data": "pairs", "max_steps": 1}
        run = train(recipe, frame, columns=["title", "body"], out=tmp_path / "run", settings=settings)
        assert run.load(device="cpu").provenance["records"] == 130
        with pytest.raises(InputError, match=r"corpus.*'heading'.*'title'"):
            train(recipe, frame, columns=["heading", "body"], out=tmp_path / "other", settings=settings)

    def test_what_cannot_be_read_names_the_argument(self, recipe: Path, tmp_path: Path) -> None:
        with pytest.raises(SettingError, match="corpus: a int cannot be read"):
            train(recipe, 7, out=tmp_path / "run")  # type: ignore[arg-type]


class TestReading:
    def test_random_bytes_are_no_text(self, recipe: Path, tmp_path: Path) -> None:
        path = tmp_path / "noise.bin"
        path.write_bytes(random.Random(0).randbytes(200_000))
        with pytest.raises(InputError, match=r"of [\d,]+ lines could not be used; is it the right file.*allow_dropped"):
            train(recipe, path, out=tmp_path / "run", settings=SETTINGS)
        assert not (tmp_path / "run").exists()

    def test_unless_that_is_meant(self, recipe: Path, tmp_path: Path) -> None:
        path = tmp_path / "mostly.txt"
        path.write_bytes(b"\xff\xfe broken\n" * 300 + "\n".join(texts(150)).encode())
        run = train(
            recipe, path, out=tmp_path / "run", settings={**SETTINGS, "max_steps": 1}, reading={"allow_dropped": True}
        )
        assert run.load(device="cpu").provenance["dropped"] == 300

    def test_the_encoding_is_kept_for_resuming(self, recipe: Path, tmp_path: Path) -> None:
        path = tmp_path / "latin.txt"
        path.write_bytes("\n".join(f"Über {text}" for text in texts(150)).encode("latin-1"))
        train(
            recipe, path, out=tmp_path / "run", settings={**SETTINGS, "max_steps": 1}, reading={"encoding": "latin-1"}
        )
        assert resume(tmp_path / "run").load(device="cpu").provenance["dropped"] == 0

    @pytest.mark.parametrize(("name", "value"), [("encodin", "latin-1"), ("encoding", "klingon"), ("columns", ["a"])])
    def test_wrong_options(self, recipe: Path, documents: Path, tmp_path: Path, name: str, value: Any) -> None:
        with pytest.raises(SettingError, match=r"reading: |encoding: "):
            train(recipe, documents, out=tmp_path / "run", reading={name: value})

    def test_pairs_that_contain_each_other_are_told_and_stripped(
        self, recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        titles, bodies = texts(150, 1, sentences=1), texts(150, 2)
        pairs = [(title, f"{title} {body}") for title, body in zip(titles, bodies, strict=True)]
        settings = {**SETTINGS, "data": "pairs", "max_steps": 1}
        train(recipe, pairs, out=tmp_path / "run", settings=settings, progress=True)
        assert "in 100% of the pairs one side contains the other" in " ".join(capsys.readouterr().err.split())
        arguments: dict[str, Any] = {"settings": settings, "reading": {"strip_contained": True}}
        train(recipe, pairs, out=tmp_path / "stripped", **arguments, progress=True)
        assert "contains the other" not in capsys.readouterr().err
        answers = (tmp_path / "stripped/held-out/corpus.jsonl").read_text()
        assert not any(title in answers for title in titles)
