"""A model card from what is on record. What nobody noted is left out, or said to be unknown; nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from nearer.errors import SettingError
from nearer.evaluation.task import KIND_NAMES
from nearer.evaluation.tasks import shown_name
from nearer.export.papers import PAPERS
from nearer.export.source import Source
from nearer.export.training_facts import TrainingFacts, training_facts
from nearer.export.usage import usage
from nearer.report.numbers import figure, listed
from nearer.report.score_file import ScoreFile
from nearer.report.score_rows import Block, blocks
from nearer.teachers import RankEncoder

LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]+)*|multilingual")
LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]*")
UNTRAINED = "Training made it no better on its dev tasks: these are the weights that it started from."
TAGS = ("sentence-transformers", "sentence-similarity", "feature-extraction", "nearer")


@dataclass(frozen=True)
class Told:
    """What only the user can know. name: what the model is called in examples, such as its name on the hub."""

    name: str
    languages: tuple[str, ...] = ()
    licence: str | None = None

    def __post_init__(self) -> None:
        wrong = next((language for language in self.languages if not LANGUAGE.fullmatch(language)), None)
        if wrong is not None:
            raise SettingError(f"--language: {wrong!r} is not a language's code such as en, de or zh.")
        if self.licence is not None and not LICENCE.fullmatch(self.licence):
            raise SettingError(
                f"--license: {self.licence!r} is not a licence's name such as apache-2.0 or cc-by-sa-4.0."
            )
        if not self.name or not self.name.isprintable() or '"' in self.name or "\\" in self.name:
            raise SettingError(f"--name: {self.name!r} cannot be the name of a model.")


def model_card(source: Source, told: Told, scores: ScoreFile | None) -> str:
    """The whole README.md, as the hub reads it."""
    trained = training_facts(source)
    sections = [
        f"---\n{yaml.safe_dump(_front_matter(trained, told), sort_keys=False, allow_unicode=True)}---",
        f"# {told.name} (untrained)" if trained.untrained else f"# {told.name}",
        *([UNTRAINED] if trained.untrained else []),
        _what(source, trained),
        "## Use",
        usage(source, told.name),
        "## Training",
        *_training(trained),
        "## Scores",
        *_scores(scores),
        "## Limits",
        "\n".join(f"- {limit}" for limit in _limits(source, trained, told, scores)),
        "## Licence",
        _licence(told),
        *_citation(trained),
    ]
    return "\n\n".join(sections) + "\n"


def _front_matter(trained: TrainingFacts, told: Told) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "language": list(told.languages),
        "license": told.licence,
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": [*TAGS, *([trained.method] if trained.method else [])],
        "base_model": trained.base_model,
        "datasets": [trained.dataset] if trained.dataset else None,
    }
    return {name: value for name, value in facts.items() if value}


def _what(source: Source, trained: TrainingFacts) -> str:
    encoder, settings = source.encoder, source.encoder.settings
    paper = PAPERS.get(trained.method or "")
    by = f", trained by {paper.name}" if paper and not trained.untrained else ""
    layers = "" if encoder.head is None or not encoder.keeps_head else ", then a trained layer with tanh"
    layers += f", then {len(encoder.projections)} more layer(s)" if len(encoder.projections) else ""
    scaled = "have length 1" if settings.normalize else "are not scaled"
    weights = sum(weight.numel() for weight in encoder.parameters())
    lines = [
        f"A sentence encoder{by}: it turns a sentence into a vector of {encoder.dimension} numbers, and the nearer two "
        f"sentences are in meaning, the higher the cosine of their vectors should be.",
        "",
        f"- backbone: {encoder.backbone.config.model_type}, {weights:,} weights in all",  # type: ignore[union-attr]
        f"- pooling: `{settings.pooling}`{layers}; vectors {scaled}",
        f"- text normalisation: {settings.text_normalisation}",
    ]
    if isinstance(source.model, RankEncoder):
        lines.append(f"- compares by: {source.model.scoring} (with `nearer`; elsewhere by the cosine alone)")
    return "\n".join(lines)


def _training(trained: TrainingFacts) -> Iterator[str]:
    if not trained.facts and not trained.settings:
        yield "How it was trained is not on record."
        return
    paper = PAPERS.get(trained.method or "")
    if paper is not None:
        yield f"Method: {paper.name}. {paper.what}"
    if trained.facts:
        yield markdown_table(["", ""], [[name, value] for name, value in trained.facts.items()])
    if trained.settings:
        settings = yaml.safe_dump(trained.settings, sort_keys=False, allow_unicode=True).rstrip("\n")
        fence = "`" * (2 + max((len(run) for run in re.findall("`+", settings)), default=1))
        yield f"<details><summary>All settings</summary>\n\n{fence}yaml\n{settings}\n{fence}\n\n</details>"


def _scores(scores: ScoreFile | None) -> Iterator[str]:
    if scores is None or not scores.scores:
        yield "None are on record."
        return
    for block in blocks([scores.scores]):
        yield _block(block)
    protocol = {name.replace("_", " "): value for name, value in scores.protocol.items() if value not in (False, None)}
    how = ", ".join(name if value is True else f"{name} {value}" for name, value in protocol.items())
    how = f"How vectors were made: {how}. " if how else ""
    yield f"In percent, measured by `nearer`. {how}".rstrip()


def _block(block: Block) -> str:
    rows = []
    for row in block.rows:
        score = row.scores[0]
        how = ", ".join(f"{name} {value}" for name, value in score.protocol.items() if value not in (False, None))
        number = f"{score.count:,} {score.unit}"
        cells = [score.task, score.split, number, score.measure, figure(score.score), how, f"`{score.data_hash[:16]}`"]
        rows.append(cells)
    if len(block.averaged) > 1:
        name = f"average of {len(block.averaged)}" + (", without dev" if len(block.rows) > len(block.averaged) else "")
        rows.append([f"**{name}**", "", "", "", f"**{figure(block.average(0))}**", "", ""])
    return markdown_table(
        [KIND_NAMES.get(block.kind, block.kind), "split", "data", "measure", "score", "protocol", "data's digest"], rows
    )


def _limits(source: Source, trained: TrainingFacts, told: Told, scores: ScoreFile | None) -> Iterator[str]:
    encoder = source.encoder
    yield f"Texts are cut after {encoder.settings.max_length} tokens."
    if trained.settings.get("max_length"):
        yield f"It was trained on texts cut after {trained.settings['max_length']} tokens; longer ones are new to it."
    if not told.languages:
        yield "Which languages it serves is not on record."
    if scores is None or not scores.scores:
        yield "How well it works has not been measured, or not been noted here."
    else:
        yield (
            "Scores hold for the tasks above. STS is the similarity of sentences, retrieval is search: good figures of "
            "one do not promise good figures of the other. Try it on your own text."
        )
    if chosen := _chosen_by(trained, scores):
        yield f"The step that was kept was chosen by {listed(chosen)}: the score there flatters it."
    if encoder.trailing_padding:
        yield (
            "The backbone looks at each token's neighbours: in sentence-transformers the last token of the longest "
            "sentence of a batch sees no padding behind it, and vectors vary a little with the batch. `nearer` and its "
            "ONNX export add that padding."
        )
    if encoder.settings.text_normalisation == "full_stop":
        yield "sentence-transformers does not add the full stop that this model expects at the end of a sentence."
    yield "Biases of its training text and of the model that it started from can show in its similarities."


def _chosen_by(trained: TrainingFacts, scores: ScoreFile | None) -> list[str]:
    """The tasks among the scores by which a run selected."""
    selected = trained.settings.get("select_on") or []
    names = {form.lower() for name in selected for form in (name, shown_name(name)) if form}
    found = scores.scores if scores is not None else ()
    return [score.task for score in found if {score.task.lower(), f"{score.task} {score.split}".lower()} & names]


def _licence(told: Told) -> str:
    if told.licence is None:
        return "Not stated. The licences of its training text and of the model that it started from apply."
    return f"`{told.licence}`"


def _citation(trained: TrainingFacts) -> Iterator[str]:
    paper = PAPERS.get(trained.method or "")
    if paper is not None:
        yield "## Citation"
        yield f"The method:\n\n```bibtex\n{paper.bibtex()}\n```"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells may hold anything: bars and line breaks would end them."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(value) for value in line)} |" for line in lines)


def _cell(value: object) -> str:
    return " ".join(str(value).replace("|", "\\|").replace("<", "&lt;").split())
