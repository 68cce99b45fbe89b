"""pytorch-metric-learning's loss and tester with triplets mined over the whole set: drawn characters, on a CPU."""

import os

import torch
from pytorch_metric_learning import losses, testers
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import smartmine
from smartmine.torch import TripletBatchSampler, embed, training_error
from smartmine.torch.backbones import SmallConvnet
from smartmine.torch.pml import kmeans_func, knn_func

torch.manual_seed(1)
splits = [smartmine.glyphs(name, size=32) for name in ("train", "test")]
train, test = (TensorDataset((torch.from_numpy(s.images).float().unsqueeze(1) - 255) / 127.5, torch.from_numpy(s.labels)) for s in splits)
model = nn.Sequential(SmallConvnet(channels=1, size=32), nn.Linear(2048, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.0005)
rate = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
sampler = TripletBatchSampler(splits[0].labels, batch_size=32, triplets_per_anchor=2, neighbors=200, target_error=0.6)
loss = losses.TripletMarginLoss(margin=0.2)
calculator = AccuracyCalculator(
    include=("precision_at_1", "mean_average_precision_at_r", "NMI"), k="max_bin_count", knn_func=knn_func, kmeans_func=kmeans_func
)
tester = testers.GlobalEmbeddingSpaceTester(accuracy_calculator=calculator, dataloader_num_workers=0)

for epoch in range(int(os.environ.get("EPOCHS", 8))):
    sampler.set_epoch(epoch)
    if epoch > 0:
        sampler.update(nn.functional.normalize(embed(model, train)))  # PML's losses bring embeddings to length 1, so mining does too
    errors = []
    for images, labels in DataLoader(train, batch_sampler=sampler):
        embeddings = model(images)
        triplets = tuple(torch.arange(len(images)).chunk(3))
        optimizer.zero_grad()
        loss(embeddings, labels, indices_tuple=triplets).backward()
        optimizer.step()
        errors.append(training_error(*nn.functional.normalize(embeddings).chunk(3)))
    error = sum(errors) / len(errors)
    sampler.observe(error)
    rate.step()
    found = tester.test({"test": test}, epoch, model)["test"]
    recall = next(value for name, value in found.items() if "precision_at_1" in name)
    print(f"epoch {epoch + 1}: training error {error:.2f}, next kappa {sampler.kappa:.2f}, recall@1 {recall:.4f}", flush=True)
