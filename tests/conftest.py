"""Tiny random models, real tokenizers, and the places of real models and data."""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
import typer.testing

pytest_plugins = ["long_walks", "not_covered"]

# How long an example takes to be drawn depends on what else the machine does. `make test` draws the same examples in
# every run, so that it fails where the code changed and nowhere else; `make fuzz` looks for new ones.
hypothesis.settings.register_profile(
    "patient",
    max_examples=50,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize="NEARER_FUZZ" not in os.environ,
)
hypothesis.settings.load_profile("patient")
# Hypothesis also draws constants of the modules that are loaded by then: others in each process, and no setting of it.
# The lowest version that is allowed does not yet.
if importlib.util.find_spec("hypothesis.internal.conjecture.providers") is not None:
    providers = importlib.import_module("hypothesis.internal.conjecture.providers")
    assert callable(providers._get_local_constants)
    providers._get_local_constants = lambda: providers._local_constants

# Typer's runner builds all commands anew for each call: reading their signatures takes longer than most commands do
assert callable(typer.testing._get_command)
typer.testing._get_command = functools.cache(typer.testing._get_command)

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

SENTENCES = [
    "A man is eating lunch.",
    "Someone has a meal.",
    "The quick brown fox jumps over the lazy dog, again and again, until the evening comes.",
    "rain",
    "A man is eating lunch.",
    "Naïve café: 東京 is far away!",
    "",
    "Why would anybody measure sentences by the nearness of their meaning?",
]

SHARED = Path(os.environ.get("NEARER_SHARED", Path(__file__).parents[2] / "shared"))


def pytest_collection_finish() -> None:
    """What collecting left behind stays to the end: it need not be looked through for garbage again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    return list(SENTENCES)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARER_CACHE", str(tmp_path / "nearer-cache"))


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A folder with a random plain checkpoint of the named architecture, made once a session."""
    root = tmp_path_factory.mktemp("tiny")

    def make(kind: str) -> Path:
        folder = root / kind
        if not folder.exists():
            _make_tiny(kind, folder)
        return folder

    return make


def _make_tiny(kind: str, folder: Path) -> None:
    import torch
    import transformers

    shape = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
    tokenizer = _byte_tokenizer() if kind == "roberta" else _word_tokenizer()
    size = {"vocab_size": len(tokenizer), "max_position_embeddings": 66}
    torch.manual_seed(7)
    if kind == "bert":
        model = transformers.BertModel(transformers.BertConfig(**shape, **size))
    elif kind == "roberta":
        config = transformers.RobertaConfig(**shape, **size, pad_token_id=1, bos_token_id=0, eos_token_id=2)
        model = transformers.RobertaModel(config)
    elif kind == "distilbert":
        config = transformers.DistilBertConfig(
            dim=32, n_layers=3, n_heads=4, hidden_dim=64, vocab_size=len(tokenizer), max_position_embeddings=66
        )
        model = transformers.DistilBertModel(config)
    elif kind == "mpnet":
        model = transformers.MPNetModel(transformers.MPNetConfig(**shape, **size, pad_token_id=0))
    elif kind == "mobilebert":
        config = transformers.MobileBertConfig(
            **{**shape, "intermediate_size": 32},
            **size,
            embedding_size=16,
            intra_bottleneck_size=16,
            num_feedforward_networks=2,
        )
        model = transformers.MobileBertModel(config)
        # restored checkpoints have a padding row that is not zero
        model.embeddings.word_embeddings.weight.data[0] = 0.5
    else:
        raise AssertionError(kind)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.fixture(scope="session")
