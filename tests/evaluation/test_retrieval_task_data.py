"""Reading retrieval folders, and what can be wrong with them."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from nearer.errors import InputError
from nearer.evaluation.retrieval_data import load_retrieval

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
    "bz2": bz2.compress,
}

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

    @pytest.mark.parametrize("ending", COMPRESS)
    @pytest.mark.parametrize("named", [True, False])
    def test_compressed(self, folder: Path, ending: str, named: bool) -> None:
        """All three files, told by their first bytes whether their names say it or not."""
        wanted = load_retrieval(folder)
        for plain in list(folder.iterdir()):
            data = COMPRESS[ending](plain.read_bytes())
            plain.unlink()
            (folder / (f"{plain.name}.{ending}" if named else plain.name)).write_bytes(data)
        assert load_retrieval(folder) == wanted

    def test_a_byte_order_mark_and_carriage_returns(self, folder: Path) -> None:
        wanted = load_retrieval(folder)
        for path in list(folder.iterdir()):
            path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
        assert load_retrieval(folder) == wanted

    def test_titles_stand_before_texts_of_documents_alone(self, folder: Path) -> None:
        (folder / "corpus.jsonl").write_text(
            '{"_id": "d1", "title": null, "text": "a"}\n{"_id": "d2", "title": "T", "text": null}\n'
            '{"_id": "d3", "title": "", "text": "c"}\n{"_id": "d4", "title": "T", "text": "d"}\n'
        )
        (folder / "queries.jsonl").write_text('{"_id": "q1", "title": "T", "text": "a?"}\n')
        (folder / "qrels.tsv").write_text("q1\td1\t1\n")
        task = load_retrieval(folder)
        assert task.corpus == ["a", "T", "c", "T d"]
        assert task.queries == ["a?"]

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("qrels.txt", "2 0 d2 2\n2  0\td1 -1\n\nq1 Q0 d1 1\n"),
            ("qrels.trec", "2\t0\td2\t2\n2\t0\td1\t-1\nq1\t0\td1\t1\n"),
            ("qrels.tsv", "2 0 d2 2\n2 0 d1 -1\nq1 0 d1 1\n"),
            ("qrels.csv", "query-id,corpus-id,score\n2,d2,2\n2,d1,-1\nq1,d1,1\n"),
            ("qrels.jsonl", '{"query-id": 2, "corpus-id": "d2", "score": 2}\n["2", "d1", 0]\n["q1", "d1", 1.0]\n'),
            ("qrels.tsv", "score\tquery-id\tcorpus-id\titer\n2\t2\td2\t0\n0\t2\td1\t0\n1\tq1\td1\t0\n"),
        ],
    )
    def test_judgements_of_other_kinds(self, folder: Path, name: str, text: str) -> None:
        wanted = load_retrieval(folder)
        (folder / "qrels.tsv").unlink()
        (folder / name).write_text(text)
        assert load_retrieval(folder) == wanted

    def test_the_hub_s_shards(self, folder: Path) -> None:
        """As mteb's sets lie on the hub: a folder a part, whole numbers as ids, nulls."""
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        for path in folder.iterdir():
            path.unlink()
        tables = {
            "corpus/test-00000-of-00002": {"_id": [1], "title": ["Boats"], "text": ["They float."]},
            "corpus/test-00001-of-00002": {"_id": [2], "title": [None], "text": ["Stones sink."]},
            "queries/test-00000-of-00001": {"_id": [7, 8], "text": ["what floats?", "what sinks?"]},
            "qrels/test-00000-of-00001": {"query-id": [8, 7], "corpus-id": [2, 1], "score": [1, 1]},
            "qrels/dev-00000-of-00001": {"query-id": [8], "corpus-id": [1], "score": [1]},
        }
        for name, columns in tables.items():
            path = folder / f"{name}.parquet"
            path.parent.mkdir(exist_ok=True)
            parquet.write_table(arrow.table(columns), path)
        task = load_retrieval(folder)
        assert task.corpus == ["Boats They float.", "Stones sink."]
        assert (task.split, task.judgements) == ("test", [{0: 1.0}, {1: 1.0}])
        assert load_retrieval(folder, split="dev").judgements == [{0: 1.0}]
        (folder / "corpus" / "test-00001-of-00002.parquet").unlink()
        with pytest.raises(InputError, match="corpus: 1 shards found, 2 expected by their names"):
            load_retrieval(folder)

    def test_copies_of_a_split_in_two_formats_are_read_once(self, folder: Path) -> None:
        (folder / "qrels").mkdir()
        (folder / "qrels" / "test.tsv").write_text("q3\td2\t1\n")
        (folder / "qrels" / "test.jsonl").write_text('["q3", "d2", 1]\n')
        (folder / "qrels" / "test.tsv.gz").write_bytes(gzip.compress(b"q3\td2\t1\n"))
        task = load_retrieval(folder)
        assert (task.split, task.judgements, task.counts) == ("test", [{1: 1.0}], {})


