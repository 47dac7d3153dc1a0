"""Answers of a language model as they come, on disk: what was asked and paid for is not asked again.

A record of a construction may need several answers, so an interruption would lose those of unfinished records. They
stand in `answers.jsonl`, a sealed line each, until the construction is finished.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from nearer.construct.requests import Engine, Generated, Request
from nearer.errors import InputError
from nearer.storage.sealed import sealed_line, unsealed_line

ANSWERS = "answers.jsonl"


class AnswerLog:
    """Asks an engine what is not known yet. A request is known by its number and step; the folder's header says that
    everything else is as it was. needed: whether a number's answers are still of use."""

    def __init__(self, folder: Path, engine: Engine, *, needed: Callable[[int, int], bool]) -> None:
        self.path, self.engine = folder / ANSWERS, engine
        self._known: dict[tuple[int, int], tuple[str, int, Any]] = {}
        self._read(needed)

    def ask(self, requests: Iterable[Request], heard: Callable[[Generated], None]) -> dict[int, Generated]:
        """Answers by number. heard: told of those that were asked for now."""
        found: dict[int, Generated] = {}
        missing: deque[Request] = deque()
        for request in requests:
            if (known := self._known.pop((request.number, request.step), None)) is None:
                missing.append(request)
            else:
                found[request.number] = Generated(request, *known)
        if not missing:
            return found
        answers: Any = self.engine.answer(missing)
        try:
            with closing(answers), open(self.path, "a", encoding="utf-8") as log:
                for answer in answers:
                    found[answer.request.number] = answer
                    log.write(_as_line(answer))
                    log.flush()
                    heard(answer)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written ({error.strerror or error}).") from None
        return found

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)

    def _read(self, needed: Callable[[int, int], bool]) -> None:
        if not self.path.exists():
            return
        whole: list[bytes] = []
        for raw in self.path.read_bytes().splitlines(keepends=True):
            try:
                line = unsealed_line(raw)
                known = (line["text"], line["tokens"], line["ended"])
                number, step = line["number"], line["step"]
            except (ValueError, KeyError, TypeError):
                continue  # half a line, or a damaged one: it is asked again
            whole.append(raw)
            if needed(number, step):
                self._known[number, step] = known
        if sum(map(len, whole)) < self.path.stat().st_size:
            self.path.write_bytes(b"".join(whole))


def _as_line(answer: Generated) -> str:
    request = answer.request
    line = {"number": request.number, "step": request.step, "text": answer.text, "tokens": answer.tokens}
    return sealed_line({**line, "ended": answer.ended})
