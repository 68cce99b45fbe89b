"""Batches of classes that lie near each other: the miner's sibling."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional

import numpy as np

from . import _core, _numbers
from ._arrays import class_labels, matrix
from ._index import Index, Stats
from ._progress import ProgressLike


class Batches(NamedTuple):
    """`batches`, each an int64 array of ids of rows, class after class, and what was chosen and what it cost."""

    batches: List[np.ndarray]
    stats: Stats


class BatchBuilder:
    """Puts classes that the neighbour lists show to be confused into one batch, so that most of its pairs are hard.

    For losses that look at all pairs of a batch. In each of `rounds` every row comes once, `images_per_class` of a class together. Of the
    classes of a batch behind the first, `near_share` are chosen by the lists, the others drawn. The n-th call after the first uses
    `seed + n` and the graph of the call before.
    """

    def __init__(
        self,
        classes: int = 24,
        images_per_class: int = 4,
        *,
        near_share: float = 1.0,
        rounds: int = 1,
        negatives: int = 16,
        duplicate_distance: float = 0.0,
        neighbors: int = 100,
        index: str = "auto",
        recall: float = 0.98,
        seed: int = 1,
        threads: int = 0,
    ) -> None:
        self._classes = _numbers.whole(classes, "classes", 2, 2**31 - 1)
        self._images = _numbers.whole(images_per_class, "images_per_class", 2, 2**31 - 1)
        self._near_share, self._duplicate_distance = float(near_share), float(duplicate_distance)
        self._rounds = _numbers.whole(rounds, "rounds", 1, 2**31 - 1)
        self._negatives = _numbers.whole(negatives, "negatives", 1, 2**31 - 1)
        self._seed = _numbers.seed(seed)
        self.epoch = 0
        self.index = Index(neighbors, index=index, recall=recall, seed=seed, threads=threads)

    def build(self, x: Any, labels: Any, *, seed: Optional[int] = None, progress: ProgressLike = None) -> Batches:
        """Batches of all rows of `x`."""
        rows = matrix(x)
        classes = _core.LabelIndex(class_labels(labels, len(rows)))
        seed = (self._seed + self.epoch) % 2**64 if seed is None else _numbers.seed(seed)
        stats = self.index.update(rows, seed=seed, progress=progress).stats
        items, length, told = _core.build_batches(
            self.index.lists,
            classes,
            self._classes,
            self._images,
            self._near_share,
            self._rounds,
            self._negatives,
            self._duplicate_distance,
            seed,
        )
        self.epoch += 1
        return Batches([items[begin : begin + length] for begin in range(0, len(items), length)], {**stats, **told})
