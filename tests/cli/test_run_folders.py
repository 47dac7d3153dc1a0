"""The folder of a run is a model for every command."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearer import Encoder, RankEncoder
from nearer.baselines.load import load_scorer
from nearer.errors import ModelError
from nearer.serve.model import public_name
from nearer.teachers import load_model


@pytest.fixture
def run_folder(encoder: Encoder, tmp_path: Path) -> Path:
    """As training leaves it, as far as a model's finder looks."""
    run = tmp_path / "mine"
    encoder.save(run / "model")
    (run / "config.yaml").write_text("recipe: x\nsettings: {}\ncorpus: x.txt\n")
    return run


@pytest.fixture
def unfinished(tmp_path: Path) -> Path:
    run = tmp_path / "stopped"
    (run / "checkpoints").mkdir(parents=True)
    (run / "config.yaml").write_text("recipe: x\n")
    return run


def test_in_python(run_folder: Path, encoder: Encoder) -> None:
    expected = encoder.encode("a dog")
    for load in (Encoder.load, load_model, load_scorer):
        assert (load(run_folder, device="cpu").encode("a dog") == expected).all()
    assert public_name(str(run_folder)) == "mine"


def test_a_run_whose_model_is_a_rank_encoder(encoder: Encoder, run_folder: Path) -> None:
    RankEncoder.build(encoder, ["a dog", "rain", "lunch"]).save(run_folder / "model", overwrite=True)
    assert isinstance(load_model(run_folder, device="cpu"), RankEncoder)


@pytest.mark.parametrize(
    "arguments",
    [
        ("similarity", "RUN", "a dog", "a fox"),
        ("rank", "RUN", "a dog", "TEXT"),
        ("encode", "RUN", "TEXT", "--out", "OUT.npy"),
        ("embed", "RUN", "TEXT"),
        ("evaluate", "RUN", "--tasks", "everyday"),
        ("compare", "RUN", "wiki-mini", "--tasks", "everyday"),
        ("search", "build", "RUN", "TEXT", "--out", "OUT"),
        ("rank-encoder", "RUN", "--corpus", "TEXT", "--out", "OUT"),
        ("whiten", "RUN", "--corpus", "TEXT", "--out", "OUT"),
    ],
)
def test_in_commands(nearer, run_folder: Path, unfinished: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a dog\nrain comes\nlunch\nthe fox\n")

    def given(run: Path) -> list[str]:
        places = {
            "RUN": str(run),
            "TEXT": str(text),
            "OUT": str(tmp_path / "out"),
            "OUT.npy": str(tmp_path / "out.npy"),
        }
        return [places.get(argument, argument) for argument in arguments]

    told = nearer(*given(unfinished))
    assert told.code == 1
    assert "is a run that is not finished" in told.err
    assert f"go on with: nearer train --resume {unfinished}" in told.err
    told = nearer(*given(run_folder))
    assert told.code == 0, told.err


def test_a_folder_of_several_runs(run_folder: Path) -> None:
    with pytest.raises(ModelError, match=rf"holds 1 runs; name one of them, such as {run_folder}"):
        Encoder.load(run_folder.parent)
