"""Prompts as token ids, and their contexts: each computed once, kept for a while, the part that all share only once.

The prompt of a sentence is at the next step the prompt to move away from; and all prompts begin with the same
instruction. So what a step has to compute anew is one sentence for each list.

`ChatIds` writes prompts as the model has learnt to read them: as turns in its chat template, or plain if it has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from nearer.construct.engines.key_values import Ids, LayerShape, causal_mask
from nearer.construct.requests import TURN
from nearer.errors import ModelError, first_line

Context = tuple[int, ...]  # a prompt's tokens but the last, which is fed to the model as its first step
SHARED_FROM = 8  # tokens that must be common to all before sharing them is worth it
Forward = Callable[..., Any]


class _Kept(NamedTuple):
    shared: int  # tokens taken from the common beginning
    at: int
    length: int


class Prompts:
    """Keys and values of contexts as a ring of tokens, behind those of their common beginning.

    forward: the model without its vocabulary layer; room: tokens to keep; chunk: tokens in one pass of the model.
    """

    def __init__(
        self,
        forward: Forward,
        shapes: Sequence[LayerShape],
        dtype: torch.dtype,
        device: torch.device,
        *,
        room: int,
        chunk: int,
    ) -> None:
        self._forward, self._dtype, self._device, self._chunk = forward, dtype, device, chunk
        self._keys = [torch.zeros(0, s.heads, s.key_width, dtype=dtype, device=device) for s in shapes]
        self._values = [torch.zeros(0, s.heads, s.value_width, dtype=dtype, device=device) for s in shapes]
        self._room = room
        self._kept: dict[Context, _Kept] = {}
        self._shared: Context = ()
        self._begin = 0  # of the ring: the length that the common beginning had at first
        self._next = 0
        self._example: Context | None = None

    @property
    def layers(self) -> tuple[list[Tensor], list[Tensor]]:
        """Keys and values of all layers, each (tokens, heads, width)."""
        return self._keys, self._values

    def clear(self) -> None:
        """Forget all contexts and what they share. Their memory stays."""
        self._kept.clear()
        self._shared, self._example = (), None
        self._begin = self._next = 0

    def __contains__(self, context: Context) -> bool:
        return context in self._kept

    def tokens(self, context: Context) -> Ids:
        """Where a context's tokens stand in `layers`."""
        kept = self._kept[context]
        return np.concatenate([np.arange(kept.shared), np.arange(kept.at, kept.at + kept.length)])

    def compute(self, contexts: Sequence[Context]) -> None:
        """Keep these contexts and drop the oldest ones."""
        self._find_shared(contexts)
        self._reserve(sum(len(context) - len(self._shared) for context in contexts))
        for chunk in self._chunks(sorted(contexts, key=len)):
            self._compute_chunk(chunk)

    def _find_shared(self, contexts: Sequence[Context]) -> None:
        """The first time that there are two contexts, take what they share; later only ever less of it."""
        if self._shared:
            self._shared = self._shared[: min(common_beginning(self._shared, context) for context in contexts)]
            return
        examples = [*contexts, self._example or contexts[0]]
        self._example = examples[0]
        length = min(common_beginning(examples[0], other) for other in examples)
        if self._begin or len(set(examples)) == 1 or length < SHARED_FROM:
            return
        shared = examples[0][:length]
        cache = _pass(self._forward, [shared], [], [], self._dtype, self._device)
        self._kept.clear()
        self._begin = self._next = length
        if len(self._keys[0]) < length + self._room:
            self._resize(length + self._room)
        for layer, (keys, values) in enumerate(cache.new):
            self._keys[layer][:length], self._values[layer][:length] = (
                keys[0].transpose(0, 1),
                values[0].transpose(0, 1),
            )
        self._shared = shared

    def _reserve(self, tokens: int) -> None:
        """Room for that many tokens on end; what lies there is forgotten."""
        if self._begin + tokens > len(self._keys[0]):
            self._room = max(self._room, 2 * tokens)
            self._resize(self._begin + self._room)
        if self._next + tokens > len(self._keys[0]):
            self._next = self._begin
        end = self._next + tokens
        for context in [c for c, k in self._kept.items() if k.at < end and k.at + k.length > self._next]:
            del self._kept[context]

    def _resize(self, tokens: int) -> None:
        for tensors in (self._keys, self._values):
            for layer, old in enumerate(tensors):
                tensors[layer] = old.new_zeros(tokens, *old.shape[1:])
                kept = min(len(old), tokens)
                tensors[layer][:kept] = old[:kept]

    def _chunks(self, contexts: Sequence[Context]) -> Iterator[list[Context]]:
        """Of similar length, at most `chunk` tokens with padding, at least one context."""
        chunk: list[Context] = []
        for context in contexts:
            if chunk and (len(chunk) + 1) * (len(context) - len(self._shared)) > self._chunk:
                yield chunk
                chunk = []
            chunk.append(context)
        yield chunk

    def _compute_chunk(self, contexts: Sequence[Context]) -> None:
        shared = len(self._shared)
        own = [context[shared:] for context in contexts]
        lengths = [len(tokens) for tokens in own]
        if total := sum(lengths):
            beginning = [keys[:shared] for keys in self._keys], [values[:shared] for values in self._values]
            cache = _pass(self._forward, own, *beginning, self._dtype, self._device)
            real = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
            indices = real.flatten().nonzero()[:, 0].to(self._device)
            to = slice(self._next, self._next + total)
            for layer, (keys, values) in enumerate(cache.new):
                # (contexts, heads, tokens, width) → (contexts · tokens, heads, width)
                self._keys[layer][to] = keys.transpose(1, 2).flatten(0, 1)[indices]
                self._values[layer][to] = values.transpose(1, 2).flatten(0, 1)[indices]
        for context, length in zip(contexts, lengths, strict=True):
            self._kept[context] = _Kept(shared, self._next, length)
            self._next += length


