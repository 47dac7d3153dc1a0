"""Lower precision: near the float32 vectors, and never those of weights that are no more."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from nearer.encoder import Encoder
from nearer.encoder import precision as precision_module
from nearer.encoder.precision import check_precision
from nearer.errors import SettingError

LOWER = ["bf16", "int8"]


@pytest.fixture
def encoder(tiny_model: Callable[[str], Path]) -> Encoder:
    return Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return (first * second).sum(axis=1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)


@pytest.mark.parametrize("precision", LOWER)
@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "mpnet", "mobilebert"])
def test_vectors_are_near_those_of_float32(
    precision: str, kind: str, tiny_model: Callable[[str], Path], sentences: list[str]
) -> None:
    encoder = Encoder.load(tiny_model(kind), pooling="first_last_mean", device="cpu")
    exact, lower = encoder.encode(sentences), encoder.encode(sentences, precision=precision)
    assert lower.dtype == np.float32
    assert (cosines(exact, lower) > 0.99).all()
    assert not np.array_equal(exact, lower)


@pytest.mark.parametrize("precision", LOWER)
def test_the_encoders_own_precision_is_the_default(precision: str, encoder: Encoder, sentences: list[str]) -> None:
    expected = encoder.encode(sentences, precision=precision)
    encoder.precision = precision
    np.testing.assert_array_equal(encoder.encode(sentences), expected)
    assert not np.array_equal(encoder.encode(sentences, precision="float32"), expected)


@pytest.mark.parametrize("precision", LOWER)
def test_the_copy_is_made_once_and_again_when_weights_change(
    precision: str, encoder: Encoder, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    make = precision_module._refreshed
    monkeypatch.setattr(precision_module, "_refreshed", lambda *given: made.append(given) or make(*given))
    before = encoder.encode(sentences, precision=precision)
    encoder.encode(sentences, precision=precision)
    assert len(made) == 1
    with torch.no_grad():
        for weight in encoder.backbone.parameters():
            weight.mul_(1.5)
    after = encoder.encode(sentences, precision=precision)
    assert len(made) == 2
    assert not np.allclose(before, after, atol=0.01)
    assert (cosines(after, encoder.encode(sentences)) > 0.99).all()


def test_a_head_that_came_later_is_used(encoder: Encoder, sentences: list[str]) -> None:
    encoder.encode(sentences, precision="bf16")
    encoder.add_head(torch.Generator().manual_seed(0))
    exact, lower = encoder.encode(sentences), encoder.encode(sentences, precision="bf16")
    np.testing.assert_allclose(exact, lower, atol=0.05)


def test_copies_are_no_part_of_the_model(encoder: Encoder, tmp_path: Path) -> None:
    names = set(encoder.state_dict())
    encoder.encode("a", precision="bf16")
    assert set(encoder.state_dict()) == names
    assert next(encoder.backbone.parameters()).dtype == torch.float32
    for other in (copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        np.testing.assert_array_equal(other.encode("a"), encoder.encode("a"))
    encoder.save(tmp_path / "saved")
    np.testing.assert_array_equal(Encoder.load(tmp_path / "saved", device="cpu").encode("a"), encoder.encode("a"))


def test_gradients_do_not_mind(encoder: Encoder) -> None:
    encoder.train()
    encoder.encode_tokens(encoder.tokenised(["a man"]), precision="bf16")
    encoder(torch.tensor([[2, 5, 3]]), torch.ones(1, 3).long()).sum().backward()
    assert all(weight.grad is not None for weight in encoder.backbone.encoder.parameters())


def test_wrong_ones_are_named(encoder: Encoder) -> None:
    with pytest.raises(SettingError, match="precision: 'fp4' is not one of float32, bf16, int8"):
        encoder.encode("a", precision="fp4")
    with pytest.raises(SettingError, match="precision: int8 is for the CPU, this encoder is on cuda:1; use bf16"):
        check_precision("int8", torch.device("cuda:1"))


@pytest.mark.parametrize(
    ("machine", "vnni", "engines", "chosen"),
    [
        ("x86_64", True, ["qnnpack", "onednn", "x86", "fbgemm"], "onednn"),
        ("x86_64", False, ["qnnpack", "onednn", "x86", "fbgemm"], "x86"),
        ("AMD64", False, ["fbgemm"], "fbgemm"),
        # torch for arm64 lists all four, two of which fail at the first layer
        ("aarch64", False, ["qnnpack", "onednn", "x86", "fbgemm"], "qnnpack"),
        ("arm64", False, ["qnnpack", "none"], "qnnpack"),
        ("aarch64", False, ["onednn", "x86"], "onednn"),
    ],
)
def test_the_int8_engine_is_one_for_the_processor(
    machine: str, vnni: bool, engines: list[str], chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision_module.platform, "machine", lambda: machine)
    monkeypatch.setattr(precision_module, "_has_vnni", lambda: vnni)
    monkeypatch.setattr(torch.backends, "quantized", SimpleNamespace(supported_engines=engines))
    assert precision_module._int8_engine() == chosen


def test_int8_that_is_not_to_be_had_says_what_to_use(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    quantized = SimpleNamespace(supported_engines=["none"], engine="none")
    monkeypatch.setattr(torch.backends, "quantized", quantized)
    with pytest.raises(SettingError, match=r"on this processor \(no int8 engine for it\); use float32, or `nea"):
        encoder.encode("a", precision="int8")


def test_int8_leaves_torchs_engine_as_it_was(encoder: Encoder) -> None:
    before = torch.backends.quantized.engine
    encoder.encode("a", precision="int8")
    assert torch.backends.quantized.engine == before


def test_bf16_without_the_instructions_is_computed_in_float32(
    encoder: Encoder, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision_module, "has_bfloat16_products", lambda device: False)
    for factor in (1.0, 1.1):  # the second time into the copy that is there
        with torch.no_grad():
            for weight in encoder.backbone.parameters():
                weight.mul_(factor)
        lower = encoder.encode(sentences, precision="bf16")
        exact = encoder.encode(sentences)
        assert (cosines(exact, lower) > 0.9999).all()
        assert not np.array_equal(exact, lower)
        copied = encoder._lowered.backbone(encoder.backbone, "bf16")
        for weight in copied.parameters():
            assert weight.dtype == torch.float32
            torch.testing.assert_close(weight, weight.bfloat16().float(), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("flags", "there"), [((), False), (("avx512_bf16",), True), (("amx_bf16",), True), (("avx_ne_convert",), True)]
)
def test_emulated_bf16_does_not_count(flags: tuple[str, ...], there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN says that it has bf16 on every processor with AVX512; without instructions of its own it is slow."""
    known = {"architecture": "x86_64", "avx512_f": True, "avx512_bw": True, **dict.fromkeys(flags, True)}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: known)
    assert precision_module.has_bfloat16_products(torch.device("cpu")) == there
    assert precision_module.has_bfloat16_products(torch.device("cuda"))
