"""The commands that use a model: what they print, write, and say when something is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nearer.encoder import Encoder

Tiny = Callable[[str], Path]


class TestLoading:
    """What all four commands say of a model that cannot be used."""

    COMMANDS = (
        ("evaluate", "MODEL", "--tasks", "everyday"),
        ("encode", "MODEL", "TEXT", "--out", "OUT"),
        ("similarity", "MODEL", "a", "b"),
        ("rank", "MODEL", "a", "TEXT"),
    )

    @pytest.fixture(params=COMMANDS, ids=[command[0] for command in COMMANDS])
    def try_with(self, request: pytest.FixtureRequest, nearer, text: Path, tmp_path: Path):
        def try_with(model: object, *options: object) -> str:
            places = {"MODEL": model, "TEXT": text, "OUT": tmp_path / "vectors.npy"}
            return nearer(*(places.get(word, word) for word in request.param), *options).error

        return try_with

    def test_no_such_folder(self, try_with) -> None:
        assert try_with("./none") == "./none: no such folder."

    def test_not_on_the_hub(self, try_with, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        assert try_with("none/none").startswith("none/none: neither a folder here nor to be had from the Hugging Face")

    def test_a_file(self, try_with, text: Path) -> None:
        assert try_with(text) == f"{text}: is a file, a model is a folder (or a name on the Hugging Face hub)."

    def test_a_folder_without_a_model(self, try_with, tmp_path: Path) -> None:
        wanted = f"{tmp_path}: is not a model folder (no config.json)."
        assert try_with(tmp_path, "--pooling", "cls") == wanted
        assert try_with(tmp_path) == wanted

    def test_a_run_instead_of_its_model(self, try_with, model: Path, tmp_path: Path) -> None:
        run = tmp_path / "run"
        run.mkdir()
        (run / "model").symlink_to(model)
        assert try_with(run).endswith(f"(no config.json); the model of this run is {run}/model.")

    def test_a_plain_checkpoint_without_pooling(self, try_with, model: Path) -> None:
        told = try_with(model)
        assert told.startswith(f"{model}: a plain checkpoint, which does not say how its vectors are pooled")
        assert told.endswith(" (--pooling).")

    def test_an_unknown_pooling(self, try_with, model: Path) -> None:
        assert try_with(model, "--pooling", "meen").endswith("Did you mean 'mean'?")

    def test_an_unknown_normalisation(self, try_with, model: Path) -> None:
        error = try_with(model, "--pooling", "cls", "--text-normalisation", "upper")
        assert error.startswith("text_normalisation: 'upper' is not one of")

    def test_too_long(self, try_with, model: Path) -> None:
        error = try_with(model, "--pooling", "cls", "--max-length", 1000)
        assert error == f"max_length: 1000 is more than the 64 tokens that {model} can take."

    def test_an_unknown_device(self, try_with, model: Path) -> None:
        assert try_with(model, "--pooling", "cls", "--device", "abacus").startswith("device: 'abacus' cannot be used")

    def test_a_checkpoint_without_a_head(self, try_with, tiny_model: Tiny) -> None:
        error = try_with(tiny_model("distilbert"), "--pooling", "cls", "--pooler-as-head")
        assert "has no pooling layer" in error


class TestOptions:
    """Each option of a model reaches it."""

    @pytest.mark.parametrize(
        ("option", "setting"),
        [
            (("--pooling", "cls"), {"pooling": "cls"}),
            (("--max-length", "4"), {"max_length": 4}),
            (("--text-normalisation", "full_stop"), {"text_normalisation": "full_stop"}),
            (("--pooling", "cls", "--pooler-as-head"), {"pooling": "cls", "pooler_as_head": True}),
        ],
    )
    def test_all_commands(self, option, setting, nearer, model: Path, text: Path, tmp_path: Path) -> None:
        sentences = ["The quick brown fox jumps over the dog", "A man is eating lunch"]
        text.write_text("\n".join(sentences), encoding="utf-8")
        (tmp_path / "pairs.tsv").write_text("a man\tthe fox is lazy\t1\na meal\tlunch\t2\n", encoding="utf-8")
        encoder = Encoder.load(model, **{"pooling": "mean", "device": "cpu", **setting})
        plain = Encoder.load(model, pooling="mean", device="cpu")
        options = (*(() if "pooling" in setting else ("--pooling", "mean")), *option, "--device", "cpu")
        similarity = encoder.similarity(*sentences)
        assert f"{similarity:.4f}" != f"{plain.similarity(*sentences):.4f}"
        assert nearer("similarity", model, *sentences, *options).out == f"{similarity:.4f}\n"
        assert nearer("rank", model, sentences[0], text, *options).out.endswith(
            f"{similarity:.4f}\t2\t{sentences[1]}\n"
        )
        assert nearer("encode", model, text, "--out", tmp_path / "v.npy", *options).code == 0
        np.testing.assert_allclose(np.load(tmp_path / "v.npy"), encoder.encode(sentences), atol=1e-6)
        shown = nearer("evaluate", model, "--tasks", tmp_path / "pairs.tsv", "--json", "-", *options)
        protocol = json.loads(shown.out)["protocol"]
        assert protocol["head"] is setting.get("pooler_as_head", False)
        assert all(protocol[name] == value for name, value in setting.items() if name != "pooler_as_head")

    def test_a_saved_model_needs_none(self, nearer, pooled: Path, encoder: Encoder) -> None:
        outcome = nearer("similarity", pooled, "a man", "rain")
        assert outcome == (0, f"{encoder.similarity('a man', 'rain'):.4f}\n", "")

    @pytest.mark.parametrize("option", [("--max-length", "2"), ("--max-length", "x"), ("--none",)])
    def test_wrong_usage(self, option: tuple[str, ...], nearer) -> None:
        outcome = nearer("similarity", "wiki-mini", "a", "b", *option)
        assert (outcome.code, outcome.out) == (2, "")
        assert "Usage: nearer similarity" in outcome.err


class TestSimilarity:
    def test_a_sentence_with_itself(self, nearer, pooled: Path) -> None:
        assert nearer("similarity", pooled, "A man.", "A man.").out == "1.0000\n"

    @pytest.mark.parametrize("second", ["rain", "", "東京 is far", "a " * 200])
    def test_range(self, second: str, nearer, pooled: Path) -> None:
        outcome = nearer("similarity", pooled, "A man is eating lunch.", second)
        cut = "note: 1 of 2 texts were cut at 64 tokens (--max-length)\n" if len(second) > 100 else ""
        assert (outcome.code, outcome.err) == (0, cut)
        assert -1 <= float(outcome.out) <= 1

    def test_an_argument_that_is_not_text(self, nearer, pooled: Path) -> None:
        assert nearer("similarity", pooled, "a", "\udcff").error == (
            "sentences: item 1 holds half a surrogate pair, which is not text."
        )

    def test_wiki_mini_by_name(self, nearer) -> None:
        near, far = (
            float(nearer("similarity", "wiki-mini", "A man is eating food.", other, "--pooling", "mean").out)
            for other in ("A man eats something.", "The stock market fell sharply.")
        )
        assert near > far


class TestRank:
    def test_format_and_order(self, nearer, pooled: Path, encoder: Encoder, text: Path) -> None:
        sentences = text.read_text(encoding="utf-8").splitlines()
        cosines = [encoder.similarity("a meal", sentence) for sentence in sentences]
        order = sorted(range(len(sentences)), key=lambda place: -cosines[place])
        outcome = nearer("rank", pooled, "a meal", text)
        assert outcome.out == "".join(f"{cosines[n]:.4f}\t{n + 1}\t{sentences[n]}\n" for n in order)
        assert (outcome.code, outcome.err) == (0, "")

    def test_top(self, nearer, pooled: Path, text: Path) -> None:
        every = nearer("rank", pooled, "a meal", text).out.splitlines()
        assert nearer("rank", pooled, "a meal", text, "--top", 2).out.splitlines() == every[:2]
        assert nearer("rank", pooled, "a meal", text, "--top", 99).out.splitlines() == every
        assert nearer("rank", pooled, "a meal", text, "--top", 0).code == 2

    def test_equal_ones_keep_their_order(self, nearer, pooled: Path, text: Path) -> None:
        text.write_text("rain\n" * 5, encoding="utf-8")
        assert [line.split("\t")[1] for line in nearer("rank", pooled, "fox", text).out.splitlines()] == list("12345")

    def test_line_numbers_count_dropped_lines(self, nearer, pooled: Path, text: Path) -> None:
        text.write_text("\n\nrain\n\nrain again\n", encoding="utf-8")
        outcome = nearer("rank", pooled, "rain", text)
        assert [line.split("\t")[1:] for line in outcome.out.splitlines()] == [["3", "rain"], ["5", "rain again"]]
        assert "5 read, 2 kept, 3 dropped" in outcome.err

    def test_a_sentence_stays_on_its_line(self, nearer, pooled: Path, tmp_path: Path) -> None:
        path = tmp_path / "table.csv"
        path.write_text('text,x\n"two\nlines\tand a tab",1\none,2\n', encoding="utf-8")
        lines = nearer("rank", pooled, "two", path).out.splitlines()
        assert sorted(line.split("\t")[1:] for line in lines) == [["2", "two lines and a tab"], ["4", "one"]]

    def test_columns(self, nearer, pooled: Path, tmp_path: Path) -> None:
        path = tmp_path / "table.csv"
        path.write_text("id,title\n7,rain\n8,sun\n", encoding="utf-8")
        lines = nearer("rank", pooled, "rain", path, "--columns", "title").out.splitlines()
        assert lines[0] == "1.0000\t2\train"
        assert nearer("rank", pooled, "rain", path, "--columns", "name").error.startswith(
            f"{path}: has no column 'name'"
        )

    def test_encoding(self, nearer, pooled: Path, text: Path) -> None:
        text.write_bytes("café\n".encode("latin-1"))
        assert nearer("rank", pooled, "café", text, "--encoding", "latin-1").out == "1.0000\t1\tcafé\n"
        assert nearer("rank", pooled, "café", text).error == f"{text}: nothing in it could be used."
        assert nearer("rank", pooled, "café", text, "--encoding", "klingon").error.startswith("encoding: 'klingon'")

    def test_no_such_file(self, nearer, tmp_path: Path) -> None:
        assert nearer("rank", "./none", "a", tmp_path / "none.txt").error == f"{tmp_path / 'none.txt'}: no such file."


class TestEvaluate:
    @pytest.fixture
    def pairs(self, tmp_path: Path) -> Path:
        path = tmp_path / "pairs.tsv"
        path.write_text(
            "A man is eating.\tSomeone has a meal.\t4\nrain\tthe fox\t0\n\nA man\tA man\t5\n", encoding="utf-8"
        )
        return path

    def test_table(self, nearer, pooled: Path, pairs: Path) -> None:
        outcome = nearer("evaluate", pooled, "--tasks", pairs)
        assert outcome.code == 0
        assert f"{pooled}  (STS: Spearman × 100, all)" in outcome.out
        [row] = [line for line in outcome.out.splitlines() if "│ pairs " in line]
        assert [cell.strip() for cell in row.split("│")[1:4]] == ["pairs", "file", "3 pairs"]
        assert "4 read, 3 kept, 1 dropped" in outcome.err

    def test_json_on_standard_output(self, nearer, pooled: Path, pairs: Path) -> None:
        outcome = nearer("evaluate", pooled, "--tasks", f"everyday, {pairs},", "--json", "-")
        found = json.loads(outcome.out)
        assert found["protocol"] == {
            "similarity": "cosine",
            "pooling": "mean",
            "head": False,
            "max_length": 64,
            "text_normalisation": "none",
            "precision": "float32",
        }
        assert [(s["task"], s["count"], s["dropped"]) for s in found["scores"]] == [
            ("everyday", 300, 0),
            ("pairs", 3, 1),
        ]
        assert [s["protocol"] for s in found["scores"]] == [{"correlation": "spearman", "aggregation": "all"}] * 2
        assert found["average"] == pytest.approx(sum(score["score"] for score in found["scores"]) / 2)

    def test_precision(self, nearer, pooled: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
        scores = {
            precision: json.loads(
                nearer("evaluate", pooled, "--tasks", "everyday", "--json", "-", "--precision", precision).out
            )["average"]
            for precision in ("float32", "bf16")
        }
        assert scores["float32"] != scores["bf16"]
        assert scores["float32"] == pytest.approx(scores["bf16"], abs=2)

    def test_json_file(self, nearer, pooled: Path, pairs: Path, tmp_path: Path) -> None:
        out = tmp_path / "scores.json"
        outcome = nearer("evaluate", pooled, "--tasks", pairs, "--json", out)
        assert "Spearman" in outcome.out
        assert outcome.err.endswith(f"scores and protocol: {out}\n")
        assert json.loads(out.read_text(encoding="utf-8"))["scores"][0]["task"] == "pairs"

    def test_correlation_and_aggregation(self, nearer, pooled: Path, pairs: Path) -> None:
        outcome = nearer("evaluate", pooled, "--tasks", pairs, "--correlation", "pearson", "--aggregation", "wmean")
        assert "(STS: Pearson × 100, wmean)" in outcome.out

    @pytest.mark.parametrize("option", ["--correlation", "--aggregation"])
    def test_unknown_ones_are_wrong_usage(self, option: str, nearer, pairs: Path) -> None:
        assert nearer("evaluate", "./none", "--tasks", pairs, option, "sum").code == 2

    def test_an_undefined_score(self, nearer, pooled: Path, tmp_path: Path) -> None:
        path = tmp_path / "same.tsv"
        path.write_text("a\tb\t1\nc\td\t1\n", encoding="utf-8")
        outcome = nearer("evaluate", pooled, "--tasks", f"{path},everyday")
        assert outcome.code == 0
        assert "undefined: all gold scores are equal" in outcome.out

    def test_names_that_look_like_markup(self, nearer, pooled: Path, pairs: Path) -> None:
        model = pooled.rename(pooled.parent / "x[red]y:smile:")
        assert f"{model}  (STS: Spearman" in nearer("evaluate", model, "--tasks", pairs).out

    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ((), "tasks: 'sts12' needs the folder of the STS sets; name it by data (--data DIR)."),
            (("--tasks", "mr"), "tasks: 'mr' needs the folder of SentEval's sets; name it by data (--data DIR)."),
            (("--tasks", ""), "tasks: none named; sts, everyday or a file of scored pairs."),
            (("--tasks", "none.tsv"), "none.tsv: no such file."),
            (("--tasks", "everyday", "--json", "none/x.json"), "none/x.json: the folder none does not exist."),
        ],
    )
    def test_errors_come_before_the_model_is_loaded(
        self, options, error: str, nearer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert nearer("evaluate", "./no model", *options).error == error

    def test_an_unknown_task(self, nearer) -> None:
        error = nearer("evaluate", "./no model", "--tasks", "sts12,stsb-def").error
        assert error.startswith("tasks: 'stsb-def' is neither a file nor a task. sts: sts, everyday, sts12, ")
        assert error.endswith("Did you mean 'stsb-dev'?")

    def test_no_data_folder(self, nearer, tmp_path: Path) -> None:
        error = nearer("evaluate", "./no model", "--data", tmp_path / "none").error
        assert error.startswith(f"{tmp_path / 'none'}: no such data folder; `nearer data get sts`")

    def test_a_file_without_scores(self, nearer, pairs: Path) -> None:
        pairs.write_text("a\tb\nc\td\n", encoding="utf-8")
        assert nearer("evaluate", "./no model", "--tasks", pairs).error.startswith(
            f"{pairs}: 2 of 2 pairs have no score"
        )

    def test_scores_that_cannot_be_written(self, nearer, pooled: Path, pairs: Path, tmp_path: Path) -> None:
        outcome = nearer("evaluate", pooled, "--tasks", pairs, "--json", tmp_path)
        assert outcome.error == f"{tmp_path}: cannot be written (Is a directory)."
        assert "Spearman" in outcome.out  # what was measured is not lost
