"""Requests meet in batches, wait in a bounded queue, and cost nothing once nobody wants them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from nearer.serve.batching import Batcher
from nearer.serve.limits import Limits, Refusal
from nearer.serve.metrics import Metrics
from patience import HANG


def run(work: Awaitable) -> object:
    async def bounded() -> object:
        return await asyncio.wait_for(work, 20)

    return asyncio.run(bounded())


async def entered(watched) -> None:
    assert await asyncio.to_thread(watched.entered.acquire, timeout=HANG)


def vectors(encoded):
    return encoded.vectors


@pytest.fixture
def batcher(watched):
    made = []

    def make(**limits) -> Batcher:
        made.append(Batcher(watched, Limits(**{"batch_wait": 0.0, "batch_tokens": 10_000, **limits}), Metrics()))
        return made[-1]

    yield make
    watched.gate.set()
    for one in made:
        one.close()


class TestTogether:
    def test_what_came_meanwhile_is_one_batch(self, watched, batcher, encoder) -> None:
        async def work() -> None:
            queue = batcher()
            watched.gate.clear()
            first = queue.submit(["rain"], vectors)
            await entered(watched)
            others = [queue.submit([f"man {n}", "a"], vectors) for n in range(3)]
            watched.gate.set()
            await first
            found = await asyncio.gather(*others)
            assert watched.batches == [["rain"], ["man 0", "a", "man 1", "a", "man 2", "a"]]
            for n, both in enumerate(found):
                assert abs(both - encoder.encode([f"man {n}", "a"])).max() < 1e-5

        run(work())

    def test_a_moment_for_company(self, watched, batcher) -> None:
        async def work() -> None:
            queue = batcher(batch_wait=20.0, batch_texts=3)  # full long before the wait is over
            await asyncio.gather(*(queue.submit([text], vectors) for text in "abc"))
            assert watched.batches == [["a", "b", "c"]]

        run(work())

    def test_alone_if_asked(self, watched, batcher) -> None:
        async def work() -> None:
            queue = batcher(batch_texts=1)
            await asyncio.gather(queue.submit(["a", "b"], vectors), queue.submit(["c"], vectors))
            assert sorted(watched.batches) == [["a"], ["b"], ["c"]]

        run(work())

    def test_tokens_bound_a_batch(self, watched, batcher) -> None:
        async def work() -> None:
            long = "x" * 80  # 22 tokens by the estimate
            queue = batcher(batch_tokens=50)
            await queue.submit([long] * 5, vectors)
            assert [len(batch) for batch in watched.batches] == [2, 2, 1]
            await batcher(batch_tokens=1).submit([long] * 2, vectors)
            assert [len(batch) for batch in watched.batches[3:]] == [1, 1]

        run(work())

    def test_a_large_request_lets_small_ones_pass(self, watched, batcher) -> None:
        async def work() -> None:
            queue = batcher(batch_texts=2)
            watched.gate.clear()
            large = queue.submit([f"large {n}" for n in range(6)], vectors)
            await entered(watched)
            small = queue.submit(["small"], vectors)
            watched.gate.set()
            assert (await small).shape == (1, 32)
            assert (await large).shape == (6, 32)
            assert "small" in watched.batches[1] + watched.batches[2]
            assert watched.batches[-1][-1] == "large 5"

        run(work())


class TestBounds:
    def test_a_full_queue_refuses(self, watched, batcher) -> None:
        async def work() -> None:
            queue = batcher(waiting=4, items=4)
            watched.gate.clear()
            first = queue.submit(["a"], vectors)
            await entered(watched)
            waiting = queue.submit(["b", "c", "d"], vectors)
            with pytest.raises(Refusal, match="3 texts are waiting already") as refused:
                queue.submit(["e", "f"], vectors)
            assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
            fits = queue.submit(["g"], vectors)
            watched.gate.set()
            await asyncio.gather(first, waiting, fits)
            assert queue.waiting == 0
            await queue.submit(["e", "f"], vectors)

        run(work())

    def test_nobody_waits_nothing_is_computed(self, watched, batcher) -> None:
        async def work() -> None:
            queue = batcher()
            watched.gate.clear()
            first = queue.submit(["a"], vectors)
            await entered(watched)
            gone, stays = queue.submit(["gone"] * 5, vectors), queue.submit(["stays"], vectors)
            gone.cancel()
            watched.gate.set()
            await asyncio.gather(first, stays)
            assert watched.batches == [["a"], ["stays"]]
            assert queue.waiting == 0

        run(work())

    def test_too_many_tokens_stop_a_request(self, watched, batcher) -> None:
        async def work() -> None:
            queue = batcher(tokens=10, batch_texts=2)  # "rain" has three with its special ones
            with pytest.raises(Refusal, match="more than 10 tokens in one request"):
                await queue.submit(["rain"] * 20, vectors)
            assert (await queue.submit(["rain"] * 3, vectors)).shape == (3, 32)
            assert len(watched.batches) < 10
            assert queue.waiting == 0

        run(work())


class TestTrouble:
    def test_one_requests_misfortune_is_its_own(self, watched, batcher) -> None:
        async def work() -> None:
            queue = batcher()
            watched.gate.clear()
            first = queue.submit(["a"], vectors)
            await entered(watched)
            bad, good = (
                queue.submit(["\ud800"], vectors),
                queue.submit(["good"], vectors),
            )  # what no endpoint lets through
            watched.gate.set()
            await first
            assert (await good).shape == (1, 32)
            with pytest.raises((TypeError, UnicodeError)):
                await bad

        run(work())

    def test_a_failing_end_is_the_requests_own(self, batcher) -> None:
        async def work() -> None:
            queue = batcher()
            with pytest.raises(ZeroDivisionError):
                await queue.submit(["a"], lambda encoded: 1 / 0)
            assert (await queue.submit(["a"], vectors)).shape == (1, 32)

        run(work())

    def test_closing_answers_what_is_queued(self, watched, batcher) -> None:
        async def work() -> None:
            queue = batcher()
            watched.gate.clear()
            answers = [queue.submit(["a"], vectors)]
            await entered(watched)
            answers += [queue.submit([text], vectors) for text in "bcd"]
            closing = asyncio.create_task(asyncio.to_thread(queue.close))
            watched.gate.set()
            await closing
            assert [found.shape for found in await asyncio.gather(*answers)] == [(1, 32)] * 4
            with pytest.raises(Refusal, match="ending"):
                queue.submit(["e"], vectors)

        run(work())
