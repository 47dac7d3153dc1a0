"""Hand a large model's order of your sentences down to a small one (RankCSE), without labels.

    python examples/distil_a_teacher.py mine.txt --teacher all-mpnet-base-v2 --out runs/small

The teacher is any sentence-transformers model, by folder or hub name; the student is the bundled wiki-mini (7.5 M
weights). The teacher reads each sentence once and its vectors are kept, so further runs begin at once.
"""

from __future__ import annotations

import argparse

import nearer


def main() -> None:
    parser = argparse.ArgumentParser(description="Distil a teacher's rankings into wiki-mini.")
    parser.add_argument("text")
    parser.add_argument("--teacher", default="all-mpnet-base-v2")
    parser.add_argument("--out", default="runs/distilled", help="run folder; must not be there yet")
    parser.add_argument("--batch-size", type=int, default=512, help="also the length of the lists that are ranked")
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()

    settings = {"batch_size": options.batch_size, "epochs": options.epochs}
    run = nearer.train(
        "rankcse-wiki-mini",
        options.text,
        teachers=[options.teacher],
        out=options.out,
        settings=settings,
        progress=True,
    )
    assert run.scores is not None  # the recipe tests on the bundled pairs
    student = run.scores.average
    teacher = nearer.evaluate(nearer.load_model(options.teacher), ["everyday"]).average
    print(f"everyday pairs, Spearman × 100: student {student:.1f}, teacher {teacher:.1f}")
    print(f"model: {run.model}")


if __name__ == "__main__":
    main()
