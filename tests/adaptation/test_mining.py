"""`nearer mine`: every file is one that train reads, and what is in it is true of the documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_made_tests import passage
from typer.testing import CliRunner

from nearer.adaptation.judging import Collection
from nearer.adaptation.mining import mine_lists, mine_negatives, mine_pairs, mine_queries
from nearer.adaptation.models import Models
from nearer.cli.main import app
from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.teachers import CrossEncoder
from nearer.text import ReadOptions, read_pairs, read_sentences, read_triplets
from nearer.text.scored_lists import ScoredLists

# two passages a document
PASSAGES = [passage(number, document=f"d{number // 2}", number=number % 2) for number in range(60)]


@pytest.fixture
def models(tiny_model: Callable[[str], Path]) -> Models:
    return Models(Encoder.load(tiny_model("bert"), pooling="mean", device="cpu"), {}, None)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_pairs(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    found = mine_pairs(PASSAGES, path, limit=20)
    pairs = list(read_pairs(path))
    assert len(pairs) == found.written == 20
    titled = {one.titled: one for one in PASSAGES}
    for first, second, _ in pairs:
        source = next(one for text, one in titled.items() if first in text)
        assert second.strip() in source.titled or source.text.replace(first, " ").strip() in second
        assert first == source.title or source.number  # rather than its opening; only a first passage has one
    other = tmp_path / "again.jsonl"
    mine_pairs(PASSAGES, other, limit=20)
    assert other.read_bytes() == path.read_bytes()


def test_queries(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    found = mine_queries(PASSAGES, path, kinds=["question", "title"])
    rows = read(path)
    assert len(rows) == found.written == len(list(read_sentences(path)))
    assert {row["kind"] for row in rows} == {"question", "title"}
    by_id = {one.id: one for one in PASSAGES}
    assert all(row["text"] in by_id[row["passage"]].titled for row in rows)
    with pytest.raises(SettingError, match=r"'titel' is not one of .*title"):
        mine_queries(PASSAGES, tmp_path / "other", kinds=["titel"])


@pytest.mark.parametrize("judged", [False, True], ids=["encoder", "cross-encoder"])
def test_negatives_are_of_other_documents_and_below_the_positive(
    judged: bool, models: Models, tiny_cross_encoder: Callable[..., Path], tmp_path: Path
) -> None:
    cross = CrossEncoder.load(tiny_cross_encoder("bert"), device="cpu") if judged else None
    path = tmp_path / "triplets.jsonl"
    margin = 0.001
    chosen = Models(models.base, {}, cross)
    found = mine_negatives(PASSAGES, path, chosen, negatives=2, best=8, margin=margin, limit=25)
    triplets = list(read_triplets(path))
    assert len(triplets) == found.written > 0
    assert found.written == 2 * (25 - found.left_out)
    document = {one.titled: one.document for one in PASSAGES}
    for anchor, positive, negative in triplets:
        source = next(one for one in PASSAGES if anchor in one.titled)
        assert document[negative] != source.document
        if cross is None:
            query, *texts = models.base.encode([anchor, positive, negative], normalize=True)
            right, wrong = (float(query @ text) for text in texts)
        else:
            right, wrong = cross.score([anchor], [positive, negative], [(0, 0), (0, 1)])
        assert wrong < right - margin + 1e-5
    assert not (tmp_path / "triplets.jsonl.work").exists()


def test_lists(models: Models, tmp_path: Path) -> None:
    out = tmp_path / "lists"
    found = mine_lists(PASSAGES, out, models, log=["who paints the ladder"], best=6, limit=30)
    asked = ScoredLists(out, ReadOptions())
    assert len(list(asked)) == found.written == 30 - found.left_out
    rows = {row["_id"]: row for row in read(out / "queries.jsonl")}
    assert rows["q0"]["kind"] == "log"
    texts = {row["_id"]: row["text"] for row in read(out / "passages.jsonl")}
    for row in read(out / "lists.jsonl"):
        query = rows[row["query"]]["text"]
        source = next((one.titled for one in PASSAGES if query in one.titled), "")
        assert source not in [texts[id] for id in row["passages"]]


def test_an_interrupted_one_goes_on(models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine_lists(PASSAGES, tmp_path / "straight", models, best=6, limit=20)
    found = Collection._by_words

    def interrupted(*given: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Collection, "_by_words", interrupted)
    with pytest.raises(KeyboardInterrupt, match="goes on"):
        mine_lists(PASSAGES, tmp_path / "out", models, best=6, limit=20)
    assert list((tmp_path / "out.work").rglob("vectors-*/vectors.bin"))
    monkeypatch.setattr(Collection, "_by_words", found)
    mine_lists(PASSAGES, tmp_path / "out", models, best=6, limit=20)
    for name in ("queries.jsonl", "passages.jsonl", "lists.jsonl"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()


def test_weights_of_judges(models: Models, tmp_path: Path) -> None:
    mine_lists(PASSAGES, tmp_path / "words", models, best=6, limit=8, weights={"lexical": 1.0})
    mine_lists(PASSAGES, tmp_path / "vectors", models, best=6, limit=8, weights={"base": 1.0, "lexical": 0.0})
    words, vectors = (read(tmp_path / name / "lists.jsonl") for name in ("words", "vectors"))
    assert [row["passages"] for row in words] == [row["passages"] for row in vectors]
    assert not np.allclose(words[0]["scores"], vectors[0]["scores"])
    with pytest.raises(SettingError, match="'reranker' is no judge here; there are base, lexical"):
        mine_lists(PASSAGES, tmp_path / "out", models, weights={"reranker": 1.0})
    with pytest.raises(SettingError, match="all are 0"):
        mine_lists(PASSAGES, tmp_path / "out", models, weights={"base": 0.0})
    with pytest.raises(SettingError, match="0 or more"):
        mine_lists(PASSAGES, tmp_path / "out", models, weights={"base": -1.0})


def test_nothing_is_written_over_and_nothing_found_is_told(models: Models, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    with pytest.raises(InputError, match="is there already"):
        mine_pairs(PASSAGES, tmp_path / "there")
    short = [passage(number, title="", text="Short.") for number in range(5)]
    with pytest.raises(InputError, match="no title, heading, docstring or opening is found"):
        mine_pairs(short, tmp_path / "out")
    with pytest.raises(InputError, match="no query-like text"):
        mine_lists(short, tmp_path / "out", models)
    assert not (tmp_path / "out").exists()


def test_the_commands(models: Models, tmp_path: Path) -> None:
    models.base.save(tmp_path / "base")
    documents = tmp_path / "documents.jsonl"
    rows = ({"_id": f"d{number}", "title": one.title, "text": one.text} for number, one in enumerate(PASSAGES))
    documents.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(command: str, *more: object) -> tuple[int, str]:
        given = ["mine", command, str(documents), "--out", str(tmp_path / command), *map(str, more)]
        found = CliRunner().invoke(app, given)
        return found.exit_code, found.output

    model = ("--model", tmp_path / "base", "--device", "cpu", "--limit", 12)
    assert "60 pairs" in run("pairs")[1]
    assert "query-like texts" in run("queries", "--kinds", "title")[1]
    code, told = run("negatives", *model, "--margin", 0)
    assert code == 0, told
    code, told = run("lists", *model, "--weights", "bm25=1,base=0.3")
    assert code == 0, told
    assert "12 lists" in told
    assert len(read(tmp_path / "lists" / "lists.jsonl")) == 12
    code, told = run("lists", *model, "--weights", "bm25")
    assert (code, "NAME=NUMBER" in told) == (1, True)
    code, told = run("pairs")
    assert (code, "is there already" in told) == (1, True)
