"""An embedding pass over a whole data set."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from .._core import Cancelled, InvalidArgument
from .._progress import ProgressLike, Reporting


def embed(
    model: nn.Module,
    dataset: Dataset,
    *,
    batch_size: int = 256,
    device: Optional[Any] = None,
    num_workers: int = 0,
    collate_fn: Optional[Any] = None,
    progress: ProgressLike = None,
) -> Tensor:
    """The embeddings of all items of `dataset`, in its order: float32 on the CPU, N x D, ready for `update` and `mine`.

    An item is what the model takes, or a tuple or list whose first entry is. The model runs in evaluation mode without gradients, and is
    left in the mode it was in. `device`: where the model's parameters are unless given.
    """
    if device is None:
        first = next(model.parameters(), None)
        device = torch.device("cpu") if first is None else first.device
    loader = DataLoader(dataset, batch_size=batch_size, num_workers=num_workers, collate_fn=collate_fn)
    total = len(dataset)  # type: ignore[arg-type]
    was_training = model.training
    result: Optional[Tensor] = None
    done = 0
    model.eval()
    try:
        with torch.no_grad(), Reporting(progress) as report:
            for batch in loader:
                images = batch[0] if isinstance(batch, (tuple, list)) else batch
                rows = model(images.to(device)).detach().to("cpu", torch.float32)
                if rows.dim() != 2:
                    raise InvalidArgument(f"the model gives shape {tuple(rows.shape)}; it must give a vector an item, N x D")
                if result is None:
                    result = torch.empty(total, rows.shape[1])
                result[done : done + len(rows)] = rows
                done += len(rows)
                if report is not None and report("embedding", done, total, "images") is False:
                    raise Cancelled("cancelled")
    finally:
        model.train(was_training)
    if result is None or done != total:
        raise InvalidArgument(f"the data set says it has {total} items and gave {done}")
    return result
