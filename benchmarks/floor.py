"""The least time that a training step's arithmetic takes: its matrix products, at the measured rate, no padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# backward, each product is taken twice more: once for the gradient of its input, once for that of its weights
FORWARD_AND_BACKWARD = 3
VIEWS = 2
# architectures whose layers are four square products, two with the intermediate layer, and attention
PLAIN_LAYERS = ("bert", "roberta", "xlm-roberta", "mpnet", "electra", "camembert")


@dataclass(frozen=True)
class LayerSizes:
    layers: int
    width: int
    intermediate: int

    @classmethod
    def of(cls, config: Any) -> LayerSizes | None:
        """From a model's configuration; None where its layers are of another kind."""
        if config.model_type not in PLAIN_LAYERS:
            return None
        return cls(config.num_hidden_layers, config.hidden_size, config.intermediate_size)

    def forward_operations(self, lengths: NDArray[np.int64]) -> int:
        """Of sentences with so many tokens; a multiplication and an addition count as two."""
        tokens, pairs_of_tokens = int(lengths.sum()), int(np.square(lengths).sum())
        linear = 2 * tokens * (4 * self.width**2 + 2 * self.width * self.intermediate)
        attention = 2 * 2 * pairs_of_tokens * self.width  # scores, and the mean of the values
        return self.layers * (linear + attention)


def floor_seconds(sizes: LayerSizes, lengths: NDArray[np.int64], batch: int, rate: float) -> float:
    """Of one step over `batch` sentences, two views each, whose lengths are those of `lengths` in the mean."""
    a_sentence = sizes.forward_operations(lengths) / len(lengths)
    return FORWARD_AND_BACKWARD * VIEWS * batch * a_sentence / rate
