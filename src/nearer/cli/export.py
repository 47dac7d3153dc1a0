"""Commands that hand a model on: export onnx, export folder, export push; and convert."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from nearer.cli import options
from nearer.cli.bundles import with_bundles
from nearer.cli.output import put, say

app = typer.Typer(
    no_args_is_help=True, help="Give a trained model to others: as ONNX, as a folder with a model card, or on the hub."
)

Named = Annotated[
    str, typer.Argument(metavar="MODEL", help="The folder of a run or a model, the bundled 'wiki-mini', or a hub name.")
]
Out = Annotated[Path, typer.Option(help="The new folder; it must not exist yet.")]


@dataclass(frozen=True)
class ExportLoading:
    """How a model is loaded that is to be exported."""

    pooling: options.Pooling = None
    max_length: options.MaxLength = None
    text_normalisation: options.Normalisation = None
    template: options.Template = None
    pooler_as_head: options.PoolerAsHead = False
    route: options.Route = None
    trust_remote_code: options.RemoteCode = False
    allow_pickle: options.AllowPickle = False


EXPORT_LOADING = ExportLoading()


@app.command("onnx")
@with_bundles
def onnx(
    model: Named,
    out: Out,
    int8: Annotated[
        bool, typer.Option("--int8", help="Store matrices as 8-bit integers, and measure what that costs.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the STS sets, to measure int8 on STS-B. Default: the bundled STS task 'everyday'."
        ),
    ] = None,
    loading: ExportLoading = EXPORT_LOADING,
) -> None:
    """Write the whole encoder as one ONNX graph with its tokenizer, and compare it with the encoder."""
    from nearer.errors import SettingError
    from nearer.export import export_onnx, load_source
    from nearer.extras import require
    from nearer.storage.whole import check_free
    from nearer.teachers import RankEncoder

    for package in ("onnx", "onnxscript", "onnxruntime"):  # before anything is loaded
        require(package, "onnx", "ONNX export")
    check_free(out)
    if data is not None and not int8:
        raise SettingError("--data: is for measuring what --int8 costs; give both or neither.")
    source = load_source(model, **asdict(loading))
    if isinstance(source.model, RankEncoder):
        say(
            "a RankEncoder: its encoder is exported; the rank vectors are not in it, and similarity is the cosine alone"
        )
    made = export_onnx(source.encoder, out, int8=int8, data=data)
    put(f"{out}: {made.megabytes:.1f} MB; {made}{' (before int8)' if int8 else ''}")
    if made.sentence_transformers_obstacle is not None:
        say(f"sentence-transformers cannot load it (backend='onnx'): {made.sentence_transformers_obstacle}")
    if made.int8 is not None:
        put(str(made.int8))
        if data is None:
            say("measured on the bundled task 'everyday'; for STS-B name the folder of the STS sets (--data DIR)")


@app.command("folder")
@with_bundles
def folder(
    model: Named,
    out: Out,
    name: Annotated[
        str | None,
        typer.Option(help="What the card calls it, such as owner/name on the hub. Default: the folder's name."),
    ] = None,
    language: Annotated[str | None, typer.Option(help="Codes of its languages: en, or en,de.")] = None,
    license: Annotated[str | None, typer.Option(help="apache-2.0, mit, cc-by-sa-4.0 … Default: not stated.")] = None,
    scores: Annotated[
        Path | None, typer.Option(help="What `nearer evaluate --json` wrote. Default: the run's own scores.")
    ] = None,
    loading: ExportLoading = EXPORT_LOADING,
) -> None:
    """Write a sentence-transformers folder with a filled-in model card."""
    from nearer.export import export_folder, load_source
    from nearer.export.card import Told
    from nearer.storage.whole import check_free

    check_free(out)
    languages = [code.strip() for code in (language or "").split(",") if code.strip()]
    Told(name or out.name, tuple(languages), license)  # what is wrong with them, before a model is loaded
    source = load_source(model, **asdict(loading))
    export_folder(source, out, name=name, languages=languages, licence=license, scores=scores)
    put(f"{out}: a sentence-transformers folder; its card: {out / 'README.md'}")
    if license is None:
        say("no licence is stated; --license NAME states one")


@app.command("push")
def push(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="A folder that `nearer export folder` or `nearer export onnx` wrote."),
    ],
    repository: Annotated[str, typer.Argument(metavar="REPO", help="Name of the repository on the hub: owner/name.")],
    private: Annotated[
        bool, typer.Option("--private", help="If the repository is new, make it visible to you only.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Upload without asking.")] = False,
) -> None:
    """Upload an exported folder to the Hugging Face hub. Shows the files and asks first."""
    from nearer.export import prepare_upload
    from nearer.export import push as upload

    prepared = prepare_upload(model, repository)
    say(str(prepared))
    if not prepared.has_card:
        say("there is no model card (README.md) among them; `nearer export folder` writes one")
    seen = "only you can see it" if private else "everybody can see it"
    if not yes and not _agreed(f"Upload these to {repository} (where it is new, {seen})?"):
        say("nothing was uploaded")
        raise typer.Exit(1)
    put(upload(prepared, private=private))


def convert(
    model: options.Model,
    out: Out,
) -> None:
    """Write a model whose weights are pickled (pytorch_model.bin) again with safetensors. Nothing in them is run."""
    from nearer.encoder.pickles import convert as write
    from nearer.encoder.sources import pickled_source
    from nearer.storage.whole import check_free

    check_free(out)
    made = write(pickled_source(model), out)
    put(f"{out}: {made.tensors:,} weights in {', '.join(made.files)}")
    if made.left_out:
        say(f"left out, as no part of the model: {', '.join(made.left_out)}")


def _agreed(question: str) -> bool:
    """Asked on standard error, so that standard output has the address alone. Nobody there to answer is a no."""
    say(f"{question} [y/N] ", end="")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
