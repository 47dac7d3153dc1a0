"""Whether a sentence that passes an encoder twice comes out as two views: whether there is dropout that is used."""

from __future__ import annotations

import torch

from nearer.encoder.encoder import Encoder

SENTENCE = "A sentence passes the encoder twice, and only dropout tells its two views apart."
# Passes of the same sentence: of a model with few dropouts a single one may well lose nothing
COPIES = 8
# Of the vectors' size; rounding on a GPU is below, dropout far above
SAME = 1e-5


@torch.no_grad()
def views_differ(encoder: Encoder) -> bool:
    """Found out by trying, since some architectures have rates in their configuration that they do not use.

    The random numbers of the run are left as they were.
    """
    ids = encoder.tokenizer(SENTENCE, truncation=True, max_length=encoder.settings.max_length)["input_ids"]
    rows = torch.tensor([ids] * COPIES, device=encoder.device)
    mask = torch.ones_like(rows)
    was_training = encoder.training
    devices = [encoder.device] if encoder.device.type == "cuda" else []
    try:
        encoder.train()
        with torch.random.fork_rng(devices):
            first, second = encoder(rows, mask), encoder(rows, mask)
    finally:
        encoder.train(was_training)
    return bool((first - second).abs().max() > SAME * first.abs().max())
