"""Positives that look different and negatives that look alike, mined from a plain text (DebCSE), and what they hold.

    python examples/build_debiased_data.py mine.txt --out debiased
    nearer train debcse-bert-base --corpus debiased/data.jsonl --data data/senteval

`--model` is the encoder whose cosines say what means the same: a trained one, better than the bundled default. Needs
`pip install -e '.[construct]'`. Interrupted, the same command goes on where it was.
"""

from __future__ import annotations

import argparse

import nearer
from nearer.construct.debiased import DebiasedBuilder
from nearer.construct.debiased_sampler import DebiasedSettings
from nearer.construct.positives import WordFrequencies, generator_by_name
from nearer.teachers.vector_store import VectorStore


def main() -> None:
    parser = argparse.ArgumentParser(description="Debiased samples from raw sentences.")
    parser.add_argument("text")
    parser.add_argument("--model", default="wiki-mini")
    parser.add_argument("--out", default="debiased")
    parser.add_argument("--limit", type=int, help="the first so many sentences only")
    options = parser.parse_args()

    reading = nearer.read_sentences(options.text)
    encoder = nearer.Encoder.load(options.model, pooling="mean" if options.model == "wiki-mini" else None)
    generator = generator_by_name("noise", words=lambda: WordFrequencies.of(reading))
    settings = DebiasedSettings(low=0.25, high=0.75, pool_size=32)  # cosines between which negatives are looked for
    builder = DebiasedBuilder(options.out, reading, VectorStore(encoder), generator, settings, limit=options.limit)
    builder.build(progress=True)
    data = builder.finish({})

    records = nearer.read_debiased(data)
    for number, sample in enumerate(records):
        if number == 0:
            print(f"anchor    {sample.anchor}")
            print(*(f"positive  {text}" for text in sample.positives), sep="\n")
            print(*(f"negative  {text}" for text in sample.negatives), sep="\n")
    print(f"{data}: {records.report.kept} records")


if __name__ == "__main__":
    main()
