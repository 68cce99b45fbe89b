"""A map of embeddings in the plane."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple

import numpy as np

from . import _core, _numbers
from ._arrays import matrix
from ._progress import ProgressLike, Reporting


class Map(NamedTuple):
    """`places` (float64, N x 2), centred on 0, and what the map cost and reached."""

    places: np.ndarray
    stats: Dict[str, Any]


def tsne(
    x: Any,
    *,
    perplexity: float = 30.0,
    iterations: int = 750,
    early: int = 250,
    exaggeration: float = 12.0,
    theta: float = 0.5,
    learning_rate: float = 0.0,
    seed: int = 1,
    threads: int = 0,
    progress: ProgressLike = None,
) -> Map:
    """t-SNE by the Barnes-Hut approximation, over lists of the library's own. `learning_rate=0`: what suits the number of rows."""
    rows = matrix(x)
    with Reporting(progress) as report:
        places, stats = _core.tsne(
            rows,
            _numbers.real(perplexity, "perplexity"),
            _numbers.whole(iterations, "iterations", 0, 100000),
            _numbers.whole(early, "early", 0, 100000),
            _numbers.real(exaggeration, "exaggeration"),
            _numbers.real(theta, "theta"),
            _numbers.real(learning_rate, "learning_rate"),
            _numbers.seed(seed),
            _numbers.threads(threads),
            report,
        )
    return Map(places, stats)
