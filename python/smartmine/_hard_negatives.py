"""Hard negatives for retrieval: for every query those of another set that are near it and not among its positives."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _core, _numbers
from ._arrays import _view, matrix
from ._core import InvalidArgument
from ._progress import ProgressLike, Reporting

_PIECE = 1 << 22  # candidates looked at at once, so that memory stays bounded however many queries there are


class HardNegatives(NamedTuple):
    """`rows` (int64) of ids: (query, positive, negative) for triplets, (query, positive, negative, ...) for tuples.

    `similarities` (float32) has the same number of rows: the similarity of the query to each of the others.
    """

    rows: np.ndarray
    similarities: np.ndarray
    stats: Dict[str, Any]


def _positive_lists(positives: Any, queries: int, corpus: int) -> Tuple[np.ndarray, np.ndarray]:
    """Positives as one array and where each query's begin."""
    if isinstance(positives, (list, tuple)) and any(np.ndim(entry) for entry in positives):
        given = [np.asarray(entry).reshape(-1) for entry in positives]
        wrong = next((place for place, entry in enumerate(given) if entry.size and entry.dtype.kind not in "iu"), None)
        if wrong is not None:
            raise InvalidArgument(f"positives of query {wrong} are of {given[wrong].dtype}; ids of the corpus, whole numbers, are wanted")
        parts = [np.unique(entry.astype(np.int64)) for entry in given]
    else:
        array = np.asarray(positives) if isinstance(positives, (list, tuple, range)) else _view(positives, "positives")
        if array.dtype.kind not in "iu" or array.ndim not in (1, 2):
            raise InvalidArgument(
                f"positives is of {array.dtype} with shape {array.shape}; an id of the corpus a query, or a list of ids, is wanted"
            )
        parts = [np.unique(entry) for entry in array.reshape(len(array), -1).astype(np.int64)]
    if len(parts) != queries:
        raise InvalidArgument(f"positives has {len(parts)} entries; there are {queries} queries, and each needs its own")
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    flat = np.concatenate(parts) if len(parts) else np.empty(0, np.int64)
    wrong = np.flatnonzero((flat < 0) | (flat >= corpus))
    if len(wrong):
        query = int(np.searchsorted(offsets, wrong[0], side="right") - 1)
        raise InvalidArgument(f"positives of query {query} name row {flat[wrong[0]]}; the corpus has {corpus}")
    return flat, offsets


def _unit(x: np.ndarray, name: str) -> np.ndarray:
    norms = np.sqrt(np.einsum("ij,ij->i", x, x, dtype=np.float64))
    if not np.isfinite(norms).all():
        raise InvalidArgument(f"{name}: row {int(np.flatnonzero(~np.isfinite(norms))[0])} is not finite")
    if not (norms > 0).all():
        raise InvalidArgument(f"{name}: row {int(np.flatnonzero(norms == 0)[0])} is of zeros, which has no direction")
    return x if np.allclose(norms, 1, atol=1e-5) else (x / norms[:, None]).astype(np.float32)


def mine_hard_negatives(
    queries: Any,
    corpus: Any,
    positives: Union[Sequence[Any], Any],
    *,
    negatives: int = 1,
    range_min: int = 0,
    range_max: Optional[int] = None,
    absolute_margin: Optional[float] = None,
    relative_margin: Optional[float] = None,
    min_similarity: Optional[float] = None,
    max_similarity: Optional[float] = None,
    sampling: str = "top",
    output: str = "triplets",
    seed: int = 1,
    threads: int = 0,
    progress: ProgressLike = None,
) -> HardNegatives:
    """For every query and each of its positives, `negatives` rows of the corpus that are near the query and none of its positives.

    Similarity is the cosine. The corpus is ranked for each query by exact search, positives left out. Of ranks `range_min` up to
    `range_max` those count whose similarity is at most the positive's minus `absolute_margin`, at most the positive's times
    1 - `relative_margin`, and between `min_similarity` and `max_similarity`. `sampling` takes the first of them ("top") or random ones
    ("random", by `seed`). Without `range_max`, lists grow until every query has enough or has seen the whole corpus, so that nobody gets
    fewer than there are. `output="triplets"` gives a row for each negative, "tuples" a row for each positive that has all its negatives.

    `positives` is an id a query, an array of ids with a row a query, or a list of lists; a query without positives is passed over. What was
    passed over or stayed short is counted in `stats`.
    """
    if sampling not in ("top", "random"):
        raise InvalidArgument(f"sampling is {sampling!r}; it must be top or random")
    if output not in ("triplets", "tuples"):
        raise InvalidArgument(f"output is {output!r}; it must be triplets or tuples")
    negatives = _numbers.whole(negatives, "negatives", 1, 2**20)
    range_min = _numbers.whole(range_min, "range_min", 0, 2**31 - 1)
    if range_max is not None:
        range_max = _numbers.whole(range_max, "range_max", range_min + negatives, 2**31 - 1)
    for name, margin in (("absolute_margin", absolute_margin), ("relative_margin", relative_margin)):
        if margin is not None and not np.isfinite(_numbers.real(margin, name)):
            raise InvalidArgument(f"{name} is {margin}; it must be finite")
    for name, bound in (("min_similarity", min_similarity), ("max_similarity", max_similarity)):
        if bound is not None and np.isnan(_numbers.real(bound, name)):
            raise InvalidArgument(f"{name} is {bound}; it must be a number")
    base, wanted = matrix(corpus, "corpus"), matrix(queries, "queries")
    if base.shape[1] != wanted.shape[1]:
        raise InvalidArgument(f"queries have dimension {wanted.shape[1]}; the corpus has {base.shape[1]}")
    base, wanted = _unit(base, "corpus"), _unit(wanted, "queries")
    flat, offsets = _positive_lists(positives, len(wanted), len(base))
    limits = (-np.inf if min_similarity is None else min_similarity, np.inf if max_similarity is None else max_similarity)
    search = _Search(
        base,
        wanted,
        flat,
        offsets,
        negatives,
        range_min,
        range_max,
        absolute_margin,
        relative_margin,
        limits,
        sampling == "random",
        _numbers.seed(seed),
        _numbers.threads(threads),
    )
    with Reporting(progress) as report:
        search.run(report)
    return search.result(output)


