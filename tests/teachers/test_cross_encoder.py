"""Cross-encoders score as transformers and sentence-transformers do, whatever the batches; what is none is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from nearer import CrossEncoder
from nearer.encoder.batching import Tokenised
from nearer.encoder.precision import lower_classifier
from nearer.errors import InputError, ModelError, SettingError
from nearer.teachers.pair_tokens import PairRows, PairTemplate

Make = Callable[..., Path]
QUERIES = ["a man is eating", "why would anybody measure sentences by the nearness of their meaning?", ""]
PASSAGES = [
    "someone has a meal.",
    "the quick brown fox jumps over the lazy dog, again and again, until the evening comes. " * 4,
    "",
    "rain",
    "Naïve café: 東京 is far away!",
]
ALL = np.array([(query, passage) for query in range(len(QUERIES)) for passage in range(len(PASSAGES))])
KINDS = ("bert", "roberta", "distilbert")


def by_transformers(folder: Path, pairs: NDArray[np.int64], max_length: int) -> NDArray[np.float32]:
    """Each pair by itself, through the tokenizer's own call."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder).float().eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    scores = []
    for query, passage in pairs:
        texts = [QUERIES[query]], [PASSAGES[passage]]  # as lists: an empty passage by itself would be taken for none
        given = tokenizer(*texts, truncation="only_second", max_length=max_length, return_tensors="pt")
        with torch.inference_mode():
            scores.append(float(model(**given).logits[0, 0]))
    return np.array(scores, dtype=np.float32)


class TestScores:
    @pytest.mark.parametrize("kind", KINDS)
    def test_they_are_those_of_transformers(self, kind: str, tiny_cross_encoder: Make) -> None:
        folder = tiny_cross_encoder(kind)
        judge = CrossEncoder.load(folder, device="cpu")
        found = judge.score(QUERIES, PASSAGES, ALL)
        assert found.dtype == np.float32
        assert found.std() > 0.01
        np.testing.assert_allclose(found, by_transformers(folder, ALL, judge.max_length), atol=2e-5)

    def test_they_are_those_of_sentence_transformers(self, tiny_cross_encoder: Make) -> None:
        library = pytest.importorskip("sentence_transformers")
        folder = tiny_cross_encoder("bert")
        theirs = library.CrossEncoder(str(folder), device="cpu")
        texts = [(QUERIES[query], PASSAGES[passage]) for query, passage in ALL if passage != 1]  # those that fit
        expected = theirs.predict(texts, activation_fn=torch.nn.Identity())
        found = CrossEncoder.load(folder, device="cpu").score(QUERIES, PASSAGES, ALL[ALL[:, 1] != 1])
        np.testing.assert_allclose(found, expected, atol=1e-4)

    def test_a_folder_that_sentence_transformers_saved(self, tiny_cross_encoder: Make, tmp_path: Path) -> None:
        library = pytest.importorskip("sentence_transformers")
        folder = tiny_cross_encoder("bert")
        library.CrossEncoder(str(folder), device="cpu").save_pretrained(str(tmp_path / "saved"))
        saved, plain = (CrossEncoder.load(path, device="cpu") for path in (tmp_path / "saved", folder))
        found = saved.score(QUERIES, PASSAGES, ALL)
        np.testing.assert_allclose(found, plain.score(QUERIES, PASSAGES, ALL), atol=1e-6)

    @pytest.mark.parametrize("batch_tokens", [1, 40, 100_000])
    @pytest.mark.parametrize("kind", ["bert", "mobilebert"])
    def test_batches_change_nothing(self, kind: str, batch_tokens: int, tiny_cross_encoder: Make) -> None:
        judge = CrossEncoder.load(tiny_cross_encoder(kind), device="cpu")
        one_by_one = np.concatenate([judge.score(QUERIES, PASSAGES, ALL[row : row + 1]) for row in range(len(ALL))])
        found = judge.score(QUERIES, PASSAGES, ALL[::-1], batch_tokens=batch_tokens)
        np.testing.assert_allclose(found[::-1], one_by_one, atol=2e-5)

    def test_no_pairs(self, tiny_cross_encoder: Make) -> None:
        judge = CrossEncoder.load(tiny_cross_encoder(), device="cpu")
        assert judge.score(QUERIES, PASSAGES, []).shape == (0,)

    def test_long_passages_are_cut_and_counted(self, tiny_cross_encoder: Make) -> None:
        folder = tiny_cross_encoder("bert")
        judge = CrossEncoder.load(folder, device="cpu", max_length=24)
        found = judge.score(QUERIES, PASSAGES, ALL[:5])
        np.testing.assert_allclose(found, by_transformers(folder, ALL[:5], 24), atol=2e-5)
        assert (judge.cut_pairs.texts, judge.cut_pairs.cut) == (5, 1)  # the fox

    def test_numbers_that_are_not_finite_are_told(self, tiny_cross_encoder: Make) -> None:
        judge = CrossEncoder.load(tiny_cross_encoder(), device="cpu")
        judge.model.classifier.bias.data[:] = float("nan")
        with pytest.raises(ModelError, match="not finite"):
            judge.score(QUERIES, PASSAGES, ALL)

    def test_passages_that_were_tokenised_once(self, tiny_cross_encoder: Make) -> None:
        judge = CrossEncoder.load(tiny_cross_encoder(), device="cpu", max_length=24)
        tokens = judge.tokenise(PASSAGES)
        chosen = ALL[[7, 1, 12, 1]]
        again = judge.score_and_count(QUERIES, tokens, chosen)
        for one, other in zip(again, judge.score_and_count(QUERIES, PASSAGES, chosen), strict=True):
            np.testing.assert_array_equal(one, other)
        with pytest.raises(InputError, match="passages 5 to 5 are asked for, there are 0 to 4"):
            judge.score(QUERIES, tokens, [(0, 5)])
        with pytest.raises(InputError, match="passages: item 1 is int"):
            judge.tokenise(["a", 3])  # type: ignore[list-item]

    @pytest.mark.parametrize("kind", KINDS)
    def test_in_bf16_they_are_near_and_fine_grained(self, kind: str, tiny_cross_encoder: Make) -> None:
        judge = CrossEncoder.load(tiny_cross_encoder(kind), device="cpu")
        exact = judge.score(QUERIES, PASSAGES, ALL)
        before = judge.fingerprint
        judge._computing = lower_classifier(judge.model, torch.bfloat16)
        found = judge.score(QUERIES, PASSAGES, ALL)
        assert 0 < np.abs(found - exact).max() < 0.1 * (exact.max() - exact.min()) + 0.02
        rounded = torch.from_numpy(found).bfloat16().float().numpy()
        assert (found != rounded).any()  # the last layer is float32
        assert judge.fingerprint == before
        assert next(judge.model.parameters()).dtype == torch.float32

    @pytest.mark.slow
    def test_a_real_one(self, real_model: Callable[[str], Path]) -> None:
        library = pytest.importorskip("sentence_transformers")
        folder = real_model("ms-marco-MiniLM-L-12-v2")
        theirs = library.CrossEncoder(str(folder), device="cpu", model_kwargs={"dtype": torch.float32})
        texts = [(QUERIES[query], PASSAGES[passage]) for query, passage in ALL]
        found = CrossEncoder.load(folder, device="cpu").score(QUERIES, PASSAGES, ALL)
        np.testing.assert_allclose(found, theirs.predict(texts, activation_fn=torch.nn.Identity()), atol=1e-4)


