"""The command serve: a model as an HTTP service."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearer.cli import options
from nearer.cli.bundles import LOADING, Loading, with_bundles
from nearer.cli.output import say
from nearer.errors import SettingError
from nearer.extras import require

if TYPE_CHECKING:
    from nearer.search import SearchIndex
    from nearer.search.model import Rerankers
    from nearer.serve.model import Relevance, ServedModel


@with_bundles
def serve(
    model: options.Model,
    index: Annotated[
        Path | None,
        typer.Option(
            help="An index by `nearer search build` with this model. It adds /v1/search, the map, the geometry."
        ),
    ] = None,
    rerank: Annotated[
        str | None,
        typer.Option(
            metavar="CROSS",
            help="A cross-encoder: /v1/rerank and its like score by it alone. 'none': by the model's similarity. "
            "Default: as the model's set-up says.",
        ),
    ] = None,
    beside: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL2",
            help="A second model, to compare with. It is loaded with its own settings; --precision, --device, "
            "--normalize and --trust-remote-code hold for both.",
        ),
    ] = None,
    beside_index: Annotated[
        Path | None, typer.Option(metavar="INDEX2", help="An index made with the second model.")
    ] = None,
    beside_name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What requests call the second model. Default: its name, or 'NAME (2)'."),
    ] = None,
    beside_pooling: Annotated[str | None, typer.Option(metavar="POOLING", help="Pooling of the second model.")] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on. The default can be reached from this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free port.")] = 8000,
    name: Annotated[
        str | None, typer.Option(help="What requests call the model. Default: its name, or its folder's.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="Clients must send the key that is in this environment variable.")
    ] = None,
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Clients must send a key that is in this file, one a line. With several keys, a client is a key.",
        ),
    ] = None,
    max_items: Annotated[int, typer.Option(min=1, help="Most texts in one request.")] = 2048,
    max_characters: Annotated[int, typer.Option(min=1, help="Most characters in one text.")] = 100_000,
    max_tokens: Annotated[int, typer.Option(min=1, help="Most tokens in one request.")] = 300_000,
    max_body: Annotated[int, typer.Option(min=1, help="Largest body of a request, in KiB.")] = 2048,
    max_waiting: Annotated[
        int,
        typer.Option(min=1, help="How many texts may wait for the model; more are refused (503). One client: half."),
    ] = 16384,
    max_concurrent: Annotated[
        int,
        typer.Option(min=1, help="How many requests may run at a time; more are refused (503). One client: half."),
    ] = 1024,
    max_held: Annotated[
        int,
        typer.Option(
            min=1,
            help="Memory for the bodies and answers of all requests, in MiB; more are refused (503). One client: half.",
        ),
    ] = 256,
    max_connections: Annotated[
        int, typer.Option(min=1, help="How many connections may be open; more are refused (503). One address: half.")
    ] = 1024,
    max_head: Annotated[int, typer.Option(min=1, help="Largest head of a request, in KiB (431).")] = 32,
    batch_texts: Annotated[int, typer.Option(min=1, help="Encode at most so many texts together.")] = 256,
    batch_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Encode at most about so many tokens together. Default: it depends on the device."),
    ] = None,
    batch_wait_ms: Annotated[
        float,
        typer.Option(
            callback=options.finite, min=0, help="How many milliseconds a text waits for others to be encoded with."
        ),
    ] = 2.0,
    timeout: Annotated[
        float,
        typer.Option(
            callback=options.finite,
            min=0.001,
            help="Seconds that an answer may take, and that a client may take it in.",
        ),
    ] = 60.0,
    receive_timeout: Annotated[
        float,
        typer.Option(
            callback=options.finite, min=0.001, help="Seconds in which a head must have come, and then a body (408)."
        ),
    ] = 15.0,
    grace: Annotated[
        float,
        typer.Option(
            callback=options.finite,
            min=0.001,
            help="Seconds that running requests have at the end; who waits longer gets a 503.",
        ),
    ] = 30.0,
    normalize: Annotated[
        bool | None,
        typer.Option("--normalize/--no-normalize", help="Scale vectors to length 1. Default: as the model says."),
    ] = None,
    access_log: Annotated[bool, typer.Option("--access-log", help="Print a line for each request.")] = False,
    loading: Loading = LOADING,
    precision: options.Precision = options.PrecisionName.float32,
) -> None:
    """Serve one model over HTTP, or two side by side: a page to look at them, /v1/embeddings, /v1/rerank,
    /similarity, /v1/search, /map, /geometry, /v1/models, /health, /metrics; for other clients /v2/rerank, /v2/embed
    (Cohere), /rerank, /embed (TEI)."""
    for package in ("fastapi", "uvicorn", "prometheus_client"):
        require(package, "serve", "the service")
    from nearer.serve.guard import LOOPBACK_HOSTS
    from nearer.serve.limits import BODY_COST, KIB, MIB, Limits
    from nearer.serve.server import is_loopback, open_port, read_api_keys, run_server

    if beside is None:
        for option, given in (("index", beside_index), ("name", beside_name), ("pooling", beside_pooling)):
            if given is not None:
                raise SettingError(f"--beside-{option}: is about a second model; name it (--beside MODEL2).")
    keys = read_api_keys(api_key_env, api_key_file)
    if max_held * MIB < (least := 2 * BODY_COST * max_body * KIB):
        needed = -(-least // MIB)
        raise SettingError(f"--max-held: {max_held} MiB are too few for one body of {max_body} KiB; give {needed}.")
    limits = Limits(
        items=max_items,
        characters=max_characters,
        tokens=max_tokens,
        body=max_body * KIB,
        waiting=max(max_waiting, max_items),
        concurrent=max_concurrent,
        held=max_held * MIB,
        connections=max_connections,
        head=max_head * KIB,
        batch_texts=batch_texts,
        batch_tokens=batch_tokens,
        batch_wait=batch_wait_ms / 1000,
        receive=receive_timeout,
        timeout=timeout,
        grace=grace,
    )
    with open_port(host, port) as bound:
        if not is_loopback(host) and not keys:
            say(f"--host {host}: anybody who reaches this machine can use the service; --api-key-env asks for a key")
        from nearer.serve.app import create_app

        first = _load(
            model,
            index,
            name,
            rerank=rerank,
            normalize=normalize,
            **loading.arguments(precision=precision.value),
        )
        second = None
        if beside is not None:
            if beside_name is not None and beside_name == first.model.name:
                raise SettingError(f"--beside-name: {beside_name} is the first model's name already.")
            second = _load(
                beside,
                beside_index,
                beside_name,
                of="--beside-index",
                normalize=normalize,
                precision=precision.value,
                pooling=beside_pooling,
                device=loading.device,
                trust_remote_code=loading.trust_remote_code,
                allow_pickle=loading.allow_pickle,
            )
        app = create_app(
            first.model,
            limits=limits,
            index=first.index,
            beside=None if second is None else second.model,
            beside_index=None if second is None else second.index,
            api_keys=keys,
            hosts=LOOPBACK_HOSTS | {host.lower()} if is_loopback(host) else None,
        )
        run_server(app, bound, tell=say, access_log=access_log)


@dataclass(frozen=True)
class _Loaded:
    model: ServedModel
    index: SearchIndex | None


def _load(
    name: str,
    index: Path | None,
    called: str | None,
    *,
    normalize: bool | None,
    rerank: str | None = None,
    of: str = "--index",
    **options: Any,
) -> _Loaded:
    """called: what requests call it. of: the option that named the index."""
    from nearer.baselines import load_scorer
    from nearer.search.model import Rerankers
    from nearer.serve.model import ServedModel

    loaded = load_scorer(name, **options)
    rerankers = Rerankers(options["device"])
    relevance = _find_relevance(name, rerank, rerankers)
    opened = None
    if index is not None:
        from nearer.encoder import Encoder
        from nearer.search import SearchIndex
        from nearer.teachers import RankEncoder

        if not isinstance(loaded, (Encoder, RankEncoder)):
            raise SettingError(f"{of}: {name} has no index; name the model that the index was built by.")
        opened = SearchIndex.open(index, model=loaded)
        _ = opened.model.loaded  # another model than the index' own is told now, not to the first who searches
        opened.rerankers = rerankers
        if (reranker := opened.manifest.setup.reranker) is not None:
            rerankers.load(reranker.model)
    return _Loaded(ServedModel(loaded, called, normalize=normalize, relevance=relevance), opened)


def _find_relevance(name: str, rerank: str | None, rerankers: Rerankers) -> Relevance | None:
    """What scores documents for a query: a cross-encoder that was asked for alone, or all that the set-up has."""
    from nearer.search.fusion import RERANKER
    from nearer.search.setup import find_setup
    from nearer.serve.model import Relevance

    if rerank not in (None, "none"):
        return Relevance({RERANKER: 1.0}, rerankers.load(str(rerank)))
    setup = find_setup(name)
    if setup.is_plain or rerank == "none":
        return None
    judge = None if setup.reranker is None else rerankers.load(setup.reranker.model)
    return Relevance(setup.weights, judge)
