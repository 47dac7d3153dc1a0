"""What a language model is told: text files with a place for the sentence, which a user's own file can replace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from nearer.errors import InputError, SettingError

Method = Literal["directional", "step-by-step", "single-step"]
METHODS: tuple[Method, ...] = get_args(Method)
FOLDER = Path(__file__).parent / "templates"
SENTENCE, STEPS = "{sentence}", "{steps}"


@dataclass(frozen=True)
class Template:
    """Text with `{sentence}`, and `{steps}` where the number of sentences should stand. Other braces are plain text."""

    text: str
    steps: int

    def prompt(self, sentence: str) -> str:
        before, after = self.text.replace(STEPS, str(self.steps)).split(SENTENCE)
        return before + sentence + after  # what a sentence has of braces is not looked at


def load_template(method: str, steps: int, path: str | Path | None = None) -> Template:
    """The method's own instruction (Appendix A), or a user's."""
    if method not in METHODS:
        raise SettingError(f"method: {method!r} is not one of {', '.join(METHODS)}.")
    place = FOLDER / f"{method.replace('-', '_')}.txt" if path is None else Path(path)
    try:
        text = place.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(f"{place}: the template cannot be read ({error.strerror or error}).") from None
    except UnicodeDecodeError:
        raise InputError(f"{place}: the template is not UTF-8 text.") from None
    if text.count(SENTENCE) != 1:
        found = "no" if SENTENCE not in text else f"{text.count(SENTENCE)} times the"
        raise InputError(
            f"{place}: has {found} place {SENTENCE}, one is needed: it stands where the sentence goes into the prompt."
        )
    return Template(text, steps)
