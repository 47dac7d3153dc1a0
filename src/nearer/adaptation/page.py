"""The page of a run of adapt."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nearer.adaptation.outcome import Outcome


def render_page(outcome: Outcome) -> str:
    return f"<!doctype html><title>{outcome.base}</title>"
