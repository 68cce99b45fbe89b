"""Batches of classes that lie near each other: the miner's sibling."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple

import numpy as np

from . import _core, _numbers
from ._arrays import class_labels, given_lists, matrix
from ._core import InvalidArgument
from ._index import Index, Stats
from ._progress import ProgressLike


class Batches(NamedTuple):
    """`batches` (int64, batches x size: ids of rows, in each batch class after class), and what was chosen and what it cost."""

    batches: np.ndarray
    stats: Stats


class BatchBuilder:
    """Puts classes that the neighbour lists show to be confused into one batch, so that most of its pairs are hard.

    For losses that look at all pairs of a batch. In each of `rounds` every row comes once, `images_per_class` of a class together. Of the
    classes of a batch behind the first, `near_share` are chosen by the lists, the others drawn. All batches are of one size: the last of a
    round is filled with rows that have come already. Rows alone in their class never come; of copies of a row in one class, one does.

    Options and results are those of `smartmine mine --batches`: the first call is `smartmine mine --batches --seed seed`, to the bit; the
    n-th after it is that with `seed + n` and the graph of the call before.
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
        self._near_share = _numbers.real(near_share, "near_share")
        self._duplicate_distance = _numbers.real(duplicate_distance, "duplicate_distance")
        self._rounds = _numbers.whole(rounds, "rounds", 1, 2**31 - 1)
        self._negatives = _numbers.whole(negatives, "negatives", 1, 2**31 - 1)
        self._seed, self._threads = _numbers.seed(seed), _numbers.threads(threads)
        self.epoch = 0
        self.index = Index(neighbors, index=index, recall=recall, seed=seed, threads=threads)

    def build(
        self,
        x: Any,
        labels: Any,
        *,
        lists: Optional[Tuple[Any, Any]] = None,
        seed: Optional[int] = None,
        progress: ProgressLike = None,
    ) -> Batches:
        """Batches of all rows of `x`. `lists`: ids and squared distances of neighbours computed elsewhere; `x` may be None then.

        So it may with a `near_share` of 0: no lists are computed, for nobody looks at them.
        """
        seed = (self._seed + self.epoch) % 2**64 if seed is None else _numbers.seed(seed)
        rows = None if x is None else matrix(x)
        if lists is None and self._near_share == 0:  # nobody looks at lists then: none are computed
            count = len(class_labels(labels)) if rows is None else len(rows)
            lists = np.roll(np.arange(count), -1)[:, None], np.ones((count, 1), np.float32)
        if lists is not None:
            found = given_lists(lists)
            if x is not None and len(found.ids) != len(x):
                raise InvalidArgument(f"lists has {len(found.ids)} rows; there are {len(x)} embeddings")
            classes = _core.LabelIndex(class_labels(labels, len(found.ids)))
            stats: Stats = {"index": "given", "seconds": 0.0, "stage_seconds": {}, "size": len(found.ids), "note": ""}
        elif rows is not None:
            classes = _core.LabelIndex(class_labels(labels, len(rows)))
            _numbers.neighbors(self.index.options["k"], len(rows), "neighbors")
            stats = self.index.update(rows, seed=seed, progress=progress).stats
            found = self.index.lists
        else:
            raise InvalidArgument("x is None; embeddings are wanted, or lists computed elsewhere")
        items, length, told = _core.build_batches(
            found,
            classes,
            rows,
            self._classes,
            self._images,
            self._near_share,
            self._rounds,
            self._negatives,
            self._duplicate_distance,
            seed,
            self._threads,
        )
        self.epoch += 1
        return Batches(items.reshape(-1, length), {**stats, **told})
