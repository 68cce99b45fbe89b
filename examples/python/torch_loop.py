"""A training loop of one's own with smart mining: drawn characters, on a CPU. `--random` trains the same on random triplets."""

import os
import sys

import torch
from torch import nn
from torch.nn.functional import interpolate, normalize
from torch.utils.data import DataLoader, TensorDataset

import smartmine
from smartmine.torch import TripletBatchSampler, TripletRatioLoss, embed, global_loss


def layer(before, filters, kernel, stride):
    return nn.Conv2d(before, filters, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(filters), nn.ReLU()


def load(split):
    images, labels = smartmine.glyphs(split)
    return interpolate((torch.from_numpy(images).float().unsqueeze(1) - 255) / 127.5, 36, mode="bilinear"), labels


seed = torch.manual_seed(int(os.environ.get("SEED", 1))).initial_seed()
(train, labels), (test, test_labels) = load("train"), load("test")
model = nn.Sequential(
    *layer(1, 32, 5, 2), *layer(32, 64, 3, 2), *layer(64, 128, 3, 2), *layer(128, 128, 3, 1), nn.Flatten(), nn.Linear(2048, 64)
)
for weight in (parameter for parameter in model.parameters() if parameter.dim() > 1):
    nn.init.kaiming_normal_(weight)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.0005)
rate = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
sampler = TripletBatchSampler(labels, batch_size=32, triplets_per_anchor=2, neighbors=200, target_error=0.6, seed=seed)
loader, loss = DataLoader(TensorDataset(train), batch_sampler=sampler), TripletRatioLoss()

for epoch in range(int(os.environ.get("EPOCHS", 8))):
    sampler.set_epoch(epoch)
    if epoch > 0 and "--random" not in sys.argv:
        sampler.update(normalize(embed(model, train[:, :, 2:34, 2:34])))  # hard triplets of the whole set, for this epoch
    for (batch,) in loader:
        cut = torch.stack([image[:, i : i + 32, j : j + 32] for image, i, j in zip(batch, *torch.randint(5, (2, len(batch))))])
        triplets = normalize(model(cut)).chunk(3)
        optimizer.zero_grad()
        (loss(*triplets) + global_loss(*triplets)).backward()
        optimizer.step()
    error, kappa = loss.take_error(), sampler.kappa
    sampler.observe(error)  # moves kappa
    rate.step()
    found = smartmine.evaluate(normalize(embed(model, test[:, :, 2:34, 2:34])), test_labels)
    print(f"epoch {epoch + 1}: training error {error:.2f}, kappa {kappa:.2f}, recall@1 {found['recall@1']:.4f}", flush=True)
