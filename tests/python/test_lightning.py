"""Against the real Lightning."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: the tests with Lightning are left out")
try:
    import lightning.pytorch as pl
except ImportError:
    pl = pytest.importorskip("pytorch_lightning", reason="Lightning is not installed: its tests are left out")
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from conftest import clustered
from smartmine.torch import TripletBatchSampler, TripletRatioLoss, training_error
from smartmine.torch.lightning import SmartMining


class Module(pl.LightningModule):
    def __init__(self, log):
        super().__init__()
        self.network, self.loss, self.log_error, self.errors = nn.Linear(16, 8), TripletRatioLoss(), log, []

    def forward(self, x):
        return nn.functional.normalize(self.network(x))

    def training_step(self, batch, _):
        triplets = self(batch[0]).chunk(3)
        self.errors.append(training_error(*triplets))
        if self.log_error:
            self.log("training_error", self.errors[-1], on_step=False, on_epoch=True)
        return self.loss(*triplets)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def fit(tmp_path, epochs=3, log=False, loss=True, **options):
    x, y = clustered(rows=600, dimension=16, of_class=20, spread=1.5)
    dataset = TensorDataset(torch.from_numpy(x))
    sampler = TripletBatchSampler(y, batch_size=50, neighbors=60, target_error=0.6)
    module = Module(log)
    mining = SmartMining(sampler, dataset, loss=module.loss if loss else None)
    trainer = pl.Trainer(
        max_epochs=epochs,
        callbacks=[mining],
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        use_distributed_sampler=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
        enable_checkpointing=True,
    )
    trainer.fit(module, DataLoader(dataset, batch_sampler=sampler), **options)
    return trainer, module, sampler


def test_mines_after_the_first_epoch_and_moves_kappa(tmp_path):
    trainer, module, sampler = fit(tmp_path)
    assert len(module.errors) == 3 * len(sampler) == 36
    assert sampler.stats["triplets"] == 600 and sampler.miner.epoch == 3
    last = sum(module.errors[24:]) / 12
    assert float(trainer.callback_metrics["training_error"]) == pytest.approx(last, abs=1e-5)
    assert sampler.kappa != float(trainer.callback_metrics["kappa"])


def test_takes_the_error_the_module_logs(tmp_path):
    trainer, module, sampler = fit(tmp_path, log=True, loss=False)
    assert f"{sum(module.errors[24:]) / 12:.3f}" in sampler.miner.explanation
    with pytest.raises(ValueError, match="logs no 'training_error'"):
        fit(tmp_path, loss=False)


def test_goes_on_from_a_checkpoint(tmp_path):
    trainer, _, sampler = fit(tmp_path, epochs=2)
    path = tmp_path / "here.ckpt"
    trainer.save_checkpoint(path)
    kappa, epoch = sampler.kappa, sampler.miner.epoch
    _, _, other = fit(tmp_path, epochs=2, ckpt_path=str(path))
    assert other.kappa == kappa and other.miner.epoch == epoch
