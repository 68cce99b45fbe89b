"""Against the real pytorch-metric-learning."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: the tests with pytorch-metric-learning are left out")
pytest.importorskip("pytorch_metric_learning", reason="pytorch-metric-learning is not installed: its tests are left out")
from pytorch_metric_learning import distances, losses
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN, InferenceModel

import smartmine
from conftest import clustered
from smartmine.torch import TripletBatchSampler
from smartmine.torch.pml import KNN, SmartMiner, kmeans_func, knn_func


@pytest.fixture(scope="module")
def batch():
    x, y = clustered(rows=400, dimension=16, of_class=20, spread=1.5)
    return torch.from_numpy(x), torch.from_numpy(y)


def pml_triplet_loss(x, triplets):
    """What TripletMarginLoss gives for these indices, worked out by hand."""
    a, p, n = (x[part] for part in triplets)
    each = ((a - p).norm(dim=1) - (a - n).norm(dim=1) + 0.05).relu()
    return each[each > 0].mean()  # PML's default reducer leaves out what is 0


def test_pmls_losses_take_our_triplets(batch):
    x, y = batch
    triplets = smartmine.Miner(1.5, neighbors=60).mine(x, y).triplets
    indices = tuple(torch.from_numpy(np.ascontiguousarray(part)) for part in triplets.T)
    found = losses.TripletMarginLoss(margin=0.05)(x, y, indices_tuple=indices)
    assert float(found) == pytest.approx(float(pml_triplet_loss(x, indices)), rel=1e-5)
    for loss in (losses.ContrastiveLoss(), losses.MultiSimilarityLoss(), losses.CircleLoss()):
        assert torch.isfinite(loss(x, y, indices_tuple=indices))


def test_a_batch_of_our_sampler_gives_what_the_same_indices_give(batch):
    x, y = batch
    sampler = TripletBatchSampler(y, batch_size=40, kappa=1.5, neighbors=60)
    sampler.update(x)
    loss = losses.TripletMarginLoss(margin=0.05)
    for items in sampler:
        items = torch.tensor(items)
        places = tuple(torch.arange(len(items)).chunk(3))
        whole = tuple(items.chunk(3))
        assert float(loss(x[items], y[items], indices_tuple=places)) == pytest.approx(float(loss(x, y, indices_tuple=whole)), rel=1e-5)


def test_our_miner_selects_as_the_whole_set_miner_does(batch):
    x, y = batch
    a, p, n = (part.numpy() for part in SmartMiner(kappa=1.5, neighbors=399, nearer_positives=False)(x, y))
    triplets, stats = smartmine.Miner(1.5, neighbors=399).mine(x, y)
    mined = triplets[np.isin(triplets[:, 0], a)]
    assert len(a) == stats["mined"] > 100
    assert (mined == np.stack([a, p, n], 1)).all()


def test_our_miner_takes_references(batch):
    x, y = batch
    miner = SmartMiner(kappa=1.5, neighbors=60)
    a, p, n = miner(x[:100], y[:100], x[100:], y[100:])
    assert len(a) == 0  # classes of twenty in order: none of the first five is among the rest
    a, p, n = miner(x[::2], y[::2], x[1::2], y[1::2])
    assert len(a) == miner.num_triplets > 50
    anchor, negative = x[::2][a], x[1::2][n]
    assert (y[::2][a] == y[1::2][p]).all() and (y[::2][a] != y[1::2][n]).all()
    squared = ((x[::2][a][:, None] - x[1::2][None]) ** 2).sum(2)
    same = y[::2][a][:, None] == y[1::2][None]
    nearest = torch.where(same, squared, torch.tensor(9.0)).min(1).values
    assert ((anchor - negative).square().sum(1) >= 1.5 * nearest - 1e-5).all()
    loss = losses.TripletMarginLoss()(x[::2], y[::2], (a, p, n), x[1::2], y[1::2])
    assert torch.isfinite(loss) and loss > 0


def test_a_batch_without_positives_gives_no_triplets(batch):
    x, _ = batch
    for part in SmartMiner()(x, torch.arange(400)):
        assert part.dtype == torch.int64 and len(part) == 0


METRICS = ("precision_at_1", "mean_average_precision_at_r", "r_precision", "mean_reciprocal_rank", "mean_average_precision")


@pytest.mark.parametrize("split", [False, True])
def test_the_calculator_gives_the_same_numbers_with_our_knn(batch, split):
    x, y = batch
    arguments = (x[::2], y[::2], x[1::2], y[1::2]) if split else (x, y)
    theirs = CustomKNN(distances.LpDistance(normalize_embeddings=False, power=2))
    found, expected = (
        AccuracyCalculator(include=METRICS, k=None, knn_func=function).get_accuracy(*arguments) for function in (knn_func, theirs)
    )
    assert set(found) == set(METRICS)
    for name in METRICS:
        assert found[name] == pytest.approx(expected[name], abs=1e-6), name


def test_the_calculator_gives_the_same_numbers_as_with_faiss(batch):
    pytest.importorskip("faiss", reason="faiss is not installed")
    x, y = batch
    apart = [part.contiguous() for part in (x[::2], y[::2], x[1::2], y[1::2])]  # faiss wants it so
    for arguments in ((x, y), apart, (x[:100], y[:100], x, y, True)):
        found, expected = (
            AccuracyCalculator(include=METRICS, k=None, **options).get_accuracy(*arguments) for options in ({"knn_func": KNN()}, {})
        )
        for name in METRICS:
            assert found[name] == pytest.approx(expected[name], abs=1e-6), name


def test_the_calculator_agrees_with_evaluate(batch):
    x, y = batch
    found = AccuracyCalculator(
        include=("precision_at_1", "mean_average_precision_at_r", "r_precision", "NMI"),
        k="max_bin_count",
        knn_func=knn_func,
        kmeans_func=kmeans_func,
    ).get_accuracy(x, y)
    own = smartmine.evaluate(x, y)
    assert found["precision_at_1"] == pytest.approx(own["recall@1"], abs=1e-6)
    assert found["mean_average_precision_at_r"] == pytest.approx(own["map@r"], abs=1e-6)
    assert found["r_precision"] == pytest.approx(own["r_precision"], abs=1e-6)
    assert found["NMI"] == pytest.approx(own["nmi"], abs=1e-6)


def test_an_inference_model_takes_our_knn(batch):
    x, _ = batch
    model = InferenceModel(torch.nn.Identity(), knn_func=KNN(), data_device="cpu")
    model.train_knn(x)
    _, ids = model.get_nearest_neighbors(x[:5], k=3)
    assert ids[:, 0].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="train"):
        KNN()(x, 3)