class TestOddities:
    """What published data holds although nobody meant it to: counted, said, survived."""

    def test_an_empty_document_and_its_judgement(self, folder: Path) -> None:
        add(folder / "corpus.jsonl", '{"_id": "d3", "title": "", "text": " "}', '{"_id": "d4", "text": null}')
        add(folder / "qrels.tsv", "q1\td3\t1")
        task = load_retrieval(folder)
        assert task.judgements == [{0: 1.0, 2: 1.0}, {1: 2.0, 0: 0.0}]
        assert list(task.sentences()) == ["what floats?", "what sinks?", "Boats  They float.", "Stones sink."]
        assert task.counts == {"empty_documents": 2, "judgements_of_empty_documents": 1}

    def test_judgements_of_missing_documents_stand_behind_the_corpus(self, folder: Path) -> None:
        add(folder / "qrels.tsv", "q1\td8\t1", "q1\td9\t3")
        task = load_retrieval(folder)
        assert task.judgements == [{0: 1.0, 2: 3.0, 3: 1.0}, {1: 2.0, 0: 0.0}]
        assert task.counts == {"judgements_of_missing_documents": 2}
        assert list(task.remarks())[1:] == ["judgements of missing documents: 2 (count as not found)"]

    def test_the_order_of_missing_documents_does_not_count(self, folder: Path) -> None:
        qrels = (folder / "qrels.tsv").read_text()
        hashes = []
        for lines in (("q1\td8\t1", "q1\td9\t3"), ("q1\td9\t3", "q1\td8\t1"), ("q1\td9\t2", "q1\td8\t1"), ()):
            (folder / "qrels.tsv").write_text(qrels)
            add(folder / "qrels.tsv", *lines)
            hashes.append(load_retrieval(folder).data_hash())
        assert hashes[0] == hashes[1]
        assert len(set(hashes)) == 3

    def test_judgements_of_missing_and_empty_queries(self, folder: Path) -> None:
        add(folder / "queries.jsonl", '{"_id": "q4", "text": ""}')
        add(folder / "qrels.tsv", "q9\td1\t1", "q9\td9\t1", "q4\td1\t1")
        task = load_retrieval(folder)
        assert task.queries == ["what floats?", "what sinks?"]
        assert task.counts == {"empty_queries": 1, "judgements_of_missing_queries": 2}
        assert task.unjudged == 1
        assert list(task.remarks()) == [
            "1 of 4 queries left out: no judgement",
            "1 of 4 queries left out: empty",
            "judgements of missing queries: 2 (not used)",
        ]

    def test_a_query_without_a_relevant_document(self, folder: Path) -> None:
        add(folder / "qrels.tsv", "q3\td1\t0", "q3\td2\t-2")
        task = load_retrieval(folder)
        assert (len(task.queries), task.unjudged) == (2, 0)
        assert list(task.remarks()) == [
            "1 of 3 queries left out: no relevant document (trec_eval and mteb count them as 0)"
        ]

    def test_a_query_whose_only_relevant_document_is_missing_stays(self, folder: Path) -> None:
        add(folder / "qrels.tsv", "q3\td9\t1")
        assert load_retrieval(folder).judgements[2] == {2: 1.0}

    def test_of_a_repeated_line_the_last_counts(self, folder: Path) -> None:
        add(folder / "corpus.jsonl", '{"_id": "d1", "text": "later"}')
        add(folder / "queries.jsonl", '{"_id": "q1", "text": "later?"}')
        add(folder / "qrels.tsv", "q1\td1\t3", "q1\td1\t2")
        task = load_retrieval(folder)
        assert (task.corpus[0], task.queries[0], task.judgements[0]) == ("later", "later?", {0: 2.0})
        assert task.counts == {"repeated_documents": 1, "repeated_queries": 1, "repeated_judgements": 2}

    @pytest.mark.parametrize(
        ("file", "text", "reason"),
        [
            (
                "corpus.jsonl",
                '{"_id": "x1", "text": "x"}\n',
                "none of the 2 documents .* ids differ .'d2' here, 'x1' there",
            ),
            (
                "queries.jsonl",
                '{"_id": "x1", "text": "x"}\n',
                "none of the 2 queries that it judges is in queries.jsonl",
            ),
            ("corpus.jsonl", '{"_id": "d1", "text": ""}\n', "corpus.jsonl: all its documents are empty"),
            ("qrels.tsv", "q1\td1\t0\n", "judges no query that has text and a document with a score above 0"),
        ],
    )
    def test_where_all_is_odd_the_data_is_wrong(self, folder: Path, file: str, text: str, reason: str) -> None:
        (folder / file).write_text(text)
        with pytest.raises(InputError, match=reason):
            load_retrieval(folder)


