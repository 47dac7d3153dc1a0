"""What the methods with templates share: a sentence in two templates, and a head that is for training only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import AfterValidator

from nearer.encoder import Encoder
from nearer.encoder.parts import Dense, new_head
from nearer.encoder.template import Template, named_template, read_template
from nearer.errors import SettingError
from nearer.methods.contract import Ids, Pass

TemplateText = Annotated[str, AfterValidator(named_template)]  # given as a name, or as it is


class PromptViews:
    """Rows of tokens in the encoder's own template, and the same sentences in a second one.

    max_length: of rows; a sentence is cut where the second template is longer than the first.
    """

    def __init__(self, encoder: Encoder, second: str, max_length: int | None) -> None:
        settings = encoder.settings
        if settings.template is None or settings.pooling != "mask":
            raise SettingError(
                f"template: {encoder.name} is pooled by {settings.pooling}; this method reads the [MASK] of a template "
                "(set template=promptbert and pooling=mask)."
            )
        self.first = settings.template
        self.second = read_template(encoder.tokenizer, second, present=self.first, name=encoder.name)
        if self.second.mask is None:
            raise SettingError("second_template: has no [MASK], at which its vector is read.")
        self.max_length = max_length or settings.max_length
        if self.second.size >= self.max_length:
            raise SettingError(
                f"second_template: has {self.second.size} tokens with the special ones, and max_length is "
                f"{self.max_length}: nothing is left for the sentence."
            )
        self.first_position = encoder.first_position

    def in_first(self, rows: Sequence[Ids]) -> Pass:
        return _pass_of(list(rows), self.first)

    def in_second(self, rows: Sequence[Ids]) -> Pass:
        """rows: in the first template."""
        room = self.max_length - self.second.size
        return _pass_of([self.second.row(self.first.sentence(row)[:room]) for row in rows], self.second)

    def bare(self, template: Template, rows: Sequence[Ids], *, from_zero: bool = False) -> Pass:
        """The template without a sentence, for each row of it: its tokens keep the positions that they have there.

        from_zero: positions are counted from 0 where the model counts from a later one (RoBERTa).
        """
        empty = np.array([*template.before, *template.after], dtype=np.int64)
        start = self.first_position if from_zero else 0
        behind = np.arange(len(empty)) >= len(template.before)
        lengths = [len(row) - template.size for row in rows]
        return Pass(
            [empty] * len(rows),
            pooled=[template.mask_index(len(empty))] * len(rows),
            positions=[np.arange(len(empty)) + length * behind - start for length in lengths],
            once=True,
        )


def training_head(encoder: Encoder) -> Dense:
    """SimCSE's head as a module of the method's own: what is saved has none."""
    if encoder.head is not None:
        raise SettingError("head: this method has a head of its own, for training only; set head=false.")
    return new_head(encoder.dimension).to(encoder.device)


def _pass_of(rows: list[Ids], template: Template) -> Pass:
    return Pass(rows, pooled=[template.mask_index(len(row)) for row in rows])
