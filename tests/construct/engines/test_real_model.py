"""A real language model, from a GGUF file, against both contexts computed anew for each token."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from decoding_by_hand import ByHand, told

from nearer.construct.engines import load_engine
from nearer.construct.requests import Request

pytestmark = pytest.mark.slow
LIMIT = 12
SENTENCES = [
    "A man is eating lunch.",
    "The rain has not stopped since Monday morning.",
    "Two dogs run over the old bridge behind the mill.",
    "Prices of flights have gone up.",
]


def prompt(sentence: str) -> str:
    return f"Write the following sentence with other words and answer with it alone: {sentence}"


def test_smollm_token_for_token(gguf: Callable[[str], Path]) -> None:
    """In float64, where the rounding of other shapes is far below the margin between the two best tokens."""
    file = gguf("smollm2-135m-instruct")
    engine = load_engine(file, batch=3, max_new_tokens=LIMIT, device="cpu", precision="float64")
    by_hand = ByHand(file.parent, 8192, torch.float64, gguf_file=file.name)
    queue = deque(Request(n, 1, prompt(sentence)) for n, sentence in enumerate(SENTENCES))
    given = []
    for one in engine.answer(queue):
        given.append(one)
        request = one.request
        if request.step < 2:
            queue.appendleft(Request(request.number, request.step + 1, prompt(one.text), request.prompt, 1.5))
    assert len(given) == 2 * len(SENTENCES)
    assert all(one.text for one in given)
    for one in given:
        assert told(one) == by_hand(one.request, LIMIT)
    assert by_hand.margin > 1e-6

    ids = torch.tensor([by_hand.ids(prompt(SENTENCES[0]))])
    first = by_hand.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=LIMIT, do_sample=False)
    text = by_hand.tokenizer.decode(first[0, ids.shape[1] :], skip_special_tokens=True)
    assert next(one.text for one in given if one.request == Request(0, 1, prompt(SENTENCES[0]))) == text.strip()
