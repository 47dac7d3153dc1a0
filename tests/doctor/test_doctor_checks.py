"""Each check on something that is right, and on something that is not."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from filelock import FileLock

from nearer.doctor import Finding, State, installation, models_and_data
from nearer.doctor.checks import all_checks
from nearer.doctor.findings import carry_out
from nearer.encoder import Encoder, sources
from nearer.extras import install_command
from nearer.teachers.vector_store import VectorStore
from nearer.text import read_sentences
from nearer.text.token_store import open_store

ROOT = Path(__file__).parents[2]


def only(findings: Iterable[Finding]) -> Finding:
    [finding] = findings
    assert finding.mend or finding.state in (State.good, State.absent)
    return finding


def carried_out(name: str, data: Path | None = None) -> Finding:
    [check] = [check for check in all_checks(data, online=False) if check.name == name]
    return only(carry_out(check))


def distribution(folder: Path, name: str, version: str, *lines: str) -> None:
    """An installed package as far as its metadata goes; those that come first on the path are the ones found."""
    place = folder / f"{name}-{version}.dist-info"
    place.mkdir(parents=True)
    head = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    (place / "METADATA").write_text("\n".join([*head, *lines, ""]), encoding="utf-8")


class TestInstallation:
    def test_as_it_is_here(self) -> None:
        assert only(installation.check_python()).state is State.good
        assert only(installation.check_packages()).found.startswith("torch 2.")

    def test_an_old_package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        distribution(tmp_path, "transformers", "4.1.0")
        monkeypatch.syspath_prepend(tmp_path)
        finding = only(installation.check_packages())
        assert (finding.name, finding.state) == ("transformers", State.broken)
        assert finding.found.startswith("transformers 4.1.0 is installed, >=5")
        assert finding.mend.startswith("pip install 'transformers>=5")

    def test_an_old_python(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        distribution(tmp_path, "nearer", "9", "Requires-Python: >=3.99")
        monkeypatch.syspath_prepend(tmp_path)
        finding = only(installation.check_python())
        assert (finding.state, finding.mend) == (State.broken, "use a Python >=3.99")

    def test_extras(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        extras = {"plots": "no-such-package>=1", "search": "numpy>=1", "onnx": "numpy>=999", "dev": "numpy"}
        lines = [f'Requires-Dist: {line}; extra == "{extra}"' for extra, line in extras.items()]
        distribution(tmp_path, "nearer", "9", *(f"Provides-Extra: {extra}" for extra in extras), *lines)
        monkeypatch.syspath_prepend(tmp_path)
        plots, search, onnx = installation.check_extras()
        assert plots == Finding("[plots]", State.absent, f"figures as files: {install_command('plots')}")
        assert (search.state, search.found.startswith("nearer search: numpy ")) == (State.good, True)
        assert (onnx.state, onnx.mend) == (State.doubtful, install_command("onnx"))

    @pytest.mark.parametrize(
        ("system", "processor", "told"),
        [("Linux", "aarch64", True), ("Linux", "x86_64", False), ("Darwin", "arm64", False)],
    )
    def test_an_extra_that_cannot_simply_be_had_here(
        self, system: str, processor: str, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        line = 'Requires-Dist: no-such-package>=1; extra == "mteb"'
        distribution(tmp_path, "nearer", "9", "Provides-Extra: mteb", line)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(installation.platform, "system", lambda: system)
        monkeypatch.setattr(installation.platform, "machine", lambda: processor)
        finding = only(installation.check_extras())
        assert (finding.state, install_command("mteb") in finding.found) == (State.absent, True)
        assert ("pytrec-eval has no package made for this machine" in finding.found) == told

    def test_every_extra_says_what_it_is_for(self) -> None:
        settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        extras = set(settings["project"]["optional-dependencies"])
        assert extras - {*installation.COLLECTIONS} <= set(installation.PURPOSES)


class TestMachine:
    def test_as_it_is_here(self) -> None:
        checks = ("check_torch", "check_processor", "check_memory", "check_gpus")
        for check in (getattr(installation, name) for name in checks):
            assert all(finding.state is not State.broken for finding in check())

    @pytest.mark.parametrize(
        ("cores", "state"), [(0.5, State.doubtful), (1, State.good), (2, State.good), (8, State.doubtful)]
    )
    def test_threads(self, cores: float, state: State, monkeypatch: pytest.MonkeyPatch) -> None:
        import torch

        threads = torch.get_num_threads()
        monkeypatch.setattr(torch, "get_num_threads", lambda: 2 * threads)
        monkeypatch.setattr(installation, "usable_cores", lambda: int(2 * threads * cores))
        monkeypatch.setenv("OMP_NUM_THREADS", str(2 * threads))
        monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
        assert only(installation.check_threads()).state is state

    @pytest.mark.parametrize(
        ("line", "told"),
        [
            ("flags\t\t: fpu avx512_bf16 amx_bf16", "bf16 by AVX512 and AMX"),
            ("Features\t: fp asimd bf16 i8mm", "bf16 by Arm"),
            ("Features\t: fp asimd", "no bf16 of its own: train in float32"),
        ],
    )
    def test_bf16_of_the_processor(self, line: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
        read = Path.read_text
        monkeypatch.setattr(
            Path, "read_text", lambda path, **how: line if str(path) == "/proc/cpuinfo" else read(path, **how)
        )
        assert only(installation.check_processor()).found.endswith(told)

    def test_tokenising_by_one_thread(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
        assert [finding.name for finding in installation.check_threads()][-1] == "tokenising"


class TestBundledModel:
    def test_as_it_is(self) -> None:
        assert only(models_and_data.check_bundled_model()).state is State.good

    def test_changed_weights(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from safetensors.torch import load_file, save_file

        folder = tmp_path / "wiki-mini"
        shutil.copytree(sources.BUNDLED / "wiki-mini", folder)
        weights = load_file(folder / "model.safetensors")
        name = next(name for name in weights if "layer.3.output.dense.weight" in name)
        save_file({**weights, name: 1.2 * weights[name]}, folder / "model.safetensors", metadata={"format": "pt"})
        monkeypatch.setattr(sources, "BUNDLED", tmp_path)
        finding = only(models_and_data.check_bundled_model())
        assert (finding.state, finding.found.startswith("wiki-mini: its vectors are off by ")) == (State.broken, True)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NEARER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def encoder(tiny_model: Callable[[str], Path]) -> Encoder:
    return Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text("A man is eating.\nrain\n", encoding="utf-8")
    return tmp_path / "text.txt"


class TestCache:
    def test_a_new_one(self, cache: Path) -> None:
        assert only(models_and_data.check_cache()) == Finding("cache", State.good, f"{cache}: 0 MiB")
        assert only(models_and_data.check_token_stores()).found == "0 whole, 0 MiB"
        assert only(models_and_data.check_vector_stores()).found == "none yet"

    def test_a_file_in_its_place(self, cache: Path) -> None:
        cache.write_text("", encoding="utf-8")
        finding = carried_out("cache")
        assert (finding.state, "NEARER_CACHE" in finding.mend) == (State.broken, True)

    def test_token_stores(self, cache: Path, encoder: Encoder, text: Path) -> None:
        store = open_store(read_sentences(text), encoder.tokenizer, max_length=16)
        assert only(models_and_data.check_token_stores()).state is State.good
        (store.folder / "tokens.bin").write_bytes(b"")
        assert only(models_and_data.check_token_stores()).found.startswith("1 damaged; 0 whole")

    def test_an_unfinished_token_store(self, cache: Path) -> None:
        left = cache / "tokens" / ".abc-1.unfinished"
        left.mkdir(parents=True)
        finding = only(models_and_data.check_token_stores())
        assert (finding.state, finding.mend.endswith(f"rm -r {left}")) == (State.doubtful, True)

    def test_one_that_is_being_built(self, cache: Path) -> None:
        (cache / "tokens" / ".abc-1.unfinished").mkdir(parents=True)
        with FileLock(cache / "tokens" / "abc.lock"):
            finding = only(models_and_data.check_token_stores())
        assert (finding.state, finding.found) == (State.good, "0 whole, 0 MiB; 1 being built")

    def test_vector_stores(self, cache: Path, encoder: Encoder, text: Path) -> None:
        store = VectorStore(encoder)
        store.rows(read_sentences(text))
        assert only(models_and_data.check_vector_stores()).found.endswith(" 2")
        for path in (store.folder / "rows").iterdir():
            path.unlink()
        assert only(models_and_data.check_vector_stores()).found.endswith(": interrupted after 2")
        (store.folder / "vectors.bin").write_bytes(b"")
        assert only(models_and_data.check_vector_stores()).found.endswith(": vectors are lost")

    def test_disk(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        free = shutil.disk_usage(cache.parent).free
        monkeypatch.setattr(models_and_data, "LITTLE_SPACE", free // 4)
        assert only(models_and_data.check_disk()).state is State.good
        monkeypatch.setattr(models_and_data, "LITTLE_SPACE", free * 4)
        assert only(models_and_data.check_disk()).state is State.doubtful


class TestModelFolders:
    def test_the_variable_is_that_of_loading(self) -> None:
        from nearer.baselines.static_words import FACTS_FILE

        assert sources.MODELS_VARIABLE == models_and_data.MODELS_VARIABLE
        assert FACTS_FILE == models_and_data.STATIC_WORDS_FILE

    def test_none_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("NEARER_MODELS", raising=False)
        assert only(models_and_data.check_model_folders()).state is State.absent

    def test_what_lies_there(self, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        models = tmp_path / "models"
        encoder.save(models / "fine")
        encoder.save(models / "unreadable")
        (models / "unreadable" / "config.json").write_text("{", encoding="utf-8")
        encoder.save(models / "empty")
        (models / "empty" / "model.safetensors").unlink()
        (models / "notes").mkdir()
        monkeypatch.setenv("NEARER_MODELS", f"{models}:{tmp_path / 'nowhere'}")
        found = list(models_and_data.check_model_folders())
        assert [finding.state for finding in found] == [State.doubtful, State.doubtful, State.good, State.doubtful]
        assert found[0].found == f"{models / 'empty'}: it has no weights (*.safetensors)"
        assert found[1].found.startswith(f"{models / 'unreadable'}: its configuration cannot be read")
        assert found[2].found == f"{models}: fine"
        assert found[3].found == f"{tmp_path / 'nowhere'}: no such folder"

    def test_static_and_pickled_ones(self, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        static, pickled = tmp_path / "static", tmp_path / "pickled"
        encoder.save(static)
        modules = [{"idx": 0, "name": "0", "path": ".", "type": "sentence_transformers.models.StaticEmbedding"}]
        (static / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
        (static / "config.json").unlink()
        encoder.save(pickled)
        (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
        monkeypatch.setenv("NEARER_MODELS", str(tmp_path))
        fault, fine = models_and_data.check_model_folders()
        assert fault.found == f"{pickled}: its weights are pickled: `nearer convert` makes safetensors of them"
        assert fine.found == f"{tmp_path}: static"


class TestDataFolder:
    def test_no_folder(self, tmp_path: Path) -> None:
        finding = only(models_and_data.check_data_folder(tmp_path / "none"))
        assert (finding.state, finding.found) == (State.broken, f"{tmp_path / 'none'}: no such folder")

    def test_an_empty_one(self, tmp_path: Path) -> None:
        finding = only(models_and_data.check_data_folder(tmp_path))
        assert finding.found == f"{tmp_path}: holds none of the published sets"

    def test_a_damaged_and_a_complete_set(self, tmp_path: Path) -> None:
        (tmp_path / "STSBenchmark").mkdir()
        line = "genre\tfile\tyear\t{}\t2.5\tone\ttwo\n"
        for name, count in (("sts-dev.csv", 1500), ("sts-test.csv", 1)):
            lines = "".join(line.format(number) for number in range(count))
            (tmp_path / "STSBenchmark" / name).write_text(lines, encoding="utf-8")
        damaged, incomplete, transfer, reranking = models_and_data.check_data_folder(tmp_path)
        assert damaged.state is State.broken
        assert "STS-B (test) has 1 pairs, 1,379 are expected" in damaged.found
        assert (incomplete.state, incomplete.found.partition(";")[0]) == (State.doubtful, "stsb-dev complete")
        assert (transfer.state, reranking.state) == (State.absent, State.absent)

    def test_all_that_there_is(self, shared_data: Path) -> None:
        found = list(models_and_data.check_data_folder(shared_data))
        assert [finding.name for finding in found] == ["STS sets", "transfer sets", "reranking sets"]
        assert {finding.state for finding in found} == {State.good}


def test_the_hub_is_not_asked_where_that_is_forbidden() -> None:
    assert only(models_and_data.check_hub()).mend == "unset HF_HUB_OFFLINE"
