"""How many tokens of each text an index reads: as many as nearly all its texts have, if the model can."""

from __future__ import annotations

from itertools import islice
from typing import Any

from nearer.encoder import Encoder
from nearer.encoder.backbone import longest_input
from nearer.search.documents import Passages, documents_of
from nearer.text.lengths import SAMPLE, length_for
from nearer.text.normalise import normalisation
from nearer.text.reading import Reading
from nearer.text.tokenise import tokenise


def longest_of(encoder: Encoder) -> int:
    """The most tokens that the model can take, whatever it is set to."""
    return max(longest_input(encoder.backbone, encoder.tokenizer), encoder.settings.max_length)


def special_tokens(encoder: Encoder) -> int:
    return len(tokenise(encoder.tokenizer, [""], 16)[0])


def chosen_length(encoder: Encoder, reading: Reading[Any], passages: Passages | None, prompt: str | None) -> int:
    """The 95th percentile of the lengths of the first texts, at least the model's own length and at most what it takes.

    Less than its own would save nothing, since short texts are not padded to it, and would cut queries.
    """
    own, longest = encoder.settings.max_length, longest_of(encoder)
    if passages is not None:
        return min(longest, max(own, passages.size + special_tokens(encoder)))
    if reading.source == "-" or own >= longest:  # standard input can be read once only
        return own
    normalise = normalisation(encoder.settings.text_normalisation)
    before = encoder.settings.prompt(prompt)
    texts = [before + normalise(document.text) for _, document in islice(documents_of(reading), SAMPLE)]
    return max(own, length_for(texts, encoder.tokenizer, longest=longest))
