"""For pytorch-metric-learning: a miner, and the functions its AccuracyCalculator takes."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import numpy as np
import torch
from pytorch_metric_learning.miners import BaseMiner
from torch import Tensor

from .. import _core, _numbers
from .._core import InvalidArgument
from .._evaluate import kmeans
from .._index import knn

_PIECE = 1 << 22  # entries of lists walked at once


def _rows(embeddings: Tensor) -> np.ndarray:
    return embeddings.detach().to("cpu", torch.float32).contiguous().numpy()


class SmartMiner(BaseMiner):
    """Smart mining as a miner of pytorch-metric-learning. It sees what it is given.

    Given a batch, it selects among the batch, not among the training set: for the whole set use `smartmine.torch.TripletBatchSampler`, or
    give all embeddings at once. With references (`ref_emb`, `ref_labels`, such as a cross-batch memory) positives and negatives are of
    these. Memory stays bounded: lists of `neighbors` are searched, never all pairs.

    For each anchor: the nearest negative beyond `kappa` times the squared distance of its nearest positive, and the nearest positive behind
    that negative. Where no positive lies behind it, `nearer_positives` takes the farthest one of the list if the triplet violates `margin`.
    Anchors without such a triplet are left out.
    """

    def __init__(
        self, kappa: float = 4.0, neighbors: int = 100, margin: float = 0.2, nearer_positives: bool = True, threads: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.kappa, self.margin = _numbers.real(kappa, "kappa"), _numbers.real(margin, "margin")
        if not self.kappa > 0:
            raise InvalidArgument(f"kappa is {kappa}; it must be more than 0")
        self.nearer_positives = bool(nearer_positives)
        self.neighbors = _numbers.whole(neighbors, "neighbors", 1, 2**31 - 1)
        self.threads = _numbers.threads(threads)

    def mine(self, embeddings: Tensor, labels: Tensor, ref_emb: Tensor, ref_labels: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        same_set = ref_emb is embeddings
        queries, base = _rows(embeddings), _rows(ref_emb)
        own, theirs = labels.cpu().numpy(), ref_labels.cpu().numpy()
        length = min(len(base), self.neighbors + int(same_set))
        step = max(1, _PIECE // length)
        parts = [np.empty((3, 0), np.int64)]
        for begin in range(0, len(queries), step):
            end = min(begin + step, len(queries))
            lists, _ = _core.search_exact(base, queries[begin:end], length, self.threads, None)
            found = self._walk(lists.ids, lists.distances, own[begin:end], theirs, np.arange(begin, end) if same_set else None)
            found[0] += begin
            parts.append(found)
        return tuple(torch.from_numpy(part).to(embeddings.device) for part in np.concatenate(parts, 1))  # type: ignore[return-value]

    def _walk(
        self, ids: np.ndarray, distances: np.ndarray, own: np.ndarray, theirs: np.ndarray, selves: Optional[np.ndarray]
    ) -> np.ndarray:
        """Anchors (counted from the first list), positives and negatives."""
        places = np.arange(ids.shape[1])[None, :]
        positive = theirs[ids] == own[:, None]
        negative = ~positive & (distances > 0)  # at distance 0 lies the same image under two labels
        if selves is not None:
            positive &= ids != selves[:, None]
        rows = np.arange(len(ids))
        nearest = positive.argmax(1)
        bound = self.kappa * distances[rows, nearest].astype(np.float64)
        usable = negative & (distances >= bound[:, None]) & (places > nearest[:, None])
        first = usable.argmax(1)
        found = positive.any(1) & usable.any(1)
        behind = positive & (places > first[:, None])
        last = ids.shape[1] - 1 - positive[:, ::-1].argmax(1)
        covered = behind.any(1)
        chosen = np.where(covered, behind.argmax(1), last)
        if self.nearer_positives:
            violates = np.sqrt(distances[rows, first]) < np.sqrt(distances[rows, chosen]) + self.margin
            found &= covered | violates
        else:
            found &= covered
        keep = np.flatnonzero(found)
        return np.stack([keep, ids[keep, chosen[keep]], ids[keep, first[keep]]]).astype(np.int64)


class KNN:
    """A `knn_func` for AccuracyCalculator and InferenceModel: exact, by smartmine, no faiss needed.

    Distances are squared, as those of PML's own FaissKNN. `index="auto"` may go through a graph where every reference is a query and no
    `k` is long: quicker on large sets, at `recall`.
    """

    def __init__(self, index: str = "exact", recall: float = 0.98, threads: int = 0) -> None:
        self.index, self.recall, self.threads = index, recall, _numbers.threads(threads)
        self._reference: Optional[np.ndarray] = None

    def __call__(
        self, query: Tensor, k: int, reference: Optional[Tensor] = None, ref_includes_query: bool = False
    ) -> Tuple[Tensor, Tensor]:
        queries = _rows(query)
        base = self._reference if reference is None else _rows(reference)
        if base is None:
            raise InvalidArgument("there is no reference; give one, or call train first")
        if ref_includes_query and len(base) == len(queries):
            found = knn(base, k, index=self.index, recall=self.recall, threads=self.threads)
            ids, distances = found.ids, found.distances
        elif ref_includes_query:
            ids, distances = self._without_self(base, queries, k)
        else:
            lists, _ = _core.search_exact(base, queries, _numbers.whole(k, "k", 1, len(base)), self.threads, None)
            ids, distances = lists.ids, lists.distances
        return torch.from_numpy(distances).to(query.device), torch.from_numpy(ids.astype(np.int64)).to(query.device)

    def _without_self(self, base: np.ndarray, queries: np.ndarray, k: int) -> Tuple[np.ndarray, np.ndarray]:
        """The first rows of the reference are the queries; each is left out of its own list."""
        lists, _ = _core.search_exact(base, queries, _numbers.whole(k, "k", 1, len(base) - 1) + 1, self.threads, None)
        own = lists.ids == np.arange(len(queries))[:, None]
        own[~own.any(1), -1] = True  # so many copies of it that it is not in its list itself
        return lists.ids[~own].reshape(len(queries), k), np.ascontiguousarray(lists.distances[~own].reshape(len(queries), k))

    def train(self, embeddings: Any) -> None:
        """Holds the reference for calls without one, as InferenceModel does."""
        self._reference = _rows(torch.as_tensor(embeddings))

    def add(self, embeddings: Any) -> None:
        more = _rows(torch.as_tensor(embeddings))
        self._reference = more if self._reference is None else np.concatenate([self._reference, more])

    def reset(self) -> None:
        self._reference = None


#: An exact `knn_func` with all cores.
knn_func = KNN()


def kmeans_func(x: Tensor, clusters: int) -> Tensor:
    """A `kmeans_func` for AccuracyCalculator."""
    return torch.from_numpy(kmeans(_rows(x), clusters).assignments).to(x.device)
