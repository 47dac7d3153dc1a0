"""Models of ours under the mteb package: local tasks, and figures that equal ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mteb = pytest.importorskip("mteb", reason="mteb is not installed: pip install -e '.[mteb]'")

from local_mteb_tasks import (  # noqa: E402
    PAIRS,
    RERANKED,
    SEVERAL,
    LocalReranking,
    LocalRetrieval,
    LocalSts,
    LocalSubqueries,
    retrieval_task,
    sentences,
)
from mteb.models import EncoderProtocol  # noqa: E402
from mteb.types import PromptType  # noqa: E402

from nearer.encoder import Encoder  # noqa: E402
from nearer.errors import SettingError  # noqa: E402
from nearer.evaluation.pair_task import PairTask  # noqa: E402
from nearer.evaluation.reranking_task import RerankingTask  # noqa: E402
from nearer.evaluation.task import SentenceVectors, Task  # noqa: E402
from nearer.integrations.mteb import MtebModel  # noqa: E402
from nearer.teachers import RankEncoder  # noqa: E402

NEAR = 1e-5  # of fractions, as mteb gives them, which it rounds to five digits


@pytest.fixture(autouse=True)
def _in_the_old_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mteb.abstasks.text.reranking.OLD_FORMAT_RERANKING_TASKS", [LocalReranking.metadata.name])


@pytest.fixture(scope="module")
def encoder(tiny_model: Callable[[str], Path]) -> Encoder:
    return Encoder.load(tiny_model("bert"), pooling="mean", max_length=16, device="cpu")


@pytest.fixture(scope="module", params=["encoder", "rank encoder"])
def model(request: pytest.FixtureRequest, encoder: Encoder) -> Encoder | RankEncoder:
    if request.param == "encoder":
        return encoder
    return RankEncoder.build(encoder, sentences(50, 6), inference_weight=0.3)


def under_mteb(model: Any, task: Any) -> dict[str, float]:
    """mteb's figures, computed anew."""
    results = mteb.evaluate(model, [task], cache=None, co2_tracker=False, show_progress_bar=False)
    [scores] = results.task_results[0].scores["test"]
    return dict(scores)


def ours(model: Encoder | RankEncoder, task: Task) -> dict[str, float]:
    """Our figures as fractions."""
    unique = list(dict.fromkeys(task.sentences()))
    vectors = SentenceVectors({text: place for place, text in enumerate(unique)}, model.encode(unique))
    return {name: value / 100 for name, value in task.score(model, vectors).figures.items() if value is not None}


class TestEqualFigures:
    def test_sts(self, model: Encoder | RankEncoder) -> None:
        theirs = under_mteb(MtebModel(model), LocalSts())
        figures = ours(model, PairTask("local", "test", "file", {"local": PAIRS}))
        assert theirs["spearman"] == pytest.approx(figures["spearman"], abs=NEAR)
        assert theirs["pearson"] == pytest.approx(figures["pearson"], abs=NEAR)

    @pytest.mark.parametrize("reading", ["mteb-v1", "mteb-v2"])
    def test_reranking(self, model: Encoder | RankEncoder, reading: str) -> None:
        """Without ties, in which case the readings agree."""
        theirs = under_mteb(MtebModel(model), LocalReranking())
        figures = ours(model, RerankingTask("local", "test", "file", RERANKED, reading))
        assert theirs["map_at_1000"] == pytest.approx(figures["map"], abs=NEAR)
        assert theirs["mrr_at_10"] == pytest.approx(figures["mrr@10"], abs=NEAR)
        assert theirs["ndcg_at_10"] == pytest.approx(figures["ndcg@10"], abs=NEAR)
        assert 0.2 < figures["map"] < 0.8

    def test_queries_of_several_texts(self, model: Encoder | RankEncoder) -> None:
        theirs = under_mteb(MtebModel(model), LocalSubqueries())
        figures = ours(model, RerankingTask("local", "test", "file", SEVERAL, "mteb-v2"))
        assert theirs["max_over_subqueries_map_at_1000"] == pytest.approx(figures["map"], abs=NEAR)
        assert theirs["max_over_subqueries_ndcg_at_10"] == pytest.approx(figures["ndcg@10"], abs=NEAR)
        assert abs(theirs["map_at_1000"] - figures["map"]) > 100 * NEAR

    def test_retrieval(self, model: Encoder | RankEncoder) -> None:
        theirs = under_mteb(MtebModel(model), LocalRetrieval())
        figures = ours(model, retrieval_task())
        names = {name: name.replace("@", "_at_") for name in figures}
        assert figures == pytest.approx({name: theirs[there] for name, there in names.items()}, abs=NEAR)

    def test_a_saved_folder_in_sentence_transformers(self, encoder: Encoder, tmp_path: Path) -> None:
        from sentence_transformers import SentenceTransformer

        encoder.save(tmp_path / "model")
        loaded = SentenceTransformer(str(tmp_path / "model"), device="cpu")
        theirs = under_mteb(loaded, LocalSts())
        figures = ours(encoder, PairTask("local", "test", "file", {"local": PAIRS}))
        assert theirs["cosine_spearman"] == pytest.approx(figures["spearman"], abs=NEAR)


