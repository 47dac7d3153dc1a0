"""Names of tasks, and what each stands for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nearer.errors import InputError, SettingError
from nearer.evaluation import evaluate, load_tasks, transfer_data
from nearer.evaluation.ranking_task import RankingTask
from nearer.evaluation.reranking_task import RerankingTask
from nearer.evaluation.retrieval_task import RetrievalTask
from nearer.evaluation.sts_sets import SEVEN
from nearer.evaluation.tasks import expand, is_test, needs_data
from nearer.evaluation.transfer import TransferTask
from nearer.text import Pair


class TestNames:
    def test_sts_stands_for_the_seven(self) -> None:
        assert expand("sts") == expand("STS") == SEVEN

    def test_however_it_is_written(self) -> None:
        assert expand("STSB") == expand("stsb") == ("stsb",)

    @pytest.mark.parametrize(
        ("name", "nearest"), [("stsb-def", "stsb-dev"), ("sick", "sick-r"), ("STS17", "sts1"), ("everday", "everyday")]
    )
    def test_unknown_with_the_nearest(self, name: str, nearest: str) -> None:
        message = f"tasks: {name!r} is neither a file nor a task. sts: sts, everyday, .*Did you mean '{nearest}"
        with pytest.raises(SettingError, match=message):
            expand(name)

    def test_unknown_without_any_near(self) -> None:
        with pytest.raises(SettingError) as caught:
            expand("xyz")
        message = str(caught.value)
        assert message.endswith("or transfer:FILE, ranking:NAME, rerank:FILE, retrieval:FOLDER.")
        assert "\n" not in message
        for known in ("sts: sts, everyday", "; transfer: transfer, ", "; ranking: ranking;", "; reranking: wikiqa, "):
            assert known in message

    @pytest.mark.parametrize("name", ["transfer:", "rerank:", "retrieval:"])
    def test_nothing_behind_a_colon(self, name: str) -> None:
        with pytest.raises(SettingError, match=f"'{name}' is neither a file nor a task"):
            expand(name)

    def test_a_file_of_a_tasks_name_needs_its_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Else what a group stands for would depend on where the command is run."""
        monkeypatch.chdir(tmp_path)
        Path("sts12").write_text("a\tb\t1\nc\td\t2\n", encoding="utf-8")
        with pytest.raises(SettingError, match="'sts12' needs the folder"):
            load_tasks(["sts12"], None)
        assert load_tasks(["./sts12"], None)[0].name == "sts12"


