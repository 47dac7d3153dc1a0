"""Templates: text around each sentence, at a token of which its vector is read (PromptBERT, PromptEOL).

A template becomes part of the tokenizer: what the tokenizer adds to a sentence ([CLS] and [SEP]) is from then on the
template with them. So the sentence is cut and the template never, and everything that tokenises has it: encoding,
training, search, the service, ONNX, and whoever loads the saved tokenizer.

The text before and after is tokenised apart from the sentence. Their tokens are those of the filled string where the
tokenizer does not join characters over the seam: always with WordPiece (BERT) beside a quotation mark or a space. A
space before the sentence becomes a part of its first token, where the tokenizer makes such tokens (RoBERTa, Qwen).
Byte-level tokenizers would make one token of the full stop that ends a sentence and a quotation mark that follows it;
here these stay two.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.errors import ModelError, SettingError, did_you_mean, shown

SENTENCE, MASK = "{sentence}", "[MASK]"
# Those of the papers by name; [MASK] stands for the tokenizer's own mask token
TEMPLATES = {
    "promptbert": 'This sentence of "{sentence}" means [MASK].',
    "promptbert-untrained": 'This sentence : "{sentence}" means [MASK].',
    "promptbert-roberta": "This sentence : ' {sentence} ' means [MASK].",
    "sncse": 'This sentence : " {sentence} " means [MASK] .',
    "prompteol": 'This sentence : "{sentence}" means in one word:"',
}
PROBE = "word"
SPACE = {"type": "Prepend", "prepend": " "}


@dataclass(frozen=True)
class Template:
    """Text around a sentence, as tokens.

    Attributes:
        text: With {sentence} where the sentence stands, and maybe [MASK].
        before: The token ids before the sentence, the tokenizer's own ([CLS]) included.
        after: Those after it.
        special: How many at either end are the tokenizer's own.
        mask: The index of the mask token: from 0, or below 0 from the end of the row; None: the template has none.
    """

    text: str
    before: tuple[int, ...]
    after: tuple[int, ...]
    special: tuple[int, int] = (0, 0)
    mask: int | None = None

    @property
    def size(self) -> int:
        """Tokens besides the sentence's."""
        return len(self.before) + len(self.after)

    @property
    def pooling(self) -> str:
        """What is pooled unless the user says otherwise."""
        return "last_token" if self.mask is None else "mask"

    def row(self, sentence: NDArray[np.int64]) -> NDArray[np.int64]:
        """The template with the tokens of a sentence."""
        return np.concatenate([np.array(self.before, np.int64), sentence, np.array(self.after, np.int64)])

    def sentence(self, row: NDArray[np.int64]) -> NDArray[np.int64]:
        """The tokens of the sentence alone."""
        return row[len(self.before) : len(row) - len(self.after)]

    def mask_index(self, length: int) -> int:
        """Of a row of so many tokens."""
        assert self.mask is not None
        return self.mask if self.mask >= 0 else length + self.mask


def named_template(text: str) -> str:
    """A template's text: of a name, or as it is."""
    text = TEMPLATES.get(text, text)
    count = text.count(SENTENCE)
    if count == 1:
        return text
    if not count and " " not in text:
        hint = did_you_mean(text, list(TEMPLATES))
        raise SettingError(
            f"template: {shown(text)} is not one of {', '.join(TEMPLATES)}, and has no {SENTENCE}.{hint}"
        )
    found = f"{count} times" if count else "nowhere"
    raise SettingError(f"template: {shown(text)} has {SENTENCE} {found}; it must stand where the sentence goes, once.")


def add_template(tokenizer: Any, text: str, *, present: Template | None = None, name: str = "the model") -> Template:
    """Make a template part of a tokenizer, or read one that replaces `present`. name: of the model, for messages."""
    template, spaced = _read(tokenizer, named_template(text), present, name)
    backend = tokenizer.backend_tokenizer
    _put_around(backend, template)
    _put_space(backend, spaced)
    return template


def read_template(tokenizer: Any, text: str, *, present: Template, name: str = "the model") -> Template:
    """Another template's tokens, for a tokenizer that has one already and keeps it."""
    return _read(tokenizer, named_template(text), present, name)[0]


def check_template(tokenizer: Any, template: Template, name: str) -> None:
    """That a loaded tokenizer has the template that its model speaks of."""
    row = tuple(tokenizer.backend_tokenizer.encode(PROBE).ids) if has_backend(tokenizer) else ()
    kept = row[: len(template.before)] == template.before and row[len(row) - len(template.after) :] == template.after
    if not kept or len(row) <= template.size:
        raise ModelError(f"{name}: its tokenizer does not have the template that nearer.json names; save it anew.")


