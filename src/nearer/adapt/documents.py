"""Reading a collection of documents: folders and files of all kinds in, documents and an account of everything out.

    found = read_documents(["handbook/", "faq.csv"])
    print(found.account)
    for document in found.documents: ...

Every document that was read ends as kept, empty, or a duplicate of one that is kept; each file as read or named with
the reason why not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nearer.adapt.boilerplate import Boilerplate, remove_boilerplate
from nearer.adapt.document_files import FileAccount, Unreadable, find_files
from nearer.adapt.document_readers import RawDocument, ReaderOptions, TxtRule, read_file
from nearer.adapt.duplicates import find_duplicates, find_near_duplicates
from nearer.errors import InputError
from nearer.terminal import progress_bar
from nearer.text.records import BETWEEN

SHOWN = 5  # files, duplicates or blocks that the account names of each kind


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a collection.

    Attributes:
        id: Its own where its table has one, else its file's path below the folder that was given, with the line.
        title: "" where it has none. The text does not repeat it at its beginning.
        text: Plain text, or light Markdown: headings as `## …`, code between fences, items as `- …`.
        source: The file, and the line or row it begins on.

    Examples:
        >>> from nearer.adapt.documents import Document
        >>> Document("a.md", "Rain", "It rains.", "docs/a.md").title
        'Rain'
    """

    id: str
    title: str
    text: str
    source: str


@dataclass
class Account:
    """What became of everything that was given: `read == kept + empty + duplicates`.

    Attributes:
        files: One entry a file.
        skipped: What was passed over in folders, by kind.
        read: Documents that were read.
        kept: Documents that are there.
        empty: Those without text.
        duplicate_of: By the id of each document that was left out, that of the kept one with the same words.
        near_duplicate_of: By id, an earlier document that says nearly the same; both are kept.
        renamed: Documents whose id another one had already.
        titles_stripped: Documents whose text began with their title.
        boilerplate: Blocks that many documents share, cut out of them.
    """

    files: list[FileAccount] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    read: int = 0
    kept: int = 0
    empty: int = 0
    duplicate_of: dict[str, str] = field(default_factory=dict)
    near_duplicate_of: dict[str, str] = field(default_factory=dict)
    renamed: int = 0
    titles_stripped: int = 0
    boilerplate: Boilerplate = field(default_factory=Boilerplate)

    @property
    def unreadable(self) -> list[FileAccount]:
        return [file for file in self.files if file.fault]

    def to_dict(self) -> dict[str, object]:
        """For a file of JSON."""
        return {
            "read": self.read,
            "kept": self.kept,
            "empty": self.empty,
            "duplicates": len(self.duplicate_of),
            "near_duplicates": len(self.near_duplicate_of),
            "renamed": self.renamed,
            "titles_stripped": self.titles_stripped,
            "skipped": dict(self.skipped),
            "unreadable": {file.path: file.fault for file in self.unreadable},
            "files": [
                {"path": f.path, "kind": f.kind, "documents": f.documents, "dropped": dict(f.dropped), "notes": f.notes}
                for f in self.files
                if not f.fault
            ],
            "boilerplate": self.boilerplate.to_dict(),
        }

    def __str__(self) -> str:
        read = len(self.files) - len(self.unreadable)
        lines = [f"{self.kept:,} document{'s' * (self.kept != 1)} of {read:,} file{'s' * (read != 1)}"]
        lines += [f"  not read: {file.path}: {file.fault}" for file in self.unreadable[:SHOWN]]
        if len(self.unreadable) > SHOWN:
            lines.append(f"  not read: {len(self.unreadable) - SHOWN:,} more files")
        lines += [f"  skipped: {count:,} {what}" for what, count in self.skipped.most_common(SHOWN)]
        if others := sum(count for _, count in self.skipped.most_common()[SHOWN:]):
            lines.append(f"  skipped: {others:,} of {len(self.skipped) - SHOWN:,} other kinds")
        lines += self._of_documents()
        noted = [file for file in self.files if file.notes]
        lines += [f"  {file.path}: {note}" for file in noted[:SHOWN] for note in file.notes]
        if len(noted) > SHOWN:
            lines.append(f"  … and remarks on {len(noted) - SHOWN:,} more files")
        return "\n".join(lines)

    def _of_documents(self) -> list[str]:
        lines = []
        if self.empty:
            lines.append(f"  left out: {self.empty:,} without text")
        if self.duplicate_of:
            other, kept = next(iter(self.duplicate_of.items()))
            lines.append(f"  left out: {len(self.duplicate_of):,} with the words of another, such as {other} ({kept})")
        if self.near_duplicate_of:
            other, kept = next(iter(self.near_duplicate_of.items()))
            lines.append(
                f"  {len(self.near_duplicate_of):,} say nearly the same as another, such as {other} ({kept}); kept"
            )
        if self.boilerplate.blocks:
            lines.append(f"  {self.boilerplate}")
        if self.titles_stripped:
            lines.append(f"  {self.titles_stripped:,} texts began with their title, which was cut off there")
        if self.renamed:
            lines.append(f"  {self.renamed:,} had the id of another and got their source as id")
        return lines


