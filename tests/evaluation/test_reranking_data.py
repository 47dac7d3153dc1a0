"""Reading reranking files, known sets by name, and what can be wrong with them."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nearer.errors import InputError, SettingError
from nearer.evaluation import reranking_data
from nearer.evaluation.reranking_data import RERANKING, load_reranking, read_queries
from nearer.evaluation.reranking_task import RerankingQuery

ROWS = [
    {"query": "how to boot", "positive": ["start it ", ""], "negative": ["eat", "eat"]},
    {"query": ["one", "two"], "positive": ["three"], "negative": ["four"], "more": 1},
]
QUERIES = [
    RerankingQuery(("how to boot",), ("start it ", ""), ("eat", "eat")),
    RerankingQuery(("one", "two"), ("three",), ("four",)),
]

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return written


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


class TestFiles:
    def test_json_lines_as_they_stand(self, write: Write) -> None:
        """Spaces, empty and repeated candidates are MTEB's too; a blank line is nothing."""
        assert read_queries(write("q.jsonl", lines(*ROWS) + "\n")) == QUERIES

    def test_compressed(self, tmp_path: Path) -> None:
        path = tmp_path / "q.jsonl.gz"
        path.write_bytes(gzip.compress(lines(*ROWS).encode()))
        assert read_queries(path) == QUERIES

    def test_a_parquet_file(self, tmp_path: Path) -> None:
        parquet = pytest.importorskip("pyarrow.parquet")
        arrow = pytest.importorskip("pyarrow")
        parquet.write_table(arrow.Table.from_pylist(ROWS[:1]), tmp_path / "q.parquet")
        assert read_queries(tmp_path / "q.parquet") == QUERIES[:1]

    def test_questions_and_answers(self, write: Write) -> None:
        """A question's answers are gathered, wherever they stand."""
        path = write("qa.txt", "who?\tme\t1\nwhy?\tso\t0\nwho?\tyou\t0\nwho?\tthey\t1\n")
        assert read_queries(path) == [
            RerankingQuery(("who?",), ("me", "they"), ("you",)),
            RerankingQuery(("why?",), (), ("so",)),
        ]

    def test_a_table_with_a_header(self, write: Write) -> None:
        path = write("qa.csv", 'label,question,answer\n1,who?,"me, myself"\n0,who?,you\n')
        assert read_queries(path) == [RerankingQuery(("who?",), ("me, myself",), ("you",))]

    def test_empty_queries_are_left_out_and_counted(self, write: Write) -> None:
        """Of a query's several texts the empty ones are passed over; a null is an empty list."""
        both = {"positive": ["three"], "negative": ["four"]}
        rows = [{"query": text, **both} for text in (" ", [], ["a", ""], [""], None)]
        path = write("q.jsonl", lines(*rows, {"query": "b", "positive": ["c"], "negative": None}))
        task = load_reranking(f"rerank:{path}")
        assert [query.texts for query in task.queries] == [(), (), ("a",), (), (), ("b",)]
        assert list(task.sentences()) == ["a", "three", "four"]
        with pytest.raises(InputError, match=r"q\.jsonl: line 1: .*query: empty\); mend or remove it"):
            load_reranking(f"rerank:{path}", strict=True)

    def test_by_path(self, write: Write) -> None:
        task = load_reranking(f"rerank:{write('my.queries.jsonl', lines(*ROWS))}", reading="mteb-v2")
        assert (task.name, task.split, task.layout, task.reading) == ("my", "file", "file", "mteb-v2")
        assert task.queries == QUERIES


