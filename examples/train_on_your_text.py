"""Train on a text of your own, without labels: SimCSE on the bundled model, offline.

    python examples/train_on_your_text.py mine.txt --out runs/mine

The text has a sentence a line (csv, jsonl, parquet and compressed files do as well). The best step by the bundled
graded pairs is kept, so a run that only makes things worse ends with the model it began with.
"""

from __future__ import annotations

import argparse

import nearer


def main() -> None:
    parser = argparse.ArgumentParser(description="Unsupervised SimCSE on a text of your own.")
    parser.add_argument("text")
    parser.add_argument("--out", default="runs/mine", help="run folder; must not be there yet")
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()

    settings = {
        "select_on": "everyday",  # better: a file of your own pairs with scores, from your own subject
        "max_steps": options.steps,
        "evaluate_every": max(1, options.steps // 10),
    }
    run = nearer.train("simcse-wiki-mini", options.text, out=options.out, settings=settings, progress=True)
    print(f"best step {run.best_step}: {run.best_score:.1f} (Spearman × 100 on everyday pairs)")

    encoder = run.load()
    sentences = list(nearer.read_sentences(options.text, duplicates="drop"))
    print(f"nearest to {sentences[0]!r}:")
    for found in encoder.rank(sentences[0], sentences[1:], top=3):
        print(f"  {found.score:.3f}  {found.sentence}")


if __name__ == "__main__":
    main()
