"""Encoding and scoring by this process and by workers of Ray: the same numbers, kept window by window."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_made_tests import passage, words_of

import nearer
from nearer.adaptation import judging, workforce
from nearer.adaptation.adapt import _share, adapt
from nearer.adaptation.judging import Collection
from nearer.adaptation.kept import Kept
from nearer.adaptation.made_tests import MadeTest, make_tests
from nearer.adaptation.models import Models, encode_texts
from nearer.adaptation.plan import make_plan
from nearer.adaptation.speeds import Speeds
from nearer.adaptation.workforce import InProcess, OverRay, Workforce, _Worker
from nearer.encoder import Encoder
from nearer.encoder.batching import Tokenised
from nearer.errors import MissingExtraError, SettingError
from nearer.ray_runtime import RayError
from nearer.search.fusion import RERANKER
from nearer.teachers import CrossEncoder

TEXTS = [passage(number).titled for number in range(120)]
WINDOW = 16


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workforce, "TEXTS_ON_CPU", WINDOW)
    monkeypatch.setattr(workforce, "PAIRS_ON_CPU", 50)
    monkeypatch.setattr(workforce, "FEWEST_FOR_WORKERS", 8)


@pytest.fixture
def encoder(tiny_model: Callable[[str], Path]) -> Encoder:
    return Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")


@pytest.fixture
def cross(tiny_cross_encoder: Callable[..., Path]) -> CrossEncoder:
    return CrossEncoder.load(tiny_cross_encoder("bert"), device="cpu")


@pytest.fixture
def made() -> list[MadeTest]:
    passages = [passage(number) for number in range(120)]
    return make_tests(passages, np.arange(120) < 50, words_of(passages), queries=30, random=np.random.default_rng(1))


def pairs_of(count: int) -> np.ndarray[Any, Any]:
    draw = np.random.default_rng(0)
    return np.stack([draw.integers(0, 5, count), draw.integers(0, len(TEXTS), count)], axis=1)


class TestKeptVectors:
    @pytest.fixture
    def starts(self) -> list[int]:
        """At which row each making began."""
        return []

    @pytest.fixture
    def get(self, tmp_path: Path, starts: list[int]) -> Callable[..., np.ndarray[Any, Any]]:
        wanted = np.random.default_rng(0).normal(size=(50, 4))

        def get(stop_after: int = 9, dimension: int = 4) -> np.ndarray[Any, Any]:
            def make(start: int) -> Generator[np.ndarray[Any, Any]]:
                starts.append(start)
                for number, begin in enumerate(range(start, 50, 8)):
                    if number == stop_after:
                        raise KeyboardInterrupt
                    yield wanted[begin : begin + 8, :dimension]

            found = Kept(tmp_path / "kept").vectors("some", 50, dimension, make)
            assert np.array_equal(found, wanted[:, :dimension].astype(np.float16))
            return found

        return get

    def test_an_interruption_costs_what_was_not_written(self, get: Callable[..., Any], starts: list[int]) -> None:
        with pytest.raises(KeyboardInterrupt):
            get(stop_after=0)
        with pytest.raises(KeyboardInterrupt):
            get(stop_after=2)
        with pytest.raises(KeyboardInterrupt):
            get(stop_after=3)
        get()
        get()
        assert starts == [0, 0, 16, 40]

    def test_half_a_window_is_made_again(self, get: Callable[..., Any], starts: list[int], tmp_path: Path) -> None:
        with pytest.raises(KeyboardInterrupt):
            get(stop_after=2)
        with open(tmp_path / "kept" / "some" / "vectors.bin", "ab") as file:
            file.write(b"half a window, when the power went")
        get()
        assert starts == [0, 16]

    @pytest.mark.parametrize("name", ["vectors.bin", "pieces.bin"])
    def test_what_is_damaged_is_made_again(
        self, name: str, get: Callable[..., Any], starts: list[int], tmp_path: Path
    ) -> None:
        get()
        path = tmp_path / "kept" / "some" / name
        data = bytearray(path.read_bytes())
        data[20] ^= 1
        path.write_bytes(data)
        get()
        assert starts == [0, 0]

    def test_vectors_of_another_encoder_are_not_taken(self, get: Callable[..., Any], starts: list[int]) -> None:
        get(dimension=4)
        get(dimension=2)
        assert starts == [0, 0]


def test_windows_have_the_vectors_of_their_texts(encoder: Encoder) -> None:
    windows = list(InProcess().encode(encoder, TEXTS, start=WINDOW))
    assert [len(window) for window in windows] == [16] * 6 + [8]
    np.testing.assert_allclose(np.concatenate(windows), encode_texts(encoder, TEXTS[WINDOW:]), atol=1e-5)


def test_shares_have_the_scores_of_their_pairs(cross: CrossEncoder) -> None:
    tokens, pairs = cross.tokenise(TEXTS), pairs_of(120)
    found = InProcess().score(cross, TEXTS[:5], tokens, pairs)
    whole = cross.score_and_count(TEXTS[:5], TEXTS, pairs)
    np.testing.assert_allclose(found, whole.scores, atol=1e-5)
    # and those of a worker, which is given a share's texts alone
    worker = _Worker("cpu")
    worker.cross = cross
    for share in workforce._shares(len(pairs), cross.device):
        scores, cut = worker.score(*workforce._only_what_is_used(TEXTS[:5], tokens, pairs[share]))
        assert np.array_equal(scores, found[share])
        assert cut == whole.cut[share].sum()


def test_some_of_the_texts_in_any_order() -> None:
    tokens = Tokenised.of([[1, 2], [], [3], [4, 5, 6]])
    some = tokens.select(np.array([3, 1, 0, 3]))
    assert (some.ids.tolist(), some.lengths.tolist()) == ([4, 5, 6, 1, 2, 4, 5, 6], [3, 0, 2, 3])


def test_the_nearest_are_the_same_in_parts(
    encoder: Encoder, made: list[MadeTest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = Collection(TEXTS, made, Kept(tmp_path / "kept"), progress=False)
    collection.add_encoder("base", encoder, "base")
    shown, _ = collection.shown_in(made[0])
    queries, left_out = encode_texts(encoder, made[0].queries), np.arange(len(made[0])) * 3 - 1
    whole = collection.nearest(queries, "base", shown, left_out, best=12)
    monkeypatch.setattr(judging, "TEXTS_AT_ONCE", 10)
    in_parts = collection.nearest(queries, "base", shown, left_out, best=12)
    vectors = collection.vectors["base"].astype(np.float32)
    for row, query in enumerate(queries):
        cosines = vectors @ query
        cosines[~shown] = -2
        if left_out[row] >= 0:
            cosines[left_out[row]] = -2
        best = np.sort(cosines)[::-1][:12]
        for found in (whole, in_parts):
            assert len(set(found[row].tolist())) == 12
            np.testing.assert_allclose(cosines[found[row]], best, atol=1e-6)


def test_pairs_that_were_read_are_not_read_again(
    encoder: Encoder, cross: CrossEncoder, made: list[MadeTest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = Collection(TEXTS, made, Kept(tmp_path / "kept"), progress=False)
    collection.cross = cross
    collection.add_encoder("base", encoder, "base")
    asked: list[int] = []

    class Counting(InProcess):
        def score(self, cross: CrossEncoder, queries: Any, passages: Any, pairs: Any, **more: Any) -> Any:
            asked.append(len(pairs))
            return super().score(cross, queries, passages, pairs, **more)

    collection.workforce = Counting()
    few, more, same = (collection.measure(made[0], best=best, by=["base"], key=f"{best}") for best in (3, 6, 3))
    counts = [int((found.numbers >= 0).sum()) for found in (few, more)]
    assert asked == [counts[0], counts[1] - counts[0]]
    alone = [cross.score([made[0].queries[0]], [collection.texts[n]], [(0, 0)])[0] for n in more.numbers[0] if n >= 0]
    np.testing.assert_allclose(more.scores[RERANKER][0][: len(alone)], alone, atol=1e-5)
    np.testing.assert_array_equal(same.scores[RERANKER], few.scores[RERANKER])


def test_a_plan_counts_on_all_workers_except_in_training() -> None:
    class Many(InProcess):
        speedup = 4.0

    alone, many = (
        make_plan(600, 100_000, _share(Speeds(0.01, 0.02, None), force), on_gpu=False)
        for force in (InProcess(), Many())
    )
    assert many.passages >= 2 * alone.passages
    assert many.expected is not None
    assert alone.expected is not None
    assert many.expected.step == pytest.approx(alone.expected.step)


class TestBadInput:
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"workers": 2}, r"\Aworkers: are Ray's; give engine ray"),
            ({"engine": "ray", "workers": 0}, r"\Aworkers: 0 is below 1"),
            ({"engine": "ray", "device": "cuda:1"}, r"\Adevice: 'cuda:1' with engine ray; name cpu or cuda"),
            ({"engine": "dask"}, r"\Aengine: 'dask' is neither process nor ray"),
        ],
    )
    def test_what_does_not_go_together(self, given: dict[str, Any], message: str, tmp_path: Path) -> None:
        with pytest.raises(SettingError, match=message):
            adapt(tmp_path / "not even looked at", tmp_path / "out", **given)

    def test_ray_is_an_extra_and_missed_before_anything_is_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "ray", None)
        monkeypatch.setitem(sys.modules, "ray.data", None)
        with pytest.raises(MissingExtraError, match=r"adapting with --engine ray.*pip install .*\[ray\]'"):
            nearer.adapt(tmp_path / "not even looked at", tmp_path / "out", engine="ray")


@pytest.mark.slow
@pytest.mark.usefixtures("ray_on_two_cores", "one_thread")
class TestRay:
    """One Ray for all: it takes seconds to start."""

    def test_the_same_numbers_as_in_one_process(
        self, encoder: Encoder, cross: CrossEncoder, made: list[MadeTest], tmp_path: Path
    ) -> None:
        def measure(name: str, force: Workforce | None) -> tuple[bytes, dict[str, Any], tuple[int, int]]:
            collection = Collection(TEXTS, made, Kept(tmp_path / name), progress=False, workforce=force)
            collection.cross = cross
            before = encoder.cut_texts.texts, cross.cut_pairs.texts
            collection.add_encoder("base", encoder, "base")
            found = collection.measure(made[0], best=6, by=["base"], key="x")
            counted = encoder.cut_texts.texts - before[0], cross.cut_pairs.texts - before[1]
            return collection.vectors["base"].tobytes(), {"numbers": found.numbers, **found.scores}, counted

        alone = measure("alone", None)
        with OverRay(Models(encoder, {}, cross), workers=2, gpus=0.0) as force:
            assert force.speedup == 2
            together = measure("together", force)
            with pytest.MonkeyPatch.context() as patch:  # what is kept is asked of nobody
                patch.setattr(OverRay, "_in_order", lambda *_: pytest.fail("asked"))
                again = measure("together", force)
        assert together[0] == alone[0] == again[0]
        for name, values in alone[1].items():
            np.testing.assert_array_equal(together[1][name], values, err_msg=name)
        assert RERANKER in alone[1]
        assert together[2] == alone[2]

    def test_a_worker_that_dies_is_told_and_the_rest_is_kept(self, encoder: Encoder, tmp_path: Path) -> None:
        import ray

        kept, starts = Kept(tmp_path / "kept"), []
        with OverRay(Models(encoder, {}, None), workers=1, gpus=0.0) as force:
            worker = ray.get(force._actors[0].__ray_call__.remote(lambda _: os.getpid()))

            def until_it_dies(start: int) -> Generator[np.ndarray[Any, Any]]:
                for number, window in enumerate(force.encode(encoder, TEXTS, start=start)):
                    yield window
                    if number == 1:
                        os.kill(worker, signal.SIGKILL)

            with pytest.raises(RayError, match=r"\Aa Ray worker died: [^\n]+\.\Z"):
                kept.vectors("base", len(TEXTS), encoder.dimension, until_it_dies)

        def here(start: int) -> Generator[np.ndarray[Any, Any]]:
            starts.append(start)
            return InProcess().encode(encoder, TEXTS, start=start)

        found = kept.vectors("base", len(TEXTS), encoder.dimension, here)
        assert 2 * WINDOW <= starts[0] < len(TEXTS)
        np.testing.assert_allclose(found, encode_texts(encoder, TEXTS), atol=1e-3)

    def test_what_goes_wrong_in_a_worker_is_one_line(self, encoder: Encoder, cross: CrossEncoder) -> None:
        with torch.no_grad():
            list(cross.model.parameters())[-1].fill_(float("nan"))
        with OverRay(Models(encoder, {}, cross), workers=1, gpus=0.0) as force:
            with pytest.raises(nearer.errors.ModelError, match="gives scores that are not finite numbers"):
                force.score(cross, TEXTS[:5], cross.tokenise(TEXTS), pairs_of(60))
            # and it goes on working
            assert sum(len(window) for window in force.encode(encoder, TEXTS)) == len(TEXTS)
