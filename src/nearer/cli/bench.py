"""Commands that measure speed: bench train, encode, transfer, construct, decode, serve, load.

The measures are in `benchmarks/` of a checkout, beside the package.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearer.cli import options
from nearer.cli.output import say, show_table
from nearer.errors import SettingError
from nearer.extras import checkout

if TYPE_CHECKING:
    from benchmarks.report import Report

REPOSITORY = "https://github.com/nearer-embeddings/nearer"

app = typer.Typer(no_args_is_help=True, help="Measure speed on this machine, beside other libraries in the same run.")

Shape = Annotated[
    str | None,
    typer.Option(help="Size of a BERT with random weights: base, small or tiny. Default: it depends on the device."),
]
Corpus = Annotated[
    str | None, typer.Option(help="Text to use. Default: generated text with sentence lengths like Wikipedia's.")
]
Peers = Annotated[bool, typer.Option(help="Measure other libraries too.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the report there as well.")]


@app.command("train")
def train(
    batch: Annotated[str | None, typer.Option(help="Batch sizes. Default: 64,128,512; 64 on a CPU.")] = None,
    max_length: Annotated[str, typer.Option(help="Tokens at which sentences are cut, such as 32 or 32,128.")] = "32",
    steps: Annotated[int | None, typer.Option(min=1, help="Timed steps of each. Default: 100; 5 on a CPU.")] = None,
    shape: Shape = None,
    model: Annotated[str | None, typer.Option(help="A real model instead of a shape.")] = None,
    corpus: Corpus = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the STS sets, for the dev scores of --epoch.")] = None,
    epoch: Annotated[bool, typer.Option("--epoch", help="Whole runs too: one epoch, batch 64, dev scores.")] = False,
    sizes: Annotated[
        str | None, typer.Option(help="Sentences of the epochs, such as 1k,10k,1m. Default: what there is.")
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Show where the time of our steps goes, those of --recipes too.")
    ] = False,
    ranking: Annotated[bool, typer.Option("--ranking", help="Steps of RankCSE and RankEncoder too.")] = False,
    recipes: Annotated[
        str | None, typer.Option(help="Steps of these recipes too, such as promptbert-bert-base,diffcse-bert-base.")
    ] = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Steps on 32 pairs of a title and a text of 128 tokens too.")
    ] = False,
    lists: Annotated[
        bool, typer.Option("--lists", help="Steps on scored lists too, beside a contrast of as many tokens.")
    ] = False,
    ranked: Annotated[
        str | None, typer.Option(help="Corpus sentences of RankEncoder, such as 100k. Default: by the device.")
    ] = None,
    peers: Peers = True,
    device: options.Device = None,
    json_file: Json = None,
) -> None:
    """Time training steps: ours, the papers' loop, sentence-transformers, and what the arithmetic alone would take."""
    _prepare(device, json_file)
    from benchmarks.train import TrainBench, bench_train
    from nearer.units import counts

    wanted = TrainBench(
        batches=None if batch is None else counts(batch, "--batch"),
        max_lengths=counts(max_length, "--max-length"),
        steps=steps,
        shape=shape,
        model=model,
        corpus=corpus,
        data=data,
        epoch=epoch or sizes is not None,
        sizes=None if sizes is None else counts(sizes, "--sizes"),
        profile=profile,
        peers=peers,
        ranking=ranking or ranked is not None,
        ranked=None if ranked is None else counts(ranked, "--ranked")[0],
        pairs=pairs,
        lists=lists,
        recipes=[] if recipes is None else [name for part in recipes.split(",") if (name := part.strip())],
    )

    def keep(report: Report) -> None:
        if json_file is not None:
            report.write_json(json_file)

    _show(bench_train(wanted, say, keep), json_file)


