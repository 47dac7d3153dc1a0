"""Pickled weights: read when asked for, without running what is in them, and made into safetensors."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers import models as modules

from nearer.encoder import Encoder
from nearer.encoder.pickles import convert, read_pickle
from nearer.errors import ModelError, SettingError
from nearer.storage.cache import cache_folder

Tiny = Callable[[str], Path]


class Malicious:
    """Unpickled in the usual way, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


@pytest.fixture
def pickled(tiny_model: Tiny, tmp_path: Path) -> Path:
    folder = tmp_path / "pickled"
    shutil.copytree(tiny_model("bert"), folder)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


def in_two_files(folder: Path) -> None:
    weights = torch.load(folder / "pytorch_model.bin")
    names = sorted(weights)
    files = {name: f"pytorch_model-0000{1 + (place > 20)}-of-00002.bin" for place, name in enumerate(names)}
    for file in set(files.values()):
        torch.save({name: weights[name] for name in names if files[name] == file}, folder / file)
    (folder / "pytorch_model.bin").unlink()
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))


class TestLoading:
    def test_they_are_refused_with_both_ways_out(self, pickled: Path) -> None:
        with pytest.raises(ModelError, match=r"pytorch_model.bin and no safetensors.*nearer convert.*allow_pickle"):
            Encoder.load(pickled, pooling="mean")

    @pytest.mark.parametrize("shards", [1, 2])
    def test_asked_for_they_give_the_same_vectors(
        self, shards: int, pickled: Path, tiny_model: Tiny, sentences: list[str]
    ) -> None:
        if shards == 2:
            in_two_files(pickled)
        ours = Encoder.load(pickled, pooling="mean", allow_pickle=True, device="cpu")
        expected = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")
        np.testing.assert_array_equal(ours.encode(sentences), expected.encode(sentences))
        assert ours.name == str(pickled)

    def test_they_are_converted_once_and_again_when_they_change(self, pickled: Path) -> None:
        for _ in range(2):
            Encoder.load(pickled, pooling="mean", allow_pickle=True)
        copies = [path for path in cache_folder("converted").iterdir() if path.is_dir()]
        assert len(copies) == 1
        weights = torch.load(pickled / "pytorch_model.bin")
        weights["embeddings.LayerNorm.bias"] += 1
        before = Encoder.load(pickled, pooling="mean", allow_pickle=True, device="cpu").encode("rain")
        torch.save(weights, pickled / "pytorch_model.bin")
        os.utime(pickled / "pytorch_model.bin", (1, 1))
        after = Encoder.load(pickled, pooling="mean", allow_pickle=True, device="cpu").encode("rain")
        assert not np.allclose(before, after)

    def test_safetensors_are_read_from_their_own_place(self, tiny_model: Tiny) -> None:
        assert Encoder.load(tiny_model("bert"), pooling="mean", allow_pickle=True).source == tiny_model("bert")

    def test_a_pickle_that_would_run_something_runs_nothing(self, pickled: Path, tmp_path: Path) -> None:
        weights = torch.load(pickled / "pytorch_model.bin")
        torch.save({**weights, "more": Malicious(tmp_path / "made")}, pickled / "pytorch_model.bin")
        with pytest.raises(ModelError, match=r"holds more than weights or is damaged.*mkdir.*nothing of it was run"):
            Encoder.load(pickled, pooling="mean", allow_pickle=True)
        assert not (tmp_path / "made").exists()
        torch.load(pickled / "pytorch_model.bin", weights_only=False)
        assert (tmp_path / "made").exists()  # it would have

    def test_a_module_of_sentence_transformers_may_be_pickled(
        self, tiny_model: Tiny, tmp_path: Path, sentences: list[str]
    ) -> None:
        steps = [modules.Transformer(str(tiny_model("bert"))), modules.Pooling(32), modules.Dense(32, 8)]
        theirs = SentenceTransformer(modules=steps, device="cpu")
        theirs.save(str(tmp_path / "theirs"))
        dense = tmp_path / "theirs" / "2_Dense"
        torch.save(load_file(dense / "model.safetensors"), dense / "pytorch_model.bin")
        (dense / "model.safetensors").unlink()
        with pytest.raises(ModelError, match=r"2_Dense: has no model.safetensors; its weights are pickled"):
            Encoder.load(tmp_path / "theirs")
        ours = Encoder.load(tmp_path / "theirs", allow_pickle=True, device="cpu")
        np.testing.assert_allclose(ours.encode(sentences), theirs.encode(sentences), atol=1e-5)

    def test_a_teacher_and_a_recipe_may_ask_for_them(self, pickled: Path) -> None:
        from nearer.teachers import TeacherSettings
        from nearer.training.recipes import load_recipe

        with pytest.raises(ModelError, match="allow_pickle"):
            TeacherSettings(model=str(pickled), pooling="mean").load(torch.device("cpu"))
        TeacherSettings(model=str(pickled), pooling="mean", allow_pickle=True).load(torch.device("cpu"))
        own = {"model": "a", "allow_pickle": False}
        recipe = load_recipe("rankcse-wiki-mini", {"allow_pickle": True, "teachers": ["b", own]})
        assert recipe.training.allow_pickle
        assert [teacher.allow_pickle for teacher in recipe.method.teachers] == [True, False]

    def test_a_model_that_judges_itself_is_asked_for_as_it_was_loaded(self, pickled: Path, tmp_path: Path) -> None:
        from nearer.methods.refine import Refinement, RefinementSettings
        from nearer.text import read_ranking_lists

        lists = tmp_path / "lists.jsonl"
        lists.write_text(json.dumps(["a man", "rain", "lunch", "the lazy dog"]) + "\n")
        encoder = Encoder.load(pickled, pooling="mean", allow_pickle=True, device="cpu")
        method = Refinement(RefinementSettings())
        method.prepare(encoder, read_ranking_lists(lists))
        [judge] = method.describe()["teachers"]
        assert (judge["model"], judge["allow_pickle"]) == (str(pickled), True)


