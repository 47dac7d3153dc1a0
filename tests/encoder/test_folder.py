"""Saving and loading: strict, and in sentence-transformers' layout both ways."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers import models as modules

from faulty_disk import unchecked
from nearer.encoder import Encoder
from nearer.encoder.pooling import POOLINGS
from nearer.errors import ModelError, SettingError

KINDS = ["bert", "roberta", "distilbert", "mpnet"]
Tiny = Callable[[str], Path]


def their_vectors(folder: Path, sentences: list[str]) -> np.ndarray:
    return SentenceTransformer(str(folder), device="cpu").encode(sentences)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pooling", [*POOLINGS, "cls+mean", "mean+cls"])
def test_sentence_transformers_gives_the_same_vectors(
    kind: str, pooling: str, tiny_model: Tiny, tmp_path: Path, sentences: list[str]
) -> None:
    encoder = Encoder.load(tiny_model(kind), pooling=pooling, device="cpu")
    encoder.save(tmp_path / "model")
    ours = encoder.encode(sentences)
    np.testing.assert_allclose(their_vectors(tmp_path / "model", sentences), ours, atol=1e-5)
    back = Encoder.load(tmp_path / "model", device="cpu")
    assert back.settings == encoder.settings
    np.testing.assert_array_equal(back.encode(sentences), ours)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pooling", ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"])
@pytest.mark.parametrize("tail", ["", "normalize", "dense", "dense+norm+normalize"])
def test_any_model_of_sentence_transformers_loads(
    kind: str, pooling: str, tail: str, tiny_model: Tiny, tmp_path: Path, sentences: list[str]
) -> None:
    torch.manual_seed(1)
    transformer = modules.Transformer(str(tiny_model(kind)), max_seq_length=24)
    steps = [transformer, modules.Pooling(32, pooling_mode=pooling)]
    if "dense" in tail:
        steps += [modules.Dense(32, 12, activation_function=torch.nn.GELU()), modules.Dense(12, 8, bias=False)]
    if "+norm" in tail:
        steps.append(modules.LayerNorm(8))
    if "normalize" in tail:
        steps.append(modules.Normalize())
    theirs = SentenceTransformer(modules=steps, device="cpu")
    theirs.save(str(tmp_path / "theirs"))
    ours = Encoder.load(tmp_path / "theirs", device="cpu")
    assert ours.settings.max_length == 24
    np.testing.assert_allclose(ours.encode(sentences), theirs.encode(sentences), atol=1e-5)
    ours.save(tmp_path / "again")
    np.testing.assert_allclose(their_vectors(tmp_path / "again", sentences), theirs.encode(sentences), atol=1e-5)


def test_prompts_of_a_model_are_used_and_left_out_of_the_pooling(
    tiny_model: Tiny, tmp_path: Path, sentences: list[str]
) -> None:
    transformer = modules.Transformer(str(tiny_model("bert")))
    steps = [transformer, modules.Pooling(32, pooling_mode="mean", include_prompt=False)]
    prompts = {"query": "a man: ", "passage": "rain "}
    theirs = SentenceTransformer(modules=steps, device="cpu", prompts=prompts, default_prompt_name="query")
    theirs.save(str(tmp_path / "theirs"))
    ours = Encoder.load(tmp_path / "theirs", device="cpu")
    np.testing.assert_allclose(ours.encode(sentences), theirs.encode(sentences), atol=1e-5)
    passage = theirs.encode(sentences, prompt_name="passage")
    np.testing.assert_allclose(ours.encode(sentences, prompt_name="passage"), passage, atol=1e-5)
    ours.save(tmp_path / "again")
    np.testing.assert_allclose(their_vectors(tmp_path / "again", sentences), ours.encode(sentences), atol=1e-5)


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "all-mpnet-base-v2"])
def test_real_models_make_the_round_trip(
    name: str, real_model: Callable[[str], Path], tmp_path: Path, sentences: list[str]
) -> None:
    folder = real_model(name)
    ours = Encoder.load(folder, device="cpu")
    vectors = their_vectors(folder, sentences)
    np.testing.assert_allclose(ours.encode(sentences), vectors, atol=1e-5)
    ours.save(tmp_path / "model")
    np.testing.assert_allclose(their_vectors(tmp_path / "model", sentences), vectors, atol=1e-5)


class TestHead:
    def test_a_kept_head_is_saved_and_used_by_both(
        self, tiny_model: Tiny, tmp_path: Path, sentences: list[str]
    ) -> None:
        encoder = Encoder.load(tiny_model("bert"), pooling="cls", device="cpu")
        before = encoder.encode(sentences)
        encoder.add_head(torch.Generator().manual_seed(0))
        after = encoder.encode(sentences)
        weight, bias = encoder.head.linear.weight.detach().numpy(), encoder.head.linear.bias.detach().numpy()
        np.testing.assert_allclose(after, np.tanh(before @ weight.T + bias), atol=1e-6)
        encoder.save(tmp_path / "model")
        np.testing.assert_allclose(their_vectors(tmp_path / "model", sentences), after, atol=1e-5)
        back = Encoder.load(tmp_path / "model", device="cpu")
        assert back.head is not None
        np.testing.assert_array_equal(back.encode(sentences), after)

    def test_a_train_only_head_acts_in_training_and_not_at_inference(self, tiny_model: Tiny, tmp_path: Path) -> None:
        encoder = Encoder.load(tiny_model("bert"), pooling="cls_before_head", device="cpu")
        before = encoder.encode("a man")
        encoder.add_head(torch.Generator().manual_seed(0))
        np.testing.assert_array_equal(encoder.encode("a man"), before)
        ids, mask = torch.tensor([[2, 9, 3]]), torch.ones(1, 3, dtype=torch.long)
        encoder.train()
        assert encoder(ids, mask).abs().max() < 1  # tanh of small weights
        encoder.eval()
        encoder.save(tmp_path / "model")
        assert Encoder.load(tmp_path / "model").head is None
        assert not (tmp_path / "model" / "2_Dense").exists()

    def test_a_new_head_is_drawn_as_the_paper_says(self, tiny_model: Tiny) -> None:
        encoder = Encoder.load(tiny_model("bert"), pooling="cls", device="cpu")
        encoder.add_head(torch.Generator().manual_seed(0))
        first = encoder.head.linear.weight.clone()
        encoder.add_head(torch.Generator().manual_seed(0))
        torch.testing.assert_close(encoder.head.linear.weight, first)
        assert first.std().item() == pytest.approx(0.02, rel=0.1)
        assert not encoder.head.linear.bias.any()

    def test_the_checkpoints_pooler_can_be_the_head(self, tiny_model: Tiny) -> None:
        encoder = Encoder.load(tiny_model("bert"), pooling="cls", pooler_as_head=True, device="cpu")
        from transformers import BertModel

        model = BertModel.from_pretrained(tiny_model("bert")).eval()
        tokens = encoder.tokenizer("a man", return_tensors="pt")
        with torch.no_grad():
            expected = model(input_ids=tokens["input_ids"]).pooler_output[0]
        np.testing.assert_allclose(encoder.encode("a man"), expected.numpy(), atol=1e-6)

    def test_a_model_without_a_pooler_has_none_to_give(self, tiny_model: Tiny) -> None:
        with pytest.raises(ModelError, match="no pooling layer"):
            Encoder.load(tiny_model("distilbert"), pooling="cls", pooler_as_head=True)


class TestRefusals:
    @pytest.fixture
    def copy(self, tiny_model: Tiny, tmp_path: Path) -> Path:
        return Path(shutil.copytree(tiny_model("bert"), tmp_path / "copy"))

    @pytest.fixture
    def saved(self, tiny_model: Tiny, tmp_path: Path) -> Path:
        Encoder.load(tiny_model("bert"), pooling="cls", device="cpu").save(tmp_path / "saved")
        unchecked(tmp_path / "saved")
        return tmp_path / "saved"

    def test_a_plain_checkpoint_needs_its_pooling_named(self, copy: Path) -> None:
        with pytest.raises(ModelError, match=r"name the pooling: cls"):
            Encoder.load(copy)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda w: {k: v for k, v in w.items() if "layer.1.output.dense.weight" not in k}, "is missing"),
            (lambda w: {**w, "encoder.layer.9.extra.weight": torch.zeros(2)}, "is not expected"),
            (lambda w: {k: v[:3] if "word_embeddings" in k else v for k, v in w.items()}, "shape|cannot be loaded"),
        ],
    )
    def test_weights_must_fit(self, copy: Path, change: Callable[[dict], dict], message: str) -> None:
        path = copy / "model.safetensors"
        save_file(change(load_file(path)), path, metadata={"format": "pt"})
        with pytest.raises(ModelError, match=message):
            Encoder.load(copy, pooling="cls")

    def test_heads_of_other_tasks_are_no_fault(self, copy: Path, tiny_model: Tiny) -> None:
        path = copy / "model.safetensors"
        save_file({**load_file(path), "cls.predictions.bias": torch.zeros(3)}, path, metadata={"format": "pt"})
        plain = Encoder.load(tiny_model("bert"), pooling="cls", device="cpu")
        np.testing.assert_array_equal(Encoder.load(copy, pooling="cls").encode("a"), plain.encode("a"))

    def test_pickled_weights_are_not_read(self, copy: Path) -> None:
        torch.save(load_file(copy / "model.safetensors"), copy / "pytorch_model.bin")
        (copy / "model.safetensors").unlink()
        with pytest.raises(ModelError, match="pickled"):
            Encoder.load(copy, pooling="cls")

    @pytest.mark.parametrize(
        ("spoil", "message"),
        [
            (lambda f: (f / "config.json").unlink(), "no config.json"),
            (lambda f: (f / "config.json").write_text("{"), "config.json: cannot be read .not JSON"),
            (lambda f: (f / "config.json").write_text('{"model_type": "nonsense"}'), "config.json cannot be used"),
            (lambda f: (f / "model.safetensors").write_bytes(b"not weights"), "model.safetensors: cannot be read"),
            (lambda f: (f / "model.safetensors").unlink(), "no weights"),
            (lambda f: (f / "tokenizer.json").unlink(), "no tokenizer"),
            (lambda f: (f / "tokenizer.json").write_text("{}"), "tokenizer cannot be loaded"),
        ],
    )
    def test_damaged_folders_are_named(self, copy: Path, spoil: Callable[[Path], object], message: str) -> None:
        spoil(copy)
        with pytest.raises(ModelError, match=message) as error:
            Encoder.load(copy, pooling="cls")
        assert str(copy) in str(error.value)
        assert "\n" not in str(error.value)

    @pytest.mark.parametrize(
        ("file", "change", "message"),
        [
            ("modules.json", lambda m: m[1:], "a Transformer or a StaticEmbedding is needed"),
            ("modules.json", lambda m: m[:1], "no Pooling"),
            ("modules.json", lambda m: [*m, {**m[1], "type": "a.b.CNN"}], "module CNN"),
            ("1_Pooling/config.json", lambda c: {"pooling_mode": "median"}, "'median' is not known"),
            ("1_Pooling/config.json", lambda c: {"word_embedding_dimension": 32}, "names no pooling mode"),
            ("nearer.json", lambda c: {**c, "pooling": "mean"}, "says pooling 'mean'"),
            ("nearer.json", lambda c: {**c, "head": True}, "no Dense module"),
            ("nearer.json", lambda c: {**c, "format": 99}, "format 99"),
        ],
    )
    def test_layouts_that_contradict_themselves_are_refused(
        self, saved: Path, file: str, change: Callable[[object], object], message: str
    ) -> None:
        path = saved / file
        path.write_text(json.dumps(change(json.loads(path.read_text()))))
        with pytest.raises(ModelError, match=message):
            Encoder.load(saved)

    def test_an_unknown_activation_is_not_imported(self, tiny_model: Tiny, tmp_path: Path) -> None:
        encoder = Encoder.load(tiny_model("bert"), pooling="cls", device="cpu")
        encoder.add_head()
        encoder.save(tmp_path / "model")
        path = unchecked(tmp_path / "model") / "2_Dense" / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "activation_function": "os.system"}))
        with pytest.raises(ModelError, match="activation 'system'"):
            Encoder.load(tmp_path / "model")

    def test_remote_code_runs_only_on_the_flag(self, copy: Path) -> None:
        config = json.loads((copy / "config.json").read_text())
        config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}}
        (copy / "config.json").write_text(json.dumps(config))
        (copy / "own.py").write_text(
            "from transformers import BertConfig, BertModel\n"
            "class OwnConfig(BertConfig):\n    model_type = 'own'\n"
            "class OwnModel(BertModel):\n    config_class = OwnConfig\n"
        )
        with pytest.raises(ModelError, match=r"config\.json cannot be used"):
            Encoder.load(copy, pooling="cls")
        assert Encoder.load(copy, pooling="cls", trust_remote_code=True, device="cpu").encode("a").shape == (32,)

    def test_missing_folders_files_and_unknown_names(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="no such folder"):
            Encoder.load(tmp_path / "nowhere")
        (tmp_path / "file").write_text("")
        with pytest.raises(ModelError, match="is a file"):
            Encoder.load(tmp_path / "file")
        with pytest.raises(ModelError, match="neither a folder here nor"):
            Encoder.load("no-such-owner/no-such-model")

    def test_unknown_devices_and_settings(self, copy: Path) -> None:
        with pytest.raises(SettingError, match="device"):
            Encoder.load(copy, pooling="cls", device="abacus")
        with pytest.raises(ModelError, match="no setting 'hiden_dropout_prob'"):
            Encoder.load(copy, pooling="cls", overrides={"hiden_dropout_prob": 0.1})


class TestSaving:
    def test_a_folder_that_is_there_is_left_alone_unless_asked(self, tiny_model: Tiny, tmp_path: Path) -> None:
        encoder = Encoder.load(tiny_model("bert"), pooling="cls", device="cpu")
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "notes.txt").write_text("keep")
        with pytest.raises(ModelError, match="is there already"):
            encoder.save(tmp_path / "mine")
        assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]
        encoder.save(tmp_path / "mine", overwrite=True)
        Encoder.load(tmp_path / "mine")
        assert [path.name for path in tmp_path.iterdir()] == ["mine"]  # nothing temporary is left

    def test_a_failed_save_leaves_the_old_model_whole(
        self, tiny_model: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        encoder = Encoder.load(tiny_model("bert"), pooling="cls", device="cpu")
        encoder.save(tmp_path / "model")
        before = encoder.encode("a man")

        def full(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(encoder.tokenizer, "save_pretrained", full)
        with pytest.raises(ModelError, match="No space left on device"):
            encoder.save(tmp_path / "model", overwrite=True)
        np.testing.assert_array_equal(Encoder.load(tmp_path / "model", device="cpu").encode("a man"), before)
        assert [path.name for path in tmp_path.iterdir()] == ["model"]

    def test_the_folder_says_what_made_it(self, tiny_model: Tiny, tmp_path: Path) -> None:
        encoder = Encoder.load(tiny_model("bert"), pooling="cls", max_length=20, device="cpu")
        encoder.provenance = {"recipe": "none", "seed": 3}
        encoder.save(tmp_path / "model")
        own = json.loads((tmp_path / "model" / "nearer.json").read_text())
        assert (own["pooling"], own["max_length"], own["provenance"]["seed"]) == ("cls", 20, 3)
        assert "transformers" in own["libraries"]
        assert Encoder.load(tmp_path / "model").provenance == encoder.provenance

    def test_half_precision_checkpoints_are_loaded_in_float32(self, tmp_path: Path) -> None:
        encoder = Encoder.load("wiki-mini", pooling="mean", device="cpu")
        assert {p.dtype for p in encoder.parameters()} == {torch.float32}

    def test_configuration_overrides_reach_the_model(self, tiny_model: Tiny) -> None:
        encoder = Encoder.load(tiny_model("bert"), pooling="cls", overrides={"hidden_dropout_prob": 0.37}, device="cpu")
        rates = {module.p for module in encoder.modules() if isinstance(module, torch.nn.Dropout)}
        assert 0.37 in rates


def test_mobilebert_agrees_with_sentence_transformers_once_its_padding_row_is_zero(
    tiny_model: Tiny, tmp_path: Path, sentences: list[str]
) -> None:
    encoder = Encoder.load(tiny_model("mobilebert"), pooling="mean", device="cpu")
    assert encoder.trailing_padding == 1
    encoder.backbone.embeddings.word_embeddings.weight.data[0] = 0
    assert encoder.trailing_padding == 0
    encoder.save(tmp_path / "model")
    np.testing.assert_allclose(their_vectors(tmp_path / "model", sentences), encoder.encode(sentences), atol=1e-5)


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "mpnet", "mobilebert"])
def test_dropout_replaces_every_rate_whatever_the_model_calls_it(kind: str, tiny_model: Tiny) -> None:
    encoder = Encoder.load(tiny_model(kind), pooling="cls", dropout=0.31, device="cpu")
    assert {module.p for module in encoder.modules() if isinstance(module, torch.nn.Dropout)} == {0.31}
