"""PromptEOL: any causal model as an encoder, by one option."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import zoo

from nearer.encoder import Encoder
from nearer.encoder.template import TEMPLATES
from nearer.text.tokenise import tokenise


@pytest.mark.parametrize("name", ["qwen2", "llama", "gpt2"])
def test_the_last_token_of_one_option(name: str, sentences: list[str], tmp_path: Path) -> None:
    """PromptEOL: the template's last token, and the same in sentence-transformers without any code."""
    from sentence_transformers import SentenceTransformer

    folder = zoo.make(name, "hub", tmp_path)
    plain = Encoder.load(folder, pooling="last_token", device="cpu")
    encoder = Encoder.load(folder, template="prompteol", device="cpu", max_length=60)
    template = encoder.settings.template
    assert encoder.settings.pooling == "last_token"
    assert template is not None
    [row] = tokenise(encoder.tokenizer, ["A man is eating"], 60)
    states = plain.states(torch.tensor([row]), torch.ones(1, len(row), dtype=torch.long))
    np.testing.assert_allclose(encoder.encode("A man is eating"), states[0, -1].detach().numpy(), atol=1e-5)
    encoder.save(tmp_path / "model")
    theirs = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    np.testing.assert_allclose(theirs.encode(sentences), encoder.encode(sentences), atol=1e-5)
    np.testing.assert_allclose(Encoder.load(tmp_path / "model").encode(sentences), encoder.encode(sentences))


@pytest.mark.parametrize("name", ["qwen2", "gpt2"])
def test_its_tokens_are_the_filled_strings(name: str, tmp_path: Path) -> None:
    folder = zoo.make(name, "hub", tmp_path)
    plain = Encoder.load(folder, pooling="last_token", device="cpu")
    encoder = Encoder.load(folder, template="prompteol", device="cpu")
    filled = TEMPLATES["prompteol"].replace("{sentence}", "A man is eating")
    assert tokenise(encoder.tokenizer, ["A man is eating"], 60) == tokenise(plain.tokenizer, [filled], 60)