class TestConvert:
    def test_the_folder_is_the_same_with_safetensors(self, pickled: Path, tmp_path: Path, tiny_model: Tiny) -> None:
        (pickled / "training_args.bin").write_bytes(b"anything")
        (pickled / "tf_model.h5").write_bytes(b"anything")
        (pickled / ".git").mkdir()
        (pickled / ".git" / "HEAD").write_text("ref")
        made = convert(pickled, tmp_path / "out")
        assert sorted(path.name for path in (tmp_path / "out").rglob("*")) == sorted(
            ["checksums.json", *(path.name for path in tiny_model("bert").iterdir())]
        )
        assert made.files == ("model.safetensors",)
        assert made.left_out == ("tf_model.h5", "training_args.bin")
        before, after = (
            load_file(tiny_model("bert") / "model.safetensors"),
            load_file(tmp_path / "out/model.safetensors"),
        )
        assert made.tensors == len(after)
        assert before.keys() == after.keys()
        assert all(torch.equal(before[name], after[name]) for name in before)

    def test_shards_types_and_shared_weights_are_kept(self, pickled: Path, tmp_path: Path) -> None:
        weights = {
            name: tensor.to(torch.bfloat16) for name, tensor in torch.load(pickled / "pytorch_model.bin").items()
        }
        weights["tied"] = weights["embeddings.word_embeddings.weight"]
        weights["part"] = weights["embeddings.word_embeddings.weight"][:, ::2]  # a view, not contiguous
        torch.save(weights, pickled / "pytorch_model.bin")
        in_two_files(pickled)
        made = convert(pickled, tmp_path / "out")
        assert made.files == ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
        index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())["weight_map"]
        found = {name: load_file(tmp_path / "out" / file)[name] for name, file in index.items()}
        assert found.keys() == weights.keys()
        assert all(torch.equal(found[name], weights[name]) and found[name].dtype == torch.bfloat16 for name in found)
        assert not (tmp_path / "out" / "pytorch_model.bin.index.json").exists()

    def test_nothing_is_left_of_one_that_fails(self, pickled: Path, tmp_path: Path) -> None:
        in_two_files(pickled)
        (pickled / "pytorch_model-00002-of-00002.bin").write_bytes(b"PK\x03\x04 cut off")
        with pytest.raises(ModelError, match=r"pytorch_model-00002-of-00002.bin: is damaged or no file of weights"):
            convert(pickled, tmp_path / "out")
        assert not (tmp_path / "out").exists()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["pickled"]

    @pytest.mark.parametrize(
        ("break_it", "message"),
        [
            (lambda folder: torch.save([1, 2], folder / "pytorch_model.bin"), "is not a table of weights"),
            (lambda folder: torch.save({"a": 3}, folder / "pytorch_model.bin"), "'a' is int, not a plain tensor"),
            (lambda folder: torch.save({}, folder / "pytorch_model.bin"), "is not a table of weights"),
            (lambda folder: (folder / "pytorch_model.bin").write_bytes(b""), "damaged"),
            (
                lambda folder: (folder / "pytorch_model.bin").write_bytes(b"version https://git-lfs"),
                "pytorch_model.bin",
            ),
            (lambda folder: (folder / "pytorch_model.bin").write_bytes(pickle.dumps(os.getcwd)), "more than weights"),
            (lambda folder: (folder / "pytorch_model.bin").unlink(), "no pickled weights"),
        ],
    )
    def test_what_is_no_file_of_weights_is_one_line(
        self, break_it: Callable[[Path], None], message: str, pickled: Path, tmp_path: Path
    ) -> None:
        break_it(pickled)
        with pytest.raises(ModelError, match=message) as caught:
            convert(pickled, tmp_path / "out")
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("index", "message"),
        [
            ('{"weight_map": {"a": "../secret.bin"}}', "secret.bin: is missing"),
            ('{"weight_map": {"a": "pytorch_model-00009.bin"}}', "pytorch_model-00009.bin: is missing"),
            ('{"weight_map": {"not there": "pytorch_model.bin"}}', "has no weight 'not there'"),
            ("[]", "is not an index of weights"),
        ],
    )
    def test_an_index_that_does_not_fit_is_one_line(
        self, index: str, message: str, pickled: Path, tmp_path: Path
    ) -> None:
        (pickled / "pytorch_model.bin.index.json").write_text(index)
        with pytest.raises(ModelError, match=message):
            convert(pickled, tmp_path / "out")

    def test_a_model_with_safetensors_needs_none(self, tiny_model: Tiny, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="has safetensors already; there is nothing to convert"):
            convert(tiny_model("bert"), tmp_path / "out")


def test_the_legacy_format_of_torch_is_read(tmp_path: Path) -> None:
    torch.save({"a": torch.arange(3)}, tmp_path / "old.bin", _use_new_zipfile_serialization=False)
    assert read_pickle(tmp_path / "old.bin")["a"].tolist() == [0, 1, 2]


def test_a_setting_that_is_no_permission_is_refused() -> None:
    from nearer.training.recipes import load_recipe

    with pytest.raises(SettingError, match="allow_pickle"):
        load_recipe("simcse-wiki-mini", {"allow_pickle": "perhaps"})
