"""A prompt as the model has learnt to read it: as a user's turn in its chat template, or plain where it has none."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from nearer.errors import ModelError, first_line

REMEMBERED = 4096  # a prompt comes twice: as the one before, then as the one to move away from
ToIds = Callable[[str], tuple[int, ...]]


def chat_ids(tokenizer: Any, name: str) -> ToIds:
    """Prompts to token ids by a transformers tokenizer and its template."""
    if not tokenizer.chat_template:
        closing = {token for token in (tokenizer.eos_token_id, tokenizer.sep_token_id) if token is not None}

        def plain(prompt: str) -> tuple[int, ...]:
            ids = tokenizer(prompt, add_special_tokens=True)["input_ids"]
            while len(ids) > 1 and ids[-1] in closing:  # some tokenizers close every text
                ids = ids[:-1]
            return tuple(ids)

        return lru_cache(REMEMBERED)(plain)

    def templated(prompt: str) -> tuple[int, ...]:
        text = rendered(tokenizer.chat_template, prompt, name, tokenizer.special_tokens_map)
        return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])  # the template has written them

    return lru_cache(REMEMBERED)(templated)


def rendered(template: str, prompt: str, name: str, special_tokens: dict[str, Any]) -> str:
    """The text of a conversation in which the user has spoken and the model is about to."""
    from transformers.utils.chat_template_utils import render_jinja_template

    try:
        texts: Any = render_jinja_template(
            conversations=[[{"role": "user", "content": prompt}]],
            chat_template=template,
            add_generation_prompt=True,
            enable_thinking=False,  # models that can think aloud are asked for the sentence at once; others ignore it
            **special_tokens,
        )[0]
    except Exception as error:  # a template is a program of the model's maker
        raise ModelError(f"{name}: its chat template does not work ({first_line(error)}).") from error
    return str(texts[0])
