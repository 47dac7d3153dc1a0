"""The one training loop, its checkpoints, its recipes. It knows nothing of what methods do inside."""

from nearer.training.recipes import Recipe, load_recipe, recipe_names
from nearer.training.run import TrainedModel, resume, train
from nearer.training.seeds import train_seeds

__all__ = ["Recipe", "TrainedModel", "load_recipe", "recipe_names", "resume", "train", "train_seeds"]
