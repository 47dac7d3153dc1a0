"""One client never holds everything: shares of what is bounded, and turns of what takes time."""

from __future__ import annotations

import asyncio
import re

import pytest

from nearer.serve.background import Workers
from nearer.serve.fairness import FairQueue, Holding, Share, Turns, address_of
from nearer.serve.limits import Limits, Refusal
from patience import HANG


class TestShare:
    def test_alone_a_client_gets_half(self) -> None:
        share = Share(10)
        assert [share.take("a") for _ in range(7)] == [True] * 5 + [False] * 2
        assert (share.held_by("a"), share.held) == (5, 5)

    @pytest.mark.parametrize("greedy", [1, 2, 3, 9, 50])
    def test_however_many_are_greedy_the_next_gets_in(self, greedy: int) -> None:
        share = Share(1024)
        for _ in range(1024):
            for client in range(greedy):
                share.take(f"greedy {client}")
        held = [share.held_by(f"greedy {client}") for client in range(greedy)]
        assert all(1024 // (greedy + 1) - 1 <= one <= 1024 // (greedy + 1) + 1 for one in held)
        assert share.take("next")

    def test_what_is_given_back_is_free(self) -> None:
        share = Share(4)
        assert share.take("a", 2)
        assert not share.take("a", 2)
        share.give_back("a", 2)
        assert share.take("b", 2)
        assert (share.held, share.held_by("a")) == (2, 0)

    def test_a_request_gives_all_back_and_gets_no_more(self) -> None:
        share, refused = Share(100), []
        holding = Holding("a", share, lambda: refused.append(1))
        holding.take(30)
        holding.take(10)
        with pytest.raises(Refusal, match="too much memory"):
            holding.take(30)
        holding.close()
        assert (share.held, len(refused)) == (0, 1)
        with pytest.raises(Refusal):  # a thread that was still at work for it
            holding.take(1)
        assert share.held == 0


@pytest.mark.parametrize(
    ("host", "client"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("testclient", "testclient"),
        (None, ""),
    ],
)
def test_addresses(host: str | None, client: str) -> None:
    assert address_of(host) == client


def test_the_memory_is_a_formula() -> None:
    limits = Limits(held=100 * 2**20, connections=10, head=2**15, body=2**20)
    assert limits.memory == 100 * 2**20 + 10 * (2 * 2**15 + (256 + 64) * 2**10) + 32 * 2**20


class TestTurns:
    def test_clients_in_turn(self) -> None:
        queue: FairQueue[str] = FairQueue()
        for item in ("a1", "a2", "a3", "b1", "c1", "c2"):
            queue.push(item[0], item)
        assert [queue.pop()[1] for _ in range(6)] == ["a1", "b1", "c1", "a2", "c2", "a3"]
        assert not queue

    def test_one_in_a_round_of_the_loop(self) -> None:
        """What is ready runs between two long steps; a client with many does not go first."""
        said: list[str] = []

        async def work() -> None:
            turns = Turns()

            async def step(client: str) -> None:
                async with turns.turn(client):
                    said.append(client)

            async def other() -> None:
                for _ in range(20):
                    said.append(".")
                    await asyncio.sleep(0)

            await asyncio.gather(*(step("a") for _ in range(3)), step("b"), other())

        asyncio.run(work())
        assert "".join(said).replace(".", "") == "aaba"
        assert re.search("[ab][ab]", "".join(said)) is None

    def test_who_stops_waiting_passes_the_turn_on(self) -> None:
        async def work() -> list[str]:
            turns, said = Turns(), []

            async def step(client: str) -> None:
                async with turns.turn(client):
                    said.append(client)
                    await asyncio.sleep(0)

            tasks = [asyncio.create_task(step(client)) for client in "abc"]
            await asyncio.sleep(0)
            tasks[1].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.wait_for(step("d"), HANG)
            return said

        assert asyncio.run(work()) == ["a", "c", "d"]


class TestWorkers:
    def test_steps_of_several_clients_alternate(self) -> None:
        said: list[str] = []

        def steps(name: str):
            for _ in range(3):
                said.append(name)
                yield
            return name

        async def work() -> list[str]:
            workers = Workers("test", threads=1)
            gate = asyncio.Event()
            loop = asyncio.get_running_loop()

            def first():
                asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(HANG)
                yield

            begun = workers.submit("a", first())
            asked = [workers.submit(client, steps(client)) for client in "aab"]
            gate.set()
            await begun
            found = await asyncio.gather(*asked)
            await asyncio.to_thread(workers.close)
            return found

        assert asyncio.run(work()) == ["a", "a", "b"]
        assert said[:4].count("b") == 2

    def test_steps_that_nobody_waits_for_are_not_taken(self) -> None:
        taken: list[int] = []

        def endless():
            while True:
                taken.append(1)
                yield

        async def work() -> None:
            workers = Workers("test", threads=1)
            asked = workers.submit("a", endless())
            while not taken:
                await asyncio.sleep(0)
            asked.cancel()
            await asyncio.wait_for(asyncio.to_thread(workers.close), HANG)

        asyncio.run(work())