class _NewTokens(DynamicCache):
    """Hands out the common beginning in front of the new tokens, whose keys and values it notes."""

    def __init__(self, keys: list[Tensor], values: list[Tensor]) -> None:
        super().__init__()
        self._beginning = keys, values
        self.before = len(keys[0]) if keys else 0
        self.new: list[tuple[Tensor, Tensor]] = []

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        self.new.append((key_states, value_states))
        if not self.before:
            return key_states, value_states
        keys, values = (
            torch.cat([part[layer_idx].transpose(0, 1)[None].expand(len(new), -1, -1, -1), new], dim=2)
            for part, new in zip(self._beginning, (key_states, value_states), strict=True)
        )
        return keys, values

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.before


def _pass(
    forward: Forward,
    contexts: Sequence[Context],
    keys: list[Tensor],
    values: list[Tensor],
    dtype: torch.dtype,
    device: torch.device,
) -> _NewTokens:
    """Contexts behind a common beginning through the model. Padding stands at the end, where nothing sees it."""
    cache = _NewTokens(keys, values)
    longest = max(len(context) for context in contexts)
    padded = torch.tensor([[*context, *[0] * (longest - len(context))] for context in contexts], device=device)
    positions = torch.arange(cache.before, cache.before + longest, device=device)[None].expand(len(contexts), -1)
    forward(
        input_ids=padded,
        position_ids=positions,
        attention_mask=causal_mask(longest, cache.before, dtype, device),
        past_key_values=cache,
        use_cache=True,
    )
    return cache


def common_beginning(one: Context, other: Context) -> int:
    length = min(len(one), len(other))
    return next((n for n in range(length) if one[n] != other[n]), length)


REMEMBERED = 4096  # prompts; one comes twice: as the one before, then as the one to move away from


class ChatIds:
    """Prompts to token ids by a transformers tokenizer and its template, many at once: its processors share them."""

    def __init__(self, tokenizer: Any, name: str) -> None:
        self._tokenizer, self._name = tokenizer, name
        self._closing = {token for token in (tokenizer.eos_token_id, tokenizer.sep_token_id) if token is not None}
        self._remembered: dict[str, tuple[int, ...]] = {}

    def __call__(self, prompts: Sequence[str]) -> list[tuple[int, ...]]:
        remembered = self._remembered
        found = {prompt: remembered.pop(prompt) for prompt in dict.fromkeys(prompts) if prompt in remembered}
        missing = [prompt for prompt in dict.fromkeys(prompts) if prompt not in found]
        found |= zip(missing, self._tokenise(missing) if missing else [], strict=True)
        remembered |= found  # behind the others, which are forgotten first
        while len(remembered) > REMEMBERED:
            del remembered[next(iter(remembered))]
        return [found[prompt] for prompt in prompts]

    def _tokenise(self, prompts: Sequence[str]) -> list[tuple[int, ...]]:
        tokenizer = self._tokenizer
        if not tokenizer.chat_template:
            plain = tokenizer([without_turns(prompt) for prompt in prompts], add_special_tokens=True)
            return [self._without_closing(ids) for ids in plain["input_ids"]]
        texts = [
            rendered(tokenizer.chat_template, prompt, self._name, tokenizer.special_tokens_map) for prompt in prompts
        ]
        # the template has written the special tokens
        return [tuple(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]

    def _without_closing(self, ids: list[int]) -> tuple[int, ...]:
        """Some tokenizers close every text."""
        end = len(ids)
        while end > 1 and ids[end - 1] in self._closing:
            end -= 1
        return tuple(ids[:end])


def without_turns(prompt: str) -> str:
    """For models that know no conversation: one text."""
    return prompt.replace(TURN, "\n")


def rendered(template: str, prompt: str, name: str, special_tokens: dict[str, Any]) -> str:
    """The text of a conversation in which the user has spoken and the model is about to."""
    roles = ("user", "assistant")
    turns = [{"role": roles[number % 2], "content": turn} for number, turn in enumerate(prompt.split(TURN))]
    from transformers.utils.chat_template_utils import render_jinja_template

    try:
        texts: Any = render_jinja_template(
            conversations=[turns],
            chat_template=template,
            add_generation_prompt=True,
            enable_thinking=False,  # models that can think aloud are asked for the sentence at once; others ignore it
            **special_tokens,
        )[0]
    except Exception as error:  # a template is a program of the model's maker
        raise ModelError(f"{name}: its chat template does not work ({first_line(error)}).") from error
    return str(texts[0])