@app.command("encode")
def encode(
    model: Annotated[str | None, typer.Option(help="A folder or a name. Default: the bundled wiki-mini.")] = None,
    shape: Shape = None,
    pooling: options.Pooling = None,
    max_length: options.MaxLength = None,
    corpus: Corpus = None,
    sizes: Annotated[
        str | None, typer.Option(help="Numbers of texts, such as 1k,10k,1m. Default: by the device.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="float32, bf16, or float32,bf16. Default: both; float32 on a CPU.")
    ] = None,
    peers: Peers = True,
    peer_batch: Annotated[
        str | None, typer.Option(help="Batch sizes of sentence-transformers. Default: 32,256; 32 on a CPU.")
    ] = None,
    device: options.Device = None,
    json_file: Json = None,
) -> None:
    """Time the encoding of texts of mixed length, ours and sentence-transformers', and of a whole file."""
    _prepare(device, json_file)
    from benchmarks.encode import EncodeBench, bench_encode
    from nearer.units import counts

    wanted = EncodeBench(
        model=model,
        shape=shape,
        pooling=pooling,
        max_length=max_length,
        corpus=corpus,
        sizes=None if sizes is None else counts(sizes, "--sizes"),
        precisions=None if precision is None else [part.strip() for part in precision.split(",")],
        peers=peers,
        peer_batches=None if peer_batch is None else counts(peer_batch, "--peer-batch"),
    )
    _show(bench_encode(wanted, say), json_file)


@app.command("transfer")
def transfer(
    data: Annotated[Path, typer.Option(help="Folder in which SentEval's MR, CR, SUBJ, MPQA, SST, TREC and MRPC lie.")],
    tasks: Annotated[str | None, typer.Option(help="Such as trec,mrpc. Default: all seven.")] = None,
    setting: Annotated[str, typer.Option(help="SentEval's test or fast.")] = "test",
    model: Annotated[str, typer.Option(help="A folder or a name whose vectors are classified.")] = "wiki-mini",
    pooling: options.Pooling = None,
    one_by_one: Annotated[
        bool, typer.Option(help="Also fit one after another. For all tasks this takes an hour.")
    ] = True,
    device: options.Device = None,
    json_file: Json = None,
) -> None:
    """Time the regressions of SentEval's transfer tasks, stacked and one after another, with the scores of both."""
    _prepare(device, json_file)
    from benchmarks.transfer import TransferBench, bench_transfer

    named = {} if tasks is None else {"tasks": [name.strip() for name in tasks.split(",")]}
    wanted = TransferBench(data, model, pooling, setting=setting, one_by_one=one_by_one, **named)
    _show(bench_transfer(wanted, say), json_file)


@app.command("construct")
def construct(
    corpus: Corpus = None,
    sizes: Annotated[str, typer.Option(help="Sentences of the corpora, such as 10k,30k.")] = "10k,30k,100k",
    anchors: Annotated[
        int | None,
        typer.Option(min=1, help="Make records for only so many sentences of each corpus. Default: for all."),
    ] = None,
    model: Annotated[str, typer.Option(help="A folder or a name whose cosines count.")] = "wiki-mini",
    pooling: options.Pooling = None,
    generator: Annotated[
        str, typer.Option(help="How positives are made, as for `nearer construct debiased`.")
    ] = "noise",
    device: options.Device = None,
    json_file: Json = None,
) -> None:
    """Time the making of debiased samples, stage by stage, for corpora of several sizes."""
    _prepare(device, json_file)
    from benchmarks.construct import ConstructBench, bench_construct
    from nearer.units import counts

    wanted = ConstructBench(corpus, counts(sizes, "--sizes"), model, pooling, generator, anchors)
    _show(bench_construct(wanted, say), json_file)


@app.command("decode")
def decode(
    model: Annotated[str, typer.Argument(help="A causal language model: a name, a folder or a GGUF file.")],
    lists: Annotated[int, typer.Option(min=1, help="Lists that are decoded together.")] = 16,
    steps: Annotated[int, typer.Option(min=1, help="Sentences to generate for each.")] = 4,
    alone: Annotated[int, typer.Option(min=1, help="Lists that are also decoded one at a time.")] = 2,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Tokens of a sentence at most.")] = 40,
    precision: Annotated[str | None, typer.Option(help="float32 or bf16. Default: float32; bf16 on a GPU.")] = None,
    device: options.Device = None,
    json_file: Json = None,
) -> None:
    """Time directional decoding: many lists together, one at a time, and by two plain passes for each token."""
    _prepare(device, json_file)
    from benchmarks.decode import DecodeBench, bench_decode

    wanted = DecodeBench(model, lists, steps, max_new_tokens=max_new_tokens, alone=alone, precision=precision)
    _show(bench_decode(wanted, say), json_file)


@app.command("serve")
def serve(
    model: Annotated[str, typer.Option(help="A folder or a name.")] = "wiki-mini",
    pooling: options.Pooling = None,
    corpus: Corpus = None,
    clients: Annotated[int, typer.Option(min=1, help="How many clients ask at the same time.")] = 64,
    texts: Annotated[int, typer.Option(min=1, help="How many texts a request has.")] = 1,
    seconds: Annotated[
        float, typer.Option(callback=options.finite, min=0.1, help="How many seconds each way is measured.")
    ] = 60.0,
    batch_wait_ms: Annotated[
        float | None,
        typer.Option(
            callback=options.finite, min=0, help="The option of `nearer serve` with this name. Default: its own."
        ),
    ] = None,
    precision: options.Precision = options.PrecisionName.float32,
    device: options.Device = None,
    json_file: Json = None,
) -> None:
    """Send requests of many clients to the service: with dynamic batching, and with each text by itself."""
    _prepare(device, json_file)
    from benchmarks.serve import ServeBench, bench_serve

    wanted = ServeBench(model, pooling, corpus, clients, texts, seconds, batch_wait_ms, precision.value)
    _show(bench_serve(wanted, say), json_file)


@app.command("load")
def load(
    model: Annotated[str, typer.Option(help="A folder or a name.")] = "wiki-mini",
    pooling: options.Pooling = None,
    corpus: Corpus = None,
    rate: Annotated[
        float, typer.Option(callback=options.finite, min=0.1, help="How many honest requests arrive a second.")
    ] = 10.0,
    hostile: Annotated[
        float,
        typer.Option(callback=options.finite, min=0.05, max=0.9, help="The hostile share of clients and of arrivals."),
    ] = 0.2,
    seconds: Annotated[
        float, typer.Option(callback=options.finite, min=1, help="How many seconds beside hostile clients.")
    ] = 600.0,
    alone_seconds: Annotated[
        float, typer.Option(callback=options.finite, min=1, help="How many seconds without them, before that.")
    ] = 300.0,
    seed: Annotated[int, typer.Option(min=0, max=options.LARGEST_SEED, help="Of the arrivals.")] = 0,
    device: options.Device = None,
    json_file: Json = None,
) -> None:
    """Send requests of honest clients to the service, alone and beside hostile ones, at times that do not depend on
    its answers."""
    _prepare(device, json_file)
    from benchmarks.load import LoadBench, bench_load

    wanted = LoadBench(model, pooling, corpus, rate, hostile, seconds, alone_seconds, seed)
    _show(bench_load(wanted, say), json_file)


def _prepare(device: str | None, json_file: Path | None) -> None:
    _find_benchmarks()
    _use(device)
    if json_file is not None:
        from benchmarks.report import check_writable

        check_writable(json_file)


def _find_benchmarks() -> None:
    """Let Python find `benchmarks/`, which lies beside the package and not in the wheel."""
    folder = checkout()
    if folder is None or not (folder / "benchmarks" / "__init__.py").exists():
        raise SettingError(
            "nearer bench needs a checkout, the wheel has no benchmarks: "
            f"git clone {REPOSITORY}; pip install -e ./nearer"
        )
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _use(device: str | None) -> None:
    """Show this process the one device only: all competitors, whole runs among them, then use it."""
    if device is None:
        return
    kind, _, number = device.partition(":")
    if kind not in ("cpu", "cuda") or (number and not (kind == "cuda" and number.isdigit())):
        raise SettingError(f"--device: {device!r} is not cpu, cuda or cuda:N.")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if kind == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        return
    if number:
        names = visible.split(",") if visible else []
        os.environ["CUDA_VISIBLE_DEVICES"] = names[int(number)] if int(number) < len(names) else number
    import torch

    if not torch.cuda.is_available():
        raise SettingError(f"--device: {device} cannot be used here, torch {torch.__version__} finds no such GPU.")


def _show(report: Report, json_file: Path | None) -> None:
    show_table(report.table())
    if json_file is not None:
        report.write_json(json_file)
        say(f"report: {json_file}")
