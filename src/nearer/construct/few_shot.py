"""Few-shot prompts as files: an instruction, and examples from which some are drawn.

A file's first part is what the user says, with a name in braces for each text that goes into it. Lines `---` divide it
from the examples: the texts of each in the order of these names, then the answer.

    Say the same in other words. Answer with the new sentence alone.

    Sentence: {sentence}
    ---
    Two children are running along the beach.
    ---
    A pair of kids run by the sea.

Examples become turns of a conversation, since small models say them again if they stand in one text with the
instruction. The instruction stands in the first turn alone; the others repeat its last paragraph.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nearer.construct.requests import FOLDER, TURN
from nearer.errors import InputError

_DIVISION = re.compile(r"^---[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class FewShot:
    """name: of the file; text: all of it; fields: the names in braces; examples: their texts, the answer last."""

    name: str
    text: str
    ask: str
    fields: tuple[str, ...]
    examples: tuple[tuple[str, ...], ...]

    def prompt(self, values: Sequence[str], shown: Sequence[int] = ()) -> str:
        """Turns with the examples of these indices, then the question about `values`."""
        turns = []
        for number, texts in enumerate([*(self.examples[index] for index in shown), tuple(values)]):
            turns.append(self._question(texts[: len(self.fields)], again=number > 0))
            turns += texts[len(self.fields) :]
        return TURN.join(turns)

    def draw(self, random: np.random.Generator, shots: int) -> list[int]:
        return [int(index) for index in random.permutation(len(self.examples))[:shots]]

    @property
    def answers(self) -> tuple[str, ...]:
        return tuple(example[-1] for example in self.examples)

    def _question(self, values: Sequence[str], *, again: bool) -> str:
        last = self.ask.rpartition("\n\n")[2]
        text = last if again and all(f"{{{field}}}" in last for field in self.fields) else self.ask
        texts = dict(zip(self.fields, (value.replace(TURN, " ") for value in values), strict=True))
        # in one pass: what a text has of braces is not looked at
        return re.sub(r"\{(\w+)\}", lambda found: texts.get(found[1], found[0]), text)


def read_few_shot(path: str | Path, fields: Sequence[str]) -> FewShot:
    """A file of such a prompt; each field must stand once in its first part."""
    file = Path(path)
    ask, *others = [part.strip() for part in _DIVISION.split(read_template(file))]
    for field in fields:
        count = ask.count(f"{{{field}}}")
        if count != 1:
            found = f"no {{{field}}}" if not count else f"{{{field}}} {count} times"
            raise InputError(f"{file}: has {found} before its examples, once is needed.")
    size = len(fields) + 1
    if len(others) % size or not all(others):
        raise InputError(
            f"{file}: behind the first line of --- there must be examples of {size} parts ({', '.join(fields)}, "
            f"answer), none empty, with --- between them ({len(others)} parts found)."
        )
    examples = tuple(tuple(others[start : start + size]) for start in range(0, len(others), size))
    return FewShot(file.stem, "\n---\n".join([ask, *others]), ask, tuple(fields), examples)


def read_template(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(f"{file}: the template cannot be read ({error.strerror or error}).") from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: the template is not UTF-8 text.") from None


def read_pool(kind: str, fields: Sequence[str], own: Iterable[str | Path] = ()) -> tuple[FewShot, ...]:
    """The prompts of one kind that come with the package, or a user's own."""
    files = list(own) or sorted(FOLDER.glob(f"{kind}*.txt"))
    return tuple(read_few_shot(file, fields) for file in files)


def read_lines(file: str | Path) -> tuple[str, ...]:
    """What a file has, a line each: topics, genres."""
    lines = tuple(dict.fromkeys(line.strip() for line in read_template(Path(file)).splitlines() if line.strip()))
    if not lines:
        raise InputError(f"{file}: is empty; it needs a line for each topic or genre.")
    return lines