class TestRank:
    def test_by_falling_score_with_equal_ones_in_their_order(self, tiny_cross_encoder: Make) -> None:
        judge = CrossEncoder.load(tiny_cross_encoder(), device="cpu")
        passages = [*PASSAGES, "rain"]
        ranked = judge.rank(QUERIES[0], passages)
        scores = judge.score(QUERIES[:1], passages, [(0, number) for number in range(len(passages))])
        expected = sorted(range(6), key=lambda place: (-round(float(scores[place]), 4), place))
        assert [one.number for one in ranked] == expected
        twice = [one for one in ranked if one.sentence == "rain"]
        assert twice[0].score == twice[1].score
        assert [one.number for one in twice] == [3, 5]
        assert judge.rank(QUERIES[0], passages, top=2) == ranked[:2]
        assert judge.rank(QUERIES[0], []) == []


class TestFingerprint:
    def test_it_follows_weights_and_length(self, tiny_cross_encoder: Make) -> None:
        folder = tiny_cross_encoder()
        first, again, shorter = (CrossEncoder.load(folder, device="cpu", max_length=n) for n in (None, None, 20))
        again.model.classifier.bias.data += 1
        assert first.fingerprint == CrossEncoder.load(folder, device="cpu").fingerprint
        assert len({first.fingerprint, again.fingerprint, shorter.fingerprint}) == 3