@dataclass
class Documents:
    """What `read_documents` returns: the documents in the order of their files, and the account."""

    documents: list[Document]
    account: Account

    def __len__(self) -> int:
        return len(self.documents)


def read_documents(
    paths: str | Path | Sequence[str | Path],
    *,
    columns: Mapping[str, str] | None = None,
    encoding: str = "utf-8",
    txt: TxtRule = "auto",
    boilerplate: bool = True,
    near_duplicates: bool = True,
    progress: bool = False,
) -> Documents:
    """Read all documents of files and folders.

    Args:
        paths: Files and folders of txt, md, html, pdf, csv, tsv, jsonl, json and parquet, also compressed.
        columns: Which columns of a table are its `text`, `title` and `id`; None guesses by common names.
        encoding: Of text that is not UTF-8.
        txt: Whether a plain text file is one document (`file`) or has one on each `line`; `auto` looks at it.
        boilerplate: Cut out what many documents share: heads, feet, navigation, licences.
        near_duplicates: Look for documents that say nearly the same. They are kept and named.
        progress: Show a bar.

    Examples:
        >>> from pathlib import Path
        >>> from nearer.adapt.documents import read_documents
        >>> _ = Path("rain.md").write_text("# Rain\\n\\nIt rains in Bergen.")
        >>> found = read_documents("rain.md")
        >>> found.documents
        [Document(id='rain.md', title='Rain', text='It rains in Bergen.', source='rain.md')]
    """
    options = ReaderOptions(dict(columns or {}), encoding, txt)
    options.check()
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise InputError("documents: no file or folder is named.", argument="documents")
    account = Account()
    documents: list[Document] = []
    files = find_files(given, account.skipped)
    ids: set[str] = set()
    with progress_bar("reading documents", len(files), "files", shown=progress) as advance:
        for found in files:
            file = FileAccount(str(found.path), found.kind)
            account.files.append(file)
            try:
                for raw in read_file(found, options, file):
                    account.read += 1
                    file.documents += 1
                    _take(raw, found.name, file, account, documents, ids)
            except Unreadable as error:
                file.fault = str(error)
            account.empty += (empty := file.dropped.get("empty", 0))
            account.read += empty
            advance()
    documents = _without_duplicates(documents, account)
    if boilerplate:
        texts, account.boilerplate = remove_boilerplate([document.text for document in documents])
        documents = [
            document if text == document.text else replace(document, text=text)
            for document, text in zip(documents, texts, strict=True)
        ]
    if near_duplicates:
        pairs = find_near_duplicates([document.text for document in documents])
        account.near_duplicate_of = {documents[one].id: documents[first].id for one, first in pairs.items()}
    account.kept = len(documents)
    if not documents:
        raise InputError(f"{_shown(given)}: no document could be read.\n{account}", argument="documents")
    return Documents(documents, account)


def _take(
    raw: RawDocument, name: str, file: FileAccount, account: Account, documents: list[Document], ids: set[str]
) -> None:
    text, stripped = strip_title(raw.title, raw.text)
    if not text.strip():
        if raw.title.strip() and raw.text.strip():  # all that there is
            text, stripped = raw.text.strip(), False
        else:
            account.empty += 1
            file.documents -= 1
            return
    source = f"{file.path}:{raw.line}" if raw.line else file.path
    here = raw.id or (f"{name}:{raw.line}" if raw.line else name)
    if here in ids:
        account.renamed += 1
        here = source if source not in ids else f"{source}#{len(ids)}"
    ids.add(here)
    account.titles_stripped += stripped
    title = "" if text == raw.title.strip() else raw.title.strip()
    documents.append(Document(here, title, text, source))


def strip_title(title: str, text: str) -> tuple[str, bool]:
    """The text without its own title at the beginning, and whether it stood there; as words, whatever their case."""
    words = title.split()
    if not words:
        return text, False
    end = 0
    lowered = text.lower()
    if len(lowered) != len(text):  # some letters become two
        return text, False
    for word in words:
        while end < len(text) and text[end].isspace():
            end += 1
        if not lowered.startswith(word.lower(), end):
            return text, False
        end += len(word)
    if end < len(text) and text[end].isalnum() and text[end - 1].isalnum():
        return text, False  # it goes on within a word
    if text[end : end + 1] in ("", "\n") or not BETWEEN.match(text, end):
        return text[end:].lstrip(), True
    between = BETWEEN.match(text, end)
    assert between is not None
    if len(words) == 1 and not between.group().strip():
        return text, False  # "Rain falls in Bergen" is no repeated title
    return text[between.end() :].strip("\n").rstrip(), True


def _without_duplicates(documents: list[Document], account: Account) -> list[Document]:
    first_of = find_duplicates([f"{document.title}\n{document.text}" for document in documents])
    account.duplicate_of = {documents[one].id: documents[first].id for one, first in first_of.items()}
    return [document for number, document in enumerate(documents) if number not in first_of]


def _shown(paths: Sequence[str | Path]) -> str:
    names = [str(path) for path in paths]
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