class TestTransfer:
    SEVEN = ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc")

    @pytest.mark.parametrize("ending", ["", "-fast", "-dev"])
    def test_groups_are_the_seven(self, ending: str) -> None:
        assert expand(f"Transfer{ending}") == tuple(f"{name}{ending}" for name in self.SEVEN)

    @pytest.mark.parametrize(
        ("name", "setting", "split"),
        [("MR", "test", "10-fold"), ("mr-fast", "fast", "5-fold"), ("mr-dev", "fast", "dev")],
    )
    def test_the_setting_is_in_the_name(
        self, name: str, setting: str, split: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files = []
        for file in transfer_data.TRANSFER["mr"].train:
            (tmp_path / file.path).parent.mkdir(exist_ok=True)
            (tmp_path / file.path).write_text("".join(f"{file.path} {line}\n" for line in range(20)), encoding="utf-8")
            files.append(replace(file, count=20))
        small = replace(transfer_data.TRANSFER["mr"], train=tuple(files))
        monkeypatch.setitem(transfer_data.TRANSFER, "mr", small)
        [found] = load_tasks([name], tmp_path)
        assert isinstance(found, TransferTask)
        assert (found.name, found.setting, found.split, len(found.train)) == ("MR", setting, split, 40)

    @pytest.mark.parametrize("name", ["mr", "sst2-fast", "trec-dev"])
    def test_a_set_needs_the_folder(self, name: str) -> None:
        with pytest.raises(SettingError, match=f"'{name}' needs the folder of SentEval's sets"):
            load_tasks([name], None)

    @pytest.mark.parametrize(("form", "setting"), [("transfer", "test"), ("transfer-fast", "fast")])
    def test_a_file(self, form: str, setting: str, tmp_path: Path) -> None:
        path = tmp_path / "Mine.tsv"
        path.write_text("".join(f"sentence {n}\t{n % 2}\n" for n in range(40)), encoding="utf-8")
        [found] = load_tasks([f"{form}:{path}"], None)
        assert isinstance(found, TransferTask)
        assert (found.name, found.setting, len(found.train)) == ("Mine", setting, 40)


class TestRanking:
    def test_the_group_is_that_of_the_seven(self) -> None:
        assert expand("ranking") == expand("ranking:sts") == tuple(f"ranking:{name}" for name in SEVEN)

    def test_a_name_or_a_file(self) -> None:
        assert expand("Ranking:STSB-dev") == ("ranking:stsb-dev",)
        assert expand("ranking:Mine/Pairs.tsv") == ("ranking:Mine/Pairs.tsv",)

    @pytest.mark.parametrize("name", ["", "mr", "wikiqa", "ranking", "rerank:x", "nothing"])
    def test_of_what_is_not_pairs(self, name: str) -> None:
        with pytest.raises(SettingError, match=f"'ranking:{name}': a ranking is made of scored pairs: a file of them"):
            expand(f"ranking:{name}")

    def test_load(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.tsv"
        path.write_text("".join(f"x\t{partner}\t{score}\n" for score, partner in enumerate("abcd")), encoding="utf-8")
        [found] = load_tasks([f"ranking:{path}"], None)
        assert isinstance(found, RankingTask)
        assert [query.partners for query in found.queries] == [("a", "b", "c", "d")]

    def test_a_set_needs_the_folder(self) -> None:
        with pytest.raises(SettingError, match="'stsb' needs the folder of the STS sets"):
            load_tasks(["ranking:stsb"], None)


class TestReranking:
    def test_a_known_set(self, tmp_path: Path) -> None:
        (tmp_path / "WikiQA-test.txt").write_text("who\tme\t1\nwho\tyou\t0\n", encoding="utf-8")
        [found] = load_tasks(["WikiQA"], tmp_path)
        assert isinstance(found, RerankingTask)
        assert (found.name, found.split, len(found.queries)) == ("WikiQA", "test", 1)

    def test_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "Mine.jsonl"
        path.write_text('{"query": "who", "positive": ["me"], "negative": ["you"]}\n', encoding="utf-8")
        [found] = load_tasks([f"rerank:{path}"], None)
        assert isinstance(found, RerankingTask)
        assert found.name == "Mine"


class TestRetrieval:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "Mine"
        (folder / "qrels").mkdir(parents=True)
        (folder / "corpus.tsv").write_text("_id\ttext\nd1\tone\nd2\ttwo\n", encoding="utf-8")
        (folder / "queries.tsv").write_text("_id\ttext\nq1\t1\nq2\t2\n", encoding="utf-8")
        for split, query in (("test", "q1"), ("dev", "q2")):
            line = f"query-id\tcorpus-id\tscore\n{query}\td{query[1]}\t1\n"
            (folder / "qrels" / f"{split}.tsv").write_text(line, encoding="utf-8")
        return folder

    @pytest.mark.parametrize(("ending", "split", "query"), [("", "test", "1"), ("?split=dev", "dev", "2")])
    def test_a_folder_and_its_splits(self, ending: str, split: str, query: str, folder: Path) -> None:
        [found] = load_tasks([f"retrieval:{folder}{ending}"], None)
        assert isinstance(found, RetrievalTask)
        assert (found.name, found.split, found.queries) == ("Mine", split, [query])

    def test_strictness_by_name_and_by_argument(self, folder: Path, length_scorer) -> None:
        with open(folder / "corpus.tsv", "a", encoding="utf-8") as corpus:
            corpus.write("d3\t\n")
        name = f"retrieval:{folder}"
        for asked in ("", "?split=dev", "?strict=false", "?split=test&strict=false"):
            [found] = load_tasks([name + asked], None)
            assert found.counts == {"empty_documents": 1}  # type: ignore[attr-defined]
        for strict in (
            lambda: load_tasks([name + "?strict=true"], None),
            lambda: load_tasks([name + "?split=dev&strict=true"], None),
            lambda: load_tasks([name], None, strict=True),
            lambda: evaluate(length_scorer(), name, strict=True),
        ):
            with pytest.raises(InputError, match=r"corpus.tsv: line 4: .*text: empty"):
                strict()

    @pytest.mark.parametrize("ending", ["?", "?split=", "?splitt=dev", "?strict=yes", "?split=dev&x=1"])
    def test_what_does_not_follow_a_folder(self, ending: str, folder: Path) -> None:
        with pytest.raises(SettingError, match=r"what may follow one is \?split=NAME"):
            load_tasks([f"retrieval:{folder}{ending}"], None)

    def test_a_folder_with_a_question_mark_in_its_name(self, folder: Path) -> None:
        odd = folder.rename(folder.parent / "what?really")
        [found] = load_tasks([f"retrieval:{odd}"], None)
        assert found.name == "what?really"

    def test_several_kinds_in_one_evaluation(self, folder: Path, length_scorer) -> None:
        results = evaluate(length_scorer(), ["everyday", f"retrieval:{folder}", "ranking:everyday"])
        assert list(results.averages) == ["sts", "retrieval", "ranking"]
        assert results["Mine"] == results["retrieval:Mine"] == results.averages["retrieval"]


class TestWhatANameMayBeUsedFor:
    @pytest.mark.parametrize(
        "name",
        ["sts", "stsb", "sick-r-all", "mr", "trec-fast", "transfer", "ranking", "ranking:stsb", "wikiqa", "MindSmall"],
    )
    def test_a_test_set(self, name: str) -> None:
        assert is_test(name)

    @pytest.mark.parametrize(
        "name",
        [
            *("stsb-dev", "sick-r-train", "ranking:stsb-dev", "mr-dev", "transfer-dev", "wikiqa-train"),
            *("everyday", "a.tsv", "transfer:a.tsv", "rerank:a.jsonl"),
        ],
    )
    def test_not_a_test_set(self, name: str) -> None:
        assert not is_test(name)

    @pytest.mark.parametrize(
        "name", ["sts", "STSB-dev", "mr", "mr-dev", "transfer", "ranking:stsb", "ranking", "wikiqa"]
    )
    def test_only_with_a_folder(self, name: str) -> None:
        assert needs_data(name)

    @pytest.mark.parametrize(
        "name",
        [
            *("everyday", "ranking:everyday", "askubuntu"),
            *("a.tsv", "transfer:a.tsv", "ranking:a.tsv", "rerank:a.jsonl", "retrieval:a"),
        ],
    )
    def test_without_a_folder(self, name: str) -> None:
        assert not needs_data(name)


class TestLoading:
    def test_a_task_that_comes_twice_counts_once(self, mini_sts, tmp_path: Path) -> None:
        data = mini_sts.write(tmp_path / "data", "raw")
        tasks = load_tasks(["stsb-dev", "sts", "stsb", "STSB", "everyday", "everyday"], data)
        assert [task.name for task in tasks] == [
            "STS-B",
            *["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"],
            "everyday",
        ]
        assert load_tasks([*tasks, tasks[0]], None) == tasks

    def test_a_folder_of_all_data_has_sentevals_below(self, mini_sts, tmp_path: Path) -> None:
        mini_sts.write(tmp_path / "senteval", "senteval")
        [task] = load_tasks(["stsb"], tmp_path)
        assert task.layout == "senteval"

    def test_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "no ending"
        path.write_text("a\tb\t1\nc\td\t2\n", encoding="utf-8")
        [found] = load_tasks([str(path)], None)
        assert found.pairs == [Pair("a", "b", 1), Pair("c", "d", 2)]

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"none\.tsv: no such file\.$"):
            load_tasks([str(tmp_path / "none.tsv")], None)

    def test_sets_without_a_folder(self) -> None:
        with pytest.raises(SettingError, match=r"tasks: 'sts12' needs the folder of the STS sets; name it by data"):
            load_tasks(["sts"], None)

    def test_an_unknown_name_is_told_before_the_folder_is_asked_for(self) -> None:
        with pytest.raises(SettingError, match="Did you mean 'stsb-dev'"):
            load_tasks(["stsb-def"], None)
