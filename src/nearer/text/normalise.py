"""Text normalisations that an encoder may apply before its tokenizer. Each is recorded with every score."""

from __future__ import annotations

from collections.abc import Callable

from nearer.errors import SettingError

END_MARKS = ".!?。！？…"


def _full_stop(sentence: str) -> str:
    """Ends the sentence with a full stop, as some published methods do: worth points on untuned models."""
    stripped = sentence.rstrip()
    return stripped if stripped.endswith(tuple(END_MARKS)) else stripped + "."


NORMALISATIONS: dict[str, Callable[[str], str]] = {
    "none": lambda sentence: sentence,
    "lowercase": str.lower,
    "full_stop": _full_stop,
}


def normalisation(name: str) -> Callable[[str], str]:
    if name not in NORMALISATIONS:
        raise SettingError(f"text_normalisation: {name!r} is not one of {', '.join(NORMALISATIONS)}.")
    return NORMALISATIONS[name]
