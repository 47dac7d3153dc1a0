"""The demo from end to end, on two small packages and with two steps of training."""

from __future__ import annotations

import email
import logging
from pathlib import Path

import pytest
from rich.console import Console

from nearer.demo import run as module
from nearer.demo.docstrings import Docstring, SourceReport, read_docstrings
from nearer.errors import InputError


def few_docstrings(*, progress: bool) -> tuple[list[Docstring], SourceReport]:
    return read_docstrings([Path(email.__file__).parent, Path(logging.__file__).parent], progress=progress)


def test_it_prints_before_and_after_and_leaves_two_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_OUT", 20)
    monkeypatch.setattr(module, "read_docstrings", few_docstrings)
    console = Console(record=True, width=160)
    module.run_demo(tmp_path / "demo", seed=0, show=console.print, steps=2, progress=False)
    printed = console.export_text()
    for expected in ("wiki-mini, untrained", "SimCSE, dropout views", "SimCSE, summary and body", "recall@10"):
        assert expected in printed
    for name in ("views", "pairs"):
        assert (tmp_path / "demo" / name / "model" / "nearer.json").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(module, "HELD_OUT", 5)
    monkeypatch.setattr(module, "read_docstrings", few_docstrings)
    with pytest.raises(InputError, match="cannot be written"):
        module.run_demo(tmp_path / "file" / "demo", seed=0, show=lambda _: None, steps=1, progress=False)


def test_a_folder_of_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="is not an earlier demo's"):
        module.run_demo(tmp_path, seed=0, show=lambda _: None, steps=1, progress=False)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
