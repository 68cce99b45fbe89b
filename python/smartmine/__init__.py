"""Hard triplets mined over the whole training set, neighbour lists and retrieval metrics, for arrays of any framework.

    ids, distances, stats = smartmine.knn(x, k=100)
    triplets, stats = smartmine.Miner(kappa=4).mine(x, labels)
    smartmine.evaluate(x, labels)["recall@1"]

smartmine.torch has samplers, losses and a loader of trained runs for PyTorch; smartmine.sklearn a transformer. Neither is imported here.
"""

from ._batches import BatchBuilder, Batches
from ._core import Cancelled, Error, InternalError, InvalidArgument, IoError
from ._core import version as __version__
from ._evaluate import KMeans, evaluate, kmeans
from ._glyphs import glyphs
from ._hard_negatives import HardNegatives, mine_hard_negatives
from ._index import Found, Index, Neighbors, knn
from ._miner import Miner, Mined, violating_share
from ._progress import ProgressEvent
from ._run import Run
from ._tsne import Map, tsne

__all__ = [
    "BatchBuilder",
    "Batches",
    "Cancelled",
    "Error",
    "Found",
    "HardNegatives",
    "Index",
    "InternalError",
    "InvalidArgument",
    "IoError",
    "KMeans",
    "Map",
    "Mined",
    "Miner",
    "Neighbors",
    "ProgressEvent",
    "Run",
    "__version__",
    "evaluate",
    "glyphs",
    "kmeans",
    "knn",
    "mine_hard_negatives",
    "tsne",
    "violating_share",
]
