"""The papers' methods, one file each, wiring the parts below them. They know nothing of the loop's mechanics."""

from nearer.methods.contract import Batch, Losses, Method
from nearer.methods.simcse import SimCSE, SimCSESettings

METHODS = {"simcse": (SimCSE, SimCSESettings)}

__all__ = ["METHODS", "Batch", "Losses", "Method", "SimCSE", "SimCSESettings"]