def add(path: Path, *added: str) -> None:
    with open(path, "a", encoding="utf-8") as opened:
        opened.writelines(f"{line}\n" for line in added)


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
        add(folder / file, line)
        with pytest.raises(InputError, match=rf"{file}: {reason}") as caught:
            load_retrieval(folder, strict=True)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("file", "line", "reason"),
        [
            ("corpus.jsonl", "{", "line 3: not valid JSON"),
            ("corpus.jsonl", '{"_id": "", "text": "x"}', "line 3: .*id: empty"),
            ("qrels.tsv", "q3\td1\tyes", "line 5: with a score that is not a finite number .'yes'"),
        ],
    )
    def test_lines_that_cannot_be_read_are_errors_in_any_case(
        self, folder: Path, file: str, line: str, reason: str
    ) -> None:
        add(folder / file, line)
        with pytest.raises(InputError, match=rf"{file}: {reason}"):
            load_retrieval(folder)

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (
                "q1 0 d1 1\nq1 0 d2\n",
                r"line 2: with a wrong number of columns .3 found, 4 expected: query, 0, document",
            ),
            ("q1 0 d1 high\n", "line 1: with a score that is not a finite number .'high'"),
            ("q1 d1\n", "line 1: 1 columns found; a judgement is query-id, corpus-id and score .* or TREC's"),
        ],
    )
    def test_judgements_in_columns_that_are_not_known(self, folder: Path, text: str, reason: str) -> None:
        (folder / "qrels.tsv").write_text(text)
        with pytest.raises(InputError, match=rf"qrels\.tsv: {reason}"):
            load_retrieval(folder)

    @pytest.mark.parametrize(
        ("file", "named"),
        [
            ("corpus.jsonl", "corpus.jsonl"),
            ("queries.jsonl", "queries.jsonl"),
            ("qrels.tsv", "qrels/test.tsv or qrels.tsv"),
        ],
    )
    def test_missing_files_name_the_layouts(self, folder: Path, file: str, named: str) -> None:
        (folder / file).unlink()
        with pytest.raises(
            InputError, match=rf"{named} is missing; retrieval data is .*BEIR.*zst.*parquet.*TREC"
        ) as told:
            load_retrieval(folder)
        assert "\n" not in str(told.value)

    @pytest.mark.parametrize("part", ["qrels", "corpus"])
    def test_a_missing_split_names_those_that_are_there(self, folder: Path, part: str) -> None:
        for path in folder.glob(f"{part}.*"):
            path.unlink()
        (folder / part).mkdir()
        for split in ("dev", "train"):
            (folder / part / f"{split}.tsv").write_text("1\t2\t1\n")
        with pytest.raises(InputError, match=rf"no split 'test'; {part}/ has dev, train.*retrieval:.*\?split=dev"):
            load_retrieval(folder)

    @pytest.mark.parametrize("file", ["corpus.jsonl", "queries.jsonl", "qrels.tsv"])
    def test_empty_files(self, folder: Path, file: str) -> None:
        (folder / file).write_text("")
        with pytest.raises(InputError, match=rf"{file}: has no (lines|judgements); at least one is needed"):
            load_retrieval(folder)

    def test_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such folder"):
            load_retrieval(tmp_path / "none")
