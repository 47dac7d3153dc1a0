"""Reading retrieval folders, and what can be wrong with them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from nearer.errors import InputError
from nearer.evaluation.retrieval_data import load_retrieval

CORPUS = [{"_id": "d1", "title": "Boats", "text": " They float. "}, {"_id": "d2", "text": "Stones sink."}]
QUERIES = [{"_id": "q1", "text": "what floats?"}, {"_id": 2, "text": "what sinks?"}, {"_id": "q3", "text": "why?"}]
QRELS = "query-id\tcorpus-id\tscore\n2\td2\t2\n2\td1\t-1\nq1\td1\t1\n"


def lines(rows: list[dict[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "boats"
    root.mkdir()
    (root / "corpus.jsonl").write_text(lines(CORPUS))  # type: ignore[arg-type]
    (root / "queries.jsonl").write_text(lines(QUERIES))  # type: ignore[arg-type]
    (root / "qrels.tsv").write_text(QRELS)
    return root


class TestLayouts:
    def test_json_lines(self, folder: Path) -> None:
        task = load_retrieval(folder)
        assert (task.name, task.split, task.layout) == ("boats", "file", "beir")
        assert task.corpus == ["Boats  They float.", "Stones sink."]
        assert task.queries == ["what floats?", "what sinks?"]
        assert task.judgements == [{0: 1.0}, {1: 2.0, 0: 0.0}]
        assert task.unjudged == 1

    def test_the_split_is_a_file(self, folder: Path) -> None:
        (folder / "qrels").mkdir()
        (folder / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nq3\td2\t1\n")
        task = load_retrieval(folder, split="dev")
        assert (task.split, task.queries, task.judgements) == ("dev", ["why?"], [{1: 1.0}])
        assert load_retrieval(folder).split == "file"

    def test_tables_with_and_without_a_header(self, folder: Path) -> None:
        (folder / "corpus.jsonl").unlink()
        (folder / "queries.jsonl").unlink()
        (folder / "corpus.tsv").write_text("d1\tBoats  They float.\nd2\tStones sink.\n")
        (folder / "queries.tsv").write_text("text\tid\nwhat floats?\tq1\nwhat sinks?\t2\n")
        (folder / "qrels.tsv").write_text(QRELS.partition("\n")[2])
        task = load_retrieval(folder)
        assert task.corpus == ["Boats  They float.", "Stones sink."]
        assert task.queries == ["what floats?", "what sinks?"]
        assert task.judgements == [{0: 1.0}, {1: 2.0, 0: 0.0}]

    def test_compressed(self, folder: Path) -> None:
        wanted = load_retrieval(folder)
        plain = folder / "corpus.jsonl"
        (folder / "corpus.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
        assert load_retrieval(folder) == wanted


class TestFaults:
    @pytest.mark.parametrize(
        ("file", "line", "reason"),
        [
            ("corpus.jsonl", '{"_id": "d1", "text": "x"}', "line 3: the id 'd1' stands on line 1 already"),
            ("queries.jsonl", '{"_id": "2", "text": "x"}', "line 4: the id '2' stands on line 2 already"),
            ("corpus.jsonl", '{"_id": "d3", "text": " "}', r"line 3: .*text: empty\); mend or remove it"),
            ("corpus.jsonl", '{"_id": "d3", "text": 3}', "line 3: .*text: text expected, int found"),
            ("corpus.jsonl", '{"_id": "", "text": "x"}', "line 3: .*id: empty"),
            ("corpus.jsonl", '{"_id": true, "text": "x"}', "line 3: .*id: text expected, bool found"),
            ("corpus.jsonl", '{"text": "x"}', "line 3: .*no text with an id in the fields 'text'"),
            ("corpus.jsonl", "{", "line 3: not valid JSON"),
            ("qrels.tsv", "q9\td1\t1", r"line 5: the query 'q9' is not in queries\.jsonl"),
            ("qrels.tsv", "q1\td9\t1", r"line 5: the document 'd9' is not in corpus\.jsonl"),
            ("qrels.tsv", "q1\td1\t0", "line 5: the document 'd1' is judged for the query 'q1' already"),
            ("qrels.tsv", "q3\td1\t0", "line 5: the query 'q3' has no document with a score above 0"),
            ("qrels.tsv", "q3\td1\tyes", "line 5: with a score that is not a finite number .'yes'"),
            ("qrels.tsv", "q3\td1\tnan", "line 5: with a score that is not a finite number .'nan'"),
            ("qrels.tsv", "q3\td1", "line 5: with a wrong number of columns .2 found, 3 expected"),
        ],
    )
    def test_are_told_with_file_and_line(self, folder: Path, file: str, line: str, reason: str) -> None:
        with open(folder / file, "a") as opened:
            opened.write(line + "\n")
        with pytest.raises(InputError, match=rf"{file}: {reason}") as caught:
            load_retrieval(folder)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("file", "named"),
        [
            ("corpus.jsonl", "corpus.jsonl or corpus.tsv"),
            ("queries.jsonl", "queries.jsonl or queries.tsv"),
            ("qrels.tsv", "qrels.tsv"),
        ],
    )
    def test_missing_files(self, folder: Path, file: str, named: str) -> None:
        (folder / file).unlink()
        with pytest.raises(InputError, match=f"{named} is missing"):
            load_retrieval(folder)

    @pytest.mark.parametrize("file", ["corpus.jsonl", "queries.jsonl", "qrels.tsv"])
    def test_empty_files(self, folder: Path, file: str) -> None:
        (folder / file).write_text("")
        with pytest.raises(InputError, match=rf"{file}: has no (lines|judgements); at least one is needed"):
            load_retrieval(folder)

    def test_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such folder"):
            load_retrieval(tmp_path / "none")
