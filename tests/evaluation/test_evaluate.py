"""Evaluation against the obvious way of doing it: encode every pair by itself, then ask scipy."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError
from nearer.evaluation import PairTask, evaluate, file_task, load_tasks
from nearer.evaluation.measures import pearson, spearman
from nearer.evaluation.reranking_task import RerankingQuery, RerankingTask
from nearer.storage.sealed import read_sealed_json
from nearer.text import Pair

GRADED = [Pair("a", "bb", 5), Pair("a", "dddd", 4), Pair("ccc", "a", 4.5), Pair("a", "ffffffff", 1), Pair("a", "a", 5)]


def task(name: str = "x", **subsets: list[Pair]) -> PairTask:
    return PairTask(name, "file", "file", subsets or {name: GRADED})


TWO_SUBSETS = task(one=GRADED, two=[Pair("a", "bb", 1), Pair("cccc", "d", 2), Pair("ee", "ffffff", 3)])


@pytest.fixture(scope="module")
def wiki_mini() -> Encoder:
    return Encoder.load("wiki-mini", pooling="mean", device="cpu")


class TestAgainstTheObviousWay:
    @pytest.fixture(scope="class")
    def cosines_and_gold(self, wiki_mini: Encoder) -> tuple[list[float], list[float]]:
        [everyday] = load_tasks(["everyday"], None)
        cosines = []
        for pair in everyday.pairs[:100]:
            first, second = wiki_mini.encode(pair.first), wiki_mini.encode(pair.second)
            cosines.append(float(first @ second / np.sqrt((first @ first) * (second @ second))))
        return cosines, [float(pair.score or 0) for pair in everyday.pairs[:100]]

    @pytest.mark.parametrize(
        ("correlation", "theirs"), [("spearman", scipy.stats.spearmanr), ("pearson", scipy.stats.pearsonr)]
    )
    def test_everyday(self, correlation: str, theirs, wiki_mini: Encoder, cosines_and_gold) -> None:
        [everyday] = load_tasks(["everyday"], None)
        first_hundred = PairTask("everyday", "file", "file", {"everyday": everyday.pairs[:100]})
        results = evaluate(wiki_mini, first_hundred, correlation=correlation, batch_size=7)
        assert results.average == pytest.approx(100 * theirs(*cosines_and_gold).statistic, abs=1e-3)

    def test_the_figure_of_the_demonstration(self, wiki_mini: Encoder) -> None:
        results = evaluate(wiki_mini, "everyday")
        assert results["everyday"] == pytest.approx(48.33, abs=0.02)
        assert (results.scores[0].count, results.scores[0].dropped, results.sentences) == (300, 0, 360)

    def test_subsets_and_aggregations(self, length_scorer) -> None:
        first, second = GRADED, [Pair("a", "bb", 1), Pair("cccc", "d", 2), Pair("ee", "ffffff", 3)]
        sides = []
        for pairs in (first, second):
            similarity = [-abs(len(pair.first) - len(pair.second)) for pair in pairs]
            sides.append((np.array(similarity, dtype=float), np.array([pair.score for pair in pairs], dtype=float)))
        together = np.concatenate([s for s, _ in sides]), np.concatenate([g for _, g in sides])
        found = evaluate(length_scorer(), [task(one=first, two=second)]).scores[0]
        for measure in (spearman, pearson):
            name = measure.__name__
            one, two = (measure(*side) for side in sides)
            assert one is not None
            assert two is not None
            assert {key: figure for key, figure in found.figures.items() if key.startswith(name)} == {
                name: pytest.approx(100 * measure(*together)),  # type: ignore[operator]
                f"{name} mean": pytest.approx(50 * (one + two)),
                f"{name} wmean": pytest.approx(100 * (5 * one + 3 * two) / 8),
            }
            assert [subset[name] for subset in found.details["subsets"].values()] == pytest.approx(
                [100 * one, 100 * two]
            )
        assert {name: subset["pairs"] for name, subset in found.details["subsets"].items()} == {"one": 5, "two": 3}

    @pytest.mark.parametrize("correlation", ["spearman", "pearson"])
    @pytest.mark.parametrize(("aggregation", "ending"), [("all", ""), ("mean", " mean"), ("wmean", " wmean")])
    def test_the_main_figure_is_the_one_asked_for(
        self, correlation: str, aggregation: str, ending: str, length_scorer
    ) -> None:
        results = evaluate(length_scorer(), [TWO_SUBSETS], correlation=correlation, aggregation=aggregation)
        [score] = results.scores
        assert score.protocol == {"correlation": correlation, "aggregation": aggregation}
        assert score.measure == correlation + ending
        assert results["x"] == results.average == score.score == score.figures[correlation + ending]
        assert len(set(score.figures.values())) == len(score.figures) == 6

    def test_a_task_keeps_its_own_figure_unless_another_is_asked_for(self, length_scorer) -> None:
        own = replace(TWO_SUBSETS, correlation="pearson", aggregation="mean")
        assert evaluate(length_scorer(), own).scores[0].measure == "pearson mean"
        assert evaluate(length_scorer(), own, aggregation="all").scores[0].measure == "pearson"
        assert evaluate(length_scorer(), own, correlation="spearman").scores[0].measure == "spearman mean"


class TestEncoding:
    def test_each_unique_sentence_once_over_all_tasks(self, length_scorer) -> None:
        scorer = length_scorer()
        results = evaluate(scorer, [task(), task("y", one=GRADED[:2], two=GRADED[2:])])
        assert scorer.encoded == ["a", "bb", "dddd", "ccc", "ffffffff"]
        assert results.sentences == 5

    def test_batch_size_and_progress_are_handed_on(self, length_scorer, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = []
        whole = length_scorer.encode
        monkeypatch.setattr(
            length_scorer, "encode", lambda self, s, **options: asked.append(options) or whole(self, s, **options)
        )
        evaluate(length_scorer(), task(), batch_size=3, progress=True)
        assert asked == [{"batch_size": 3, "progress": True}]


class TestUndefined:
    def test_constant_gold(self, length_scorer) -> None:
        constant = [pair._replace(score=2.0) for pair in GRADED]
        results = evaluate(length_scorer(), [task("x", x=constant), task("y")])
        assert results.scores[0].remark == "undefined: all gold scores are equal"
        assert set(results.scores[0].figures.values()) == {None}
        assert results["x"] is results.average is None
        assert results["y"] is not None
        assert results.scores[1].remark == ""

    def test_constant_similarity(self, length_scorer) -> None:
        results = evaluate(length_scorer(np.zeros_like), task())
        assert results.scores[0].remark == "undefined: all similarities are equal"
        assert results["x"] is results.average is None

    def test_a_diverged_model(self, length_scorer) -> None:
        results = evaluate(length_scorer(lambda scores: scores * np.nan), task())
        assert results.scores[0].remark == "undefined: some similarities are not finite numbers"
        assert results["x"] is results.average is None

    @pytest.mark.parametrize("aggregation", ["mean", "wmean"])
    def test_one_undefined_subset(self, aggregation: str, length_scorer) -> None:
        subsets = task(one=GRADED, two=[Pair("a", "bb", 1), Pair("a", "ccc", 1)])
        results = evaluate(length_scorer(), subsets, aggregation=aggregation)
        assert results.scores[0].remark == "undefined over subsets: in two all gold scores are equal"
        assert results["x"] is None
        assert results.scores[0].figures["spearman"] is not None


class TestProtocol:
    def test_everything_that_decides_a_score(self, wiki_mini: Encoder) -> None:
        results = evaluate(wiki_mini, task(), aggregation="wmean", correlation="pearson")
        assert results.scores[0].protocol == {"correlation": "pearson", "aggregation": "wmean"}
        assert results.protocol == {
            "similarity": "cosine",
            "pooling": "mean",
            "head": False,
            "max_length": 512,
            "text_normalisation": "none",
            "precision": "float32",
        }

    @pytest.mark.parametrize(("pooling", "used"), [("cls", True), ("cls_before_head", False)])
    def test_the_head_is_part_of_it_where_it_is_used(self, pooling: str, used: bool, tiny_model) -> None:
        encoder = Encoder.load(tiny_model("bert"), pooling=pooling, pooler_as_head=True, device="cpu")
        assert encoder.head is not None
        assert evaluate(encoder, task()).protocol["head"] is used

    def test_settings_of_the_model(self, tiny_model) -> None:
        model = tiny_model("bert")
        encoder = Encoder.load(
            model, pooling="first_last_mean", max_length=9, text_normalisation="full_stop", device="cpu"
        )
        results = evaluate(encoder, task())
        protocol = results.protocol
        assert (protocol["pooling"], protocol["max_length"], protocol["text_normalisation"]) == (
            "first_last_mean",
            9,
            "full_stop",
        )
        assert results.model == str(model)
        assert set(results.libraries) == {"nearer", "pytorch", "transformers"}

    def test_a_prompt_of_the_model(self, length_scorer, monkeypatch: pytest.MonkeyPatch) -> None:
        from nearer.encoder import EncoderSettings

        settings = EncoderSettings("mean", 16, prompts={"query": "query: "}, default_prompt="query")
        monkeypatch.setattr(length_scorer, "settings", settings)
        assert evaluate(length_scorer(), task()).protocol["prompt"] == "query"

    def test_the_task_of_each_score(self, length_scorer) -> None:
        [everyday] = load_tasks(["everyday"], None)
        score = evaluate(length_scorer(), everyday).scores[0]
        assert (score.task, score.split, score.layout, score.data_hash) == (
            "everyday",
            "file",
            "file",
            everyday.data_hash(),
        )

    def test_json_says_it_all(self, wiki_mini: Encoder, tmp_path: Path) -> None:
        results = evaluate(wiki_mini, [task(), task("y")])
        results.write_json(tmp_path / "scores.json")
        read = read_sealed_json(tmp_path / "scores.json", "")
        assert read == results.to_dict()
        assert read["protocol"] == results.protocol
        assert (read["average"], read["scores"][1]["score"]) == (results.average, results["y"])

    def test_the_reading_of_reranking_tasks(self, length_scorer) -> None:
        queries = RerankingTask("own", "file", "file", [RerankingQuery(("a",), ("bb",), ("ccc", "dddd"))])
        for reading in ("mteb-v1", "mteb-v2"):
            [score] = evaluate(length_scorer(), queries, reading=reading).scores
            assert score.protocol["reading"] == reading
        assert evaluate(length_scorer(), queries).scores[0].protocol["reading"] == "mteb-v1"


class TestTasks:
    def test_order_is_kept(self, mini_sts, tmp_path: Path, length_scorer) -> None:
        data = mini_sts.write(tmp_path / "data", "raw")
        results = evaluate(length_scorer(), [task(), "sts13", task("y"), "everyday"], data=data)
        assert [score.task for score in results.scores] == ["x", "STS13", "y", "everyday"]

    @pytest.mark.parametrize("none", [[], ()])
    def test_none_at_all(self, none, length_scorer) -> None:
        with pytest.raises(SettingError, match="tasks: none named"):
            evaluate(length_scorer(), none)

    @pytest.mark.parametrize("layout", ["senteval", "raw"])
    def test_the_seven_from_a_folder(self, layout: str, mini_sts, tmp_path: Path, length_scorer) -> None:
        results = evaluate(length_scorer(), data=mini_sts.write(tmp_path / "data", layout))
        assert [score.layout for score in results.scores] == [layout] * 7


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"aggregation": "sum"}, "aggregation: 'sum' is not one of all, mean, wmean"),
            ({"correlation": "kendall"}, "correlation: 'kendall' is not one of spearman, pearson"),
            ({"reading": "mteb-v3"}, "reading: 'mteb-v3' is not one of mteb-v1, mteb-v2"),
        ],
    )
    def test_unknown_values(self, settings: dict[str, str], message: str, length_scorer) -> None:
        with pytest.raises(SettingError, match=message):
            evaluate(length_scorer(), task(), **settings)

    @pytest.mark.parametrize("aggregation", ["mean", "wmean"])
    def test_subsets_that_the_hub_does_not_have(
        self, aggregation: str, mini_sts, tmp_path: Path, length_scorer
    ) -> None:
        data = mini_sts.write(tmp_path / "data", "flat")
        with pytest.raises(SettingError, match=f"aggregation: '{aggregation}' is over a year's subsets, which STS12"):
            evaluate(length_scorer(), ["stsb", "sts12"], data=data, aggregation=aggregation)
        assert evaluate(length_scorer(), ["stsb"], data=data, aggregation=aggregation).scores[0].layout == "flat"


class TestPairsInMemory:
    ROWS = tuple(tuple(pair) for pair in GRADED)

    def expected(self, length_scorer) -> dict[str, float | None]:
        return evaluate(length_scorer(), task()).scores[0].figures

    def test_a_list_of_scored_pairs_is_one_task(self, length_scorer) -> None:
        for given in (list(self.ROWS), GRADED, iter(self.ROWS), [list(row) for row in self.ROWS]):
            [score] = evaluate(length_scorer(), given).scores
            assert (score.task, score.layout, score.count) == ("pairs", "in memory", 5)
            assert score.figures == self.expected(length_scorer)

    def test_a_data_frame_and_a_data_set_are_a_task(self, length_scorer) -> None:
        pandas, datasets = pytest.importorskip("pandas"), pytest.importorskip("datasets")
        frame = pandas.DataFrame(self.ROWS, columns=["sentence1", "sentence2", "score"])
        for given in (frame, datasets.Dataset.from_pandas(frame), frame.to_dict("records")):
            [score] = evaluate(length_scorer(), given).scores
            assert score.figures == self.expected(length_scorer)

    def test_several_by_name_and_beside_other_tasks(self, length_scorer, tmp_path: Path) -> None:
        path = tmp_path / "file.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in self.ROWS))
        results = evaluate(length_scorer(), {"mine": self.ROWS, "other": list(self.ROWS[:3]), "third": path})
        assert [(score.task, score.count) for score in results.scores] == [("mine", 5), ("other", 3), ("third", 5)]
        results = evaluate(length_scorer(), [task("x"), str(path), path, list(self.ROWS)])
        assert [score.task for score in results.scores] == ["x", "file", "pairs"]

    def test_columns_of_other_names(self, length_scorer) -> None:
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(self.ROWS, columns=["left", "right", "grade"])
        with pytest.raises(InputError, match=r"tasks \(a DataFrame\): cannot tell which columns make a pair"):
            evaluate(length_scorer(), frame)
        made = file_task(frame, columns=["left", "right", "grade"], name="graded")
        assert evaluate(length_scorer(), made).scores[0].figures == self.expected(length_scorer)

    def test_faults_name_the_argument(self, length_scorer) -> None:
        with pytest.raises(InputError, match=r"tasks \(a list\): 2 of 2 pairs have no score"):
            evaluate(length_scorer(), [("a", "b"), ("c", "d")])
        with pytest.raises(InputError, match=r"tasks\['mine'\] \(a tuple\): 1 usable pairs found"):
            evaluate(length_scorer(), {"mine": (("a", "b", 1), ("a", "", 1))})
        with pytest.raises(SettingError, match=r"tasks: a int cannot be read"):
            evaluate(length_scorer(), 3)
        with pytest.raises(SettingError, match="needs the folder of the STS sets; name it by data") as raised:
            evaluate(length_scorer(), "stsb")
        assert raised.value.argument == "data"
