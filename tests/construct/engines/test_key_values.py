"""The buffer of running contexts: whatever is placed, moved and dropped, each row sees its own tokens in order."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.construct.engines.key_values import ALIGNED, LayerShape, Rows
from nearer.construct.engines.prompts import Prompts, common_beginning

CPU = torch.device("cpu")


class Told:
    """What each row should hold: its tokens, which are numbers."""

    def __init__(self) -> None:
        self.rows = Rows([LayerShape(2, 3, 1)], torch.float32, CPU)
        self.expected: list[list[float]] = []
        self.next = 1.0

    def put(self, rows: list[int], lengths: list[int]) -> None:
        numbers = np.cumsum([0, *lengths])
        values = torch.arange(self.next, self.next + numbers[-1])
        source = values[:, None, None].expand(-1, 2, 3), values[:, None, None].expand(-1, 2, 1)
        contexts = [np.arange(numbers[n], numbers[n + 1]) for n in range(len(rows))]
        self.rows.put(rows, contexts, ([source[0]], [source[1]]))
        self.next += float(numbers[-1])
        for row, context in zip(rows, contexts, strict=True):
            self.expected[row : row + 1] = [values[context].tolist()]

    def step(self) -> None:
        new = torch.arange(self.next, self.next + len(self.expected))
        self.next += len(self.expected)
        positions = self.rows.positions(10_000)
        mask = self.rows.mask()
        keys, values = self.rows.update(
            new[:, None, None, None].expand(-1, 2, 1, 3), new[:, None, None, None].expand(-1, 2, 1, 1), 0
        )
        for row, tokens in enumerate(self.expected):
            assert int(positions[row]) == len(tokens)
            tokens.append(float(new[row]))
            seen = mask[row, 0, 0] == 0
            assert keys[row, 1, seen, 2].tolist() == tokens
            assert values[row, 0, seen, 0].tolist() == tokens
        assert keys.isfinite().all()
        self.rows.advance()


@given(data=st.data())
@settings(max_examples=20)
def test_rows_hold_what_they_were_given(data: st.DataObject) -> None:
    told = Told()
    for _ in range(data.draw(st.integers(1, 12))):
        count = len(told.expected)
        dropped = data.draw(st.sets(st.integers(0, count - 1))) if count else set()
        if data.draw(st.booleans()) or count == 0:
            rows = [*sorted(dropped), *range(count, count + data.draw(st.integers(0 if dropped else 1, 4)))]
            lengths = data.draw(st.lists(st.integers(0, 30), min_size=len(rows), max_size=len(rows)))
            told.put(rows, lengths)
        else:
            moves = told.rows.drop(sorted(dropped))
            for source, target in moves.items():
                told.expected[target] = told.expected[source]
            del told.expected[count - len(dropped) :]
        assert told.rows.count == len(told.expected)
        for _ in range(data.draw(st.integers(1, 40))):
            if told.expected:
                told.step()


def test_the_view_is_as_narrow_as_the_rows_are_long() -> None:
    """Running on for long costs no more than the rows in use: what ended is not looked at."""
    told = Told()
    told.put([0, 1], [20, 5])
    for number in range(500):
        told.put([number % 2], [20])
        told.step()
        assert told.rows.mask().shape[-1] <= 20 + 2 + 2 * ALIGNED
    assert told.rows._columns <= 128


class Counting:
    """A model whose keys say which token stood where, and which notes how many tokens it was given."""

    def __init__(self) -> None:
        self.given = 0

    def __call__(self, *, input_ids, position_ids, attention_mask, past_key_values, use_cache) -> None:  # type: ignore[no-untyped-def]
        self.given += input_ids.numel()
        told = (input_ids * 1000 + position_ids).float()[:, None, :, None]
        keys, _ = past_key_values.update(told, told, 0)
        assert attention_mask.shape[-2:] == (input_ids.shape[1], keys.shape[2])


@given(data=st.data())
@settings(max_examples=20)
def test_prompts_are_kept_whole(data: st.DataObject) -> None:
    model = Counting()
    kept = Prompts(model, [LayerShape(1, 1, 1)], torch.float32, CPU, room=data.draw(st.integers(1, 80)), chunk=32)
    seen: set[tuple[int, ...]] = set()
    beginning = tuple(range(1, 1 + data.draw(st.integers(0, 12))))
    for _ in range(data.draw(st.integers(1, 6))):
        tails = data.draw(
            st.lists(st.lists(st.integers(50, 53), max_size=12).map(tuple), min_size=1, max_size=5, unique=True)
        )
        contexts = [
            beginning[: data.draw(st.integers(max(0, len(beginning) - 1), len(beginning)))] + tail for tail in tails
        ]
        fresh = [context for context in dict.fromkeys(contexts) if context not in kept]
        if fresh:
            kept.compute(fresh)
        assert all(context in kept for context in fresh)
        seen.update(fresh)
        for context in seen:
            if context in kept:
                found = kept.layers[0][0][kept.tokens(context), 0, 0].tolist()
                assert found == [token * 1000.0 + place for place, token in enumerate(context)]


def test_what_prompts_share_is_computed_once() -> None:
    model = Counting()
    kept = Prompts(model, [LayerShape(1, 1, 1)], torch.float32, CPU, room=1000, chunk=1)
    shared = tuple(range(20))
    kept.compute([(*shared, 30, 31), (*shared, 32)])
    kept.compute([(*shared, 33)])
    assert model.given == 20 + 2 + 1 + 1
    assert (*shared, 32) in kept


def test_common_beginning() -> None:
    assert common_beginning((1, 2, 3), (1, 2, 4, 5)) == 2
    assert common_beginning((1, 2), (1, 2, 3)) == 2
    assert common_beginning((), (1,)) == 0
