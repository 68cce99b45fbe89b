"""smartmine for people who train in PyTorch. Needs torch 1.13 or newer, which `import smartmine` alone does not.

`smartmine.torch.pml` fits pytorch-metric-learning, `smartmine.torch.lightning` fits Lightning; each is imported only when asked for.
"""

from .embedding import embed
from .losses import GlobalLoss, TripletRatioLoss, global_loss, training_error, triplet_ratio_loss
from .models import EmbeddingModel, load_run
from .samplers import NeighborBatchSampler, TripletBatchSampler, TripletSampler

__all__ = [
    "EmbeddingModel",
    "GlobalLoss",
    "NeighborBatchSampler",
    "TripletBatchSampler",
    "TripletRatioLoss",
    "TripletSampler",
    "embed",
    "global_loss",
    "load_run",
    "training_error",
    "triplet_ratio_loss",
]
