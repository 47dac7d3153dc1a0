"""Anchors of triplets: the sentences of a text (partial), or sentences that the model writes first (scratch).

SynCSE's second way: a call asks for several sentences of a genre on some topics, all drawn by the seed. The calls of a
window are asked together; what they gave is kept in `sentences.jsonl`, so that a higher limit goes on behind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from nearer.construct.few_shot import FewShot
from nearer.construct.list_growth import parse_numbered
from nearer.construct.query_rules import speaks_another_language
from nearer.construct.requests import Generated, Request
from nearer.construct.triplet_rules import (
    FROM_PROMPT,
    OTHER_LANGUAGE,
    REPEATED,
    TOO_SHORT,
    fault_of_words,
    key_of,
    read_sentence,
    words_of,
)
from nearer.errors import InputError, SettingError
from nearer.storage.sealed import sealed_line, unsealed_line
from nearer.text.reading import Reading

SENTENCES = "sentences.jsonl"
SCRATCH_STEP = 1000  # of requests for sentences: none of a triplet has it
CALLS = 32  # in a window
EMPTY_WINDOWS = 4  # after so many without a new sentence, more would bring none either
TOPICS_A_CALL, TOKENS_A_SENTENCE = 6, 40
FEWEST_WORDS, MOST_WORDS = 3, 32  # SynCSE leaves out what is longer

Ask = Callable[[Iterable[Request]], dict[int, Generated]]


class Anchor(NamedTuple):
    """about: where it is from, for the record."""

    text: str
    about: Mapping[str, Any]


class AnchorSource(Protocol):
    def identity(self) -> dict[str, Any]: ...

    def collect(self, folder: Path, ask: Ask, seed: int, limit: int | None) -> list[Anchor]:
        """The first `limit` anchors, always in the same order. folder: of the construction."""
        ...


@dataclass(frozen=True)
class CorpusAnchors:
    """The different sentences of a text in an order drawn by the seed, so that any beginning is a fair sample."""

    reading: Reading[str]

    def identity(self) -> dict[str, Any]:
        return {"mode": "partial", "corpus": self.reading.fingerprint()}

    def collect(self, folder: Path, ask: Ask, seed: int, limit: int | None) -> list[Anchor]:
        first: dict[str, int] = {}
        for index, sentence in enumerate(self.reading):
            first.setdefault(sentence, index)
        self.reading.report.check_kept()
        sentences = list(first)
        order = np.random.default_rng([seed, len(sentences)]).permutation(len(sentences))[:limit]
        return [Anchor(sentences[number], {"index": first[sentences[number]]}) for number in order]


@dataclass
class ScratchAnchors:
    """Sentences by a language model. templates: their fields are count, genre and topics; a_call: sentences of each."""

    templates: Sequence[FewShot]
    genres: Sequence[str]
    topics: Sequence[str]
    a_call: int = 10
    rejected: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        if self.a_call < 1:
            raise SettingError(f"a_call: {self.a_call} is below 1.")

    def identity(self) -> dict[str, Any]:
        return {
            "mode": "scratch",
            "sentence_templates": {one.name: one.text for one in self.templates},
            "genres": list(self.genres),
            "topics": list(self.topics),
            "a_call": self.a_call,
        }

    def collect(self, folder: Path, ask: Ask, seed: int, limit: int | None) -> list[Anchor]:
        if limit is None:
            raise SettingError("limit: sentences from scratch have no end; say how many.", argument="limit")
        path = folder / SENTENCES
        windows = self._read(path)
        anchors = [anchor for window in windows for anchor in window]
        seen = {key_of(anchor.text) for anchor in anchors}
        empty = 0
        while len(anchors) < limit:
            found = self._window(len(windows), ask, seed, seen)
            windows.append(found)
            anchors += found
            self._append(path, found)
            empty = 0 if found else empty + 1
            if empty == EMPTY_WINDOWS:
                raise self._no_more(folder, len(anchors), limit, len(windows))
        return anchors[:limit]

    def _window(self, window: int, ask: Ask, seed: int, seen: set[str]) -> list[Anchor]:
        calls = {number: self._draw(number, seed) for number in range(window * CALLS, (window + 1) * CALLS)}
        answers = ask(
            Request(
                number,
                SCRATCH_STEP,
                prompt,
                one_line=False,
                max_new_tokens=TOKENS_A_SENTENCE * self.a_call,
            )
            for number, (prompt, _, _) in calls.items()
        )
        found = []
        for number, (_, template, about) in calls.items():
            answer = answers[number]
            listed = parse_numbered(answer.text)
            for sentence in map(read_sentence, listed[:-1] if answer.ended == "limit" else listed):
                if fault := self._fault(sentence, template, seen):
                    self.rejected[fault] += 1
                else:
                    seen.add(key_of(sentence))
                    found.append(Anchor(sentence, about))
        return found

    def _draw(self, number: int, seed: int) -> tuple[str, FewShot, dict[str, Any]]:
        random = np.random.default_rng([seed, SCRATCH_STEP, number])
        template = self.templates[int(random.integers(len(self.templates)))]
        genre = self.genres[int(random.integers(len(self.genres)))]
        topics = [self.topics[int(index)] for index in random.permutation(len(self.topics))[:TOPICS_A_CALL]]
        prompt = template.prompt([str(self.a_call), genre, ", ".join(topics)], template.draw(random, 1))
        return prompt, template, {"genre": genre}

    def _fault(self, sentence: str, template: FewShot, seen: set[str]) -> str | None:
        words = words_of(sentence)
        if len(words) < FEWEST_WORDS or len(sentence.splitlines()) > 1:
            return TOO_SHORT
        if fault := fault_of_words(sentence, words, MOST_WORDS):
            return fault
        key = key_of(sentence)
        if any(key == key_of(shown) for answer in template.answers for shown in parse_numbered(answer)):
            return FROM_PROMPT
        if speaks_another_language(sentence, template.ask):
            return OTHER_LANGUAGE
        return REPEATED if key in seen else None

    def _read(self, path: Path) -> list[list[Anchor]]:
        if not path.exists():
            return []
        raw = path.read_bytes()
        whole = raw[: raw.rfind(b"\n") + 1]  # the process may have died in the middle of a line
        if len(whole) < len(raw):
            path.write_bytes(whole)
        windows = []
        for number, line in enumerate(whole.splitlines(keepends=True), 1):
            try:
                rows = unsealed_line(line)["sentences"]
                windows.append([Anchor(str(text), {"genre": genre}) for text, genre in rows])
            except (ValueError, KeyError, TypeError):
                raise InputError(f"{path}: line {number} is damaged; remove the folder to begin anew.") from None
        return windows

    def _append(self, path: Path, found: Sequence[Anchor]) -> None:
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write(sealed_line({"sentences": [[one.text, one.about["genre"]] for one in found]}))
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror or error}).") from None

    def _no_more(self, folder: Path, have: int, wanted: int, windows: int) -> InputError:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in self.rejected.most_common())
        return InputError(
            f"{folder}: the model writes no new sentences after {windows * CALLS:,} calls ({have:,} of {wanted:,}; not "
            f"used: {reasons or 'no numbered list in its answers'}). A higher --temperature, another model, or more "
            "genres and topics may help."
        )