def tiny_cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A folder with a random cross-encoder (bert, roberta, distilbert, mobilebert), made once a session."""
    root = tmp_path_factory.mktemp("cross")

    def make(kind: str = "bert", labels: int = 1) -> Path:
        folder = root / f"{kind}-{labels}"
        if not folder.exists():
            _make_cross_encoder(kind, labels, folder)
        return folder

    return make


def _make_cross_encoder(kind: str, labels: int, folder: Path) -> None:
    import torch
    import transformers

    tokenizer = _byte_tokenizer() if kind == "roberta" else _word_tokenizer()
    begin, end = tokenizer.cls_token, tokenizer.sep_token
    special = [(begin, tokenizer.cls_token_id), (end, tokenizer.sep_token_id)]
    pair = f"{begin} $A {end} {end} $B {end}" if kind == "roberta" else f"{begin} $A {end} $B:1 {end}:1"
    from tokenizers import processors

    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}", pair=pair, special_tokens=special
    )
    if kind != "roberta":
        types = [] if kind == "distilbert" else ["token_type_ids"]
        tokenizer.model_input_names = ["input_ids", *types, "attention_mask"]
    shape = {"num_labels": labels, "vocab_size": len(tokenizer), "max_position_embeddings": 66}
    layers = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    torch.manual_seed(11)
    if kind == "bert":
        model = transformers.BertForSequenceClassification(transformers.BertConfig(**shape, **layers))
    elif kind == "roberta":
        config = transformers.RobertaConfig(**shape, **layers, pad_token_id=1, bos_token_id=0, eos_token_id=2)
        model = transformers.RobertaForSequenceClassification(config)
    elif kind == "distilbert":
        config = transformers.DistilBertConfig(**shape, dim=32, n_layers=2, n_heads=4, hidden_dim=64)
        model = transformers.DistilBertForSequenceClassification(config)
    elif kind == "mobilebert":
        small = {"embedding_size": 16, "intra_bottleneck_size": 16, "num_feedforward_networks": 2}
        config = transformers.MobileBertConfig(**shape, **{**layers, "intermediate_size": 32}, **small)
        model = transformers.MobileBertForSequenceClassification(config)
        model.mobilebert.embeddings.word_embeddings.weight.data[0] = 0.5
    else:
        raise AssertionError(kind)
    for parameter in model.parameters():  # scores that differ by more than rounding
        parameter.data *= 5 if parameter.ndim > 1 else 1
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _word_tokenizer():  # type: ignore[no-untyped-def]
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    normalizer, pre_tokenizer = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    # made by hand: a trained vocabulary is another one in each process, and with it all random models
    words = sorted(
        {word for text in SENTENCES for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(text))}
    )
    letters = sorted(set("".join(words)))
    pieces = [*special, *letters, *[f"##{letter}" for letter in letters], *[word for word in words if len(word) > 1]]
    tokenizer = Tokenizer(models.WordPiece({piece: n for n, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.decoder = decoders.WordPiece()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=64,
    )


def _byte_tokenizer():  # type: ignore[no-untyped-def]
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        cls_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
    )


@pytest.fixture(scope="session")
def real_model() -> Callable[[str], Path]:
    """A folder with a real pretrained model; the test is skipped, with the reason, where it is not there."""

    def find(name: str) -> Path:
        roots = [*os.environ.get("NEARER_MODELS", "").split(os.pathsep), "~/.cache/nearer-models", SHARED / "models"]
        for root in roots:
            folder = Path(root).expanduser() / name
            if str(root) and folder.is_dir():
                return folder
        pytest.skip(f"the model {name} is not here: put it into a folder named by NEARER_MODELS")

    return find


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with the real STS sets; the test is skipped, with the reason, where it is not there."""
    if not (SHARED / "data").is_dir():
        pytest.skip(f"{SHARED / 'data'} is not here: name the folder that holds data/ with NEARER_SHARED")
    return SHARED / "data"


@pytest.fixture(scope="class")
def ray_on_two_cores() -> Iterator[None]:
    """One Ray for all tests of a class: it takes seconds to start."""
    from nearer.ray_runtime import OBJECT_STORE

    ray = pytest.importorskip("ray")
    assert not ray.is_initialized()
    ray.init(
        address="local",
        num_cpus=2,
        object_store_memory=OBJECT_STORE,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}},
    )
    yield
    ray.shutdown()


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As the workers of Ray have: how a sum is split among threads is in its last bit."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
