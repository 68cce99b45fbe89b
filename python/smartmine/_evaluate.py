"""How well embeddings tell classes apart."""

from __future__ import annotations

from typing import Any, Dict, Iterable, NamedTuple, Sequence

import numpy as np

from . import _core, _numbers
from ._arrays import class_labels, matrix
from ._core import InvalidArgument
from ._progress import ProgressLike, Reporting


class KMeans(NamedTuple):
    """`assignments` (int64, N), `centres` (float32, clusters x D) and what it cost and reached."""

    assignments: np.ndarray
    centres: np.ndarray
    stats: Dict[str, Any]


def kmeans(
    x: Any,
    clusters: int,
    *,
    restarts: int = 5,
    max_iterations: int = 100,
    tolerance: float = 1e-5,
    seed: int = 1,
    threads: int = 0,
    progress: ProgressLike = None,
) -> KMeans:
    """Lloyd's k-means from k-means++ starts; of `restarts` runs the one of lowest inertia is kept."""
    rows = matrix(x)
    with Reporting(progress) as report:
        result = _core.k_means(
            rows,
            _numbers.whole(clusters, "clusters", 1, len(rows)),
            _numbers.whole(restarts, "restarts", 1, 1000),
            _numbers.whole(max_iterations, "max_iterations", 1, 2**31 - 1),
            _numbers.real(tolerance, "tolerance"),
            _numbers.seed(seed),
            _numbers.threads(threads),
            report,
        )
    return KMeans(result.pop("assignments"), result.pop("centres"), result)


def evaluate(
    x: Any,
    labels: Any,
    *,
    gallery: Any = None,
    gallery_labels: Any = None,
    recall_at: Sequence[int] = (1, 2, 4, 8),
    nmi: bool = True,
    map_at_r: bool = True,
    restarts: int = 5,
    seed: int = 1,
    threads: int = 0,
    progress: ProgressLike = None,
) -> Dict[str, Any]:
    """Every row is a query among all others, or among those of `gallery`, by exact search.

    Names and numbers are those of `smartmine eval --json`.

    `recall@k` is the share of rows with one of their class among the k nearest; `map@r` and `r_precision` look at as many as the class has;
    `nmi` (arithmetic mean of entropies) and `nmi_geometric` compare k-means, with as many clusters as there are classes, with the labels.
    What was left out by `nmi=False` or `map_at_r=False` is None.
    """
    rows = matrix(x)
    classes = class_labels(labels, len(rows))
    if not isinstance(recall_at, Iterable):
        raise TypeError(f"recall_at is {recall_at!r}; a sequence of numbers is wanted, such as (1, 2, 4, 8)")
    ks = [_numbers.whole(k, "recall_at", 1, 2**31 - 1) for k in recall_at]
    threads, seed = _numbers.threads(threads), _numbers.seed(seed)
    if (gallery is None) != (gallery_labels is None):
        raise InvalidArgument(f"{'gallery' if gallery is None else 'gallery_labels'} is missing; the two go together")
    searched = None if gallery is None else matrix(gallery, "gallery")
    searched_classes = None if searched is None else class_labels(gallery_labels, len(searched), "gallery_labels")
    if searched is not None and searched.shape[1] != rows.shape[1]:
        raise InvalidArgument(f"gallery is of dimension {searched.shape[1]}; x is of {rows.shape[1]}, and both must be of the same network")
    if searched is None and len(rows) < 2:
        raise InvalidArgument("there is only 1 row; a neighbour must be another row, so at least 2 are needed")
    clustering: Dict[str, Any] = {}
    both = (None, None)
    with Reporting(progress) as report:
        retrieval = _core.measure_retrieval(rows, classes, searched, searched_classes, ks, bool(map_at_r), threads, report)
        if nmi:
            clustering = _core.k_means(
                rows, len(np.unique(classes)), _numbers.whole(restarts, "restarts", 1, 1000), 100, 1e-5, seed, threads, report
            )
            both = _core.normalized_mutual_information(classes, clustering["assignments"])
    result: Dict[str, Any] = {f"recall@{k}": value for k, value in zip(ks, retrieval["recall"])}
    result["nmi"], result["nmi_geometric"] = both
    result["map@r"] = retrieval["map@r"] if map_at_r else None
    result["r_precision"] = retrieval["r_precision"] if map_at_r else None
    result.update(size=rows.shape[0], dimension=rows.shape[1])
    result["gallery_size"] = None if searched is None else len(searched)
    for name in ("classes", "queries_without_positive", "longest_list"):
        result[name] = retrieval[name]
    result["threads"] = _core.resolve_threads(threads)
    result["unit_norm"] = retrieval["unit_norm"]
    for name in ("clusters", "restarts", "inertia", "iterations", "converged"):
        result[name] = clustering.get(name)
    seconds = clustering.get("seconds", 0.0)
    result["seconds"] = retrieval["seconds"] + seconds
    result["stage_seconds"] = {"retrieval": retrieval["seconds"], "clustering": seconds}
    result["distance_computations"] = retrieval["distance_computations"] + clustering.get("distance_computations", 0)
    result["peak_memory_bytes"] = _core.peak_memory_bytes()
    result["note"] = _note(retrieval, clustering, classes, searched is not None)
    return result


def _note(retrieval: Dict[str, Any], clustering: Dict[str, Any], labels: np.ndarray, gallery: bool) -> str:
    notes = []
    alone = retrieval["queries_without_positive"]
    if alone:
        who = "queries have no image of their class in the gallery" if gallery else "rows are alone in their class"
        notes.append(f"{alone} of {len(labels)} {who}: misses of recall@k, left out of MAP@R and R-precision")
    wanted = len(np.unique(labels))
    if clustering and clustering["clusters"] < wanted:
        notes.append(f"only {clustering['clusters']} distinct rows for {wanted} classes, so only as many clusters")
    return "; ".join(notes)
