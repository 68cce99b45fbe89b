"""Smart mining as a callback of Lightning: drawn characters, on a CPU."""

import logging
import os
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

try:
    import lightning.pytorch as pl
except ImportError:
    import pytorch_lightning as pl

import smartmine
from smartmine.torch import TripletBatchSampler, TripletRatioLoss, embed, global_loss
from smartmine.torch.lightning import SmartMining
from smartmine.torch.backbones import SmallConvnet


class Characters(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(SmallConvnet(channels=1, size=32), nn.Linear(2048, 64))
        self.loss = TripletRatioLoss()

    def forward(self, images):
        return nn.functional.normalize(self.network(images))

    def training_step(self, batch, _):
        triplets = self(batch[0]).chunk(3)
        return self.loss(*triplets) + global_loss(*triplets)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9, weight_decay=0.0005)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)]


warnings.filterwarnings("ignore", module="lightning|pytorch_lightning")
logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
pl.seed_everything(1)
train, test = (smartmine.glyphs(name, size=32) for name in ("train", "test"))
images, test_images = (TensorDataset((torch.from_numpy(split.images).float().unsqueeze(1) - 255) / 127.5) for split in (train, test))
module = Characters()
sampler = TripletBatchSampler(train.labels, batch_size=32, triplets_per_anchor=2, neighbors=200, target_error=0.6)
mining = SmartMining(sampler, images, loss=module.loss)
trainer = pl.Trainer(
    max_epochs=int(os.environ.get("EPOCHS", 8)),
    callbacks=[mining],
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    use_distributed_sampler=False,
)
trainer.fit(module, DataLoader(images, batch_sampler=sampler))
found = smartmine.evaluate(embed(module, test_images), test.labels)
print(
    f"training error {float(trainer.callback_metrics['training_error']):.2f}, kappa {sampler.kappa:.2f}, recall@1 {found['recall@1']:.4f}"
)
