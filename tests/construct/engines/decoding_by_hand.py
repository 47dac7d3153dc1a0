"""A tiny random Llama with a tokenizer of its own, and the obvious way of decoding: everything anew for each token."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import torch

from nearer.construct.engines.transformers_engine import TransformersEngine
from nearer.construct.requests import Generated, Request

WORDS = [
    *("a", "the", "man", "woman", "dog", "cat", "eats", "drinks", "sees", "lunch", "water"),
    *("red", "old", "small", "house", "runs", "sleeps", "rain", "garden", "and", ".", ","),
]
SPECIAL = ["<unk>", "<s>", "</s>", "<end>"]
TEMPLATE = "{{ bos_token }}write the old house and the red garden again : {{ messages[0]['content'] }} now"


def make_tiny(
    folder: Path, *, window: int = 160, seed: int = 5, template: str | None = TEMPLATE, **changes: Any
) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    pieces = [*SPECIAL, *WORDS, *[f"w{n}" for n in range(60)], "\n", ".\n", "\nthe"]
    tokenizer = Tokenizer(models.WordLevel({piece: n for n, piece in enumerate(pieces)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    fast.add_special_tokens({"additional_special_tokens": ["<end>"]})
    fast.chat_template = template
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(pieces),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
        max_position_embeddings=window,
        initializer_range=0.4,  # far apart scores: a random model should not be a tie everywhere
        bos_token_id=1,
        eos_token_id=2,
        **changes,
    )
    model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(bos_token_id=1, eos_token_id=[2, 3])
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def prompts(count: int, seed: int = 0) -> list[str]:
    """Of one to forty words."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 41, (count,), generator=generator).tolist()
    return [" ".join(WORDS[n] for n in torch.randint(0, 18, (length,), generator=generator)) for length in lengths]


def mixed_requests(count: int, guidance: float, **more: Any) -> list[Request]:
    """Guided ones, and every third without anything to move away from."""
    texts = prompts(2 * count)
    return [
        Request(n, 1, texts[2 * n], None if n % 3 == 2 else texts[2 * n + 1], 0.0 if n % 3 == 2 else guidance, **more)
        for n in range(count)
    ]


def answers(engine: TransformersEngine, requests: list[Request]) -> dict[int, Generated]:
    return {given.request.number: given for given in engine.answer(deque(requests))}


class ByHand:
    """Two passes for each token over the whole contexts, one by one, without caches; log-softmaxes as printed.

    margin: how near the second best token has ever come to the chosen one.
    """

    def __init__(self, folder: Path, window: int, dtype: torch.dtype = torch.float32, **source: str) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **source)
        self.tokenizer = AutoTokenizer.from_pretrained(folder, **source)
        named = self.model.generation_config.eos_token_id
        self.ends = set(named if isinstance(named, list) else [named])
        self.window = window
        self.margin = float("inf")
        self.known: dict[tuple[object, ...], tuple[str, int, str]] = {}  # tests ask for the same again

    def ids(self, prompt: str) -> list[int]:
        if not self.tokenizer.chat_template:
            return list(self.tokenizer(prompt)["input_ids"])
        turn = [{"role": "user", "content": prompt}]
        text = self.tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def __call__(self, request: Request, limit: int) -> tuple[str, int, str]:
        key = (request.prompt, request.away_from, request.guidance, limit)
        if key not in self.known:
            self.known[key] = self._answer(request, limit)
        return self.known[key]

    @torch.no_grad()
    def _answer(self, request: Request, limit: int) -> tuple[str, int, str]:
        contexts = [self.ids(request.prompt)]
        contexts.append(contexts[0] if request.away_from is None else self.ids(request.away_from))
        limit = min(limit, self.window - max(map(len, contexts)))
        new: list[int] = []
        while True:
            near, far = (
                self.model(torch.tensor([context + new])).logits[0, -1].double().log_softmax(-1) for context in contexts
            )
            best = ((1 + request.guidance) * near - request.guidance * far).topk(2)
            self.margin = min(self.margin, float(best.values[0] - best.values[1]))
            new.append(int(best.indices[0]))
            if new[-1] in self.ends:
                return self._first_line(new[:-1]), len(new), "model"
            if "\n" in self.tokenizer.decode(new).lstrip():
                return self._first_line(new), len(new), "model"
            if len(new) == limit:
                return self._first_line(new), len(new), "limit"

    def _first_line(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=True)).strip().split("\n")[0].rstrip()


def told(given: Generated) -> tuple[str, int, str]:
    return given.text, given.tokens, given.ended
