"""`nearer evaluate` and `nearer compare` on a retrieval folder as published: with an empty document."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

TOLD = ("empty documents: 1 (never found)", "judgements of missing documents: 1 (count as not found)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "holes"
    (root / "qrels").mkdir(parents=True)
    (root / "corpus.jsonl").write_text(
        '{"_id": "1", "title": "", "text": "a boat"}\n{"_id": "2", "title": "", "text": ""}\n'
        '{"_id": "3", "text": "a stone"}\n'
    )
    (root / "queries.jsonl").write_text('{"_id": "q", "text": "a boat"}\n{"_id": "r", "text": "a stone"}\n')
    (root / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\nq\t9\t1\nr\t3\t1\n")
    return root


def test_oddities_are_shown_and_written(nearer: Callable, pooled: Path, folder: Path, tmp_path: Path) -> None:
    options = ("--tasks", f"retrieval:{folder}", "--device", "cpu")
    outcome = nearer("evaluate", pooled, *options, "--json", tmp_path / "scores.json")
    assert outcome.code == 0
    shown = " ".join(outcome.out.split())
    assert all(told in shown for told in TOLD)
    [score] = json.loads((tmp_path / "scores.json").read_text())["scores"]
    assert score["figures"]["recall@1"] == 75
    assert score["details"]["empty_documents"] == score["details"]["judgements_of_missing_documents"] == 1
    compared = nearer("compare", pooled, pooled, *options, "--resamples", 100)
    assert compared.code == 0
    assert all(f"holes test: {told}" in " ".join(compared.err.split()) for told in TOLD)


@pytest.mark.parametrize("models", [("evaluate", "./none"), ("compare", "./none", "./none")])
def test_strict_refuses_them(nearer: Callable, folder: Path, models: tuple[str, ...]) -> None:
    error = nearer(*models, "--tasks", f"retrieval:{folder}", "--strict").error
    assert error.endswith("corpus.jsonl: line 2: with missing or unusable fields (text: empty); mend or remove it.")
