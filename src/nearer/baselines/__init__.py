"""What the papers compare with, as ready models: averaged word vectors, whitening, a flow, and poolings of a raw model.

First-last average is a pooling: `Encoder.load("bert-base-uncased", pooling="first_last_mean")` averages the first block
and the last, `embedding_last_mean` the embedding layer and the last; SimCSE's tables have used either.
"""

from nearer.baselines.flow import Flow, fit_flow
from nearer.baselines.load import load_scorer
from nearer.baselines.static_words import StaticWords
from nearer.baselines.whitening import Whitening, whiten

__all__ = ["Flow", "StaticWords", "Whitening", "fit_flow", "load_scorer", "whiten"]
