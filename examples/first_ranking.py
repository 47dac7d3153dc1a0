"""Which of these sentences is nearest in meaning? With the bundled model, offline, in a few seconds.

    python examples/first_ranking.py "How do I keep bread fresh?"

wiki-mini is small and untrained: it shows how things go, not how good they get. Any sentence-transformers model does
better: `--model all-MiniLM-L6-v2` (a hub name, or a folder).
"""

from __future__ import annotations

import argparse

import nearer

SENTENCES = [
    "A loaf stays soft for longer in a paper bag.",
    "The last train to the coast leaves at nine.",
    "Wrap the bread in a cloth so that it does not dry out.",
    "She repaired the bicycle with a borrowed wrench.",
    "Rain is expected in the hills tomorrow.",
]


def main() -> None:
    parser = argparse.ArgumentParser(description="Rank five sentences by nearness to a query.")
    parser.add_argument("query", nargs="?", default="How do I keep bread fresh?")
    parser.add_argument("--model", default="wiki-mini")
    options = parser.parse_args()

    # a plain checkpoint such as wiki-mini does not say how its vectors are pooled, a trained model does
    encoder = nearer.Encoder.load(options.model, pooling="mean" if options.model == "wiki-mini" else None)
    for found in encoder.rank(options.query, SENTENCES):
        print(f"{found.score:.3f}  {found.sentence}")


if __name__ == "__main__":
    main()
