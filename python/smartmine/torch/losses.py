"""The paper's triplet loss and the global loss beside it. Rows of anchors, positives and negatives belong together."""

from __future__ import annotations

from typing import Tuple

import torch
from torch import Tensor, nn

from .._core import InvalidArgument


def _check(anchors: Tensor, positives: Tensor, negatives: Tensor) -> None:
    if anchors.dim() != 2 or anchors.shape != positives.shape or anchors.shape != negatives.shape:
        raise InvalidArgument(
            f"anchors, positives and negatives are {tuple(anchors.shape)}, {tuple(positives.shape)} and {tuple(negatives.shape)}; "
            "all must be of one shape, T x D"
        )


def _squared(a: Tensor, b: Tensor) -> Tensor:
    return (a - b).square().sum(1)


def _root(squared: Tensor) -> Tensor:
    # The slope of the root is infinite at 0, where two copies of an image lie; there it counts as 0.
    positive = squared > 0
    return torch.where(positive, torch.where(positive, squared, torch.ones_like(squared)).sqrt(), torch.zeros_like(squared))


def _terms(anchors: Tensor, positives: Tensor, negatives: Tensor, margin: float) -> Tensor:
    _check(anchors, positives, negatives)
    return (1 - _root(_squared(anchors, negatives)) / (_root(_squared(anchors, positives)) + margin)).relu()


def triplet_ratio_loss(anchors: Tensor, positives: Tensor, negatives: Tensor, margin: float = 0.2) -> Tensor:
    """The mean over triplets of max(0, 1 - d(a, n) / (d(a, p) + margin)), distances not squared."""
    return _terms(anchors, positives, negatives, margin).mean()


def training_error(anchors: Tensor, positives: Tensor, negatives: Tensor, margin: float = 0.2) -> float:
    """The share of triplets with a loss: what `observe` of a miner or sampler wants, over an epoch."""
    with torch.no_grad():
        return float((_terms(anchors, positives, negatives, margin) > 0).float().mean())


def global_loss(anchors: Tensor, positives: Tensor, negatives: Tensor, weight: float = 0.8, margin: float = 0.01) -> Tensor:
    """With u = d2(a, p) / 4 and v = d2(a, n) / 4 over the batch: var(u) + var(v) + weight * max(0, mean(u) - mean(v) + margin)."""
    _check(anchors, positives, negatives)
    positive, negative = _squared(anchors, positives) / 4, _squared(anchors, negatives) / 4
    apart = (positive.mean() - negative.mean() + margin).relu()
    return positive.var(unbiased=False) + negative.var(unbiased=False) + weight * apart


class TripletRatioLoss(nn.Module):
    """`triplet_ratio_loss` as a module that counts the triplets with a loss: `take_error()` is the training error since the last call."""

    def __init__(self, margin: float = 0.2) -> None:
        super().__init__()
        if not 0 < margin <= 4:
            raise InvalidArgument(f"margin is {margin}; it must be more than 0 and at most 4")
        self.margin = margin
        self._active: Tuple[float, int] = (0.0, 0)

    def forward(self, anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        terms = _terms(anchors, positives, negatives, self.margin)
        if self.training:
            active, count = self._active
            self._active = (active + (terms.detach() > 0).sum(), count + len(terms))
        return terms.mean()

    def take_error(self) -> float:
        """The share of triplets with a loss since the last call. Raises InvalidArgument if there was none."""
        active, count = self._active
        if count == 0:
            raise InvalidArgument("no triplet was trained on since the last call, so there is no training error")
        self._active = (0.0, 0)
        return float(active) / count


class GlobalLoss(nn.Module):
    """`global_loss` as a module."""

    def __init__(self, weight: float = 0.8, margin: float = 0.01) -> None:
        super().__init__()
        self.weight, self.margin = weight, margin

    def forward(self, anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        return global_loss(anchors, positives, negatives, self.weight, self.margin)
