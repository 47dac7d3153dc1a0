"""Published figures: whole, consistent with their printed averages, and found by what one asks for."""

from __future__ import annotations

import pytest

from nearer.errors import SettingError
from nearer.evaluation.published import Published, all_published, published

TASKS = {
    "sts": {"STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"},
    "ranking": {"STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"},
    "reranking": {"AskUbuntu", "MindSmall", "SciDocs", "StackOverflow"},
    "transfer": {"MR", "CR", "SUBJ", "MPQA", "SST-2", "TREC", "MRPC"},
}


@pytest.mark.parametrize("row", all_published(), ids=lambda row: f"{row.source} {row.name} {row.measure}")
def test_a_row_is_sound(row: Published) -> None:
    """Misread digits would show in the averages, which the papers print."""
    assert row.measure
    assert row.source
    assert row.protocol
    assert set(row.figures) <= TASKS[row.kind]
    assert all(0 < figure < 100 for figure in row.figures.values())
    if row.average is None:
        assert set(row.figures) < TASKS[row.kind]
    else:
        assert sum(row.figures.values()) / len(row.figures) == pytest.approx(row.average, abs=0.06)


def test_no_row_stands_twice() -> None:
    keys = [(row.kind, row.measure, row.name, row.source) for row in all_published()]
    assert len(keys) == len(set(keys))


def test_rows_by_what_is_asked_for() -> None:
    [row] = published("sts", sources=["SimCSE"], models=["simcse"], backbones=["bert-base"])
    assert (row.average, row.figures["STS12"], row.source) == (76.25, 68.40, "SimCSE, Table 5")
    assert {row.measure for row in published("ranking")} == {"kendall", "ndcg"}
    assert all(row.measure == "ndcg" for row in published("ranking", measure="ndcg"))
    assert {row.backbone for row in published("transfer", sources=["RankCSE"])} == {
        "BERT-base",
        "BERT-large",
        "RoBERTa-base",
        "RoBERTa-large",
    }


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(SettingError, match="nothing of the kind 'clustering'; there are ranking, reranking"):
        published("clustering")
