"""embed and rank-encoder: what they make, what they say, and how a RankEncoder is used by the other commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nearer.encoder import Encoder
from nearer.extras import install_command
from nearer.teachers import RankEncoder, VectorStore
from nearer.text import read_sentences

Run = Callable[..., Any]
LINES = ["the fox", "A man is eating lunch.", "rain", "Someone has a meal.", "the lazy dog jumps", "rain"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    path = tmp_path / "empty.txt"
    path.write_text("\n \n", encoding="utf-8")
    return path


class TestEmbed:
    def test_what_it_encodes_is_what_teachers_use(
        self, nearer: Run, pooled: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        outcome = nearer("embed", pooled, corpus, "--device", "cpu")
        assert (outcome.code, outcome.out) == (0, "")
        store = VectorStore(Encoder.load(pooled, device="cpu"))
        assert outcome.err.splitlines()[-1] == (f"6 sentences, 5 encoded now; vectors of {pooled}: {store.folder}")
        monkeypatch.setattr(Encoder, "forward", lambda *_: pytest.fail("encoded again"))
        assert store.rows(read_sentences(corpus)).tolist() == [0, 1, 2, 3, 4, 2]

    def test_a_second_time_nothing_is_encoded(
        self, nearer: Run, pooled: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        nearer("embed", pooled, corpus)
        monkeypatch.setattr(Encoder, "forward", lambda *_: pytest.fail("encoded again"))
        outcome = nearer("embed", pooled, corpus)
        assert outcome.code == 0
        assert "6 sentences, 0 encoded now" in outcome.err

    def test_only_what_is_new(self, nearer: Run, pooled: Path, corpus: Path) -> None:
        nearer("embed", pooled, corpus)
        corpus.write_text(corpus.read_text() + "the quick brown fox\n")
        assert "7 sentences, 1 encoded now" in nearer("embed", pooled, corpus).err

    def test_columns_and_settings(self, nearer: Run, model: Path, tmp_path: Path) -> None:
        table = tmp_path / "table.csv"
        table.write_text("id,said\n1,the fox\n2,rain\n")
        options = ("--pooling", "cls", "--max-length", "9", "--text-normalisation", "full_stop", "--pooler-as-head")
        outcome = nearer("embed", model, table, "--columns", "said", *options)
        encoder = Encoder.load(
            model, pooling="cls", max_length=9, text_normalisation="full_stop", pooler_as_head=True, device="cpu"
        )
        store = VectorStore(encoder)
        assert outcome.err.splitlines()[-1].endswith(f"{store.folder}")
        np.testing.assert_allclose(store.vectors(), encoder.encode(["the fox", "rain"], normalize=True), atol=4e-4)

    def test_what_was_dropped_is_told(self, nearer: Run, pooled: Path, corpus: Path) -> None:
        corpus.write_bytes(corpus.read_bytes() + b"\nbad \xff bytes\n")
        outcome = nearer("embed", pooled, corpus)
        assert "8 read, 6 kept, 2 dropped" in outcome.err
        assert "6 sentences, 5 encoded now" in outcome.err

    def test_a_wrong_path_does_not_cost_the_loading_of_a_model(
        self, nearer: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Encoder, "load", lambda *_, **__: pytest.fail("loaded"))
        missing = tmp_path / "none.txt"
        assert nearer("embed", "wiki-mini", missing).error == f"{missing}: no such file."

    def test_standard_input(self, nearer: Run, pooled: Path) -> None:
        assert nearer("embed", pooled, "-").error == "standard input can be read once only: name a file."

    def test_a_plain_checkpoint_without_pooling(self, nearer: Run, model: Path, corpus: Path) -> None:
        assert nearer("embed", model, corpus).error.startswith(f"teacher {model}: a plain checkpoint")

    def test_an_empty_corpus(self, nearer: Run, pooled: Path, empty: Path) -> None:
        outcome = nearer("embed", pooled, empty)
        assert outcome.code == 1
        assert f"error: {empty}: nothing in it could be used." in outcome.err
        assert "Traceback" not in outcome.err

    def test_a_cache_that_cannot_be_used(
        self, nearer: Run, pooled: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NEARER_CACHE", str(corpus))
        assert "name another folder with NEARER_CACHE" in nearer("embed", pooled, corpus).error

    def test_an_interruption(self, nearer: Run, pooled: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Encoder, "forward", interrupted)
            outcome = nearer("embed", pooled, corpus)
            assert outcome.code == 130
            assert "stopped; 0 new vectors are kept; the same command goes on there" in outcome.err
        assert "5 encoded now" in nearer("embed", pooled, corpus).err


class TestEmbedOverRay:
    @pytest.mark.slow
    def test_two_workers_give_the_same_files(
        self, nearer: Run, pooled: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ray = pytest.importorskip("ray")
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        monkeypatch.setattr("nearer.teachers.vector_store.WINDOW_ON_CPU", 2)
        kept = []
        for engine in ((), ("--engine", "ray", "--workers", "2")):
            monkeypatch.setenv("NEARER_CACHE", str(tmp_path / f"cache{len(kept)}"))
            outcome = nearer("embed", pooled, corpus, "--device", "cpu", *engine)
            assert outcome.code == 0, outcome.err
            assert "6 sentences, 5 encoded now" in outcome.err.splitlines()[-1]
            [store] = (tmp_path / f"cache{len(kept)}" / "vectors").iterdir()
            kept.append((store.name, (store / "vectors.bin").read_bytes(), (store / "keys.bin").read_bytes()))
        assert kept[0] == kept[1]
        assert not ray.is_initialized()
        assert "6 sentences, 0 encoded now" in nearer("embed", pooled, corpus, "--device", "cpu").err

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--workers", "2"), "--workers: are Ray's; give --engine ray with it."),
            (("--engine", "ray", "--device", "cuda:1"), "--device: 'cuda:1' with --engine ray; name cpu or cuda"),
        ],
    )
    def test_what_does_not_go_together(
        self, options: tuple[str, ...], message: str, nearer: Run, pooled: Path, corpus: Path
    ) -> None:
        assert message in nearer("embed", pooled, corpus, *options).error

    def test_ray_is_an_extra_and_missed_before_a_model_is_loaded(
        self, nearer: Run, pooled: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Encoder, "load", lambda *_, **__: pytest.fail("loaded"))
        monkeypatch.setitem(sys.modules, "ray", None)
        monkeypatch.setitem(sys.modules, "ray.data", None)
        assert install_command("ray") in nearer("embed", pooled, corpus, "--engine", "ray").error

    def test_a_model_that_is_not_there_is_told_before_ray_starts(
        self, nearer: Run, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pytest.importorskip("ray")
        monkeypatch.setattr("nearer.ray_runtime._start", lambda *_: pytest.fail("started"))
        missing = tmp_path / "none"
        assert nearer("embed", missing, corpus, "--engine", "ray").error.startswith(f"{missing}: no such folder")


class TestRankEncoder:
    @pytest.fixture
    def out(self, tmp_path: Path) -> Path:
        return tmp_path / "made" / "ranks"

    @pytest.fixture
    def made(self, nearer: Run, pooled: Path, corpus: Path, out: Path) -> RankEncoder:
        outcome = nearer("rank-encoder", pooled, "--corpus", corpus, "--out", out, "--inference-weight", "0.4")
        assert outcome.code == 0, outcome.err
        return RankEncoder.load(out, device="cpu")

    def test_it_is_the_corpus_each_kind_once(self, made: RankEncoder, encoder: Encoder) -> None:
        assert (made.inference_weight, made.approximate) == (0.4, False)
        np.testing.assert_allclose(made.corpus, encoder.encode(LINES[:5], normalize=True), atol=4e-4)

    def test_what_it_says(self, nearer: Run, pooled: Path, corpus: Path, out: Path) -> None:
        outcome = nearer("rank-encoder", pooled, "--corpus", corpus, "--out", out, "--approximate")
        assert outcome.out == ""
        lines = outcome.err.splitlines()
        assert "the corpus has 5 different sentences; all of them are ranked" in lines
        assert lines[-1] == f"{out}: 1 · ranks of 5 sentences (from its covariance) + 0 · cosine"
        assert RankEncoder.load(out, device="cpu").approximate

    def test_a_part_of_the_corpus_by_the_seed(self, nearer: Run, pooled: Path, tmp_path: Path) -> None:
        large = tmp_path / "large.txt"
        large.write_text("".join(f"the fox {'jumps ' * number}\n" for number in range(40)))
        drawn = []
        for name, seed in (("one", 3), ("two", 3), ("three", 4)):
            out = tmp_path / name
            outcome = nearer("rank-encoder", pooled, "--corpus", large, "--out", out, "--size", 7, "--seed", seed)
            assert "all of them are ranked" not in outcome.err
            drawn.append(np.load(out / "rank_corpus.npy"))
        assert len(drawn[0]) == 7
        np.testing.assert_array_equal(drawn[0], drawn[1])
        assert (drawn[0] != drawn[2]).any()

    def test_similarity(self, nearer: Run, made: RankEncoder, out: Path) -> None:
        outcome = nearer("similarity", out, "a man", "the evening")
        assert outcome.out == f"{made.similarity('a man', 'the evening'):.4f}\n"
        assert outcome.out != f"{made.encoder.similarity('a man', 'the evening'):.4f}\n"

    def test_rank(self, nearer: Run, made: RankEncoder, out: Path, text: Path) -> None:
        lines = text.read_text().splitlines()
        wanted = [f"{score:.4f}\t{place + 1}\t{sentence}" for place, score, sentence in made.rank("a dog", lines)]
        assert nearer("rank", out, "a dog", text).out.splitlines() == wanted
        assert nearer("rank", out, "a dog", text, "--top", 2).out.splitlines() == wanted[:2]

    def test_evaluate(self, nearer: Run, made: RankEncoder, out: Path) -> None:
        outcome = nearer("evaluate", out, "--tasks", "everyday", "--json", "-")
        found = json.loads(outcome.out)
        assert found["protocol"]["similarity"] == made.scoring == "0.4 · ranks of 5 sentences (exact) + 0.6 · cosine"
        from nearer.evaluation import evaluate

        assert found["average"] == pytest.approx(evaluate(made, "everyday").average)
        assert found["average"] != pytest.approx(evaluate(made.encoder, "everyday").average)
        assert "everyday" in nearer("evaluate", out, "--tasks", "everyday").out

    def test_encode_gives_the_encoder_s_vectors(
        self, nearer: Run, made: RankEncoder, out: Path, text: Path, tmp_path: Path
    ) -> None:
        assert nearer("encode", out, text, "--out", tmp_path / "v.npy").code == 0
        np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), made.encoder.encode(text.read_text().splitlines()))

    @pytest.mark.parametrize(
        "command", [("evaluate", "OUT", "--tasks", "everyday"), ("similarity", "OUT", "a", "b")], ids=lambda c: c[0]
    )
    def test_another_pooling_is_refused(
        self, command: tuple[str, ...], nearer: Run, made: RankEncoder, out: Path
    ) -> None:
        error = nearer(*(out if word == "OUT" else word for word in command), "--pooling", "cls").error
        assert error.startswith(f"{out}: its corpus vectors are not of this encoder or of these settings")


class TestRankEncoderRefusals:
    @pytest.fixture(autouse=True)
    def _nothing_is_loaded(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        """Before it is clear that the rest can be used."""
        if "encoder" not in request.fixturenames:
            monkeypatch.setattr(Encoder, "load", lambda *_, **__: pytest.fail("loaded"))

    @pytest.mark.parametrize("kind", ["folder", "file"])
    def test_a_place_that_is_taken(self, kind: str, nearer: Run, corpus: Path, tmp_path: Path) -> None:
        out = tmp_path / "taken"
        out.mkdir() if kind == "folder" else out.touch()
        error = nearer("rank-encoder", "wiki-mini", "--corpus", corpus, "--out", out).error
        assert error == f"{out}: is there already; choose another folder."

    def test_a_corpus_that_is_not_there(self, nearer: Run, tmp_path: Path) -> None:
        missing = tmp_path / "none.txt"
        out = tmp_path / "out"
        assert (
            nearer("rank-encoder", "wiki-mini", "--corpus", missing, "--out", out).error == f"{missing}: no such file."
        )
        assert not out.exists()

    def test_an_empty_corpus(self, nearer: Run, empty: Path, tmp_path: Path) -> None:
        outcome = nearer("rank-encoder", "wiki-mini", "--corpus", empty, "--out", tmp_path / "out")
        assert outcome.error == f"{empty}: nothing in it could be used."
        assert "2 read, 0 kept" in outcome.err

    def test_one_sentence_only(self, nearer: Run, pooled: Path, tmp_path: Path) -> None:
        one = tmp_path / "one.txt"
        one.write_text("rain\nrain\n")
        error = nearer("rank-encoder", pooled, "--corpus", one, "--out", tmp_path / "out").error
        assert error == "corpus: a ranking needs at least 2 different sentences, 1 given."
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize(
        "options", [("--inference-weight", "1.5"), ("--inference-weight", "-1"), ("--size", "1"), ("--seed", "-1")]
    )
    def test_settings_out_of_range(self, options: tuple[str, str], nearer: Run, corpus: Path, tmp_path: Path) -> None:
        outcome = nearer("rank-encoder", "wiki-mini", "--corpus", corpus, "--out", tmp_path / "out", *options)
        assert outcome.code == 2
        assert options[0] in outcome.err

    def test_a_place_that_cannot_be_written(self, nearer: Run, pooled: Path, corpus: Path) -> None:
        out = corpus / "below-a-file"
        assert nearer("rank-encoder", pooled, "--corpus", corpus, "--out", out).error.startswith(f"{out}: cannot be")
