"""Packed tokens must give the vectors that padded ones give; both layouts against the obvious."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import accumulate, count
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from nearer.encoder import Encoder
from nearer.encoder.packed import PackedLayout, can_pack
from nearer.encoder.packed_attention import ATTENTION, WantedTokenAttention, narrow_last_block
from nearer.encoder.padded import PaddedLayout
from nearer.errors import InputError
from nearer.training.working_copy import WorkingCopy

LONGEST = 64
Row = NDArray[np.int64]
Layout = PackedLayout | PaddedLayout


@pytest.fixture(scope="module")
def load(tiny_model: Callable[[str], Path]) -> Callable[..., Encoder]:
    def load(kind: str, pooling: str = "cls") -> Encoder:
        return Encoder.load(tiny_model(kind), pooling=pooling, device="cpu")

    return load


@pytest.fixture(scope="module")
def bert(load: Callable[..., Encoder]) -> Encoder:
    return load("bert")


@pytest.fixture(scope="module")
def roberta(load: Callable[..., Encoder]) -> Encoder:
    return load("roberta")


@pytest.fixture(scope="module")
def mobilebert(load: Callable[..., Encoder]) -> Encoder:
    return load("mobilebert")


def rows_of(encoder: Encoder, sentences: list[str]) -> list[Row]:
    tokenised = encoder.tokenised(sentences)
    return np.split(tokenised.ids.astype(np.int64), np.cumsum(tokenised.lengths)[:-1])


def packing(encoder: Encoder) -> Encoder:
    """The encoder as it computes in a packed step, without dropout."""
    model = nn.ModuleDict({"encoder": encoder, "method": nn.ModuleDict()})
    return WorkingCopy(model, dtype=torch.float32, packed=True, kernels=False).encoder.eval()


def packing_whole(encoder: Encoder) -> Encoder:
    """The same, but its last block computes all tokens."""
    whole = copy.deepcopy(encoder)
    whole.backbone.config._attn_implementation = ATTENTION
    return whole


def tensors(layout: Layout, rows: list[Row]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(array) for name, array in layout.arrays(rows).items()}


def packed_vectors(encoder: Encoder, rows: list[Row], quantum: int = 64, longest: int = LONGEST) -> Tensor:
    layout = PackedLayout(encoder, longest=longest, quantum=quantum)
    return layout.vectors(encoder, tensors(layout, rows), len(rows))


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert"])
@pytest.mark.parametrize("pooling", ["cls", "mean", "first_last_mean", "max", "last_token", "cls+mean"])
def test_packed_vectors_are_padded_vectors(
    kind: str, pooling: str, load: Callable[..., Encoder], sentences: list[str]
) -> None:
    encoder = load(kind, pooling)
    with torch.no_grad():
        found = packed_vectors(packing(encoder), rows_of(encoder, sentences))
    np.testing.assert_allclose(found.numpy(), encoder.encode(sentences), atol=1e-5)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("quantum", [1, 7, 64, 1000])
def test_filling_up_does_not_change_vectors(
    pooling: str, quantum: int, load: Callable[..., Encoder], sentences: list[str]
) -> None:
    encoder = load("bert", pooling)
    rows = rows_of(encoder, sentences)
    longest = max(map(len, rows))  # so that the filling is several sentences
    with torch.no_grad():
        found = packed_vectors(packing(encoder), rows, quantum, longest)
    np.testing.assert_allclose(found.numpy(), encoder.encode(sentences), atol=1e-5)


class TestTheLastBlock:
    @pytest.mark.parametrize("kind", ["bert", "roberta"])
    def test_narrowed_it_gives_the_same_vectors_and_gradients(
        self, kind: str, load: Callable[..., Encoder], sentences: list[str]
    ) -> None:
        whole, narrow = packing_whole(load(kind)), packing_whole(load(kind))
        narrow_last_block(narrow)
        rows = rows_of(whole, sentences)
        weights = torch.randn(len(rows), whole.width, generator=torch.Generator().manual_seed(2))
        vectors = [packed_vectors(encoder, rows) for encoder in (whole, narrow)]
        torch.testing.assert_close(vectors[1], vectors[0], atol=1e-6, rtol=1e-5)
        gradients = []
        for encoder, found in zip((whole, narrow), vectors, strict=True):
            (found * weights).sum().backward()
            gradients.append([parameter.grad for parameter in encoder.parameters()])
        torch.testing.assert_close(gradients[1], gradients[0], atol=1e-5, rtol=1e-4)

    def test_narrowed_it_computes_first_tokens_alone(self, bert: Encoder, sentences: list[str]) -> None:
        narrow = packing(bert)
        computed: list[tuple[int, ...]] = []
        block = narrow.backbone.encoder.layer[-1].intermediate
        block.register_forward_hook(lambda module, inputs, states: computed.append(tuple(states.shape[:2])))
        packed_vectors(narrow, rows_of(bert, sentences))
        assert computed == [(1, len(sentences))]

    def test_narrowed_it_computes_the_tokens_that_a_pass_pools(self, bert: Encoder, sentences: list[str]) -> None:
        rows = rows_of(bert, sentences)
        last = [len(row) - 1 for row in rows]
        layout = PackedLayout(bert, longest=LONGEST, quantum=64)
        arrays = layout.arrays(rows, pooled=last)
        packed = {name: torch.from_numpy(array) for name, array in arrays.items()}
        with torch.no_grad():
            found, wanted = (layout.vectors(each(bert), packed, len(rows)) for each in (packing, packing_whole))
            assert (found - packed_vectors(packing(bert), rows)).abs().max() > 1e-3  # not those of the first tokens
        torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-5)

    def test_narrowed_it_still_gives_the_states_of_all_tokens(self, bert: Encoder, sentences: list[str]) -> None:
        narrow, whole = packing(bert), packing_whole(bert)
        layout = PackedLayout(bert, longest=LONGEST, quantum=64)
        packed = tensors(layout, rows_of(bert, sentences))
        torch.testing.assert_close(layout.states(narrow, packed), layout.states(whole, packed))

    @pytest.mark.parametrize(
        ("kind", "pooling", "narrowed"),
        [
            ("bert", "cls", True),
            ("bert", "cls_before_head", True),
            ("bert", "mean", False),
            ("bert", "cls+mean", False),
            ("distilbert", "cls", False),
        ],
    )
    def test_it_is_narrowed_where_first_tokens_alone_are_pooled(
        self, kind: str, pooling: str, narrowed: bool, load: Callable[..., Encoder]
    ) -> None:
        modules = packing(load(kind, pooling)).modules()
        assert any(isinstance(module, WantedTokenAttention) for module in modules) == narrowed


def test_the_trained_model_itself_stays_padded(bert: Encoder, sentences: list[str]) -> None:
    before = bert.encode(sentences)
    packing(bert)
    assert not any(isinstance(module, WantedTokenAttention) for module in bert.modules())
    np.testing.assert_array_equal(bert.encode(sentences), before)


@st.composite
def cut_rows(draw: st.DrawFn) -> tuple[list[Row], int]:
    """Rows of tokens, and the length at which they were cut."""
    longest = draw(st.integers(1, 20))
    tokens = st.lists(st.integers(5, 99), min_size=1, max_size=longest)
    rows = draw(st.lists(tokens, min_size=1, max_size=12))
    return [np.array(row) for row in rows], longest


class TestPackedArrays:
    @settings(max_examples=200, deadline=None)
    @given(cut_rows(), st.integers(1, 70))
    def test_against_the_obvious(
        self, bert: Encoder, roberta: Encoder, drawn: tuple[list[Row], int], quantum: int
    ) -> None:
        rows, longest = drawn
        total = sum(map(len, rows))
        for encoder, offset in ((bert, 0), (roberta, 2)):  # RoBERTa counts from behind the padding token's 1
            arrays = PackedLayout(encoder, longest=longest, quantum=quantum).arrays(rows)
            ids, positions, starts = (arrays[name] for name in ("ids", "positions", "starts"))
            assert ids.shape == positions.shape == (1, starts[-1])
            assert starts[-1] % quantum == 0
            assert total <= starts[-1] < total + quantum
            filling = [encoder.padding_id] * (starts[-1] - total)
            assert ids[0].tolist() == [token for row in rows for token in row.tolist()] + filling
            assert starts[: len(rows) + 1].tolist() == [0, *accumulate(map(len, rows))]
            spans = np.diff(starts)
            assert ((spans >= 0) & (spans <= longest)).all()
            assert positions[0].tolist() == [offset + place for span in spans for place in range(span)]

    @settings(max_examples=50, deadline=None)
    @given(cut_rows(), st.integers(1, 70))
    def test_equally_many_rows_have_equally_many_starts(
        self, bert: Encoder, drawn: tuple[list[Row], int], quantum: int
    ) -> None:
        """Else batches of one size in tokens would still differ in shape."""
        rows, longest = drawn
        layout = PackedLayout(bert, longest=longest, quantum=quantum)
        shorter = [row[:1] for row in rows]
        assert layout.arrays(rows)["starts"].shape == layout.arrays(shorter)["starts"].shape


class TestPaddedArrays:
    @settings(max_examples=200, deadline=None)
    @given(cut_rows(), st.integers(1, 9))
    def test_against_the_obvious(
        self, bert: Encoder, mobilebert: Encoder, drawn: tuple[list[Row], int], multiple: int
    ) -> None:
        rows, longest = drawn
        for encoder, trailing in ((bert, 0), (mobilebert, 1)):
            arrays = PaddedLayout(encoder, longest=longest, multiple=multiple).arrays(rows)
            ids, mask = arrays["ids"], arrays["mask"]
            needed = max(map(len, rows)) + trailing
            width = next(width for width in count(needed) if width % multiple == 0 or width == longest + trailing)
            assert ids.shape == mask.shape == (len(rows), width)
            for row, own, marked in zip(rows, ids, mask, strict=True):
                assert own.tolist() == row.tolist() + [encoder.padding_id] * (width - len(row))
                assert marked.tolist() == [1] * len(row) + [0] * (width - len(row))

    @settings(max_examples=150, deadline=None)
    @given(
        st.integers(1, 31) | st.integers(32, 120),
        st.integers(1, 60),
        st.sampled_from([0, 1, 3, 10, 60]),
        st.integers(0, 9),
        st.sampled_from([1, 2, 3, 3]),
    )
    def test_rows_come_out_in_their_order_whatever_rectangles_they_stand_in(
        self, bert: Encoder, rows: int, shortest: int, spread: int, few: int, rectangles: int
    ) -> None:
        """Lengths that are spread, alike, or alike but for a few: where no cut is worth it, too."""
        random = np.random.default_rng([rows, shortest, spread, few])
        lengths = np.where(np.arange(rows) < few, shortest + 60, shortest + random.integers(0, spread + 1, rows))
        drawn = [np.full(length, number + 10) for number, length in enumerate(random.permutation(lengths))]
        layout = PaddedLayout(bert, longest=128, rectangles=rectangles)
        arrays = {name: torch.from_numpy(array) for name, array in layout.arrays(drawn).items()}

        def first_id(ids: Tensor, mask: Tensor) -> Tensor:
            return torch.stack([ids[:, 0], mask.sum(dim=1)], dim=1)

        found = layout.vectors(first_id, arrays, rows)
        assert found.tolist() == [[number + 10, len(row)] for number, row in enumerate(drawn)]
        assert len(layout.arrays(drawn)) <= 2 * rectangles + 2
        marked = [np.arange(len(row)) == 0 for row in drawn]
        flat = torch.cat([array.flatten() for name, array in arrays.items() if name.startswith("ids")])
        assert flat[torch.from_numpy(layout.indices(marked))].tolist() == [row[0] for row in drawn]

    def test_a_row_longer_than_the_longest_is_an_error(self, bert: Encoder) -> None:
        for layout in (PaddedLayout(bert, longest=8), PackedLayout(bert, longest=8, quantum=64)):
            with pytest.raises(InputError, match="a row of 19 tokens: rows have 8 at most"):
                layout.arrays([np.arange(10, 14), np.arange(10, 29)])


@pytest.mark.parametrize("kind", ["bert", "roberta"])
@pytest.mark.parametrize("packed", [True, False])
def test_places_point_at_the_states_of_the_marked_tokens(
    kind: str, packed: bool, load: Callable[..., Encoder], sentences: list[str]
) -> None:
    encoder = load(kind)
    rows = rows_of(encoder, sentences)
    random = np.random.default_rng(4)
    marked = [random.random(len(row)) < 0.4 for row in rows]
    layout: Layout = PaddedLayout(encoder, longest=LONGEST, multiple=8)
    if packed:
        layout = PackedLayout(encoder, longest=LONGEST, quantum=50)
    with torch.no_grad():
        states = layout.states(packing(encoder) if packed else encoder, tensors(layout, rows))
        found = states[torch.from_numpy(layout.indices(marked))]
        alone = [encoder.states(ids[None], torch.ones_like(ids)[None])[0] for ids in map(torch.from_numpy, rows)]
    expected = torch.cat([own[torch.from_numpy(chosen)] for own, chosen in zip(alone, marked, strict=True)])
    assert len(found) > 10
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("kind", "can"),
    [("bert", True), ("roberta", True), ("distilbert", True), ("mobilebert", False), ("mpnet", False)],
)
def test_models_whose_tokens_meet_outside_attention_are_not_packed(
    kind: str, can: bool, load: Callable[..., Encoder]
) -> None:
    assert can_pack(load(kind)) == can


def test_relative_positions_are_not_packed(load: Callable[..., Encoder]) -> None:
    encoder = load("bert")
    encoder.backbone.config.position_embedding_type = "relative_key"
    assert not can_pack(encoder)
