"""Exports and a run, made once a session, and the command as users run it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tiny_exports import Exported, special_encoder

from nearer.cli.main import app
from nearer.export import OnnxEncoder, export_onnx
from nearer.training import train

WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "rain", "comes", "lunch", "away")


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory, tiny_model: Callable[[str], Path]) -> Callable[[str], Exported]:
    """`exported("bert")`: an encoder and its export, to be left as they are."""
    root, made = tmp_path_factory.mktemp("onnx"), dict[str, Exported]()

    def export(kind: str) -> Exported:
        if kind not in made:
            encoder = special_encoder(tiny_model, kind)
            result = export_onnx(encoder, root / kind)
            made[kind] = Exported(encoder, OnnxEncoder(root / kind), result)
        return made[kind]

    return export


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory, tiny_model: Callable[[str], Path]) -> Path:
    """The folder of a finished run of a few steps, on texts in a folder of their own."""
    root = tmp_path_factory.mktemp("private")
    corpus, recipe = root / "corpus.txt", root / "tiny.yaml"
    corpus.write_text("".join(f"{a} {b} {c}\n" for a in WORDS for b in WORDS[:4] for c in WORDS[5:7]))
    recipe.write_text(
        f"method: simcse\nmodel: {tiny_model('bert')}\npooling: mean\nhead: false\nbatch_size: 8\nmax_length: 12\n"
        "learning_rate: 1e-3\nmax_steps: 4\nselect_on: everyday\nevaluate_every: 2\ntest_on: everyday\nseed: 5\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEARER_CACHE", str(root / "cache"))
        train(recipe, corpus, out=root / "run")
    return root / "run"


@pytest.fixture
def nearer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """`nearer("evaluate", …)` runs the command: exit code, standard output, standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["nearer", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            app()
        captured = capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err

    return call


@pytest.fixture
def command(nearer: Callable[..., tuple[int, str, str]]) -> Callable[..., tuple[int, str, str]]:
    """`command("onnx", …)` runs `nearer export onnx …`."""
    return partial(nearer, "export")