class TestBadFiles:
    @pytest.mark.parametrize(
        ("row", "reason"),
        [
            ({"query": "q", "positive": ["p"]}, r"missing or unusable fields \(no reranking query in the fields"),
            ({"query": 1, "positive": [], "negative": []}, "query: a list of texts expected, int found"),
            ({"query": [], "positive": [], "negative": []}, "query: an empty list"),
            ({"query": " ", "positive": [], "negative": []}, "query: empty"),
            ({"query": ["a", ""], "positive": [], "negative": []}, "query: empty"),
            ({"query": "q", "positive": "p", "negative": []}, "positive: a list of texts expected, str found"),
            ({"query": "q", "positive": [], "negative": [None]}, "negative: text expected, NoneType found"),
            ({"query": "q", "positive": ["\ud800"], "negative": []}, "positive: half a surrogate pair"),
        ],
    )
    def test_a_bad_query(self, write: Write, row: dict[str, Any], reason: str) -> None:
        path = write("q.jsonl", lines(ROWS[0], row, ROWS[1]))
        with pytest.raises(InputError, match=rf"q\.jsonl: line 2: .*{reason}") as caught:
            read_queries(path, strict=True)
        assert "\n" not in str(caught.value)

    def test_not_json(self, write: Write) -> None:
        with pytest.raises(InputError, match=r"q\.jsonl: line 1: not valid JSON .*; mend or remove it\."):
            read_queries(write("q.jsonl", "{oh\n"))

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ("who?\tme\tyes", "label: 0 or 1 expected, 'yes' found"),
            ("who?\tme\t2", "label: 0 or 1 expected, '2' found"),
            ("who?\tme", "2 found, 3 expected"),
            (" \tme\t1", "question: empty"),
            ("who?\t\t1", "answer: empty"),
        ],
    )
    def test_a_bad_answer(self, write: Write, line: str, reason: str) -> None:
        with pytest.raises(InputError, match=rf"qa\.txt: line 2: .*{reason}"):
            read_queries(write("qa.txt", f"who?\tme\t1\n{line}\n"))

    def test_damaged(self, tmp_path: Path) -> None:
        path = tmp_path / "q.jsonl.gz"
        path.write_bytes(gzip.compress(lines(*ROWS * 500).encode())[:-20])
        with pytest.raises(InputError, match="damaged data"):
            read_queries(path)

    def test_no_such_file(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such file"):
            load_reranking(f"rerank:{tmp_path / 'none.jsonl'}")

    def test_an_empty_file(self, write: Write) -> None:
        with pytest.raises(InputError, match="none of its 0 queries has both"):
            load_reranking(f"rerank:{write('q.jsonl', '')}")


class TestByName:
    @pytest.mark.parametrize("folder", [".", "wikiqa", "rerank/wikiqa"])
    def test_wikiqa(self, write: Write, tmp_path: Path, folder: str) -> None:
        write(f"{folder}/WikiQA-train.txt", "who?\tme\t1\nwho?\tyou\t0\n")
        task = load_reranking("WikiQA-Train", tmp_path)
        assert (task.name, task.split, task.source) == ("WikiQA", "train", "WikiQA-train.txt")
        assert task.queries == [RerankingQuery(("who?",), ("me",), ("you",))]

    def test_wikiqa_compressed(self, tmp_path: Path) -> None:
        (tmp_path / "WikiQA-train.txt.xz").write_bytes(lzma.compress(b"who?\tme\t1\nwho?\tyou\t0\n"))
        assert load_reranking("wikiqa-train", tmp_path).queries == [RerankingQuery(("who?",), ("me",), ("you",))]

    def test_wikiqa_as_microsoft_publishes_it(self, write: Write) -> None:
        header = "QuestionID\tQuestion\tDocumentID\tDocumentTitle\tSentenceID\tSentence\tLabel"
        rows = [
            f"Q1\twho?\tD1\tTitle\tD1-{place}\t{text}\t{right}" for place, text, right in ((0, "me", 1), (1, "you", 0))
        ]
        path = write("WikiQA-dev.tsv", "\r\n".join([header, *rows, ""]))
        assert load_reranking(f"rerank:{path}").queries == [RerankingQuery(("who?",), ("me",), ("you",))]

    def test_wikiqa_is_missing(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"WikiQA-test\.txt: is missing, also in wikiqa, rerank"):
            load_reranking("wikiqa", tmp_path)
        with pytest.raises(
            SettingError, match=r"'wikiqa' needs the folder that holds WikiQA-test\.txt; name it by data"
        ):
            load_reranking("wikiqa")

    def test_a_file_in_the_data_folder_comes_before_the_hub(self, write: Write, tmp_path: Path) -> None:
        write("AskUbuntuDupQuestions.test.jsonl", lines(*ROWS))
        task = load_reranking("askubuntu", tmp_path)
        assert (task.name, task.layout, task.source) == (
            "AskUbuntuDupQuestions",
            "file",
            "AskUbuntuDupQuestions.test.jsonl",
        )
        assert task.queries == QUERIES

    def test_from_the_hub_by_name_and_revision(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[str] = []
        monkeypatch.setattr(reranking_data, "read_queries", lambda source, **_: asked.append(source) or QUERIES)
        task = load_reranking("mindsmall")
        assert asked == ["hf:mteb/mind_small?split=test&revision=59042f120c80e8afa9cdbb224f67076cec0fc9a7"]
        assert (task.layout, task.source) == ("hub", "mteb/mind_small@59042f1")

    def test_a_hub_data_set(self, write: Write) -> None:
        pytest.importorskip("datasets")
        path = write("owner/name/test.jsonl", lines(*(row | {"query": [*row["query"]]} for row in ROWS[1:])))
        assert read_queries(f"hf:{path.parent}?split=test") == QUERIES[1:]

    def test_offline(self) -> None:
        """The tests run with HF_HUB_OFFLINE."""
        pytest.importorskip("datasets")
        with pytest.raises(
            InputError, match=r"SciDocsRR cannot be fetched: .*put it as SciDocsRR\.test\.jsonl"
        ) as caught:
            load_reranking("scidocs")
        assert "\n" not in str(caught.value)

    def test_a_name_that_is_none(self) -> None:
        with pytest.raises(SettingError, match=r"'askubunt' is neither one of wikiqa.*Did you mean 'askubuntu'"):
            load_reranking("askubunt")

    def test_every_set_of_the_hub_has_its_revision(self) -> None:
        hosted = [known for known in RERANKING.values() if known.repository]
        assert len(hosted) == 4
        assert all(len(known.revision) == 40 for known in hosted)


def test_the_real_wikiqa(shared_data: Path) -> None:
    tasks = [load_reranking(name, shared_data) for name in ("wikiqa", "wikiqa-train")]
    assert [(len(task.queries), len(task.usable)) for task in tasks] == [(243, 237), (2118, 857)]
    assert sum(len(query.positives) + len(query.negatives) for query in tasks[0].queries) == 2351
