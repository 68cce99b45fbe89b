"""For Lightning: a callback that mines before each epoch and holds the training error after it."""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, Optional

from .._core import InvalidArgument
from .embedding import embed

# Both packages have the same classes, and a Trainer of the one wants callbacks of the one: whichever is in use already.
if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import Callback
else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback


class SmartMining(Callback):
    """Mines the triplets of each epoch from an embedding pass over the training set, and moves kappa by the training error.

    `sampler` is the TripletSampler or TripletBatchSampler of the training DataLoader, `dataset` the training set without augmentation, in
    the order of the sampler's labels. The training error comes from `loss` (a TripletRatioLoss, or whatever has `take_error()`), or from
    the metric that the module logs as `error_metric`. The first `warmup_epochs` train on random triplets. With several ranks, every rank
    embeds the whole set; give the Trainer `use_distributed_sampler=False`, for the sampler knows its rank. kappa and the mined share are
    logged.
    """

    def __init__(
        self,
        sampler: Any,
        dataset: Any,
        *,
        loss: Optional[Any] = None,
        error_metric: str = "training_error",
        warmup_epochs: int = 1,
        batch_size: int = 256,
        num_workers: int = 0,
        embed_with: Optional[Callable[..., Any]] = None,
    ) -> None:
        if loss is not None and not hasattr(loss, "take_error"):
            raise InvalidArgument(f"loss is a {type(loss).__name__}, which has no take_error(); log the metric '{error_metric}' instead")
        self.sampler, self.dataset, self.loss, self.error_metric = sampler, dataset, loss, error_metric
        self.warmup_epochs, self.batch_size, self.num_workers = int(warmup_epochs), int(batch_size), int(num_workers)
        self.embed_with = embed if embed_with is None else embed_with
        self._observed = False

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self.sampler.set_epoch(trainer.current_epoch)
        self._observed = trainer.current_epoch >= self.warmup_epochs
        if self._observed:
            self.sampler.update(self.embed_with(pl_module, self.dataset, batch_size=self.batch_size, num_workers=self.num_workers))

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        error = self._training_error(trainer)
        if self._observed:
            pl_module.log("kappa", self.sampler.kappa)
            self.sampler.observe(error)
        pl_module.log("training_error", error)

    def _training_error(self, trainer: Any) -> float:
        if self.loss is not None:
            error = self.loss.take_error()
        elif self.error_metric in trainer.callback_metrics:
            error = trainer.callback_metrics[self.error_metric]
        else:
            raise InvalidArgument(
                f"the module logs no '{self.error_metric}'; log the share of triplets with a loss under that name, on_epoch=True, or give "
                "the callback loss=..."
            )
        if trainer.world_size > 1:  # every rank must move kappa alike
            import torch

            error = trainer.strategy.reduce(torch.as_tensor(float(error), device=trainer.strategy.root_device), reduce_op="mean")
        return float(error)

    def state_dict(self) -> Dict[str, Any]:
        return self.sampler.state_dict()

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self.sampler.load_state_dict(state)
