"""The command `nearer`: thin commands over the Python interface."""

from __future__ import annotations

import errno
import io
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

import nearer
from nearer.cli import (
    adapt,
    analyse,
    baselines,
    bench,
    compare,
    construct,
    data,
    doctor,
    export,
    league,
    mine,
    models,
    report,
    search,
    serve,
    settings,
    sweep,
    teachers,
    threshold,
    train,
)
from nearer.errors import ModelWarning, NearerError
from nearer.terminal import put, say, visible

# What Typer raises for wrong usage: by its own copy of click in some versions, by click itself in others
UsageError: Any = typer.BadParameter.__base__
# Commands that are given sentences, and how one that begins with - is told from an option
SENTENCES = {
    "similarity": 'MODEL -- "-5 degrees" "cold"',
    "rank": 'MODEL -- "-5 degrees" FILE',
    "search query": 'INDEX -- "-5 degrees"',
}

# Commands that count the texts they cut by themselves, or of which the length is a setting of the recipe
TELL_THEMSELVES = ("serve", "train", "sweep", "league", "demo", "bench")
# Commands that have no option for the length
WITHOUT_LENGTH = ("adapt", "mine")
# Arguments whose options have other names
OPTIONS = {"overwrite": "--force", "force": "--force", "data": "--data DIR"}


class Commands(TyperGroup):
    """The commands, with their failures told in one line.

    Caught here, because around this Typer ends an interrupted command without a word and a closed pipe with code 1.
    """

    def invoke(self, ctx: Any) -> Any:
        try:
            _cut_texts()  # of what this process did before, where it is not a command of its own
            with _remarks_in_one_line():
                result = super().invoke(ctx)
            _tell_of_cut_texts(str(ctx.invoked_subcommand))
            sys.stdout.flush()  # what fails only when it is written out fails here, not when Python ends
            return result
        except NearerError as error:
            _fail(f"error: {_with_option(error)}", 1)
        except UsageError as error:
            command = _command(error.ctx)
            if command not in SENTENCES or not _may_be_a_sentence(error):
                error.message = visible(error.message)
                raise
            say(error.ctx.get_usage())
            mend = f"a sentence that begins with - goes after --: nearer {command} {SENTENCES[command]}"
            _fail(f"error: {error.format_message().rstrip('.')}; {mend}", 2)
        except OverflowError as error:  # an option has no upper end, machine words have
            _fail(f"error: a number that was given is too large ({error}).", 1)
        except KeyboardInterrupt as interruption:
            _fail(str(interruption) or "interrupted", 130)  # a run says how to go on
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.ENOSPC):
                raise
            # what is still in the buffer has nowhere to go
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if error.errno == errno.ENOSPC:
                _fail(f"error: the output cannot be written ({error.strerror}).", 1)
            sys.exit(0)  # the reader of our output went away (as `head` does): nothing to complain about


app = typer.Typer(
    name="nearer",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Turn unlabelled sentences into a sentence encoder that ranks.",
)
app.command()(models.evaluate)
app.command()(models.encode)
app.command()(models.similarity)
app.command()(models.rank)
app.command()(compare.compare)
app.command()(threshold.threshold)
app.command()(analyse.analyse)
app.command()(report.report)
app.command()(train.train)
app.command()(settings.recipes)
app.command()(settings.settings)
app.command()(train.demo)
app.command()(adapt.adapt)
app.command()(doctor.doctor)
app.command()(sweep.sweep)
app.command()(league.league)
app.command()(teachers.embed)
app.command()(teachers.rank_encoder)
app.command()(baselines.whiten)
app.command()(baselines.flow)
app.command()(baselines.static_words)
app.command()(serve.serve)
app.command()(export.convert)
app.add_typer(construct.app, name="construct")
app.add_typer(mine.app, name="mine")
app.add_typer(search.app, name="search")
app.add_typer(data.app, name="data")
app.add_typer(bench.app, name="bench")
app.add_typer(export.app, name="export")


def _version(wanted: bool) -> None:
    if wanted:
        put(f"nearer {nearer.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Exit codes: 0 done, 1 a mistake or misfortune that is explained in one line, 2 wrong usage, 130 interrupted."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a sentence may hold what the terminal cannot show
    _commands()()


@cache  # reading all signatures takes longer than most commands, and a process may run several
def _commands() -> Any:
    return typer.main.get_command(app)


def _command(context: Any) -> str:
    """The names by which a command was called, without the program's."""
    names = []
    while context is not None and context.parent is not None:
        names.append(str(context.info_name))
        context = context.parent
    return " ".join(reversed(names))


def _may_be_a_sentence(error: Any) -> bool:
    """An unknown option that is near no other, or a short one (-k) with the rest of a word for its value."""
    if hasattr(error, "option_name"):
        return not getattr(error, "possibilities", None)
    return any(len(option) == 2 for option in getattr(getattr(error, "param", None), "opts", ()))


@contextmanager
def _remarks_in_one_line() -> Iterator[None]:
    """What we remark on a model, without the line of our code that Python adds."""
    others = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, ModelWarning):
            say(f"note: {_with_option(message)}")
        else:
            others(visible(str(message)), category, *where, **more)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = others


def _tell_of_cut_texts(command: str) -> None:
    """What a command encoded and did not read to its end."""
    if command in TELL_THEMSELVES:
        return
    setting = "--max-length of search build" if command == "search" else "--max-length"  # an index has one length
    for counts in _cut_texts():
        say(f"note: {counts}" if command in WITHOUT_LENGTH else f"note: {counts} ({setting})")


def _cut_texts() -> list[Any]:
    """Importing the counter costs torch: it is asked only if it was at work."""
    cutting = sys.modules.get("nearer.encoder.batching")
    return [] if cutting is None else cutting.OF_THIS_PROCESS.take()


def _with_option(told: Exception | Warning | str) -> str:
    """The message, with the option that stands for the argument by which Python's callers mend it."""
    argument = getattr(told, "argument", None)
    if argument is None:
        return str(told)
    first, *rest = str(told).split("\n", 1)
    option = OPTIONS.get(argument, f"--{argument.replace('_', '-')}")
    return "\n".join([f"{first.removesuffix('.')} ({option}).", *rest])


def _fail(message: str, code: int) -> NoReturn:
    say(message)
    sys.exit(code)


if __name__ == "__main__":
    main()
