"""The methods' papers, to be cited by models that were trained by them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """A method by its name in a recipe. what: it does, in one sentence."""

    name: str
    what: str
    key: str
    kind: str
    title: str
    authors: tuple[str, ...]
    venue: str
    year: int

    def bibtex(self) -> str:
        fields = {
            "title": f"{{{self.title}}}",
            "author": " and ".join(self.authors),
            "booktitle" if self.kind == "inproceedings" else "journal": self.venue,
            "year": str(self.year),
        }
        return "\n".join(
            [f"@{self.kind}{{{self.key},", *(f"  {name} = {{{value}}}," for name, value in fields.items()), "}"]
        )


ACL_2023 = (
    "Proceedings of the 61st Annual Meeting of the Association for Computational Linguistics (Volume 1: Long Papers)"
)

PAPERS = {
    "simcse": Paper(
        "SimCSE",
        "A sentence is to be nearer to its own view (or to its positive) than to the other sentences of the batch.",
        "gao2021simcse",
        "inproceedings",
        "SimCSE: Simple Contrastive Learning of Sentence Embeddings",
        ("Gao, Tianyu", "Yao, Xingcheng", "Chen, Danqi"),
        "Proceedings of the 2021 Conference on Empirical Methods in Natural Language Processing",
        2021,
    ),
    "rankcse": Paper(
        "RankCSE",
        "Beside the contrast, both views of a batch are to rank its sentences alike, and as the teachers do.",
        "liu2023rankcse",
        "inproceedings",
        "RankCSE: Unsupervised Sentence Representations Learning via Learning to Rank",
        (
            "Liu, Jiduan",
            "Liu, Jiahao",
            "Wang, Qifan",
            "Wang, Jingang",
            "Wu, Wei",
            "Xian, Yunsen",
            "Zhao, Dongyan",
            "Chen, Kai",
            "Yan, Rui",
        ),
        ACL_2023,
        2023,
    ),
    "rankencoder": Paper(
        "RankEncoder",
        "Two sentences are alike if they see a corpus in the same order; the encoder learns these similarities.",
        "seonwoo2023rankencoder",
        "inproceedings",
        "Ranking-Enhanced Unsupervised Sentence Representation Learning",
        (
            "Seonwoo, Yeon",
            "Wang, Guoyin",
            "Seo, Changmin",
            "Choudhary, Sajal",
            "Li, Jiwei",
            "Li, Xiang",
            "Xu, Puyang",
            "Park, Sunghyun",
            "Oh, Alice",
        ),
        ACL_2023,
        2023,
    ),
    "debcse": Paper(
        "DebCSE",
        "Positives and negatives are sampled by inverse propensity, so that surface and meaning do not go together.",
        "miao2023debcse",
        "inproceedings",
        "DebCSE: Rethinking Unsupervised Contrastive Sentence Embedding Learning in the Debiasing Perspective",
        ("Miao, Pu", "Du, Zeyao", "Zhang, Junlin"),
        "Proceedings of the 32nd ACM International Conference on Information and Knowledge Management",
        2023,
    ),
    "refine": Paper(
        "Refinement by ranking sentences",
        "A trained encoder learns the order of generated sentences, each of which lies further from the first.",
        "he2025refining",
        "inproceedings",
        "Refining Sentence Embedding Model through Ranking Sentences Generation with Large Language Models",
        (
            "He, Liyang",
            "Liu, Chenglong",
            "Li, Rui",
            "Huang, Zhenya",
            "Ruan, Shulan",
            "Zhou, Jun",
            "Chen, Enhong",
        ),
        "Findings of the Association for Computational Linguistics: ACL 2025",
        2025,
    ),
}
