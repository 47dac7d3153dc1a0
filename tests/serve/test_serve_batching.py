"""Requests meet in batches, wait in a bounded queue, and cost nothing once nobody wants them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from nearer.errors import ModelError
from nearer.serve.batcher import Batcher
from nearer.serve.limits import Limits, Refusal
from nearer.serve.metrics import Metrics
from nearer.serve.model import ServedModel
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
            queue = batcher(batch_tokens=800)  # more than a quarter, so in pieces of a sixteenth
            await queue.submit([long] * 11, vectors)
            assert [len(batch) for batch in watched.batches] == [2, 2, 2, 2, 2, 1]
            await batcher(batch_tokens=1).submit([long] * 2, vectors)
            assert [len(batch) for batch in watched.batches[6:]] == [1, 1]

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


class TestTurns:
    def test_many_requests_of_one_client_let_another_pass(self, watched, batcher) -> None:
        """Ten long requests wait; the other client's is in the next batch."""

        async def work() -> None:
            queue = batcher(batch_tokens=200)
            watched.gate.clear()
            first = queue.submit(["a"], vectors, client="greedy")
            await entered(watched)
            many = [queue.submit(["x" * 80] * 6, vectors, client="greedy") for _ in range(10)]
            other = queue.submit(["other"], vectors, client="other")
            watched.gate.set()
            await other
            assert "other" in watched.batches[1]
            await asyncio.gather(first, *many)

        run(work())

    def test_no_batch_is_long_because_somebody_asks_for_much(self, watched, batcher) -> None:
        """Short requests go together; a piece of a long one is by itself, and a sixteenth at most."""

        async def work() -> None:
            queue = batcher(batch_tokens=800)  # 80 characters are 22 tokens by the estimate
            watched.gate.clear()
            first = queue.submit(["a"], vectors)
            await entered(watched)
            long = [queue.submit(["x" * 80] * 12, vectors, client=client) for client in "abc"]
            short = [queue.submit([f"short {client}"], vectors, client=f"other {client}") for client in "abc"]
            watched.gate.set()
            await asyncio.gather(*short)
            assert sorted(watched.batches[1]) == ["short a", "short b", "short c"]
            await asyncio.gather(first, *long)
            assert watched.batches[2:] == [["x" * 80] * 2] * 18

        run(work())

    def test_clients_with_much_take_turns(self, watched, batcher) -> None:
        async def work() -> None:
            queue = batcher(batch_tokens=128)  # a sixteenth takes two of these texts
            watched.gate.clear()
            first = queue.submit(["a"], vectors)
            await entered(watched)
            asked = [
                queue.submit([f"{client} {n} xxxx" for n in range(12)], vectors, client=client) for client in "abc"
            ]
            watched.gate.set()
            await asyncio.gather(first, *asked)
            assert [batch[0][0] for batch in watched.batches[1:]] == ["a", "b", "c"] * 6

        run(work())

    def test_short_ones_do_not_starve_a_long_one(self, watched, batcher) -> None:
        """Each short one is of a new client, which would always come first: long ones have an eighth of the work."""

        async def work() -> None:
            queue = batcher(batch_tokens=160, batch_texts=5)  # five of these short texts are a piece of 10
            watched.gate.clear()
            first = queue.submit(["a"], vectors)
            await entered(watched)
            short = [queue.submit(["b"], vectors, client=f"short {n}") for n in range(160)]
            long = queue.submit([f"long {n}" for n in range(24)], vectors, client="long")
            watched.gate.set()
            await asyncio.gather(first, long, *short)
            kinds = "".join("l" if batch[0].startswith("long") else "s" for batch in watched.batches[1:])
            before_the_last_short = kinds[: kinds.rindex("s")]
            assert before_the_last_short.count("l") == len(before_the_last_short) // 8

        run(work())

    def test_who_asks_for_little_comes_before_who_asks_for_much(self, watched, batcher) -> None:
        """By the work that each client got, not by the number of its requests."""

        async def work() -> None:
            queue = batcher(batch_tokens=160, batch_texts=1)
            watched.gate.clear()
            first = queue.submit(["a"], vectors, client="much")
            await entered(watched)
            much = [queue.submit(["x" * 60], vectors, client="much") for _ in range(3)]
            little = [queue.submit([f"b{n}"], vectors, client="little") for n in range(4)]
            watched.gate.set()
            await asyncio.gather(first, *much, *little)
            assert [batch[0][0] for batch in watched.batches[1:]] == list("bxbbbxx")

        run(work())

    def test_texts_in_another_way_are_a_batch_of_their_own(self, watched, batcher, encoder) -> None:
        async def work() -> None:
            unit = ServedModel(encoder, "unit", normalize=True)
            queue = batcher()
            watched.gate.clear()
            first = queue.submit(["a"], vectors)
            await entered(watched)
            asked = [queue.submit(["rain"], vectors), queue.submit(["rain"], vectors, model=unit)]
            watched.gate.set()
            await first
            plain, normal = await asyncio.gather(*asked)
            assert abs(plain - encoder.encode(["rain"])).max() < 1e-5
            assert abs(normal - encoder.encode(["rain"], normalize=True)).max() < 1e-5
            assert abs(plain - normal).max() > 1e-2

        run(work())

    def test_no_way_waits_for_ever_for_the_other(self, watched, batcher, encoder) -> None:
        """A client's search is not passed by again and again because it asks for vectors as well."""

        async def work() -> None:
            other_way = type(watched)(encoder)
            other_way.batches = watched.batches  # in the order in which they are computed
            queue = batcher(batch_tokens=32)  # four of these texts are a client's part
            watched.gate.clear()
            first = queue.submit(["a"], vectors)
            await entered(watched)
            busy = [queue.submit([f"{n}"], vectors, client="busy") for n in range(12)]
            search = queue.submit(["search"], vectors, client="both", model=other_way)
            both = [queue.submit([f"b{n}"], vectors, client="both") for n in range(12)]
            watched.gate.set()
            await asyncio.gather(first, search, *busy, *both)
            before = watched.batches[: watched.batches.index(["search"])]
            assert not any(text.startswith("b") for batch in before for text in batch)

        run(work())

    def test_answers_are_in_the_order_of_the_texts(self, batcher, encoder) -> None:
        """Though the longest are taken first."""

        async def work() -> None:
            texts = ["rain", "rain " * 12, "a man", "the lazy dog " * 5, "rain"]
            found = await batcher(batch_texts=2).submit(texts, vectors)
            assert abs(found - encoder.encode(texts)).max() < 1e-5

        run(work())


class TestBounds:
    def test_one_client_does_not_fill_the_queue(self, watched, batcher) -> None:
        async def work() -> None:
            queue = batcher(waiting=8, items=4)
            watched.gate.clear()
            first = queue.submit(["a"], vectors, client="greedy")
            await entered(watched)
            waiting = queue.submit(["b"] * 4, vectors, client="greedy")
            with pytest.raises(Refusal, match="4 texts of yours and 4 in all"):
                queue.submit(["c"], vectors, client="greedy")
            other = queue.submit(["d"] * 4, vectors, client="other")
            watched.gate.set()
            await asyncio.gather(first, waiting, other)

        run(work())

    def test_a_full_queue_refuses(self, watched, batcher) -> None:
        async def work() -> None:
            queue = batcher(waiting=8, items=4)
            watched.gate.clear()
            first = queue.submit(["a"], vectors)
            await entered(watched)
            waiting = queue.submit(["b", "c", "d"], vectors)
            with pytest.raises(Refusal, match="3 texts of yours and 3 in all are waiting already") as refused:
                queue.submit(["e", "f", "h"], vectors)
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
            with pytest.raises((TypeError, UnicodeError, ModelError)):
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
