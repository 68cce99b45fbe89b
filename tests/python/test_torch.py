import itertools
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: the tests of smartmine.torch are left out")
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import smartmine
from conftest import clustered
from smartmine import _arrays
from smartmine.torch import (
    GlobalLoss,
    NeighborBatchSampler,
    TripletBatchSampler,
    TripletRatioLoss,
    TripletSampler,
    embed,
    global_loss,
    training_error,
    triplet_ratio_loss,
)


def test_smartmine_alone_does_not_import_torch():
    program = "import sys, smartmine; smartmine.knn; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_tensors_are_taken_without_a_copy(data):
    x, y = data
    tensor, labels = torch.from_numpy(x), torch.from_numpy(y)
    assert _arrays.matrix(tensor).ctypes.data == tensor.data_ptr()
    assert (smartmine.knn(tensor, 5).ids == smartmine.knn(x, 5).ids).all()
    assert (smartmine.Miner().mine(tensor, labels).triplets == smartmine.Miner().mine(x, y).triplets).all()


@pytest.mark.parametrize(
    "make, hint",
    [
        (lambda x: x.requires_grad_(), r"detach\(\)"),
        (lambda x: x.bfloat16(), r"float\(\)"),
        (lambda x: x.t(), "ascontiguousarray"),
        (lambda x: x.to("meta"), r"cpu\(\)|float\(\)"),
        (lambda x: x.to_sparse(), r"to_dense\(\)"),
    ],
)
def test_tensors_that_cannot_be_taken_are_refused_with_a_hint(make, hint):
    with pytest.raises((TypeError, ValueError), match=hint):
        smartmine.knn(make(torch.ones(30, 30)), 3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_gpu_tensors_are_refused_with_a_word(data):
    with pytest.raises(TypeError, match=r"cpu\(\)"):
        smartmine.knn(torch.from_numpy(data[0]).cuda(), 5)


class TestLosses:
    def setup_method(self):
        generator = torch.Generator().manual_seed(0)
        self.triplets = [nn.functional.normalize(torch.randn(40, 8, generator=generator, dtype=torch.float64)) for _ in range(3)]

    def test_the_triplet_loss_is_the_papers(self):
        a, p, n = (part.numpy() for part in self.triplets)
        each = np.maximum(0, 1 - np.linalg.norm(a - n, axis=1) / (np.linalg.norm(a - p, axis=1) + 0.2))
        assert float(triplet_ratio_loss(*self.triplets)) == pytest.approx(each.mean())
        assert training_error(*self.triplets) == pytest.approx((each > 0).mean())

    def test_the_global_loss_is_kumars(self):
        a, p, n = (part.numpy() for part in self.triplets)
        u, v = ((a - p) ** 2).sum(1) / 4, ((a - n) ** 2).sum(1) / 4
        expected = u.var() + v.var() + 0.8 * max(0, u.mean() - v.mean() + 0.01)
        assert float(GlobalLoss()(*self.triplets)) == pytest.approx(expected)

    @pytest.mark.parametrize("loss", [triplet_ratio_loss, global_loss])
    def test_gradients_are_right(self, loss):
        inputs = [part[:5].clone().requires_grad_() for part in self.triplets]
        assert torch.autograd.gradcheck(loss, inputs)

    def test_copies_of_an_image_have_finite_gradients(self):
        a, _, n = (part.clone().requires_grad_() for part in self.triplets)
        triplet_ratio_loss(a, a * 1, n).backward()
        assert torch.isfinite(a.grad).all() and torch.isfinite(n.grad).all()

    def test_the_error_is_that_since_the_last_call(self):
        loss = TripletRatioLoss()
        with pytest.raises(ValueError, match="no triplet"):
            loss.take_error()
        a, p, n = self.triplets
        loss(a[:10], p[:10], n[:10]), loss(a[10:], p[10:], n[10:])
        assert loss.take_error() == pytest.approx(training_error(a, p, n))
        loss.eval()(a, p, n)
        with pytest.raises(ValueError, match="no triplet"):
            loss.take_error()

    def test_other_shapes_are_refused(self):
        a, p, n = self.triplets
        with pytest.raises(ValueError, match="one shape"):
            triplet_ratio_loss(a, p[:3], n)
        with pytest.raises(ValueError, match="margin is 0"):
            TripletRatioLoss(0)


class TestSamplers:
    def setup_method(self):
        self.x, self.y = clustered(rows=600, dimension=16, of_class=20, spread=1.5)

    def sampler(self, kind=TripletBatchSampler, **options):
        return kind(self.y, **{"neighbors": 60, "kappa": 1.5, **options})

    def test_serve_mined_triplets_in_batches(self):
        sampler = self.sampler(batch_size=50, triplets_per_anchor=2)
        mined = sampler.update(torch.from_numpy(self.x)).triplets
        batches = list(sampler)
        assert len(batches) == len(sampler) == 24
        served = np.concatenate([np.array(batch).reshape(3, -1).T for batch in batches])
        assert (np.unique(served, axis=0) == np.unique(mined, axis=0)).all() and len(served) == len(mined)
        assert sampler.stats["mined"] > 0

    def test_serve_triplets_one_after_another(self):
        sampler = self.sampler(TripletSampler)
        mined = sampler.update(self.x).triplets
        served = np.array(list(sampler)).reshape(-1, 3)
        assert len(sampler) == served.size
        assert (np.unique(served, axis=0) == np.unique(mined, axis=0)).all()

    def test_are_random_before_the_first_update(self):
        sampler = self.sampler(TripletSampler)
        a, p, n = np.array(list(sampler)).reshape(-1, 3).T
        assert (self.y[a] == self.y[p]).all() and (self.y[a] != self.y[n]).all() and len(np.unique(a)) == 600
        first = list(sampler)
        assert first == list(sampler)
        sampler.set_epoch(1)
        assert first != list(sampler)

    def test_every_epoch_has_its_own_order(self):
        sampler = self.sampler(batch_size=50)
        sampler.update(self.x)
        first = list(sampler)
        assert first == list(sampler)
        sampler.set_epoch(3)
        assert first != list(sampler)
        assert sorted(sum(first, [])) == sorted(sum(sampler, []))
        assert list(self.sampler(batch_size=50, shuffle=False)) == list(self.sampler(batch_size=50, shuffle=False))

    @pytest.mark.parametrize("world", [2, 7])
    def test_ranks_share_the_triplets_equally(self, world):
        ranks = [self.sampler(TripletSampler, rank=rank, world_size=world) for rank in range(world)]
        for sampler in ranks:
            sampler.set_epoch(2)
            sampler.update(self.x)
        served = [list(sampler) for sampler in ranks]
        assert len({len(part) for part in served}) == 1 and len(served[0]) == len(ranks[0])
        every = np.array(sum(served, [])).reshape(-1, 3)
        whole = self.sampler(TripletSampler)
        whole.set_epoch(2)
        assert (np.unique(every, axis=0) == np.unique(whole.update(self.x).triplets, axis=0)).all()
        assert len(every) - 600 == -600 % world

    def test_the_number_of_batches_never_changes(self):
        for drop in (False, True):
            sampler = self.sampler(batch_size=64, drop_last=drop, rank=1, world_size=2)
            before = len(sampler)
            assert before == len(list(sampler)) == (4 if drop else 5)
            sampler.update(self.x)
            assert before == len(sampler) == len(list(sampler))

    def test_kappa_and_states_go_through(self):
        sampler = self.sampler(kappa=4.0, target_error=0.6)
        sampler.set_epoch(5)
        sampler.update(self.x)
        kappa = sampler.miner.observe(0.95, mined=1.0)
        other = self.sampler(kappa=4.0, target_error=0.6)
        other.load_state_dict(sampler.state_dict())
        assert other.kappa == kappa and other.epoch == 5

    def test_bad_options_are_refused(self):
        with pytest.raises(ValueError, match="rank is 2"):
            self.sampler(rank=2, world_size=2)
        with pytest.raises(ValueError, match="kappa is an option of a miner|neighbors is an option of a miner"):
            self.sampler(miner=smartmine.Miner())
        with pytest.raises(ValueError, match="599 rows"):
            self.sampler().update(self.x[:-1])

    def test_serve_a_data_loader_with_workers(self):
        dataset = TensorDataset(torch.from_numpy(self.x), torch.from_numpy(self.y))
        sampler = self.sampler(batch_size=100)
        sampler.update(self.x)
        for rows, labels in itertools.islice(DataLoader(dataset, batch_sampler=sampler, num_workers=2), 2):
            a, p, n = labels.chunk(3)
            assert (a == p).all() and (a != n).all()


class TestNeighborBatches:
    def test_serve_near_classes_to_every_rank_equally(self):
        x, y = clustered(rows=600, dimension=16, of_class=20, spread=1.5)
        ranks = [NeighborBatchSampler(y, classes=5, images_per_class=4, rank=rank, world_size=4) for rank in range(4)]
        before = [len(list(sampler)) for sampler in ranks]
        assert len(set(before)) == 1 and before[0] == len(ranks[0])
        for sampler in ranks:
            sampler.set_epoch(1)
            assert sampler.update(torch.from_numpy(x))["near_groups"] > 0
        served = [list(sampler) for sampler in ranks]
        assert {len(part) for part in served} == {len(ranks[0])}
        assert set(sum(sum(served, []), [])) == set(range(600))
        for batch in served[0][:3]:
            assert len(batch) == 20 and len(set(y[batch])) == 5
        again = list(ranks[0])
        ranks[0].set_epoch(2)
        assert list(ranks[0]) != again


    def test_draw_other_batches_every_epoch_until_there_are_embeddings(self, monkeypatch):
        _, y = clustered(rows=600, dimension=16, of_class=20)
        sampler = NeighborBatchSampler(y, classes=5, images_per_class=4)
        monkeypatch.setattr(smartmine.Index, "update", lambda *a, **k: pytest.fail("lists that nobody looks at"))
        epochs = []
        for epoch in (0, 1):
            sampler.set_epoch(epoch)
            batches = [tuple(sorted(batch)) for batch in sampler]
            assert [tuple(sorted(batch)) for batch in sampler] == batches
            assert sorted(sum(map(list, batches), [])) == list(range(600))
            epochs.append(set(batches))
        assert not epochs[0] & epochs[1]


class TestEmbed:
    def test_gives_rows_in_order_and_leaves_the_mode_alone(self):
        model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)).train()
        x = torch.randn(70, 4)
        events = []
        for dataset in (TensorDataset(x), TensorDataset(x, torch.zeros(70)), x):
            rows = embed(model, dataset, batch_size=32, progress=events.append)
            assert torch.allclose(rows, model[0](x).detach(), atol=1e-6) and model.training and not rows.requires_grad
        assert events[-1].done == 70

    def test_refuses_what_is_no_vector_an_item(self):
        with pytest.raises(ValueError, match="N x D"):
            embed(nn.Identity(), torch.zeros(5, 2, 2))
        with pytest.raises(smartmine.Cancelled):
            embed(nn.Identity(), torch.zeros(5, 2), progress=lambda event: False)
