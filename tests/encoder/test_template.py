"""Templates: text around a sentence, pooled at a token of it, the same wherever a model is used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.encoder import Encoder
from nearer.encoder.fingerprint import encoder_fingerprint
from nearer.encoder.template import TEMPLATES, add_template, read_template
from nearer.errors import ModelError, SettingError
from nearer.text.tokenise import token_counts, tokenise

TinyModel = Callable[[str], Path]
BERT = 'This man of "{sentence}" is [MASK].'
ROBERTA = "This man : ' {sentence} ' is [MASK]."


def by_hand(encoder: Encoder, before: str, sentence: str, after: str) -> np.ndarray:
    """The state of the mask token of the filled string, one sentence at a time, by transformers alone."""
    tokenizer = encoder.tokenizer
    ids = tokenizer.backend_tokenizer.encode(before + sentence + after, add_special_tokens=False).ids
    rows = torch.tensor([[tokenizer.cls_token_id, *ids, tokenizer.sep_token_id]])
    states = encoder.backbone(input_ids=rows, attention_mask=torch.ones_like(rows)).last_hidden_state
    return states[0, rows[0].tolist().index(tokenizer.mask_token_id)].detach().numpy()


@pytest.mark.parametrize(
    ("kind", "text"), [("bert", BERT), ("distilbert", BERT), ("mpnet", BERT), ("roberta", ROBERTA)]
)
def test_the_vector_is_the_mask_of_the_filled_string(
    tiny_model: TinyModel, sentences: list[str], kind: str, text: str
) -> None:
    plain = Encoder.load(tiny_model(kind), pooling="mean", device="cpu")
    encoder = Encoder.load(tiny_model(kind), template=text, device="cpu")
    assert encoder.settings.pooling == "mask"
    before, after = text.replace("[MASK]", plain.tokenizer.mask_token).split("{sentence}")
    some = [sentence for sentence in sentences if sentence]
    wanted = np.stack([by_hand(plain, before, sentence, after) for sentence in some])
    np.testing.assert_allclose(encoder.encode(some), wanted, atol=1e-5)


@settings(max_examples=60)
@given(sentence=st.text(st.characters(exclude_categories=("Cs",)), max_size=40))
def test_tokens_are_those_of_the_filled_string_with_word_pieces(sentence: str) -> None:
    encoder = _wiki_mini()
    before, after = TEMPLATES["promptbert"].split("{sentence}")
    if "[" in sentence:  # which may spell a special token
        return
    plain = Encoder.load("wiki-mini", pooling="mean", device="cpu") if not PLAIN else PLAIN[0]
    PLAIN[:1] = [plain]
    wanted = tokenise(plain.tokenizer, [before + sentence + after], 512)
    assert tokenise(encoder.tokenizer, [sentence], 512) == wanted


PLAIN: list[Encoder] = []
TEMPLATED: list[Encoder] = []


def _wiki_mini() -> Encoder:
    if not TEMPLATED:
        TEMPLATED.append(Encoder.load("wiki-mini", template="promptbert", device="cpu"))
    return TEMPLATED[0]


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_a_long_sentence_is_cut_and_the_template_stays_whole(tiny_model: TinyModel, kind: str) -> None:
    encoder = Encoder.load(tiny_model(kind), template=ROBERTA, max_length=30, device="cpu")
    template = encoder.settings.template
    assert template is not None
    [row] = tokenise(encoder.tokenizer, ["a man is eating lunch " * 20], 30)
    assert len(row) == 30
    assert tuple(row[: len(template.before)]) == template.before
    assert tuple(row[-len(template.after) :]) == template.after
    assert row[template.mask_index(30)] == encoder.tokenizer.mask_token_id
    assert template.size == token_counts(encoder.tokenizer, [""])[0]
    encoder.encode(["a man is eating lunch " * 20, "rain"])
    assert encoder.cut_texts.cut == 1


@pytest.mark.parametrize(
    ("kind", "pooling"), [("bert", "mask"), ("bert", "mean"), ("roberta", "mask"), ("roberta", "last_token")]
)
def test_saved_and_loaded_the_same(
    tiny_model: TinyModel, sentences: list[str], tmp_path: Path, kind: str, pooling: str
) -> None:
    encoder = Encoder.load(tiny_model(kind), template=ROBERTA, pooling=pooling, device="cpu")
    encoder.save(tmp_path / "model")
    again = Encoder.load(tmp_path / "model", device="cpu")
    assert again.settings == encoder.settings
    assert encoder_fingerprint(again) == encoder_fingerprint(encoder)
    np.testing.assert_allclose(again.encode(sentences), encoder.encode(sentences), atol=1e-6)
    again.save(tmp_path / "again")
    np.testing.assert_allclose(Encoder.load(tmp_path / "again").encode(sentences), again.encode(sentences), atol=1e-6)


@pytest.mark.parametrize(("kind", "pooling"), [("bert", "mask"), ("roberta", "mask"), ("roberta", "last_token")])
def test_sentence_transformers_has_the_same_vectors(
    tiny_model: TinyModel, sentences: list[str], tmp_path: Path, kind: str, pooling: str
) -> None:
    from sentence_transformers import SentenceTransformer

    encoder = Encoder.load(tiny_model(kind), template=ROBERTA, pooling=pooling, max_length=30, device="cpu")
    encoder.save(tmp_path / "model")
    theirs = SentenceTransformer(str(tmp_path / "model"), device="cpu", trust_remote_code=True)
    some = [*sentences, "a man is eating lunch " * 20]
    np.testing.assert_allclose(theirs.encode(some), encoder.encode(some), atol=1e-5)
    # a pooling that it knows needs no code beside the model
    assert (tmp_path / "model" / "nearer_token_pooling.py").exists() == (pooling == "mask")


def test_another_template_replaces_the_first(tiny_model: TinyModel, sentences: list[str], tmp_path: Path) -> None:
    first = Encoder.load(tiny_model("roberta"), template=ROBERTA, device="cpu")
    first.save(tmp_path / "model")
    other = 'The lunch:"{sentence}" [MASK]'
    found = Encoder.load(tmp_path / "model", template=other, device="cpu")
    wanted = Encoder.load(tiny_model("roberta"), template=other, device="cpu")
    assert found.settings.template == wanted.settings.template
    np.testing.assert_allclose(found.encode(sentences), wanted.encode(sentences), atol=1e-6)
    assert first.settings.template is not None
    read = read_template(first.tokenizer, other, present=first.settings.template)
    assert read == wanted.settings.template
    assert tokenise(first.tokenizer, ["rain"], 60)[0][:1] == [first.tokenizer.cls_token_id]


def test_a_prompt_stands_within_the_template(tiny_model: TinyModel) -> None:
    from dataclasses import replace

    encoder = Encoder.load(tiny_model("bert"), template=BERT, device="cpu")
    encoder.settings = replace(encoder.settings, prompts={"query": "rain "}, default_prompt="query")
    plain = Encoder.load(tiny_model("bert"), template=BERT, device="cpu")
    np.testing.assert_allclose(encoder.encode("a man"), plain.encode("rain a man"), atol=1e-6)


def test_a_mask_in_the_text_is_not_the_templates(tiny_model: TinyModel) -> None:
    plain = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")
    encoder = Encoder.load(tiny_model("bert"), template='[MASK] is "{sentence}"', device="cpu")
    assert encoder.settings.pooled_token == 1
    row = tokenise(plain.tokenizer, ['[MASK] is "a [MASK]"'], 64)
    states = plain.states(torch.tensor(row), torch.ones(1, len(row[0]), dtype=torch.long))
    np.testing.assert_allclose(encoder.encode("a [MASK]"), states[0, 1].detach().numpy(), atol=1e-5)


def test_a_model_without_a_template_keeps_its_fingerprint_and_settings(tiny_model: TinyModel, tmp_path: Path) -> None:
    encoder = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")
    encoder.save(tmp_path / "model")
    assert "template" not in (tmp_path / "model" / "nearer.json").read_text()


class TestBadInput:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("A man.", "has {sentence} nowhere"),
            ("{sentence} and {sentence} [MASK]", "has {sentence} 2 times"),
            ("promptbart", "did you mean 'promptbert'"),
            ("{sentence} [MASK] [MASK]", "2 times; one token is pooled"),
        ],
    )
    def test_a_template_that_cannot_be_used(self, tiny_model: TinyModel, text: str, message: str) -> None:
        with pytest.raises(SettingError, match="(?i)" + message.replace("{", r"\{").replace("}", r"\}")):
            Encoder.load(tiny_model("bert"), template=text)

    def test_longer_than_the_limit(self, tiny_model: TinyModel) -> None:
        with pytest.raises(SettingError, match="nothing is left for the sentence"):
            Encoder.load(tiny_model("bert"), template=BERT, max_length=8)

    def test_a_tokenizer_without_a_mask_token(self, tiny_model: TinyModel) -> None:
        encoder = Encoder.load(tiny_model("bert"), pooling="mean")
        encoder.tokenizer.mask_token = None
        with pytest.raises(SettingError, match="no mask token; a template without it"):
            add_template(encoder.tokenizer, BERT)

    def test_mask_pooling_without_a_template(self, tiny_model: TinyModel) -> None:
        with pytest.raises(SettingError, match=r"mask reads the .MASK. of a template"):
            Encoder.load(tiny_model("bert"), pooling="mask")
        with pytest.raises(SettingError, match=r"mask reads the .MASK. of a template"):
            Encoder.load(tiny_model("bert"), pooling="mask", template="prompteol")

    def test_a_saved_tokenizer_that_lost_it(self, tiny_model: TinyModel, tmp_path: Path) -> None:
        import shutil

        Encoder.load(tiny_model("bert"), template=BERT).save(tmp_path / "model")
        shutil.copy(tiny_model("bert") / "tokenizer.json", tmp_path / "model" / "tokenizer.json")
        (tmp_path / "model" / "checksums.json").unlink(missing_ok=True)
        with pytest.raises(ModelError, match="does not have the template"):
            Encoder.load(tmp_path / "model")
