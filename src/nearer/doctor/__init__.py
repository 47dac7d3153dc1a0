"""Looking at an installation: what is there, what works, and how to mend what does not. Imports nothing heavy."""

from nearer.doctor.checks import examine
from nearer.doctor.findings import Finding, State, usable

__all__ = ["Finding", "State", "examine", "usable"]
