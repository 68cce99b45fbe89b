"""The built-in data set: characters of an invented script, drawn from a seed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import _core, _numbers


class Glyphs(NamedTuple):
    """`images` (uint8, N x size x size, dark ink on light paper) and their `labels` (int64)."""

    images: np.ndarray
    labels: np.ndarray


def glyphs(
    split: str = "train", *, classes: int = 200, images_per_class: int = 20, size: int = 28, seed: int = 1, threads: int = 0
) -> Glyphs:
    """The characters that `smartmine train --dataset glyphs` trains on ("train", half of the classes) or is measured on ("test")."""
    classes = _numbers.whole(classes, "classes", 4, 1_000_000)
    if split not in ("train", "test"):
        raise _core.InvalidArgument(f"split is {split!r}; it must be train or test")
    images, labels = _core.draw_glyphs(
        classes,
        split == "test",
        _numbers.whole(images_per_class, "images_per_class", 1, 100_000),
        _numbers.whole(size, "size", 8, 512),
        _numbers.seed(seed),
        _numbers.threads(threads),
    )
    return Glyphs(images, labels)
