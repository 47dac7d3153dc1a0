"""What a generator of positive candidates is (DebCSE, §4.2), and which ones there are, by their specification.

A specification is one line of text, as the command line and recipes have it:

    noise
    back-translation:THERE,BACK       two translation models, each by name or folder
    paraphrase:MODEL                  a causal LM or a seq2seq paraphraser, by name or folder

Settings stand behind a question mark: `paraphrase:MODEL?template=FILE&plain_first=yes&beams=4`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch

from nearer.construct.positives.noise import NoiseGenerator, WordFrequencies
from nearer.errors import SettingError


class PositiveGenerator(Protocol):
    """Makes candidates from which positives are sampled.

    name: as in its specification, for headers and logs; rejected: how many of its outputs were not used, by reason,
    since it was made.
    """

    name: str
    rejected: Counter[str]

    def identity(self) -> dict[str, str]:
        """Everything its candidates depend on: digests of models and of the frequent words, settings."""
        ...

    def candidates(self, sentences: Sequence[str], count: int, seeds: Sequence[int]) -> list[list[str]]:
        """For each sentence up to `count` different candidates in a stable order, none equal to the sentence.

        seeds: one for each sentence, 0 or more. What a sentence gets depends on it and its seed alone, not on the
        others in the call. A sentence without words gets none.
        """
        ...


FORMS = {
    "noise": "noise",
    "back-translation": "back-translation:THERE,BACK",
    "paraphrase": "paraphrase:MODEL",
}
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "noise": (),
    "back-translation": ("plain_first", "beams"),
    "paraphrase": ("plain_first", "beams", "template"),
}
SPECIFICATION = re.compile(r"(?P<kind>[^:?]*)(?::(?P<models>[^?]*))?(?:\?(?P<settings>.*))?", re.DOTALL)


def generator_by_name(
    spec: str, *, words: Callable[[], WordFrequencies], device: torch.device | None = None
) -> PositiveGenerator:
    """The generator that `spec` names. words: counts those of the corpus, and is called once `spec` is understood."""
    parts = SPECIFICATION.fullmatch(spec)
    kind = parts["kind"] if parts else ""
    if parts is None or kind not in FORMS:
        raise SettingError(f"positives: {spec!r} is none of {', '.join(FORMS.values())}.")
    models = [name.strip() for name in parts["models"].split(",")] if parts["models"] is not None else []
    if len(models) != len(re.findall("[A-Z]+", FORMS[kind])) or not all(models):
        raise SettingError(f"positives: {spec!r} does not have the form {FORMS[kind]}.")
    settings = _settings(spec, kind, parts["settings"] or "")
    if kind == "noise":
        return NoiseGenerator(words())
    # imported here: noise alone needs none of the models' libraries
    from nearer.construct.positives.rewriting import BackTranslation, Paraphraser, read_template

    plain_first, beams = _plain_first(settings), _beams(settings)
    if kind == "back-translation":
        return BackTranslation(models[0], models[1], words(), device=device, plain_first=plain_first, beams=beams)
    template = read_template(settings["template"]) if "template" in settings else None
    return Paraphraser(models[0], words(), template=template, device=device, plain_first=plain_first, beams=beams)


def _settings(spec: str, kind: str, text: str) -> dict[str, str]:
    settings: dict[str, str] = {}
    for part in filter(None, text.split("&")):
        name, _, value = part.partition("=")
        if name not in SETTINGS[kind]:
            known = ", ".join(SETTINGS[kind]) or "none"
            raise SettingError(f"positives: {spec!r} has the setting {name!r}; {kind} has {known}.")
        settings[name] = value
    return settings


def _plain_first(settings: Mapping[str, str]) -> bool:
    value = settings.get("plain_first", "no")
    if value not in ("yes", "no"):
        raise SettingError(f"positives: plain_first is yes or no, not {value!r}.")
    return value == "yes"


def _beams(settings: Mapping[str, str]) -> int:
    value = settings.get("beams", "1")
    if not value.isdecimal() or int(value) < 1:
        raise SettingError(f"positives: beams is a number from 1, not {value!r}.")
    return int(value)
