"""BERT-flow: its map can be undone, its determinant is that of the Jacobian, and its layers are the map."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from nearer.baselines import Flow, fit_flow
from nearer.encoder import Encoder
from nearer.errors import InputError, SettingError


@pytest.fixture
def flow() -> Flow:
    """With random weights everywhere, in float64."""
    made = Flow(32, width=8).double()
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=draw, dtype=torch.float64))
    return made


def vectors(count: int, size: int = 32, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_it_can_be_undone(flow: Flow) -> None:
    given = vectors(7)
    mapped, _ = flow(given)
    assert not torch.allclose(mapped, given)
    torch.testing.assert_close(flow.inverse(mapped), given, atol=1e-10, rtol=1e-10)


def test_the_determinant_is_that_of_the_jacobian(flow: Flow) -> None:
    for row in vectors(3):
        jacobian = torch.autograd.functional.jacobian(lambda x: flow(x[None])[0][0], row)
        torch.testing.assert_close(flow(row[None])[1], torch.linalg.slogdet(jacobian).logabsdet)


def test_three_levels_of_three_steps_on_halves(flow: Flow) -> None:
    assert [step.size for step in flow.steps] == [32] * 3 + [16] * 3 + [8] * 3


def test_bits_are_those_of_a_normal_density(flow: Flow) -> None:
    given = vectors(5)
    mapped, determinant = flow(given)
    normal = torch.distributions.Normal(0.0, 1.0).log_prob(mapped).sum(dim=1).mean()
    torch.testing.assert_close(flow.bits(given), -(normal + determinant) / (32 * np.log(2)))


def test_its_layers_are_the_map(flow: Flow) -> None:
    plain = flow.float()
    given = vectors(9).float()
    found = given
    for step in plain.steps:
        for layer in step.dense(32):
            found = layer(found)
    torch.testing.assert_close(found, plain(given)[0], atol=1e-5, rtol=1e-5)


def test_fitting_makes_vectors_more_probable_and_is_repeatable() -> None:
    """Vectors of one strong direction that bends."""
    base = vectors(256).float()
    skewed = torch.cat([base[:, :1] * 5 + 3, base[:, 1:] * 0.3 + base[:, :1] ** 2], dim=1).numpy()
    start, fitted, again = (Flow.fit(skewed, epochs=epochs) for epochs in (0, 4, 4))
    rows = torch.from_numpy(skewed)
    assert fitted.bits(rows) < start.bits(rows) - 0.02
    assert all(torch.equal(one, other) for one, other in zip(fitted.parameters(), again.parameters(), strict=True))


def test_a_model_with_a_flow_is_a_model_like_any_other(tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    encoder = Encoder.load(str(tiny_model("bert")), pooling="first_last_mean", device="cpu")
    words = "the quick brown fox jumps over a lazy dog".split()  # noqa: SIM905
    text = [f"{one} {two} {three}" for one in words for two in words for three in words[:3]]
    made = fit_flow(encoder, text, text="words")
    assert made.provenance["flow"]["sentences"] == len(text)
    made.save(tmp_path / "made")
    loaded = Encoder.load(str(tmp_path / "made"), device="cpu")
    np.testing.assert_allclose(loaded.encode(text[:5]), made.encode(text[:5]), atol=1e-5)
    before, after = (np.corrcoef(each.encode(text)).mean() for each in (encoder, made))
    assert after < before / 2  # raw vectors all point the same way


class TestBadInput:
    def test_too_few_vectors(self) -> None:
        with pytest.raises(InputError, match="flow: 5 vectors given, at least 32 are needed"):
            Flow.fit(np.ones((5, 32), dtype=np.float32))

    def test_equal_vectors(self) -> None:
        with pytest.raises(InputError, match="all vectors are equal"):
            Flow.fit(np.ones((64, 32), dtype=np.float32))

    def test_broken_vectors(self) -> None:
        with pytest.raises(InputError, match="not finite numbers"):
            Flow.fit(np.full((64, 32), np.nan, dtype=np.float32))

    def test_short_vectors(self) -> None:
        with pytest.raises(SettingError, match="vectors of 16 numbers are too short"):
            Flow(16)
