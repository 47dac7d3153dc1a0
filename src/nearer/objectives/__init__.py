"""The losses as plain functions of tensors, one file each. They know nothing of models or files."""

from nearer.objectives.info_nce import info_nce
from nearer.objectives.masked_language import masked_language

__all__ = ["info_nce", "masked_language"]
