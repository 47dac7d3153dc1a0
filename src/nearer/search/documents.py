"""What an index is built of: documents, each a text with an id where its record has one, whole or in passages; and how
many tokens of each text are read: as many as nearly all texts have, if the model can."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from nearer.errors import InputError, SettingError
from nearer.text.faults import Fault
from nearer.text.in_memory import Source
from nearer.text.reading import Reading, ReadOptions
from nearer.text.shapes import SENTENCES, Clean, Field, Shape, Unusable
from nearer.text.tokenise import SAMPLE, length_for, normalisation, token_counts, tokenise

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from nearer.encoder import Encoder

IDS = ("_id", "id", "doc_id", "docid")
# A page is longer than a sentence may be; what a model cannot read of it is cut and counted, or passages are made.
MAX_CHARACTERS = 1_000_000
WORD = re.compile(r"\S+")
SENTENCE_END = re.compile(r"[.!?…。！？]['\")\]]*$")


class Document(NamedTuple):
    text: str
    id: str | None = None


class Passages(NamedTuple):
    """How texts are cut: `size` tokens each, of which `overlap` are the last ones of the passage before."""

    size: int
    overlap: int = 0

    def check(self, longest: int, argument: str = "passages") -> None:
        if not 8 <= self.size <= longest:
            raise SettingError(f"{argument}: {self.size} tokens are not between 8 and {longest}, what the model takes.")
        if not 0 <= self.overlap <= self.size // 2:
            raise SettingError(f"overlap: {self.overlap} is not between 0 and {self.size // 2}, half a passage.")


def read_documents(
    source: Source,
    *,
    columns: Sequence[str] | None = None,
    id_column: str | None = None,
    max_characters: int = MAX_CHARACTERS,
    argument: str = "source",
    **options: Any,
) -> Reading[Document]:
    """Documents of a file or of memory: BEIR's `corpus.jsonl` as it is, lines of plain text, any table.

    columns: their text, joined in this order; None takes `text` with the `title` before it, where there is one.
    id_column: which column is the id; None takes `_id` or `id`, where there is one.
    """
    named = [columns] if isinstance(columns, str) else list(columns or ())
    ids = Field(IDS, required=False) if id_column is None else Field((id_column.lower(),))
    if any(name.isdecimal() for name in named):  # a table without a header
        if id_column is not None and not id_column.isdecimal():
            raise SettingError(f"id_column: {id_column!r} is a name and columns are numbers; give both as the same.")
        fields = [Field((name,)) for name in named]
        numbers = tuple(named) + (() if id_column is None else (id_column,))
        last = (Field(("",)),) if id_column is not None else ()
        shape = Shape("document", "documents", (*fields, *last), _builder(len(named)), unnamed_fields=len(numbers))
        given = ReadOptions(columns=numbers, max_characters=max_characters, **options)
        return Reading(source, shape, given, argument=argument)
    if named:
        parts: tuple[Field, ...] = tuple(Field((name.lower(),)) for name in named)
    else:
        parts = (SENTENCES.fields[0], Field(("title",), required=False))
    build = _builder(len(parts), title_last=not named)
    shape = Shape(
        "document", "documents", (*parts, ids), build, plain_lines=not named and id_column is None, unnamed_fields=1
    )
    return Reading(source, shape, ReadOptions(max_characters=max_characters, **options), argument=argument)


def as_reading(source: Source | Reading[Any], columns: Sequence[str] | None, id_column: str | None) -> Reading[Any]:
    """What is given, read as documents unless it is a reading already."""
    if not isinstance(source, Reading):
        return read_documents(source, columns=columns, id_column=id_column)
    if columns is not None or id_column is not None:
        raise SettingError("columns, id_column: are for a source; a Reading has its own (read_documents).")
    return source


def make_passages(size: int | None, overlap: int | None) -> Passages | None:
    """None: texts are not cut. Without an overlap, an eighth is repeated."""
    if size is None:
        if overlap is not None:
            raise SettingError("overlap: is of passages; say how long they are (passages).")
        return None
    return Passages(size, size // 8 if overlap is None else overlap)


def iter_documents(reading: Reading[Any]) -> Iterator[tuple[int, Document]]:
    """With their lines; sentences are documents without an id."""
    for line, record in reading.located():
        yield line, record if isinstance(record, Document) else Document(record)


def check_documents(reading: Reading[Any]) -> None:
    if reading.shape.name != "document" and reading.shape != SENTENCES:
        raise InputError(f"{reading.source}: is read as {reading.shape.plural}, an index is of sentences or documents.")


def _builder(parts: int, *, title_last: bool = False) -> Any:
    def build(values: Sequence[Any], clean: Clean) -> Document:
        texts = [_cleaned(value, clean) for value in values[:parts]]
        if title_last:
            texts.reverse()
        given = [text for text in texts if text]
        if not given or (title_last and texts[-1] is None):
            raise Unusable(Fault.EMPTY)
        text = given[-1]
        for before in reversed(given[:-1]):
            if not text.lower().startswith(before.lower()):  # many texts begin with their own title
                text = f"{before} {text}"
        return Document(text, _id(values[parts] if len(values) > parts else None))

    return build


def _cleaned(value: object, clean: Clean) -> str | None:
    if value is None or (isinstance(value, str) and not value.replace("\x00", "").strip()):
        return None
    return clean(value)


def _id(value: object) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise Unusable(Fault.WRONG_FIELDS, f"an id expected, {type(value).__name__} found")
    try:
        str(value).encode()
    except UnicodeEncodeError:
        raise Unusable(Fault.INVALID_TEXT, "half a surrogate pair") from None
    return str(value).strip() or None


def cut_into_passages(tokenizer: PreTrainedTokenizerBase, text: str, passages: Passages) -> list[str]:
    """Pieces of whole words, each of at most `size` tokens; a piece ends with a sentence where one ends in its second
    half. A word longer than that is a piece by itself. The tokenizer must not be in use by another thread.
    """
    words = list(WORD.finditer(text))
    special = token_counts(tokenizer, [""])[0]
    counts = [
        len(ids) - special
        for ids in tokenise(tokenizer, [word.group() for word in words], passages.size + special + 16)
    ]
    pieces, start = [], 0
    while start < len(words):
        end, total, sentence_end = start, 0, start
        while end < len(words) and (end == start or total + counts[end] <= passages.size):
            total += counts[end]
            end += 1
            if total * 2 >= passages.size and SENTENCE_END.search(words[end - 1].group()):
                sentence_end = end
        if end < len(words) and sentence_end > start:
            end = sentence_end
        pieces.append(text[words[start].start() : words[end - 1].end()])
        if end == len(words):
            break
        after, repeated = end, 0
        while after - 1 > start and repeated + counts[after - 1] <= passages.overlap:
            after -= 1
            repeated += counts[after]
        start = after
    return pieces or [text]


def longest_of(encoder: Encoder) -> int:
    """The most tokens that the model can take, whatever it is set to."""
    from nearer.encoder.backbone import longest_input  # loads torch, which who only opens an index does not need

    return max(longest_input(encoder.backbone, encoder.tokenizer), encoder.settings.max_length)


def count_special_tokens(encoder: Encoder) -> int:
    return token_counts(encoder.tokenizer, [""])[0]


def choose_length(encoder: Encoder, reading: Reading[Any], passages: Passages | None, prompt: str | None) -> int:
    """The 95th percentile of the lengths of the first texts, at least the model's own length and at most what it takes.

    Less than its own would save nothing, since short texts are not padded to it, and would cut queries.
    """
    own, longest = encoder.settings.max_length, longest_of(encoder)
    if passages is not None:
        return min(longest, max(own, passages.size + count_special_tokens(encoder)))
    if reading.source == "-" or own >= longest:  # standard input can be read once only
        return own
    normalise = normalisation(encoder.settings.text_normalisation)
    before = encoder.settings.prompt(prompt)
    texts = [before + normalise(document.text) for _, document in islice(iter_documents(reading), SAMPLE)]
    return max(own, length_for(texts, encoder.tokenizer, longest=longest))
