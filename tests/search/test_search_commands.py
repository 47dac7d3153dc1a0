"""nearer search build, add, query, info."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from search_text import write_lines

from nearer.encoder import Encoder
from nearer.search import SearchIndex


@pytest.fixture
def built(nearer, encoder: Encoder, corpus: Path, tmp_path: Path) -> Path:
    options = ("--pooling", "mean", "--kind", "ivf", "--recall", 1, "--out", tmp_path / "built")
    outcome = nearer("search", "build", encoder.name, corpus, *options)
    assert (outcome.code, outcome.out) == (0, "")
    structure = SearchIndex.open(tmp_path / "built").manifest.structure
    assert structure is not None
    probes = "1 probe" if structure.effort == 1 else f"{structure.effort} probes"
    last = outcome.err.splitlines()[-1]
    assert (
        last == f"{tmp_path / 'built'}: 60 sentences; IVF2, {probes}: recall@10 {structure.recall:.3f} on 20 sentences"
    )
    return tmp_path / "built"


class TestQuery:
    def test_a_table(self, nearer, built: Path, encoder: Encoder) -> None:
        outcome = nearer("search", "query", built, "someone has lunch", "rain", "-k", 3)
        assert (outcome.code, outcome.err) == (0, "")
        lines = [line.rstrip() for line in outcome.out.splitlines()]
        assert len(lines) == 10
        assert (lines[0], lines[5]) == ("someone has lunch", "rain")
        hits = SearchIndex.open(built, model=encoder).search("rain", 3)
        assert [line.split(None, 2) for line in lines[7:]] == [
            [f"{hit.score:.4f}", str(hit.line), hit.text] for hit in hits
        ]

    def test_json_and_a_file_of_queries(self, nearer, built: Path, encoder: Encoder, tmp_path: Path) -> None:
        queries = write_lines(tmp_path / "queries.txt", ["rain", "", "the dog"])
        outcome = nearer("search", "query", built, "--file", queries, "--json", "-k", 2, "--rerank", 20)
        found = [json.loads(line) for line in outcome.out.splitlines()]
        assert [one["query"] for one in found] == ["rain", "the dog"]
        assert "1 empty (dropped): line 2" in outcome.err
        hits = SearchIndex.open(built, model=encoder).search("the dog", 2, rerank=20)
        assert [(hit["text"], hit["line"]) for hit in found[1]["hits"]] == [(hit.text, hit.line) for hit in hits]
        fields = {"text", "score", "cosine", "row", "line", "source", "id", "document", "passage", "passages"}
        assert set(found[1]["hits"][0]) == fields

    def test_more_than_there_are(self, nearer, built: Path) -> None:
        outcome = nearer("search", "query", built, "rain", "-k", 100, "--json")
        assert outcome.err == "-k 100: the index has 60 sentences; all of them are shown\n"
        assert len(json.loads(outcome.out)["hits"]) == 60

    def test_texts_that_are_no_markup(self, nearer, encoder: Encoder, tmp_path: Path) -> None:
        text = write_lines(tmp_path / "text.txt", ["[bold]rain[/bold] :fox:", "dog"])
        nearer("search", "build", encoder.name, text, "--pooling", "mean", "--out", tmp_path / "index")
        assert "[bold]rain[/bold] :fox:" in nearer("search", "query", tmp_path / "index", "[red]rain").out

    def test_mistakes(self, nearer, built: Path, tiny_model, tmp_path: Path) -> None:
        assert nearer("search", "query", built).error == "give either texts or --file of them."
        assert nearer("search", "query", built, "x", "--file", "y").error == "give either texts or --file of them."
        assert "item 0 is empty" in nearer("search", "query", built, " ").error
        assert "no such index" in nearer("search", "query", tmp_path / "none", "rain").error
        other = nearer("search", "query", built, "rain", "--model", tiny_model("distilbert")).error
        assert SearchIndex.open(built).manifest.model.fingerprint in other
        assert "give 10 or more" in nearer("search", "query", built, "rain", "--rerank", 5).error


class TestBuildAndAdd:
    def test_add_and_info(self, nearer, built: Path, corpus: Path, more: Path, encoder: Encoder) -> None:
        outcome = nearer("search", "add", built, more)
        assert outcome.code == 0
        assert outcome.err.splitlines()[-1].startswith(f"{built}: 100 sentences; IVF2, ")
        told = nearer("search", "info", built).out
        facts = [line.split(None, 1) for line in told.splitlines()]
        assert ["sentences", "100"] in facts
        assert ["text", f"{corpus}: 60 sentences"] in facts
        assert ["text", f"{more}: 40 sentences"] in facts
        manifest = json.loads(nearer("search", "info", built, "--json").out)
        assert manifest["count"] == 100
        assert manifest["model"]["name"] == encoder.name
        table = nearer("search", "query", built, "rain", "-k", 2).out
        assert "file" in table.splitlines()[1]
        assert "more.txt" in table or "corpus.txt" in table

    def test_refused_before_the_model_is_loaded(self, nearer, built: Path, corpus: Path) -> None:
        assert "is there already" in nearer("search", "build", "/no/model", corpus, "--out", built).error
        assert "no such file" in nearer("search", "build", "/no/model", "/no/text", "--out", f"{built}-2").error

    def test_duplicates_dropped(self, nearer, encoder: Encoder, tmp_path: Path) -> None:
        text = write_lines(tmp_path / "text.txt", ["rain", "fox", "rain"])
        options = ("--pooling", "mean", "--drop-duplicates", "--out", tmp_path / "index")
        outcome = nearer("search", "build", encoder.name, text, *options)
        assert "1 duplicate (dropped, the first one kept): line 3" in outcome.err
        assert list(SearchIndex.open(tmp_path / "index").texts) == ["rain", "fox"]
