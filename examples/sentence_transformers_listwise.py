"""RankCSE in sentence-transformers' own trainer: a small student learns from a teacher how to rank.

    python examples/sentence_transformers_listwise.py wiki.txt --teacher all-MiniLM-L6-v2

The student is the bundled wiki-mini, the text any file of sentences (no labels), the teacher any model. It needs
`pip install -e '.[sentence-transformers,hub]' accelerate`; 1,500 sentences take about a minute on two cores.
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import islice

from datasets import Dataset
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments

import nearer
from nearer.evaluation import load_tasks
from nearer.integrations.sentence_transformers import RankCSELoss, teacher_labels


def main() -> None:
    parser = argparse.ArgumentParser(description="RankCSE in sentence-transformers' own trainer.")
    parser.add_argument("text", help="sentences, one a line: txt, csv, jsonl, parquet, compressed or not")
    parser.add_argument("--teacher", default="all-MiniLM-L6-v2", help="folder or name of the model to learn from")
    parser.add_argument("--sentences", type=int, default=1500, help="how many of the file's sentences to learn from")
    parser.add_argument("--batch-size", type=int, default=64, help="also the length of the lists that are ranked")
    parser.add_argument("--out", default="listwise-model", help="folder for the trained model")
    options = parser.parse_args()
    sentences = list(islice(nearer.read_sentences(options.text, duplicates="drop"), options.sentences))
    dataset = teacher_labels(Dataset.from_dict({"sentence": sentences}), nearer.Encoder.load(options.teacher))
    with tempfile.TemporaryDirectory() as folder:
        nearer.Encoder.load("wiki-mini", pooling="mean", max_length=32).save(f"{folder}/student")
        model = SentenceTransformer(f"{folder}/student")
        before = everyday(model)
        arguments = SentenceTransformerTrainingArguments(
            output_dir=f"{folder}/run",
            per_device_train_batch_size=options.batch_size,
            dataloader_drop_last=True,  # the last sentences of an epoch would have shorter lists, or none at all
            learning_rate=2e-4,
            num_train_epochs=1,
            save_strategy="no",
        )
        SentenceTransformerTrainer(model, arguments, dataset, loss=RankCSELoss(model, log_parts=True)).train()
    print(f"everyday pairs, Spearman × 100: {before:.1f} before, {everyday(model):.1f} after")
    model.save_pretrained(options.out)


def everyday(model: SentenceTransformer) -> float:
    """Spearman's correlation × 100 with the gold scores of the bundled pairs."""
    [task] = load_tasks(["everyday"], None)
    first, second = (model.encode([pair[place] for pair in task.pairs]) for place in (0, 1))
    return 100 * spearmanr(model.similarity_pairwise(first, second), [pair.score for pair in task.pairs]).statistic


if __name__ == "__main__":
    main()
