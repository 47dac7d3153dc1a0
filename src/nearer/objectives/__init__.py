"""The losses as plain functions of tensors, one file each. They know nothing of models or files."""

from nearer.objectives.alternating_norm import alternating_norm
from nearer.objectives.angular_margin import arc_con, masked_order, with_angular_margin
from nearer.objectives.best_of_list import best_of_list
from nearer.objectives.bidirectional_margin import bidirectional_margin
from nearer.objectives.contrastive_tension import contrastive_tension
from nearer.objectives.fused_ranking import fuse, fused_ranking
from nearer.objectives.info_nce import contrast, info_nce
from nearer.objectives.list_mle import list_mle
from nearer.objectives.list_net import list_net
from nearer.objectives.list_order import list_order
from nearer.objectives.margin_mse import margin_mse
from nearer.objectives.masked_language import masked_language
from nearer.objectives.mutual_information import mutual_information
from nearer.objectives.noise_negatives import harder_noise, noise_cross_entropy
from nearer.objectives.nt_xent import nt_xent
from nearer.objectives.peer_contrast import agreement, group_contrast, group_logits
from nearer.objectives.rank_regression import rank_regression
from nearer.objectives.ranking_consistency import ranking_consistency
from nearer.objectives.replaced_tokens import replaced_tokens
from nearer.objectives.scored_pairs import angle, cosent
from nearer.objectives.sentence_pairs import cosine_regression, pair_classes

__all__ = [
    "agreement",
    "alternating_norm",
    "angle",
    "arc_con",
    "best_of_list",
    "bidirectional_margin",
    "contrast",
    "contrastive_tension",
    "cosent",
    "cosine_regression",
    "fuse",
    "fused_ranking",
    "group_contrast",
    "group_logits",
    "harder_noise",
    "info_nce",
    "list_mle",
    "list_net",
    "list_order",
    "margin_mse",
    "masked_language",
    "masked_order",
    "mutual_information",
    "noise_cross_entropy",
    "nt_xent",
    "pair_classes",
    "rank_regression",
    "ranking_consistency",
    "replaced_tokens",
    "with_angular_margin",
]
