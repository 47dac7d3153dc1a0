"""`nearer bench decode`: ranking lists decoded together, against one list at a time and against two plain passes; on a
GPU also with steps that are not recorded."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

import torch

from benchmarks.machine import measure_ceilings
from benchmarks.report import Report, Row, compared, new_report
from nearer.construct.engines.decoding import TokenSampling, directed
from nearer.construct.engines.transformers_engine import TransformersEngine
from nearer.construct.model_files import find_language_model
from nearer.construct.requests import Generated, Request, Template, load_template
from nearer.distributed import local_device
from nearer.encoder.sources import BUNDLED
from nearer.errors import SettingError

TOGETHER, ALONE, PLAIN = "lists together", "one list at a time", "two plain passes"
UNRECORDED = "lists together, steps not recorded"
Answer = Callable[[deque[Request]], Iterable[Generated]]


@dataclass(frozen=True)
class DecodeBench:
    """What to measure. alone: how many of the lists are also decoded one at a time."""

    model: str
    lists: int = 16
    steps: int = 4
    guidance: float = 0.5
    max_new_tokens: int = 40
    alone: int = 2
    precision: str | None = None


class _Decoded(NamedTuple):
    tokens: int
    seconds: float
    sentences: dict[tuple[int, int], str]  # by list and step


def bench_decode(wanted: DecodeBench, tell: Callable[[str], None] = lambda message: None) -> Report:
    """Measure, and report; `tell` gets a line at each stage."""
    starts = _starts(wanted.lists)
    template = load_template("directional", wanted.steps)
    device = local_device()
    tell("loading the model")
    path = find_language_model(wanted.model)
    engine = TransformersEngine.load(
        path, TokenSampling(), wanted.lists, wanted.max_new_tokens, device, wanted.precision
    )
    single = TransformersEngine(engine.language, path, TokenSampling(), 1, wanted.max_new_tokens)
    few = starts[: wanted.alone]
    _grown(single.answer, starts[:1], template, wanted, steps=1)  # the first pass of a process takes longer
    decoded = {}
    ways = [(TOGETHER, engine, starts), (ALONE, single, few)]
    if engine.language.records:
        launched = replace(engine.language, records=False)
        unrecorded = TransformersEngine(launched, path, TokenSampling(), wanted.lists, wanted.max_new_tokens)
        ways.insert(1, (UNRECORDED, unrecorded, starts))
    for name, way, chosen in ways:
        tell(f"{name}: {len(chosen)} of {wanted.steps} steps")
        decoded[name] = _grown(way.answer, chosen, template, wanted)
    tell(f"{PLAIN}: {len(few)} of {wanted.steps} steps")
    decoded[PLAIN] = _grown(lambda requests: _plainly(single, requests), few, template, wanted)
    rows = [
        Row(
            f"directional decoding, seconds a token (λ = {wanted.guidance:g})",
            name,
            done.seconds / done.tokens,
            note=note,
        )
        for name, done in decoded.items()
        for note in (f"{done.tokens / done.seconds:.1f} tokens a second, {done.tokens:,} in {done.seconds:.1f} s",)
    ]
    others = [name for name in decoded if name != TOGETHER]
    notes = [
        f"model: {wanted.model}, {engine.language.precision}; {wanted.lists} lists together, {len(few)} of them alone",
        *(_agreement(decoded[TOGETHER], decoded[name], name) for name in others),
    ]
    tell("the machine's limits")
    limits = measure_ceilings(device)
    return new_report("decode", device, limits, asdict(wanted), compared(rows, others), notes)


def _starts(count: int) -> list[str]:
    lines = (BUNDLED / "everyday-pairs.tsv").read_text(encoding="utf-8").splitlines()
    sentences = list(dict.fromkeys(part for line in lines for part in line.split("\t") if part.endswith(".")))
    if not 1 <= count <= len(sentences):
        raise SettingError(f"--lists: {count} is not within 1 and {len(sentences)}, the sentences there are.")
    return sentences[:count]


def _grown(
    answer: Answer, starts: Sequence[str], template: Template, wanted: DecodeBench, *, steps: int | None = None
) -> _Decoded:
    """Lists from start sentences, each sentence steered by the two before it, as the builder does."""
    queue = deque(Request(number, 1, template.prompt(start)) for number, start in enumerate(starts))
    sentences: dict[tuple[int, int], str] = {}
    tokens, began = 0, time.perf_counter()
    for given in answer(queue):
        request = given.request
        tokens += given.tokens
        sentences[request.number, request.step] = given.text
        if request.step < (steps or wanted.steps):
            prompt = template.prompt(given.text)
            queue.appendleft(Request(request.number, request.step + 1, prompt, request.prompt, wanted.guidance))
    return _Decoded(tokens, time.perf_counter() - began, sentences)


def _plainly(engine: TransformersEngine, requests: deque[Request]) -> Iterable[Generated]:
    """As the papers' code does: one sentence at a time, each context by itself with the model's usual cache."""
    from transformers import DynamicCache

    model, ours = engine.language.model, engine.language.model.config._attn_implementation
    while requests:
        request = requests.popleft()
        answers = engine.answers()
        answers.begin(0, request, TokenSampling().draws(request, engine.max_new_tokens))
        contexts = [torch.tensor([ids], device=model.device) for ids in engine.ids([request])[0]]
        caches = [DynamicCache(config=model.config) for _ in contexts]
        model.set_attn_implementation("sdpa")
        ended = False
        while not ended:
            with torch.inference_mode():
                logits = [
                    model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1]
                    for ids, cache in zip(contexts, caches, strict=True)
                ]
                guidance = torch.tensor([request.guidance], device=model.device)
                token = directed(logits[0], logits[-1], guidance).argmax(-1)
            contexts = [token[None] for _ in contexts]
            ended = bool(len(answers.take(torch.tensor([0]).numpy(), token.cpu().numpy())))
        model.set_attn_implementation(ours)
        yield answers.finish(0)


def _agreement(one: _Decoded, other: _Decoded, name: str) -> str:
    same = sum(one.sentences.get(index) == text for index, text in other.sentences.items())
    return f"{same} of {len(other.sentences)} sentences of {name!r} are the same as together"
