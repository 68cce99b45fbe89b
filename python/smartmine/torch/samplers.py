"""Samplers that serve mined triplets to a DataLoader, on one rank or many."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np
import torch
from torch.utils.data import Sampler

from .. import _core, _numbers
from .._arrays import class_labels
from .._batches import BatchBuilder
from .._core import InvalidArgument
from .._miner import Mined, Miner
from .._progress import ProgressLike


def _to_cpu(embeddings: Any) -> Any:
    if isinstance(embeddings, torch.Tensor):
        return embeddings.detach().to("cpu", torch.float32).contiguous()
    return embeddings


def _ranks(rank: Optional[int], world_size: Optional[int]) -> Tuple[int, int]:
    """Rank and world size as given, or those of torch.distributed, or those of a process alone."""
    ready = torch.distributed.is_available() and torch.distributed.is_initialized()
    world = int(world_size) if world_size is not None else torch.distributed.get_world_size() if ready else 1
    own = int(rank) if rank is not None else torch.distributed.get_rank() if ready else 0
    if not 0 <= own < world:
        raise InvalidArgument(f"rank is {own}; with a world size of {world} it must be from 0 to {world - 1}")
    return own, world


class _Triplets:
    """What both samplers do: hold the epoch's triplets, the same on every rank, and hand each rank its share."""

    def __init__(
        self,
        labels: Any,
        miner: Optional[Miner],
        rank: Optional[int],
        world_size: Optional[int],
        shuffle: bool,
        seed: int,
        options: Dict[str, Any],
    ) -> None:
        if miner is not None and options:
            raise InvalidArgument(f"{next(iter(options))} is an option of a miner, and a miner is given already")
        self.labels = class_labels(labels)
        self.miner = Miner(seed=seed, **options) if miner is None else miner
        self.rank, self.world_size = _ranks(rank, world_size)
        self.shuffle = bool(shuffle)
        self.seed = _numbers.seed(seed)
        self.epoch = 0
        self._classes = _core.LabelIndex(self.labels)
        self._count = self._classes.anchors * self.miner._options["triplets_per_anchor"]
        self._mined: Optional[np.ndarray] = None
        #: What the last update mined and cost; empty before it.
        self.stats: Dict[str, Any] = {}

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch is next: it keys the order, the random triplets before the first update, and the next update."""
        self.epoch = _numbers.whole(epoch, "epoch", 0, 2**62)
        self.miner.epoch = self.epoch

    def update(self, embeddings: Any, *, progress: ProgressLike = None) -> Mined:
        """Mines the triplets of the coming epoch from embeddings of the whole training set, in the order of the labels.

        Tensors of any device and type are brought to the CPU. Every rank must give the same embeddings, and then has the same triplets.
        """
        mined = self.miner.mine(_to_cpu(embeddings), self.labels, progress=progress)
        self._mined, self.stats = mined.triplets, mined.stats
        return mined

    def observe(self, training_error: float) -> float:
        """Tells the miner the training error of the epoch just trained; returns the next kappa."""
        return self.miner.observe(training_error)

    @property
    def kappa(self) -> float:
        return self.miner.kappa

    def state_dict(self) -> Dict[str, Any]:
        """What changes from epoch to epoch, for a checkpoint. After loading it, call `update` before the next epoch."""
        return {"epoch": self.epoch, "miner": self.miner.state_dict()}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self.epoch = int(state["epoch"])
        self.miner.load_state_dict(state["miner"])

    def _share(self) -> int:
        return -(-self._count // self.world_size)

    def _of_rank(self) -> np.ndarray:
        """This rank's triplets in the epoch's order: as many on every rank, the last filled up from the first."""
        key = (self.seed + self.epoch) % 2**64
        triplets = self._mined
        if triplets is None:
            triplets = _core.random_triplets(self._classes, self._count, key, 0)
        if self.shuffle:
            triplets = triplets[np.random.default_rng([0x736D, key]).permutation(len(triplets))]
        wanted = self._share() * self.world_size
        return np.resize(triplets, (wanted, 3))[self.rank :: self.world_size]


class TripletSampler(_Triplets, Sampler):
    """Anchor, positive, negative, anchor, ... of the whole training set: for a DataLoader whose batch size is a multiple of 3.

    Until the first `update(embeddings)` triplets are random, as in the paper's first epochs. Options of `smartmine.Miner` may be given
    here, or a miner. Rank and world size are those of torch.distributed where it is initialised. Every rank has equally many triplets.
    """

    def __init__(
        self,
        labels: Any,
        *,
        miner: Optional[Miner] = None,
        rank: Optional[int] = None,
        world_size: Optional[int] = None,
        shuffle: bool = True,
        seed: int = 1,
        **options: Any,
    ) -> None:
        _Triplets.__init__(self, labels, miner, rank, world_size, shuffle, seed, options)

    def __len__(self) -> int:
        return 3 * self._share()

    def __iter__(self) -> Iterator[int]:
        return iter(self._of_rank().reshape(-1).tolist())


class TripletBatchSampler(_Triplets, Sampler):
    """Batches of `batch_size` triplets: all anchors, then all positives, then all negatives, so that `embeddings.chunk(3)` parts them.

    For `DataLoader(dataset, batch_sampler=...)`. The rest as TripletSampler. The last batch may be smaller, unless `drop_last`.
    """

    def __init__(
        self,
        labels: Any,
        batch_size: int = 32,
        *,
        miner: Optional[Miner] = None,
        rank: Optional[int] = None,
        world_size: Optional[int] = None,
        shuffle: bool = True,
        drop_last: bool = False,
        seed: int = 1,
        **options: Any,
    ) -> None:
        _Triplets.__init__(self, labels, miner, rank, world_size, shuffle, seed, options)
        self.batch_size = _numbers.whole(batch_size, "batch_size", 1, 2**31 - 1)
        self.drop_last = bool(drop_last)

    def __len__(self) -> int:
        return self._share() // self.batch_size if self.drop_last else -(-self._share() // self.batch_size)

    def __iter__(self) -> Iterator[List[int]]:
        triplets = self._of_rank()
        for number in range(len(self)):
            yield triplets[number * self.batch_size : (number + 1) * self.batch_size].T.reshape(-1).tolist()


class NeighborBatchSampler(Sampler):
    """Batches of classes that lie near each other, by `smartmine.BatchBuilder`: for losses that look at all pairs of a batch.

    For `DataLoader(dataset, batch_sampler=...)`. Options of the builder are given here. Until the first `update(embeddings)` classes of a
    batch are drawn at random. Every rank must give the same embeddings; each serves every so-manieth batch, equally many.
    """

    def __init__(self, labels: Any, *, rank: Optional[int] = None, world_size: Optional[int] = None, seed: int = 1, **options: Any) -> None:
        self.labels = class_labels(labels)
        self.rank, self.world_size = _ranks(rank, world_size)
        self.builder = BatchBuilder(seed=seed, **options)
        self.epoch = 0
        self.seed = _numbers.seed(seed)
        self._options = dict(options)
        self._batches: Optional[np.ndarray] = None
        self._drawn: Optional[Tuple[int, np.ndarray]] = None  # an epoch and its batches
        self.stats: Dict[str, Any] = {}

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch is next: it keys the next update, the order of the batches, and before the first update the batches too."""
        self.epoch = self.builder.epoch = _numbers.whole(epoch, "epoch", 0, 2**62)

    def update(self, embeddings: Any, *, progress: ProgressLike = None) -> Dict[str, Any]:
        """Makes the batches of the coming epoch from embeddings of the whole training set, in the order of the labels."""
        self._batches, self.stats = self.builder.build(_to_cpu(embeddings), self.labels, progress=progress)
        return self.stats

    def _current(self) -> np.ndarray:
        if self._batches is not None:
            return self._batches
        if self._drawn is None or self._drawn[0] != self.epoch:  # other batches every epoch: who comes together is all that they vary
            drawn = BatchBuilder(**dict(self._options, near_share=0.0))
            seed = (self.seed + self.epoch) % 2**64
            self._drawn = self.epoch, drawn.build(None, self.labels, seed=seed).batches
        return self._drawn[1]

    def __len__(self) -> int:
        return -(-len(self._current()) // self.world_size)

    def __iter__(self) -> Iterator[List[int]]:
        batches = self._current()
        order = np.random.default_rng([0x6E62, (self.seed + self.epoch) % 2**64]).permutation(len(batches))
        for place in np.resize(order, len(self) * self.world_size)[self.rank :: self.world_size]:
            yield batches[place].tolist()
