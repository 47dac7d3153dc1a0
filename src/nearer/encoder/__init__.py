"""The sentence encoder: loading, encoding, saving. Knows nothing of training."""

from nearer.encoder.comparing import Ranked
from nearer.encoder.encoder import Encoder
from nearer.encoder.parts import EncoderSettings

__all__ = ["Encoder", "EncoderSettings", "Ranked"]