class _Search:
    """One call: pairs of a query and a positive, and the negatives found for each."""

    def __init__(
        self,
        base: np.ndarray,
        wanted: np.ndarray,
        flat: np.ndarray,
        offsets: np.ndarray,
        negatives: int,
        range_min: int,
        range_max: Optional[int],
        absolute: Optional[float],
        relative: Optional[float],
        limits: Tuple[float, float],
        random: bool,
        seed: int,
        threads: int,
    ) -> None:
        self.base, self.wanted, self.flat, self.offsets = base, wanted, flat, offsets
        self.negatives, self.range_min, self.range_max = negatives, range_min, range_max
        self.absolute, self.relative, self.limits, self.random = absolute, relative, limits, random
        self.seed, self.threads = seed, threads
        self.pair_query = np.repeat(np.arange(len(wanted)), np.diff(offsets))
        self.pair_similarity = np.einsum("ij,ij->i", wanted[self.pair_query], base[flat]).astype(np.float32)
        self.found = np.full((len(flat), negatives), -1, np.int64)
        self.similarity = np.full((len(flat), negatives), np.nan, np.float32)
        self.longest = 0

    def run(self, report: Any) -> None:
        most_positives = int(np.diff(self.offsets).max(initial=0))
        everything = len(self.base)
        # Random ones are drawn from a range, so a range there must be; the first of a list need no end.
        first = self.range_max if self.range_max is not None else self.range_min + max(100 if self.random else 2 * self.negatives, 32)
        length = min(everything, first + most_positives)
        open_queries = np.unique(self.pair_query)
        while len(open_queries):
            self.longest = length
            step = max(1, _PIECE // length)
            still: List[np.ndarray] = []
            for begin in range(0, len(open_queries), step):
                still.append(self._piece(open_queries[begin : begin + step], length, report))
            if self.range_max is not None or length == everything:
                return
            open_queries = np.concatenate(still)
            length = min(everything, 4 * length)

    def _piece(self, queries: np.ndarray, length: int, report: Any) -> np.ndarray:
        """Looks at lists of some queries; returns those that stay short of negatives."""
        lists, _ = _core.search_exact(self.base, np.ascontiguousarray(self.wanted[queries]), length, self.threads, report)
        ids, similarities = lists.ids, 1 - lists.distances / 2
        short = []
        for place, query in enumerate(queries):
            begin, end = self.offsets[query], self.offsets[query + 1]
            keep = ~np.isin(ids[place], self.flat[begin:end])
            candidates, near = ids[place][keep], similarities[place][keep]
            stop = len(candidates) if self.range_max is None else self.range_max
            candidates, near = candidates[self.range_min : stop], near[self.range_min : stop]
            if sum(self._choose(pair, candidates, near) for pair in range(begin, end)):
                short.append(query)
        return np.array(short, dtype=np.int64)

    def _choose(self, pair: int, candidates: np.ndarray, near: np.ndarray) -> bool:
        """Negatives of one query and positive; whether they are too few."""
        positive = self.pair_similarity[pair]
        usable = (near >= self.limits[0]) & (near <= self.limits[1])
        if self.absolute is not None:
            usable &= near <= positive - self.absolute
        if self.relative is not None:
            usable &= near <= positive * (1 - self.relative)
        places = np.flatnonzero(usable)
        if self.random and len(places) > self.negatives:
            draw = np.random.default_rng([self.seed, pair])
            places = np.sort(draw.choice(places, self.negatives, replace=False))
        places = places[: self.negatives]
        self.found[pair, : len(places)] = candidates[places]
        self.similarity[pair, : len(places)] = near[places]
        return len(places) < self.negatives

    def result(self, output: str) -> HardNegatives:
        have = (self.found >= 0).sum(1)
        complete = have == self.negatives
        stats = {
            "queries": len(self.wanted),
            "corpus": len(self.base),
            "queries_without_positive": int((np.diff(self.offsets) == 0).sum()),
            "pairs": len(self.flat),
            "pairs_short": int((~complete).sum()),
            "negatives": int(have.sum()),
            "negatives_wanted": self.negatives * len(self.flat),
            "longest_list": self.longest,
        }
        if output == "triplets":
            pair, place = np.nonzero(self.found >= 0)
            rows = np.stack([self.pair_query[pair], self.flat[pair], self.found[pair, place]], 1)
            return HardNegatives(rows, np.stack([self.pair_similarity[pair], self.similarity[pair, place]], 1), stats)
        rows = np.concatenate([self.pair_query[complete, None], self.flat[complete, None], self.found[complete]], 1)
        return HardNegatives(rows, np.concatenate([self.pair_similarity[complete, None], self.similarity[complete]], 1), stats)
