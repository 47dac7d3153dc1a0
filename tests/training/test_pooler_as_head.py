"""Starting from, and learning from, a checkpoint whose head lies in its pooling layer: published supervised SimCSE."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from nearer.cli.main import app
from nearer.encoder import Encoder
from nearer.encoder.backbone import quiet
from nearer.errors import ModelError, SettingError
from nearer.teachers import TeacherSettings
from nearer.training import train
from nearer.training.recipes import load_recipe

ONLY_STEPS = {"max_steps": 2, "select_on": [], "test_on": [], "learning_rate": 1e-4}
TEXTS = ["the quick brown fox", "rain comes far away", "someone has lunch"]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, tiny_model: Callable[[str], Path]) -> Path:
    """As the hub has it: from a model of pretraining, all weights below `bert.` or `cls.`."""
    import transformers

    folder = tmp_path_factory.mktemp("published")
    config = transformers.AutoConfig.from_pretrained(tiny_model("bert"))
    torch.manual_seed(4)
    with quiet():
        transformers.BertForPreTraining(config).save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(tiny_model("bert")).save_pretrained(folder)
    return folder


def pooler_output(folder: Path, texts: list[str]) -> Any:
    """By transformers alone."""
    import transformers

    with quiet(), torch.no_grad():
        model = transformers.AutoModel.from_pretrained(folder).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        return np.stack([model(**tokenizer(text, return_tensors="pt")).pooler_output[0].numpy() for text in texts])


def test_training_starts_from_it_and_keeps_it(published: Path, recipe: Path, corpus: Path, tmp_path: Path) -> None:
    settings = {**ONLY_STEPS, "head": False, "pooling": "cls", "pooler_as_head": True, "learning_rate": 1e-12}
    made = train(recipe, corpus, model=published, out=tmp_path / "run", settings=settings)
    trained = made.load("cpu")
    assert isinstance(trained, Encoder)
    assert trained.head is not None
    np.testing.assert_allclose(trained.encode(TEXTS), pooler_output(published, TEXTS), atol=1e-5)


def test_it_is_trained(published: Path, recipe: Path, corpus: Path, tmp_path: Path) -> None:
    settings = {**ONLY_STEPS, "head": False, "pooling": "cls", "pooler_as_head": True}
    made = train(recipe, corpus, model=published, out=tmp_path / "run", settings=settings)
    before = Encoder.load(published, pooling="cls", pooler_as_head=True, device="cpu")
    trained = made.load("cpu")
    assert not torch.equal(trained.head.linear.weight, before.head.linear.weight)  # type: ignore[union-attr]


def test_before_head_it_is_for_training_alone(published: Path, recipe: Path, corpus: Path, tmp_path: Path) -> None:
    settings = {**ONLY_STEPS, "head": False, "pooling": "cls_before_head", "pooler_as_head": True}
    made = train(recipe, corpus, model=published, out=tmp_path / "run", settings={**settings, "learning_rate": 1e-12})
    plain = Encoder.load(published, pooling="cls_before_head", pooler_as_head=True, device="cpu")
    np.testing.assert_allclose(made.load("cpu").encode(TEXTS), plain.encode(TEXTS), atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"head": True, "pooling": "cls"}, "pooler_as_head and head are two heads: set head=false"),
        (
            {"head": False, "pooling": "mean"},
            r"pooler_as_head: the pooling layer reads \[CLS\], not mean; set pooling=",
        ),
    ],
)
def test_contradictions(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingError, match=told):
        load_recipe("simcse-bert-base", {"pooler_as_head": True, **settings})


def test_the_option_of_the_command(published: Path, recipe: Path, corpus: Path, tmp_path: Path) -> None:
    command = ["train", str(recipe), "--corpus", str(corpus), "--model", str(published), "--pooler-as-head"]
    command += ["--out", str(tmp_path / "run"), "--max-steps", "1", "--no-report", "--set", "test_on=[]"]
    command += ["--set", "select_on=[]", "--set", "pooling=cls"]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 1
    assert "two heads: set head=false" in refused.output
    assert CliRunner().invoke(app, [*command, "--set", "head=false"]).exit_code == 0
    made = Encoder.load(tmp_path / "run" / "model", device="cpu")
    assert made.head is not None


def test_a_model_s_own_pooling_is_checked_too(
    tiny_model: Callable[[str], Path], recipe: Path, corpus: Path, tmp_path: Path
) -> None:
    """With pooling=null the folder says it; this one has no pooling layer any more."""
    Encoder.load(tiny_model("bert"), pooling="mean", device="cpu").save(tmp_path / "saved")
    settings = {**ONLY_STEPS, "head": False, "pooling": None, "pooler_as_head": True}
    with pytest.raises(ModelError, match="pooler"):
        train(recipe, corpus, model=tmp_path / "saved", out=tmp_path / "run", settings=settings)


class TestTeachers:
    def test_the_head_is_part_of_what_it_says(self, published: Path) -> None:
        settings = TeacherSettings(model=str(published), pooling="cls", pooler_as_head=True)
        found = settings.load(torch.device("cpu")).encode(TEXTS)
        np.testing.assert_allclose(found, pooler_output(published, TEXTS), atol=1e-5)

    def test_a_student_learns_from_it(self, published: Path, recipe: Path, corpus: Path, tmp_path: Path) -> None:
        teachers = [{"model": str(published), "pooling": "cls", "pooler_as_head": True}]
        settings = {**ONLY_STEPS, "method": "rankcse", "teachers": teachers}
        made = train(recipe, corpus, out=tmp_path / "run", settings=settings)
        assert made.load("cpu").provenance["teachers"][0]["pooler_as_head"] is True
        # its vectors are kept apart from those without the head
        without = [{**teachers[0], "pooling": "cls_before_head"}]
        train(recipe, corpus, out=tmp_path / "other", settings={**settings, "teachers": without})
        assert len(list((tmp_path / "nearer-cache" / "vectors").iterdir())) == 2
