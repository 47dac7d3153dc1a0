"""A run's bits follow from its settings and what it records, not from what its process did before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import nearer
from nearer.errors import SettingError
from nearer.training import run as run_module
from nearer.training import train
from nearer.training.numerics import Numerics, choose_numerics, onednn_failed, pinned
from nearer.training.trainer import Trainer


class Killed(Exception):
    """Ends a run where it stands."""


CPU = torch.device("cpu")
SHORT = {"max_steps": 8, "evaluate_every": 3, "checkpoint_every": 3, "test_on": []}
Weights = Callable[[Path], dict[str, Any]]
ONEDNN: Any = torch.backends.mkldnn


@pytest.fixture(autouse=True)
def _process_put_back() -> Iterator[None]:
    """Whatever a test makes of the process, the next one finds it as it was."""
    with pinned(choose_numerics(None, CPU, "float32")[0], CPU):
        yield


def bf16_product() -> None:
    """On an ARM CPU without bf16, torch answers by switching oneDNN off for good."""
    ones = torch.ones(64, 64, dtype=torch.bfloat16)
    torch.nn.functional.linear(ones, ones)


def another_training(recipe: Path, corpus: Path, folder: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    train(recipe, corpus, out=folder, settings={**SHORT, "precision": "bf16", "seed": 5})
    torch.set_num_threads(threads)


PASTS: dict[str, Callable[[], object]] = {
    "nothing": lambda: None,
    "a product in bf16": bf16_product,
    "oneDNN off": lambda: setattr(ONEDNN, "enabled", False),
    "float64 as default": lambda: torch.set_default_dtype(torch.float64),
    "denormals flushed": lambda: torch.set_flush_denormal(True),
    "products in less than float32": lambda: torch.set_float32_matmul_precision("medium"),
    "no flash attention": lambda: torch.backends.cuda.enable_flash_sdp(False),
}


class TestPast:
    @pytest.fixture(scope="class")
    def without(self) -> dict[str, Any]:
        """The weights of a run that nothing came before, once a test has made them."""
        return {}

    @pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
    @pytest.mark.parametrize("past", PASTS)
    def test_decides_nothing(
        self, past: str, recipe: Path, corpus: Path, tmp_path: Path, weights: Weights, without: dict[str, Any]
    ) -> None:
        if not without:
            train(recipe, corpus, out=tmp_path / "before", settings=SHORT)
            without |= weights(tmp_path / "before")
        PASTS[past]()
        train(recipe, corpus, out=tmp_path / "after", settings=SHORT)
        assert_equal(weights(tmp_path / "after"), without)

    @pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
    def test_of_other_trainings_and_other_threads(
        self, recipe: Path, corpus: Path, tmp_path: Path, weights: Weights
    ) -> None:
        train(recipe, corpus, out=tmp_path / "before", settings=SHORT)
        another_training(recipe, corpus, tmp_path / "other")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            train(recipe, corpus, out=tmp_path / "after", settings=SHORT)
        assert_equal(weights(tmp_path / "after"), weights(tmp_path / "before"))

    @pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
    def test_of_a_run_in_bf16_too(self, recipe: Path, corpus: Path, tmp_path: Path, weights: Weights) -> None:
        settings = {**SHORT, "precision": "bf16", "max_steps": 3, "checkpoint_every": 1}
        for name in ("first", "second"):
            train(recipe, corpus, out=tmp_path / name, settings=settings)
        bf16_product()
        stop_after(2, lambda: train(recipe, corpus, out=tmp_path / "stopped", settings=settings))
        nearer.resume(tmp_path / "stopped")
        assert_equal(weights(tmp_path / "second"), weights(tmp_path / "first"))
        assert_equal(weights(tmp_path / "stopped"), weights(tmp_path / "first"))


class TestGoingOn:
    def test_with_the_threads_it_was_started_with(
        self, recipe: Path, corpus: Path, tmp_path: Path, weights: Weights, capsys: pytest.CaptureFixture[str]
    ) -> None:
        torch.set_num_threads(1)
        train(recipe, corpus, out=tmp_path / "straight", settings=SHORT)
        stop_after(4, lambda: train(recipe, corpus, out=tmp_path / "stopped", settings=SHORT))
        torch.set_num_threads(2)
        capsys.readouterr()
        nearer.resume(tmp_path / "stopped")
        assert_equal(weights(tmp_path / "stopped"), weights(tmp_path / "straight"))
        assert "threads: 1, as the run was started with (this process has 2)" in capsys.readouterr().err
        assert torch.get_num_threads() == 2

    def test_elsewhere_is_told_and_stays_recorded(
        self, recipe: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        stop_after(4, lambda: train(recipe, corpus, out=tmp_path / "run", settings=SHORT))
        path = tmp_path / "run" / "config.yaml"
        facts = yaml.safe_load(path.read_text())
        facts["numerics"] |= {"device": "a slide rule", "processes": 3}
        facts["libraries"]["pytorch"] = "0.1"
        path.write_text(yaml.safe_dump(facts))
        nearer.resume(tmp_path / "run")
        told = capsys.readouterr().err
        assert "warning: the weights will not be those of an uninterrupted run to the bit" in told
        assert "device was a slide rule, is " in told
        assert "processes was 3, is 1" in told
        assert "warning: the weights may not be those of an uninterrupted run to the bit: pytorch was 0.1, is" in told
        assert yaml.safe_load(path.read_text())["numerics"] == facts["numerics"]

    def test_here_has_nothing_to_tell(
        self, recipe: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        stop_after(4, lambda: train(recipe, corpus, out=tmp_path / "run", settings=SHORT))
        nearer.resume(tmp_path / "run")
        assert "to the bit" not in capsys.readouterr().err

    def test_of_a_run_that_recorded_nothing(self, recipe: Path, corpus: Path, tmp_path: Path) -> None:
        stop_after(4, lambda: train(recipe, corpus, out=tmp_path / "run", settings=SHORT))
        path = tmp_path / "run" / "config.yaml"
        facts = yaml.safe_load(path.read_text())
        recorded = facts.pop("numerics")
        path.write_text(yaml.safe_dump(facts))
        nearer.resume(tmp_path / "run")
        assert yaml.safe_load(path.read_text())["numerics"] == recorded

    @pytest.mark.parametrize("damaged", ["none", {"threads": 1}, {"threads": 0}, {"threads": True}])
    def test_damaged_records_are_told(self, damaged: Any) -> None:
        whole = choose_numerics(None, CPU, "float32")[0].to_dict()
        recorded = {**whole, **damaged} if isinstance(damaged, dict) and damaged["threads"] != 1 else damaged
        with pytest.raises(SettingError, match=r"numerics: .*config\.yaml"):
            choose_numerics(recorded, CPU, "float32")


class TestPinned:
    def test_is_put_back_after_an_error_too(self) -> None:
        torch.set_default_dtype(torch.float64)
        torch.set_float32_matmul_precision("medium")
        torch.set_flush_denormal(True)
        torch.backends.cuda.enable_math_sdp(False)
        ONEDNN.enabled = False
        torch.set_num_threads(2)
        before = state()
        chosen = Numerics(device="", processes=1, threads=1, onednn=True, environment={})
        during = []
        with suppress(ZeroDivisionError), pinned(chosen, CPU):
            during.append(state())
            raise ZeroDivisionError
        assert during == [(1, True, torch.float32, "highest", "ieee", True, False)]
        assert state() == before == (2, False, torch.float64, "medium", "bf16", False, True)

    def test_choosing_leaves_the_process_as_it_is(self) -> None:
        for on in (True, False):
            ONEDNN.enabled = on
            choose_numerics(None, CPU, "bf16")
            assert ONEDNN.enabled == on

    def test_threads_that_flush_are_told_of(self) -> None:
        """They have their state from the thread that started them, and nothing changes it afterwards."""
        import threading

        told = []

        def flush_and_pin() -> None:
            torch.set_flush_denormal(True)
            chosen = Numerics(device="", processes=1, threads=2, onednn=True, environment={})
            torch.set_num_threads(2)
            torch.ones(10**6) * 2  # starts the threads
            with pinned(chosen, CPU) as remarks:
                told.extend(remarks)

        if not torch.set_flush_denormal(False):
            pytest.skip("this processor cannot flush them")
        thread = threading.Thread(target=flush_and_pin)
        thread.start()
        thread.join()
        assert len(told) == 1
        assert "set_flush_denormal" in told[0]

    def test_onednn_that_fails_on_the_way_is_told_of(self) -> None:
        chosen = choose_numerics(None, CPU, "float32")[0]
        with pinned(chosen, CPU):
            assert onednn_failed(chosen) == []
            ONEDNN.enabled = not chosen.onednn
            assert "oneDNN failed" in onednn_failed(chosen)[0]

    def test_what_chooses_kernels_is_recorded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENBLAS_CORETYPE", "ARMV8")
        chosen, _ = choose_numerics(None, CPU, "float32")
        assert chosen.environment["OPENBLAS_CORETYPE"] == "ARMV8"
        assert chosen.threads == torch.get_num_threads()
        monkeypatch.delenv("OPENBLAS_CORETYPE")
        _, remarks = choose_numerics(chosen.to_dict(), CPU, "float32")
        assert "environment was {'OPENBLAS_CORETYPE': 'ARMV8'}, is" in remarks[0]


def state() -> tuple[Any, ...]:
    flushes = bool(torch.tensor([1e-39], dtype=torch.float32) * 1.0 == 0)
    return (
        torch.get_num_threads(),
        ONEDNN.enabled,
        torch.get_default_dtype(),
        torch.get_float32_matmul_precision(),
        ONEDNN.matmul.fp32_precision,
        torch.backends.cuda.math_sdp_enabled(),
        flushes,
    )


def stop_after(steps: int, run: Callable[[], object]) -> None:
    """As a kill would: nothing is saved that was not saved before."""
    with dying_after(steps), pytest.raises(Killed):
        run()


@contextmanager
def dying_after(steps: int) -> Iterator[None]:
    advance = Trainer.advance

    def dying(trainer: Trainer) -> Any:
        if trainer.step == steps:
            raise Killed
        return advance(trainer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "advance", dying)
        yield


def assert_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    assert [name for name in expected if not torch.equal(found[name], expected[name])] == []


class TestPrecision:
    """On a processor without instructions for bf16 a step of it takes some hundred times as long."""

    @pytest.mark.parametrize("there", [True, False])
    def test_bf16_is_for_machines_that_have_it(
        self,
        there: bool,
        recipe: Path,
        corpus: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        seen = []
        monkeypatch.setattr(run_module, "has_bfloat16_products", lambda device: there)
        monkeypatch.setattr(run_module, "Trainer", lambda *given: seen.append(given[-1].precision) or Trainer(*given))
        train(recipe, corpus, out=tmp_path / "run", settings={**SHORT, "precision": "bf16", "max_steps": 1})
        assert seen == ["bf16" if there else "float32"]
        assert ("no instructions for bf16 products" in "".join(capsys.readouterr())) is not there
