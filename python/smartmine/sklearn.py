"""For scikit-learn: neighbour lists as a sparse graph that its estimators take (`metric="precomputed"`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from . import _core, _numbers
from ._index import knn

try:  # scikit-learn 1.6 and newer
    from sklearn.utils.validation import validate_data
except ImportError:

    def validate_data(_estimator: Any, X: Any, **options: Any) -> Any:
        return _estimator._validate_data(X, **options)


class NeighborsTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """As scikit-learn's KNeighborsTransformer with the Euclidean metric, by smartmine.

    `transform` gives a CSR matrix of queries by fitted rows. With `mode="distance"` its entries are Euclidean distances, `n_neighbors + 1`
    a row, so that a row that was fitted counts itself and has `n_neighbors` others; with `mode="connectivity"` they are 1, `n_neighbors` a
    row, itself included. `index`, `recall`, `seed` and `threads` are those of `smartmine.knn`; queries that were not fitted are searched
    exactly. Distances are computed in float32.
    """

    def __init__(
        self, *, mode: str = "distance", n_neighbors: int = 5, index: str = "auto", recall: float = 0.98, seed: int = 1, threads: int = 0
    ) -> None:
        self.mode = mode
        self.n_neighbors = n_neighbors
        self.index = index
        self.recall = recall
        self.seed = seed
        self.threads = threads

    def _check(self) -> None:
        if self.mode not in ("distance", "connectivity"):
            raise ValueError(f"mode is {self.mode!r}; it must be distance or connectivity")
        _numbers.whole(self.n_neighbors, "n_neighbors", 1, 2**31 - 2)

    def fit(self, X: Any, y: Any = None) -> "NeighborsTransformer":
        self._check()
        self._fit_X = validate_data(self, X, dtype=np.float32, order="C")
        self.n_samples_fit_ = len(self._fit_X)
        self._n_features_out = self.n_samples_fit_
        return self

    def _columns(self) -> int:
        columns = self.n_neighbors + int(self.mode == "distance")
        if columns > self.n_samples_fit_:
            raise ValueError(
                f"n_neighbors is {self.n_neighbors}; {self.n_samples_fit_} rows were fitted, so it must be at most "
                f"{self.n_samples_fit_ - int(self.mode == 'distance')}"
            )
        return columns

    def _graph(self, ids: np.ndarray, squared: np.ndarray) -> csr_matrix:
        values = np.sqrt(squared, dtype=np.float64) if self.mode == "distance" else np.ones(ids.shape)
        starts = np.arange(0, ids.size + 1, ids.shape[1])
        return csr_matrix((values.ravel(), ids.ravel(), starts), shape=(len(ids), self.n_samples_fit_))

    def transform(self, X: Any) -> csr_matrix:
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float32, order="C", reset=False)
        lists, _ = _core.search_exact(self._fit_X, rows, self._columns(), _numbers.threads(self.threads), None)
        return self._graph(lists.ids, lists.distances)

    def fit_transform(self, X: Any, y: Any = None) -> csr_matrix:
        """The lists of all rows at once, through a graph where that is faster."""
        self.fit(X)
        others = self._columns() - 1
        own = np.arange(self.n_samples_fit_, dtype=np.int32)[:, None]
        zeros = np.zeros((self.n_samples_fit_, 1), np.float32)
        if others == 0:
            return self._graph(own, zeros)
        found = knn(self._fit_X, others, index=self.index, recall=self.recall, seed=self.seed, threads=self.threads)
        return self._graph(np.hstack([own, found.ids]), np.hstack([zeros, found.distances]))
