"""What is known of a method: one constant in its file, read by recipes, reports, model cards and documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ACL_2023 = (
    "Proceedings of the 61st Annual Meeting of the Association for Computational Linguistics (Volume 1: Long Papers)"
)


@dataclass(frozen=True)
class Paper:
    """A paper as it is cited. kind: BibTeX's word for what it appeared in."""

    key: str
    title: str
    authors: tuple[str, ...]
    venue: str
    year: int
    kind: Literal["inproceedings", "article"] = "inproceedings"

    def bibtex(self) -> str:
        fields = {
            "title": f"{{{self.title}}}",
            "author": " and ".join(self.authors),
            "booktitle" if self.kind == "inproceedings" else "journal": self.venue,
            "year": str(self.year),
        }
        return "\n".join(
            [f"@{self.kind}{{{self.key},", *(f"  {name} = {{{value}}}," for name, value in fields.items()), "}"]
        )


@dataclass(frozen=True)
class MethodFacts:
    """A method for people and for the parts around it.

    name: in recipes; title: for people; what: it does, in one sentence; needs: what a user must have, in a few words.
    data: the kinds of records it learns from, the usual one first. teachers: whether it learns from other models.
    views: how often a record of one sentence passes the encoder. saves: what a run ends with.
    """

    name: str
    title: str
    what: str
    needs: str
    paper: Paper
    data: tuple[str, ...]
    teachers: Literal["none", "optional", "one", "some"] = "none"
    views: int = 2
    saves: str = "an encoder"
