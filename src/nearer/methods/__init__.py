"""The papers' methods, one file each, wiring the parts below them. They know nothing of the loop's mechanics."""

from nearer.methods.contract import Batch, Inputs, Losses, Method, View
from nearer.methods.simcse import SimCSE, SimCSESettings

METHODS = {"simcse": (SimCSE, SimCSESettings)}

__all__ = ["METHODS", "Batch", "Inputs", "Losses", "Method", "SimCSE", "SimCSESettings", "View"]
