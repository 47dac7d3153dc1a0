"""What lies behind a score: geometry, distributions, biases, examples, significance.

Stands on the encoder, on rank vectors and on evaluation's pair tasks, and knows nothing of training. Numbers are plain
functions of arrays with small results; drawings (`figures`, `plots`, `gallery`) are apart and need matplotlib.
"""

from nearer.analysis.analyse import Analysis, TaskAnalysis, analyse, write_analyses
from nearer.analysis.bias import frequency_bias, length_bias, overlap_bias
from nearer.analysis.bootstrap import Comparison, MeanPair, SpearmanPair, paired_bootstrap
from nearer.analysis.encoded_task import EncodedTask, encode_tasks
from nearer.analysis.geometry import (
    Geometry,
    PathPoint,
    alignment,
    anisotropy,
    effective_rank,
    measure_geometry,
    run_path,
    singular_spectrum,
    trace_path,
    uniformity,
)
from nearer.analysis.rank_space import RankSpace, compare_spaces, gain_by_neighbours, shared_neighbours
from nearer.analysis.ratings import Distributions, GroupScores, rating_distributions, scores_by_rating
from nearer.analysis.side_by_side import RankingExample, SideBySide, ranking_examples, side_by_side
from nearer.analysis.threshold import CorpusThreshold, PairThreshold, threshold_of_corpus, threshold_of_pairs

__all__ = [
    "Analysis",
    "Comparison",
    "CorpusThreshold",
    "Distributions",
    "EncodedTask",
    "Geometry",
    "GroupScores",
    "MeanPair",
    "PairThreshold",
    "PathPoint",
    "RankSpace",
    "RankingExample",
    "SideBySide",
    "SpearmanPair",
    "TaskAnalysis",
    "alignment",
    "analyse",
    "anisotropy",
    "compare_spaces",
    "effective_rank",
    "encode_tasks",
    "frequency_bias",
    "gain_by_neighbours",
    "length_bias",
    "measure_geometry",
    "overlap_bias",
    "paired_bootstrap",
    "ranking_examples",
    "rating_distributions",
    "run_path",
    "scores_by_rating",
    "shared_neighbours",
    "side_by_side",
    "singular_spectrum",
    "threshold_of_corpus",
    "threshold_of_pairs",
    "trace_path",
    "uniformity",
    "write_analyses",
]
