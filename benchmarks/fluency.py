"""How fluent the sentences of ranking lists are, by position: perplexity by a language model that wrote none of them.

    python -m benchmarks.fluency lists-0.5 lists-1.5 --llm smollm2-135m-instruct.gguf --limit 500 --json fluency.json

The perplexity of a position is exp of the mean over all tokens of its sentences, each sentence read by itself.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from nearer.construct.engines.language_model import LanguageModel, load_language_model
from nearer.construct.list_files import read_lists
from nearer.construct.model_files import find_language_model
from nearer.distributed import local_device

LONGEST = 128  # tokens of a sentence


@torch.inference_mode()
def sentence_losses(language: LanguageModel, sentences: Sequence[str], batch: int) -> list[tuple[float, int]]:
    """Of each sentence: the sum of its tokens' negative log-likelihoods, and how many there are."""
    start = language.tokenizer.bos_token_id
    start = min(language.ends) if start is None else start  # what stands between texts, where nothing begins them
    rows = [language.tokenizer(text, add_special_tokens=False)["input_ids"][:LONGEST] for text in sentences]
    order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
    found: list[tuple[float, int]] = [(0.0, 0)] * len(rows)
    for first in range(0, len(order), batch):
        chosen = order[first : first + batch]
        longest = max(1, max(len(rows[number]) for number in chosen))
        ids = torch.tensor([[start, *rows[number], *[start] * (longest - len(rows[number]))] for number in chosen])
        # padding stands at the end, where no token of the sentence sees it
        logits = language.model(input_ids=ids.to(language.device)).logits[:, :-1].float()  # (rows, tokens, vocabulary)
        losses = cross_entropy(logits.transpose(1, 2), ids[:, 1:].to(language.device), reduction="none").cpu()
        for row, number in enumerate(chosen):
            found[number] = float(losses[row, : len(rows[number])].sum()), len(rows[number])
    return found


def perplexities(language: LanguageModel, lists: Sequence[Sequence[str]], batch: int) -> list[float]:
    """By position, the first sentence (which people wrote) first."""
    by_position: list[float] = []
    for position in range(max(len(one) for one in lists)):
        losses = sentence_losses(language, [one[position] for one in lists if len(one) > position], batch)
        tokens = sum(count for _, count in losses)
        by_position.append(math.exp(sum(loss for loss, _ in losses) / max(tokens, 1)))
    return by_position


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lists", nargs="+", help="folders of `nearer construct lists`, or files of lists")
    parser.add_argument("--llm", required=True)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    language = load_language_model(find_language_model(asked.llm), local_device(), None)
    found: dict[str, Any] = {}
    for name in asked.lists:
        found[name] = perplexities(language, read_lists(name).lists[: asked.limit], asked.batch)
        print(f"{name}: " + " ".join(f"{value:.1f}" for value in found[name]))
    if asked.json is not None:
        asked.json.write_text(json.dumps({"llm": asked.llm, "perplexities": found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