class TestRefused:
    def test_an_encoder(self, tiny_model: Make) -> None:
        with pytest.raises(ModelError, match=r"is no cross-encoder \(it is a BertModel\)"):
            CrossEncoder.load(tiny_model("bert"), device="cpu")

    def test_three_labels(self, tiny_cross_encoder: Make) -> None:
        with pytest.raises(ModelError, match="it has 3 labels: LABEL_0, LABEL_1, LABEL_2"):
            CrossEncoder.load(tiny_cross_encoder("bert", labels=3), device="cpu")

    def test_a_language_model(self) -> None:
        with pytest.raises(ModelError, match=r"is no cross-encoder \(it is a BertForMaskedLM\)"):
            CrossEncoder.load("wiki-mini", device="cpu")

    def test_an_encoder_that_does_not_say_what_it_is(self, tiny_model: Make, tmp_path: Path) -> None:
        folder = shutil.copytree(tiny_model("bert"), tmp_path / "unnamed")
        config = json.loads((folder / "config.json").read_text())
        del config["architectures"]
        (folder / "config.json").write_text(json.dumps({**config, "id2label": {"0": "score"}}))
        with pytest.raises(ModelError, match=r"'classifier.bias' is missing \(and 1 more\); a cross-encoder is"):
            CrossEncoder.load(folder, device="cpu")

    def test_a_folder_that_is_not_there(self) -> None:
        with pytest.raises(ModelError, match="no such folder"):
            CrossEncoder.load("/not/there")

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ({"precision": "bf16"}, "precision: bf16 is for a GPU"),
            ({"precision": "int4"}, "precision: 'int4' is not one of float32, bf16, fp16"),
            ({"max_length": 4}, "max_length: 4 is not between 5 and 64"),
            ({"max_length": 65}, "max_length: 65 is not between 5 and 64"),
            ({"device": "toaster"}, "device: 'toaster' cannot be used"),
        ],
    )
    def test_settings(self, options: dict[str, object], told: str, tiny_cross_encoder: Make) -> None:
        with pytest.raises(SettingError, match=told):
            CrossEncoder.load(tiny_cross_encoder(), **{"device": "cpu", **options})  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("pairs", "told"),
        [
            ([(0, 5)], "passages 5 to 5 are asked for, there are 0 to 4"),
            ([(-1, 0)], "queries -1 to -1 are asked for"),
            ([0, 1], r"shape \(2,\)"),
            ([(0.5, 1.0)], "float64 of shape"),
        ],
    )
    def test_pairs(self, pairs: list[tuple[int, int]], told: str, tiny_cross_encoder: Make) -> None:
        with pytest.raises(InputError, match=told):
            CrossEncoder.load(tiny_cross_encoder(), device="cpu").score(QUERIES, PASSAGES, pairs)

    def test_what_is_no_text(self, tiny_cross_encoder: Make) -> None:
        with pytest.raises(InputError, match="passages: item 1 is int"):
            CrossEncoder.load(tiny_cross_encoder(), device="cpu").score(["a"], ["b", 3], [(0, 1)])  # type: ignore[list-item]


rows_of_tokens = st.lists(st.lists(st.integers(10, 99), max_size=12), min_size=1, max_size=4)


@hypothesis.given(rows_of_tokens, rows_of_tokens, st.integers(5, 16), st.booleans(), st.data())
def test_rows_are_put_together_as_by_hand(
    first: list[list[int]], second: list[list[int]], max_length: int, left: bool, data: st.DataObject
) -> None:
    template = PairTemplate((1,), (2, 3), (4,), (0, 0, 0, 1, 1))
    pair = st.tuples(st.integers(0, len(first) - 1), st.integers(0, len(second) - 1))
    pairs = data.draw(st.lists(pair, min_size=1, max_size=5))
    rows = PairRows.of(
        template, Tokenised.of(first), Tokenised.of(second), np.array(pairs), max_length=max_length, left=left
    )
    width = int(rows.lengths.max()) + 1
    ids, mask, types = rows.fill(np.arange(len(pairs)), width, 0)
    cut = 0
    for row, (one, two) in enumerate(pairs):
        room = max_length - 4
        query, passage = first[one], second[two]
        if len(query) >= room:
            query = query[len(query) - min(len(query), room // 2) :] if left else query[: room // 2]
        kept = min(len(passage), room - len(query))
        passage = passage[len(passage) - kept :] if left else passage[:kept]
        cut += len(query) < len(first[one]) or len(passage) < len(second[two])
        expected = [1, *query, 2, 3, *passage, 4]
        assert len(expected) == rows.lengths[row] <= max_length
        assert ids[row].tolist() == expected + [0] * (width - len(expected))
        assert mask[row].tolist() == [1] * len(expected) + [0] * (width - len(expected))
        assert types[row].tolist() == [0] * (len(query) + 3) + [1] * (len(passage) + 1) + [0] * (width - len(expected))
    assert rows.cut.sum() == cut
