"""What is asked of a causal language model: one sentence at a time, steered by one or two predecessors.

Builders put requests into a queue; an engine takes them whenever one of its slots is free, and yields each sentence as
it ends. So a list's next request can be put behind the others while the engine goes on with the rest.

Templates are the instructions around a sentence: text files, which a user's own file can replace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, get_args

from nearer.errors import InputError, SettingError

TURN = "\x1e"  # between the turns of a prompt: a sign that no text has


@dataclass(frozen=True)
class Request:
    """One sentence to generate.

    prompt: the text in front of it, as a user's turn (the engine puts the model's chat template around it), or several
    turns with `TURN` between them: the user's, the model's, and so on, the last one the user's;
    away_from: the prompt of the sentence before the last, None for the first one. Tokens are chosen by
    (1 + guidance) log p(· | prompt) − guidance log p(· | away_from)  (Eq. 4). number, step: whose it is, for the
    builder, and what its random numbers follow from. one_line: the answer ends at the first line break behind some
    text; otherwise only where the model ends it. max_new_tokens: other than the engine's. greedy: the likeliest tokens
    also where the engine draws, as for a score.
    """

    number: int
    step: int
    prompt: str
    away_from: str | None = None
    guidance: float = 0.0
    one_line: bool = True
    max_new_tokens: int | None = None
    greedy: bool = False


@dataclass(frozen=True)
class Generated:
    """What came of a request. ended: by the model itself, at the limit of new tokens, or not begun for want of room."""

    request: Request
    text: str
    tokens: int
    ended: Literal["model", "limit", "no room"]


class Engine(Protocol):
    """A language model that answers requests, many at once."""

    def identity(self) -> dict[str, str]:
        """What a result depends on: the model's digest, its precision, the way of choosing tokens."""
        ...

    def answer(self, requests: deque[Request]) -> Iterator[Generated]:
        """Until the queue is empty and all slots are free. The caller may append while it iterates.

        Each answer depends on its request alone (and on the seed), not on what is generated beside it, as far as
        rounding goes: other shapes of batches sum in another order, and a near-tie may fall the other way. A list's
        next request had best be put in front (`appendleft`): its `away_from` is then still in the engine's memory.
        """
        ...


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
    file = FOLDER / f"{method.replace('-', '_')}.txt" if path is None else Path(path)
    try:
        text = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(f"{file}: the template cannot be read ({error.strerror or error}).") from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: the template is not UTF-8 text.") from None
    if text.count(SENTENCE) != 1:
        found = f"no {SENTENCE}" if SENTENCE not in text else f"{SENTENCE} {text.count(SENTENCE)} times"
        raise InputError(f"{file}: has {found}, once is needed: it stands where the sentence goes into the prompt.")
    return Template(text, steps)
