"""The sentence encoder: loading, encoding, saving. Knows nothing of training."""

from nearer.encoder.encoder import Encoder, Ranked
from nearer.encoder.settings import EncoderSettings

__all__ = ["Encoder", "EncoderSettings", "Ranked"]
