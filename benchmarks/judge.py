"""How fast a cross-encoder scores pairs, beside what its matrix products alone would take on this GPU.

    python -m benchmarks.judge CROSS_ENCODER DOCUMENTS [PAIRS]

DOCUMENTS: what `nearer adapt` reads. A pair is the first words of one passage and another passage. The products are
timed with the matrices that this model has, since those of a narrow model are far from the rate of large square ones,
and attention with the lengths that its batches have.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from benchmarks.floor import LayerSizes
from benchmarks.machine import gpu_matrix_rate, gpu_seconds
from nearer.adaptation.documents import read_documents
from nearer.adaptation.passages import split_passages
from nearer.teachers.cross_encoder import TOKENS_ON_GPU, CrossEncoder

PAIRS, WORDS, OF_A_QUERY, ROUNDS = 100_000, 12, 50, 3


def draw_pairs(passages: int, count: int) -> NDArray[np.int64]:
    """Each query with OF_A_QUERY passages."""
    draw = np.random.default_rng(0)
    queries = np.repeat(np.arange(-(-count // OF_A_QUERY)), OF_A_QUERY)[:count]
    return np.stack([queries, draw.integers(passages, size=count)], axis=1)


def product_seconds(sizes: LayerSizes, heads: int, lengths: NDArray[np.int64]) -> float:
    """Of all matrix products and attentions of one pass over rows of these lengths, by the GPU's own clock."""
    device = torch.device("cuda")

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, device=device).bfloat16()

    narrow, wide = matrix(TOKENS_ON_GPU, sizes.width), matrix(TOKENS_ON_GPU, sizes.intermediate)
    square, up, down = (
        matrix(*shape)
        for shape in (
            (sizes.width, sizes.width),
            (sizes.width, sizes.intermediate),
            (sizes.intermediate, sizes.width),
        )
    )
    linear = 4 * gpu_seconds(lambda: narrow @ square) + gpu_seconds(lambda: narrow @ up)
    linear += gpu_seconds(lambda: wide @ down)
    length = int(np.sqrt(np.square(lengths).mean()))
    rows = TOKENS_ON_GPU // length
    states = torch.randn(rows, heads, length, sizes.width // heads, device=device).bfloat16()
    attention = gpu_seconds(lambda: functional.scaled_dot_product_attention(states, states, states))
    return sizes.layers * (linear * int(lengths.sum()) / TOKENS_ON_GPU + attention * len(lengths) / rows)


def main() -> None:
    if not 3 <= len(sys.argv) <= 4 or not torch.cuda.is_available():
        sys.exit("usage, on a machine with a GPU: python -m benchmarks.judge CROSS_ENCODER DOCUMENTS [PAIRS]")
    judge = CrossEncoder.load(sys.argv[1])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else PAIRS
    documents = read_documents(sys.argv[2], near_duplicates=False).documents
    texts = [passage.titled for document in documents for passage in split_passages(document)]
    queries = [" ".join(text.split()[:WORDS]) for text in texts[: -(-count // OF_A_QUERY)]]
    pairs = draw_pairs(len(texts), count)[: len(queries) * OF_A_QUERY]
    started = time.perf_counter()
    passages = judge.tokenise(texts)
    print(f"{len(texts):,} passages tokenised in {time.perf_counter() - started:.1f} s")
    judge.score(queries, passages, pairs)
    taken = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        scored = judge.score_and_count(queries, passages, pairs)
        taken.append(time.perf_counter() - started)
    seconds, tokens = sorted(taken)[len(taken) // 2], int(scored.tokens.sum())
    print(f"{len(pairs) / seconds:,.0f} pairs a second, {tokens / len(pairs):.0f} tokens each, {seconds:.2f} s")
    config: Any = judge.model.config
    sizes = LayerSizes.of(config)
    if sizes is None:
        sys.exit(f"{sys.argv[1]}: its layers are of another kind than BERT's; no limit is known.")
    rate, done = gpu_matrix_rate(judge.device), sizes.forward_operations(scored.tokens)
    own = product_seconds(sizes, config.num_attention_heads, scored.tokens)
    print(f"{done / seconds / 1e12:.0f} TFLOP/s, large square products reach {rate / 1e12:.0f}")
    print(f"its own products and attention alone take {own:.2f} s: scoring reaches {own / seconds:.0%} of their rate")


if __name__ == "__main__":
    main()
