"""The competitors do train: the papers' loop, and sentence-transformers' own."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import pytest
import torch

from benchmarks import peer
from benchmarks.papers import PapersLoop
from benchmarks.peer import PeerLoop
from benchmarks.profile import kind_of, profile_steps

CPU = torch.device("cpu")
UNLIKE = [
    "Rain comes from far away.",
    "Someone has lunch.",
    "A quick brown fox jumps over the dog.",
    "The government of France was elected in 1990.",
]


def loss_by_hand(first: torch.Tensor, second: torch.Tensor) -> float:
    """InfoNCE at temperature 0.05, pair by pair."""
    total = 0.0
    for i in range(len(first)):
        logits = [float(first[i] @ second[j] / (first[i].norm() * second[j].norm()) / 0.05) for j in range(len(second))]
        total += math.log(sum(math.exp(logit - logits[i]) for logit in logits))
    return total / len(first)


class TestPapers:
    def test_its_loss(self, tiny: Path, lines: list[str]) -> None:
        loop = PapersLoop(tiny, lines, batch_size=4, max_length=16, device=CPU)
        loop.backbone.eval()
        batch = next(loop.batches)
        states = torch.tanh(loop.head(loop.backbone(**batch).last_hidden_state[:, 0])).detach().double()
        assert torch.equal(batch["input_ids"][0::2], batch["input_ids"][1::2])
        assert loop.loss(batch).item() == pytest.approx(loss_by_hand(states[0::2], states[1::2]), rel=1e-4)

    def test_it_learns(self, tiny: Path) -> None:
        torch.manual_seed(0)
        loop = PapersLoop(tiny, UNLIKE, batch_size=4, max_length=16, device=CPU, learning_rate=3e-3)
        losses = []
        for _ in range(15):
            loop.advance()
            losses.append(loop.last_loss)
        loop.close()
        assert min(losses[:3]) > 1.2
        assert max(losses[-3:]) < 0.3

    def test_it_goes_on_after_the_last_sentence(self, tiny: Path, lines: list[str]) -> None:
        loop = PapersLoop(tiny, lines[:8], batch_size=4, max_length=16, device=CPU)
        for _ in range(3):
            loop.advance()
        assert math.isfinite(loop.last_loss)


@pytest.mark.parametrize("way", ["old_fit", "trainer"])
def test_sentence_transformers_takes_a_step_at_each_advance(
    way: str, layout: Path, lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sentence_transformers")
    if way == "trainer":
        pytest.importorskip("accelerate")
        pytest.importorskip("datasets")
    monkeypatch.setattr(peer, "_has_trainer", lambda: way == "trainer")
    monkeypatch.chdir(tmp_path)
    assert peer.peer_name() == f"sentence-transformers, {way}"
    loop = PeerLoop(layout, lines, batch_size=8, max_length=12, device=CPU, output=tmp_path / "out")
    taken: list[int] = []
    first = next(loop.model.parameters())
    first.register_post_accumulate_grad_hook(lambda parameter: taken.append(1))
    before = first.detach().clone()
    loop.advance()
    assert len(taken) == 1
    assert not torch.equal(first, before)
    loop.advance()
    loop.advance()
    assert len(taken) == 3
    loop.close()
    assert len(taken) == 3


def test_the_name_says_which_loop_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "datasets" else real(name))
    assert peer.peer_name() == "sentence-transformers, old_fit"
    assert peer.peer_precision(torch.device("cuda")) == "fp16"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert peer.peer_name() == "sentence-transformers, trainer"
    assert peer.peer_precision(torch.device("cuda")) == "bf16"
    assert peer.peer_precision(CPU) == "float32"


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "matrix products"),
        ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNN", "matrix products"),
        ("void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", "attention"),
        ("void at::native::(anonymous)::multi_tensor_apply_kernel<FusedAdamMathFunctor>", "optimiser"),
        (
            "void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add>",
            "elementwise and normalisation",
        ),
        ("triton_per_fused_native_layer_norm_3", "elementwise and normalisation"),
        ("void at::native::(anonymous)::embedding_backward_feature_kernel", "embedding"),
        ("Memcpy HtoD (Pinned -> Device)", "copies"),
        ("aten::addmm", "matrix products"),
        ("something_else", "other"),
    ],
)
def test_kinds_of_kernels(kernel: str, kind: str) -> None:
    assert kind_of(kernel) == kind


def test_the_profile_accounts_for_all_time(tiny: Path, lines: list[str]) -> None:
    profile = profile_steps(PapersLoop(tiny, lines, batch_size=4, max_length=16, device=CPU), 1, CPU)
    assert sum(group["share"] for group in profile["groups"]) == pytest.approx(1.0)
    assert sum(group["milliseconds"] for group in profile["groups"]) == pytest.approx(profile["busy_milliseconds"])
    assert "matrix products" in {group["kind"] for group in profile["groups"]}
