"""What goes wrong by a user's hand or data, said in one line with the mend.

Everything raised on purpose derives from `NearerError`; the command line prints its message without a
traceback. Anything else that surfaces is a defect of ours.
"""

from __future__ import annotations

import difflib
import reprlib
import warnings
from collections.abc import Iterable


class NearerError(Exception):
    """Base of all errors that a user can mend.

    Args:
        message: One line that names the file, the line or the setting, and says the mend.
        argument: The argument of the Python call by which it is mended; the command line adds the option that stands
            for it.

    Examples:
        >>> import nearer
        >>> try:
        ...     nearer.load_model("wiki-mini", device="toaster")
        ... except nearer.NearerError as error:
        ...     print(type(error).__name__)
        SettingError
    """

    def __init__(self, message: str = "", *, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


class InputError(NearerError, ValueError):
    """A file or data set that cannot be read as asked.

    Examples:
        >>> import nearer
        >>> list(nearer.read_sentences("missing.txt"))
        Traceback (most recent call last):
        nearer.errors.InputError: missing.txt: no such file.
    """


class SettingError(NearerError, ValueError):
    """A setting or argument with a value that cannot be used.

    Examples:
        >>> import nearer
        >>> nearer.EncoderSettings(pooling="mean", max_length=2)
        Traceback (most recent call last):
        nearer.errors.SettingError: max_length: 2 leaves no room for a sentence (3 at least).
    """


class ModelError(NearerError, ValueError):
    """A model folder or name that cannot be loaded or saved as asked.

    Examples:
        >>> import nearer
        >>> nearer.RankEncoder.load("wiki-mini")
        Traceback (most recent call last):
        nearer.errors.ModelError: ...wiki-mini: is not a RankEncoder (no rank_corpus.json).
    """


class PoolingError(ModelError):
    """A plain checkpoint, of which nobody has said how its vectors are pooled."""


class TrainingError(NearerError, RuntimeError):
    """A run that cannot go on; what was reached is in its folder."""


class DamagedError(InputError, ModelError):
    """A file that is not what nearer wrote; the message says how to get back to what was there."""


class MissingExtraError(NearerError, ImportError):
    """An optional package is needed and not installed."""


class ModelWarning(UserWarning):
    """What a user should know of a model that can be used all the same. argument: as of `NearerError`."""

    def __init__(self, message: str = "", *, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


def tell(message: str, *, argument: str | None = None) -> None:
    """Python shows a warning once for each text; the command line prints it in one line."""
    warnings.warn(ModelWarning(message, argument=argument), stacklevel=5)  # who called Encoder.load


_shortened = reprlib.Repr()
_shortened.maxstring = _shortened.maxother = 80


def shown(value: object) -> str:
    """A value that a user or a file gave, short enough to stand in a message."""
    return _shortened.repr(value)


def first_line(error: BaseException) -> str:
    """The first line of another library's error, short enough to stand inside one of ours."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:160]


def nearest_name(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name that is most like a mistyped one; None where none is. cutoff: 1 asks for equal names."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """What follows a message about an unknown name: ` Did you mean 'stsb-dev'?`, or nothing."""
    near = nearest_name(name, known)
    return "" if near is None else f" Did you mean {near!r}?"
