"""A data set as it is built: what is done is on disk at once, and what was interrupted goes on where it was.

A folder holds

    about.json      the header: what is built, from what, with which settings; at the end also what came out
    journal.jsonl   one line for each finished piece, in the order in which they got finished
    data.jsonl      (or data.parquet, with the header in its metadata) the records by number, once all pieces are done
    checksums.json  of the data; the header and each line of the journal carry their own

A piece is whatever a builder numbers: an anchor, a list. It ends as a record or as rejected for a reason, which is
counted. The order of the data is that of the numbers, so it does not depend on who finished first, or how often it
was interrupted.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TextIO

from nearer.errors import DamagedError, InputError, SettingError
from nearer.extras import require
from nearer.storage.checksums import CHECKSUMS, checksums_text, file_sum
from nearer.storage.sealed import read_sealed, sealed_line, unsealed_line, write_sealed_json
from nearer.storage.whole import make_folder, sync_folder, whole_file, write_whole, written_by_us_alone
from nearer.text.batches import chunks
from nearer.typed_files import FileFacts

Format = Literal["jsonl", "parquet"]
ABOUT, JOURNAL, LOCK = "about.json", "journal.jsonl", ".lock"
RECORDS_AT_ONCE = 10_000


class Header(FileFacts):
    about: dict[str, Any]


class Construction:
    """Open it, look at `done`, add what is missing, finish.

    about: everything the records follow from (settings, digests of text and models), as JSON values. A folder that was
    begun from something else is refused, with the name of what differs. notes: facts of this making that may differ
    (versions, machine).
    """

    def __init__(
        self,
        folder: str | Path,
        about: Mapping[str, Any],
        *,
        notes: Mapping[str, Any] | None = None,
        format: Format = "jsonl",
    ) -> None:
        self.folder = Path(folder)
        self.data = self.folder / f"data.{format}"
        self.format = format
        if format == "parquet":
            require("pyarrow", "parquet", f"{self.data}: writing Parquet")  # not only after hours of building
        self.about = {"about": json.loads(json.dumps(about)), "notes": json.loads(json.dumps(notes or {}))}
        self.done: set[int] = set()
        self.rejected: Counter[str] = Counter()
        self._journal: TextIO | None = None
        self._lock = ExitStack()
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    @property
    def finished(self) -> bool:
        return self.data.exists()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def add(self, number: int, record: Mapping[str, Any]) -> None:
        """A finished piece. It survives whatever comes after."""
        self.add_many([(number, record)])

    def add_many(self, pieces: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        """Finished pieces, written at once: for builders that finish many in a second."""
        pieces = list(pieces)
        self._write([{"number": number, "record": dict(record)} for number, record in pieces])
        self.done.update(number for number, _ in pieces)

    def reject(self, number: int, reason: str, detail: Any = None) -> None:
        """A piece that does not become a record; `detail` (what was there) stays in the journal."""
        self.reject_many([(number, reason, detail)])

    def reject_many(self, pieces: Iterable[tuple[int, str, Any]]) -> None:
        """Numbers, reasons and details, written at once."""
        pieces = list(pieces)
        self._write(
            [
                {"number": number, "rejected": reason, **({} if detail is None else {"detail": detail})}
                for number, reason, detail in pieces
            ]
        )
        self.done.update(number for number, _, _ in pieces)
        self.rejected.update(reason for _, reason, _ in pieces)

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The records so far, by number; one at a time is in memory."""
        offsets = self._offsets()
        if not offsets:
            return
        with open(self.folder / JOURNAL, "rb") as file:
            for number in sorted(offsets):
                file.seek(offsets[number])
                yield number, unsealed_line(file.readline().decode())["record"]

    def finish(self, summary: Mapping[str, Any] | None = None) -> Path:
        """Write the data set; returns its path. `summary` joins the header."""
        try:
            return self._finish(summary)
        finally:
            self.close()

    def _finish(self, summary: Mapping[str, Any] | None) -> Path:
        count = len(self._offsets())
        if not count:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in self.rejected.most_common())
            raise InputError(f"{self.folder}: no record came out of it ({reasons or 'nothing was built'}).")
        counts = {"records": count, "rejected": dict(self.rejected), **(summary or {})}
        header = {**self.about, "result": json.loads(json.dumps(counts))}
        try:
            with whole_file(self.data) as partial:
                _write_data(partial, (record for _, record in self.records()), header, self.format)
                write_whole(self.folder / CHECKSUMS, checksums_text({self.data.name: file_sum(partial)}))
                write_sealed_json(self.folder / ABOUT, header)
        except OSError as error:
            raise InputError(f"{self.data}: cannot be written ({error.strerror or error}).") from None
        return self.data

    def close(self) -> None:
        journal, self._journal = self._journal, None
        try:
            if journal is not None:
                journal.close()
        finally:
            self._lock.close()

    def _begin(self) -> None:
        try:
            if self.folder.is_dir() and not (self.folder / ABOUT).exists():
                others = (path for path in self.folder.iterdir() if path.name not in (LOCK, f".{ABOUT}.partial"))
                if any(others):
                    raise SettingError(f"{self.folder}: holds other files; name a new folder.")
            make_folder(self.folder)
            self._lock.enter_context(written_by_us_alone(self.folder / LOCK, self.folder))
            if (self.folder / ABOUT).exists():
                self._check_same()
                self._read_journal()
            else:
                write_sealed_json(self.folder / ABOUT, self.about)
        except OSError as error:
            raise InputError(f"{self.folder}: cannot be written ({error.strerror or error}).") from None

    def _check_same(self) -> None:
        path = self.folder / ABOUT
        try:
            there = read_sealed(path, Header, mend="name a new folder").about
        except DamagedError:
            raise
        except InputError:
            raise InputError(f"{path}: is not a header of a construction; name a new folder.") from None
        asked = self.about["about"]
        for name in [*asked, *(name for name in there if name not in asked)]:
            if there.get(name) != asked.get(name):
                raise SettingError(
                    f"{self.folder}: was begun with {name} {_short(there.get(name))}, {_short(asked.get(name))} asked "
                    "now; give the same to go on with it, or name a new folder."
                )

    def _read_journal(self) -> None:
        path = self.folder / JOURNAL
        if not path.exists():
            return
        whole = 0
        with open(path, "rb") as file:
            for raw in file:
                if not raw.endswith(b"\n"):
                    break  # the process died in the middle of it
                whole += len(raw)
        if whole < path.stat().st_size:
            os.truncate(path, whole)
        for _, line in self._lines():
            self.done.add(line["number"])
            if "rejected" in line:
                self.rejected[line["rejected"]] += 1

    def _offsets(self) -> dict[int, int]:
        """By number, where in the journal its record begins."""
        return {line["number"]: offset for offset, line in self._lines() if "record" in line}

    def _lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The journal's lines, each with the byte at which it begins."""
        path = self.folder / JOURNAL
        if not path.exists():
            return
        offset = 0
        with open(path, "rb") as file:
            for number, raw in enumerate(file, 1):
                try:
                    line = unsealed_line(raw)
                    if type(line["number"]) is not int or not line.keys() & {"record", "rejected"}:
                        raise ValueError
                except (ValueError, KeyError):
                    raise InputError(f"{path}: line {number} is damaged; remove it to have it built again.") from None
                yield offset, line
                offset += len(raw)

    def _write(self, lines: list[dict[str, Any]]) -> None:
        try:
            if self._journal is None:
                self._journal = (self.folder / JOURNAL).open("a", encoding="utf-8")
                sync_folder(self.folder)
            self._journal.write("".join(map(sealed_line, lines)))
            self._journal.flush()
            os.fsync(self._journal.fileno())
        except OSError as error:
            with suppress(OSError):  # closing tries once more to write what could not be written
                self.close()
            raise InputError(f"{self.folder / JOURNAL}: cannot be written ({error.strerror or error}).") from None


def _write_data(path: Path, records: Iterator[dict[str, Any]], header: dict[str, Any], format: Format) -> None:
    if format == "jsonl":
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        return
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    # in parts, since a record as Python's objects takes many times its room as columns
    parts = [arrow.Table.from_pylist(part) for part in chunks(records, RECORDS_AT_ONCE)]
    table = arrow.concat_tables(parts, promote_options="permissive")
    table = table.replace_schema_metadata({"nearer": json.dumps(header, ensure_ascii=False)})
    parquet.write_table(table, path)


def _short(value: Any) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= 40 else shown[:37] + "…"


def check_folder(out: str | Path) -> None:
    """That it can be written to is better known before models are loaded. A folder that is not there is not left."""
    folder = Path(out)
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
        for path in new:
            path.rmdir()
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror or error}).") from None
