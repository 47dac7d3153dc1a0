"""Retrieval sets as they were published, where they are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearer.errors import InputError
from nearer.evaluation.retrieval_data import load_retrieval


@pytest.fixture
def domains(shared_data: Path) -> Path:
    folder = shared_data / "domains"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not here")
    return folder


def test_fiqa_with_its_empty_documents(domains: Path) -> None:
    task = load_retrieval(domains / "fiqa")
    assert (len(task.corpus), len(task.queries), sum(map(len, task.judgements))) == (57_638, 648, 1_706)
    assert task.counts == {"empty_documents": 38, "judgements_of_empty_documents": 1}
    with pytest.raises(InputError, match=r"corpus\.jsonl\.xz: line \d+: .*text: empty"):
        load_retrieval(domains / "fiqa", strict=True)


@pytest.mark.parametrize(
    ("name", "split", "documents", "queries"), [("cranfield", "test", 1_398, 225), ("cosqa", "dev", 6_267, 500)]
)
def test_sets_without_holes(domains: Path, name: str, split: str, documents: int, queries: int) -> None:
    task = load_retrieval(domains / name, split=split, strict=True)
    assert (len(task.corpus), len(task.queries), task.counts) == (documents, queries, {})


def test_a_set_without_a_test_split_names_the_one_it_has(domains: Path) -> None:
    with pytest.raises(InputError, match=r"no split 'test'; qrels/ has dev\. .*\?split=dev"):
        load_retrieval(domains / "cosqa")