def test_ties_are_read_as_mteb_reads_them(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Similarities of two digits are often equal."""
    exact = encoder.score_matrix
    monkeypatch.setattr(encoder, "score_matrix", lambda first, second: exact(first, second).round(2))
    theirs = under_mteb(MtebModel(encoder), LocalReranking())
    first, second = (
        ours(encoder, RerankingTask("local", "test", "file", RERANKED, reading)) for reading in ("mteb-v1", "mteb-v2")
    )
    assert theirs["map_at_1000"] == pytest.approx(second["map"], abs=NEAR)
    assert theirs["mrr_at_10"] == pytest.approx(second["mrr@10"], abs=NEAR)
    assert theirs["ndcg_at_10"] == pytest.approx(second["ndcg@10"], abs=NEAR)
    assert abs(first["map"] - second["map"]) > 100 * NEAR


class TestModel:
    def test_is_an_encoder_to_mteb(self, model: Encoder | RankEncoder) -> None:
        assert isinstance(MtebModel(model), EncoderProtocol)

    def test_meta(self, model: Encoder | RankEncoder) -> None:
        meta = MtebModel(model, name="me/mine").mteb_model_meta
        assert (meta.name, meta.embed_dim, meta.max_tokens) == ("me/mine", 32, 16)
        assert meta.similarity_fn_name.value == ("cosine" if isinstance(model, Encoder) else "custom")

    def test_the_revision_is_of_what_decides_a_similarity(self, encoder: Encoder) -> None:
        ranks = [
            RankEncoder.build(encoder, sentences(9, seed), inference_weight=w)
            for seed, w in ((1, 0.1), (1, 1.0), (2, 0.1))
        ]
        revisions = [MtebModel(model).mteb_model_meta.revision for model in (encoder, *ranks)]
        assert len(set(revisions)) == 4
        assert MtebModel(encoder).mteb_model_meta.revision == revisions[0]

    def test_each_text_is_encoded_once(self, encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[list[str]] = []
        encode = encoder.encode
        monkeypatch.setattr(encoder, "encode", lambda texts, **options: asked.append(texts) or encode(texts, **options))
        batches = [{"text": ["a man", "a dog"]}, {"text": ["a man"]}]
        found = MtebModel(encoder).encode(
            batches, task_metadata=LocalSts.metadata, hf_split="test", hf_subset="default"
        )
        assert asked == [["a man", "a dog"]]
        np.testing.assert_array_equal(found, encode(["a man", "a dog", "a man"]))

    @pytest.mark.parametrize(
        ("prompts", "chosen"),
        [
            ({"query": "q: ", "document": "d: "}, "q: "),
            ({"query": "q: ", "Retrieval": "r: "}, "r: "),
            ({"Retrieval": "r: ", "Retrieval-query": "rq: "}, "rq: "),
            ({"Retrieval-query": "rq: ", "NearerLocalRetrieval": "n: "}, "n: "),
            ({"NearerLocalRetrieval": "n: ", "NearerLocalRetrieval-query": "nq: "}, "nq: "),
            ({"document": "d: "}, ""),
        ],
    )
    def test_prompts_go_by_mteb_s_rules(self, encoder: Encoder, prompts: dict[str, str], chosen: str) -> None:
        prompted = encoder.with_backbone(encoder.backbone)
        prompted.settings = replace(encoder.settings, prompts=prompts)
        found = MtebModel(prompted).encode(
            [{"text": ["rain"]}],
            task_metadata=LocalRetrieval.metadata,
            hf_split="test",
            hf_subset="default",
            prompt_type=PromptType.query,
        )
        np.testing.assert_allclose(found, encoder.encode([chosen + "rain"]), atol=1e-6)

    def test_refusals(self, encoder: Encoder) -> None:
        with pytest.raises(SettingError, match="name: mteb wants owner/name, 'mine' has no slash"):
            MtebModel(encoder, name="mine")
        with pytest.raises(SettingError, match="precision: 'int8' cannot be given here"):
            MtebModel(encoder).encode([], task_metadata=None, hf_split="", hf_subset="", precision="int8")