def has_backend(tokenizer: Any) -> bool:
    return getattr(tokenizer, "backend_tokenizer", None) is not None


def _read(tokenizer: Any, text: str, present: Template | None, name: str) -> tuple[Template, bool]:
    """The template, and whether a space before the sentence belongs to the sentence's first token."""
    if not has_backend(tokenizer):
        raise SettingError(f"template: the tokenizer of {name} is written in Python; one of `tokenizers` is needed.")
    if MASK in text and tokenizer.mask_token is None:
        raise SettingError(
            f"template: has {MASK}, and the tokenizer of {name} has no mask token; a template without it is pooled at "
            "its last token, such as prompteol."
        )
    plain = _plain(tokenizer.backend_tokenizer)
    if present is not None:
        special_before = list(present.before[: present.special[0]])
        special_after = list(present.after[len(present.after) - present.special[1] :])
    else:
        special_before, special_after = _special_ids(tokenizer.backend_tokenizer, plain, name)
    filled = text.replace(MASK, tokenizer.mask_token) if MASK in text else text
    before, after = filled.split(SENTENCE)
    spaced = before.endswith(" ") and _ids(plain, f" {PROBE}") != _ids(plain, PROBE)
    before_ids = _ids(plain, before.removesuffix(" "))
    after_ids = _following(plain, after)
    inner = [*special_before, *before_ids], [*after_ids, *special_after]
    mask = _mask_index(*inner, tokenizer.mask_token_id) if MASK in text else None
    special = (len(special_before), len(special_after))
    return Template(text, tuple(inner[0]), tuple(inner[1]), special, mask), spaced


def _mask_index(before: Sequence[int], after: Sequence[int], mask: int) -> int:
    found = [n for n, token in enumerate(before) if token == mask]
    found += [n - len(after) for n, token in enumerate(after) if token == mask]
    if len(found) != 1:
        raise SettingError(f"template: has {MASK} {len(found)} times; one token is pooled.")
    return found[0]


def _plain(backend: Any) -> Any:
    """The tokenizer without anything that it adds, and without a template's space."""
    from tokenizers import Tokenizer

    state = json.loads(backend.to_str())
    state |= {"post_processor": None, "truncation": None, "padding": None}
    normalizer = state["normalizer"]
    if normalizer is not None and normalizer["type"] == "Sequence" and normalizer["normalizers"][:1] == [SPACE]:
        rest = normalizer["normalizers"][1:]
        state["normalizer"] = rest[0] if len(rest) == 1 else (normalizer | {"normalizers": rest} if rest else None)
    return Tokenizer.from_str(json.dumps(state))


def _ids(plain: Any, text: str) -> list[int]:
    return list(plain.encode(text, add_special_tokens=False).ids) if text else []


def _following(plain: Any, text: str) -> list[int]:
    """The tokens of a text behind a word, where the word stays what it is; else of the text by itself."""
    word, both = _ids(plain, PROBE), _ids(plain, PROBE + text)
    return both[len(word) :] if both[: len(word)] == word else _ids(plain, text)


def _special_ids(backend: Any, plain: Any, name: str) -> tuple[list[int], list[int]]:
    """What the tokenizer puts around a sentence by itself."""
    backend.no_truncation()
    backend.no_padding()
    whole, inner = list(backend.encode(PROBE).ids), _ids(plain, PROBE)
    for start in range(len(whole) - len(inner) + 1):
        if whole[start : start + len(inner)] == inner:
            return whole[:start], whole[start + len(inner) :]
    raise ModelError(
        f"{name}: its tokenizer changes a sentence's tokens where it adds its own; it can have no template."
    )


def _put_around(backend: Any, template: Template) -> None:
    from tokenizers.processors import TemplateProcessing

    parts = {"before": template.before, "after": template.after}
    added = [
        {"id": part, "ids": list(ids), "tokens": [backend.id_to_token(token) for token in ids]}
        for part, ids in parts.items()
        if ids
    ]
    single = [*(["before"] if template.before else []), "$A", *(["after"] if template.after else [])]
    backend.post_processor = TemplateProcessing(single=single, pair=[*single, "$B:1"], special_tokens=added)


def _put_space(backend: Any, spaced: bool) -> None:
    from tokenizers import normalizers

    own = _plain(backend).normalizer
    if spaced:
        backend.normalizer = normalizers.Sequence([normalizers.Prepend(" "), *([] if own is None else [own])])
    elif own is not None or backend.normalizer is not None:
        backend.normalizer = normalizers.Sequence([]) if own is None else own
