"""The command `nearer`: thin commands over the Python interface."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

import nearer
from nearer.cli import data, models
from nearer.errors import NearerError

app = typer.Typer(
    name="nearer",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Turn unlabelled sentences into a sentence encoder that ranks.",
)
app.command()(models.evaluate)
app.command()(models.encode)
app.command()(models.similarity)
app.command()(models.rank)
app.add_typer(data.app, name="data")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"nearer {nearer.__version__}")
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
    try:
        app()
    except NearerError as error:
        _fail(f"error: {error}", 1)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except BrokenPipeError:
        # the reader of our output went away (as `head` does): nothing to complain about
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _fail(message: str, code: int) -> None:
    print(message, file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
