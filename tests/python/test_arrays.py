"""What comes in: without a copy where it is as wanted, else an error that says what to call."""

import gc
import resource

import numpy as np
import pytest

import smartmine
from smartmine import _arrays, _core


class OtherFramework:
    """A tensor that speaks DLPack and nothing else."""

    def __init__(self, array, device=1):
        self.array, self.device_type = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return (self.device_type, 0)


class SparseMatrix:
    """As those of scipy, which is not always there."""

    def toarray(self):
        raise AssertionError("nobody asked for the memory")


def test_float32_in_c_order_is_not_copied(data):
    x, _ = data
    assert np.shares_memory(_arrays.matrix(x), x)
    assert np.shares_memory(_arrays.matrix(OtherFramework(x)), x)
    assert np.shares_memory(_arrays.matrix(memoryview(x)), x)


def test_read_only_arrays_are_welcome(data):
    x, y = data
    frozen, labels = x.copy(), y.copy()
    frozen.flags.writeable = labels.flags.writeable = False
    assert np.shares_memory(_arrays.matrix(frozen), frozen)
    assert (smartmine.knn(frozen, 5).ids == smartmine.knn(x, 5).ids).all()
    smartmine.Miner().mine(frozen, labels)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_other_floats_are_cast(data, dtype):
    x, _ = data
    cast = x.astype(dtype)
    assert (smartmine.knn(cast, 5).ids == smartmine.knn(cast.astype(np.float32), 5).ids).all()


@pytest.mark.parametrize(
    "make, error, hint",
    [
        (lambda x: np.asfortranarray(x), ValueError, "ascontiguousarray"),
        (lambda x: x[::2], ValueError, "ascontiguousarray"),
        (lambda x: x.ravel(), ValueError, "two dimensions"),
        (lambda x: x[:0], ValueError, "at least one row"),
        (lambda x: x.astype(np.int64), TypeError, "astype"),
        (lambda x: x.astype(np.complex64), TypeError, "astype"),
        (lambda x: x.tolist(), TypeError, "numpy.asarray"),
        (lambda x: None, TypeError, "x is None"),
        (lambda x: SparseMatrix(), TypeError, r"x\.toarray\(\)"),
        (lambda x: np.ma.masked_less(x, 0), TypeError, "masked"),
        (lambda x: OtherFramework(x, device=2), TypeError, r"\.cpu\(\)"),
        (lambda x: np.where(x > 0.5, np.nan, x), ValueError, "row"),
        (lambda x: np.full((3, 3), 1e300), ValueError, "float32"),
        (lambda x: x[:1], ValueError, "at least 2"),
    ],
)
def test_bad_matrices_are_refused_with_a_hint(data, make, error, hint):
    with pytest.raises(error, match=hint):
        smartmine.knn(make(data[0]), 1)


@pytest.mark.parametrize(
    "make, error, hint",
    [
        (lambda y: y[:-1], ValueError, "2999 entries"),
        (lambda y: y.astype(np.float64), TypeError, "whole numbers"),
        (lambda y: y.astype(str), TypeError, "numpy.unique"),
        (lambda y: np.zeros_like(y), ValueError, "class"),
        (lambda y: y.reshape(-1, 15), ValueError, "one dimension"),
        (lambda y: None, TypeError, "labels is None"),
        (lambda y: {1, 2}, TypeError, r"numpy\.asarray\(labels\)"),
        (lambda y: [[1], [2, 3]], ValueError, "one label a row"),
        (lambda y: y.astype(np.uint64) + np.uint64(2**63), ValueError, "2\\^63"),
    ],
)
def test_bad_labels_are_refused_with_a_hint(data, make, error, hint):
    with pytest.raises(error, match=hint):
        smartmine.evaluate(data[0], make(data[1]))
    with pytest.raises(error, match=hint):
        smartmine.Miner().mine(data[0], make(data[1]))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.uint64])
def test_labels_of_any_whole_numbers_will_do(data, dtype):
    x, y = data
    x, y = x[:300], (y[:300] % 100)
    assert smartmine.evaluate(x, y.astype(dtype))["map@r"] == smartmine.evaluate(x, y.tolist())["map@r"]


def test_bad_options_name_the_argument(data):
    x, y = data
    for call, name in [
        (lambda: smartmine.knn(x, 0), "k is 0"),
        (lambda: smartmine.knn(x, 3000), "k is 3000"),
        (lambda: smartmine.knn(x, 5, threads=-1), "threads is -1"),
        (lambda: smartmine.knn(x, 5, seed=-1), "seed is -1"),
        (lambda: smartmine.knn(x, 5, recall=2), "recall_target is 2"),
        (lambda: smartmine.knn(x, 5, index="hnsw"), "index is 'hnsw'"),
        (lambda: smartmine.knn(x, 5, index=None), "index is None"),
        (lambda: smartmine.Miner().mine(x[:50], y[:50]), "neighbors is 100; there are 50 rows"),
        (lambda: smartmine.Miner(kappa_fit="cubic"), "kappa_fit is 'cubic'"),
        (lambda: smartmine.Miner().load_state_dict({}), "no 'epoch'"),
        (lambda: smartmine.mine_hard_negatives(x, x, [[0.5]] * len(x)), "positives of query 0 are of float64"),
        (lambda: smartmine.mine_hard_negatives(x, x, y, max_similarity=float("nan")), "max_similarity is nan"),
        (lambda: smartmine.knn(x, 5, index="exact", certify=True), "index='exact'"),
        (lambda: smartmine.Miner(kappa=-1), "kappa is -1"),
        (lambda: smartmine.Miner(kappa=0), "kappa is 0; it must be a positive number or 'auto'"),
        (lambda: smartmine.Miner(kappa=float("nan")), "kappa is nan"),
        (lambda: smartmine.Miner(kappa="some"), "kappa is 'some'"),
        (lambda: smartmine.Miner(target_error=2), "target_error is 2"),
        (lambda: smartmine.Miner(mined_fraction=2), "mined_fraction is 2"),
        (lambda: smartmine.Miner().observe(3), "training_error is 3"),
        (lambda: smartmine.evaluate(x, y, restarts=0), "restarts is 0"),
        (lambda: smartmine.tsne(x, perplexity=-1), "perplexity is -1"),
        (lambda: smartmine.glyphs("validation"), "split is 'validation'"),
    ]:
        with pytest.raises(smartmine.InvalidArgument, match=name):
            call()
    for call, name in [
        (lambda: smartmine.knn(x, 2.5), "k is 2.5"),
        (lambda: smartmine.knn(x, 5, recall="high"), "recall is 'high'; it must be a number"),
        (lambda: smartmine.Miner(kappa=None), "kappa is None"),
        (lambda: smartmine.Miner(target_error="0.6"), "target_error is '0.6'"),
        (lambda: smartmine.Miner().observe(None), "training_error is None"),
        (lambda: smartmine.BatchBuilder(near_share=[1, 2]), "near_share is"),
        (lambda: smartmine.tsne(x, theta=x), "theta is"),
        (lambda: smartmine.evaluate(x, y, recall_at=5), "recall_at is 5"),
        (lambda: smartmine.Miner().mine(x, y, lists=5), "lists is a int"),
        (lambda: smartmine.mine_hard_negatives(x, x, y, absolute_margin="much"), "absolute_margin is 'much'"),
        (lambda: smartmine.violating_share(np.zeros((4, 3)), x), "triplets is of float64"),
    ]:
        with pytest.raises(TypeError, match=name):
            call()
    with pytest.raises(smartmine.InvalidArgument, match="3000"):
        smartmine.violating_share([[0, 1, 3000]], x)


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def test_results_outlive_the_call_and_are_freed_with_their_last_array(data):
    x, _ = data
    ids, distances, _ = smartmine.knn(x, 20)
    expected = ids.copy()
    del distances
    gc.collect()
    assert (ids == expected).all()
    first = ids[0]
    del ids
    gc.collect()
    assert (first == expected[0]).all()


def test_nothing_leaks_in_a_thousand_calls(data):
    x, y = data[0][:200], data[1][:200]
    index = smartmine.Index(10, index="fanng", threads=1)
    miner = smartmine.Miner(neighbors=20, threads=1, target_error=0.6)

    def once():
        index.update(x)
        miner.mine(x, y)
        miner.observe(0.5)
        smartmine.evaluate(x, y, restarts=1, threads=1)
        for bad in (lambda: smartmine.knn(x, 999), lambda: smartmine.knn(x, 5, threads=1, progress=lambda event: 1 / 0)):
            with pytest.raises((ValueError, ZeroDivisionError)):
                bad()

    for _ in range(100):
        once()
    gc.collect()
    before = resident_bytes()
    for _ in range(1000):
        once()
    gc.collect()
    assert resident_bytes() - before < 4 << 20
    assert _core.peak_memory_bytes() > 0


def test_the_input_is_not_copied_by_peak_memory():
    import subprocess
    import sys

    # A process of its own: peaks of others would hide a copy. 256 MB of rows and lists of one: a copy would double the peak.
    program = """
import numpy as np, resource, smartmine
x = np.zeros((2000, 32000), np.float32); x[np.arange(2000), np.arange(2000)] = 1
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
smartmine.evaluate(x[:4], [0, 0, 1, 1], nmi=False)
smartmine._core.given_lists(np.array([[1], [0]], np.int32), np.ones((2, 1), np.float32))
labels = smartmine._core.LabelIndex(np.arange(2000) // 2)
lists = smartmine._core.given_lists((np.arange(2000, dtype=np.int32) ^ 1).reshape(-1, 1), np.full((2000, 1), 2, np.float32))
smartmine.Miner(neighbors=1).mine(x, np.arange(2000) // 2, lists=(lists.ids, lists.distances))
print((peak() - before) / x.nbytes)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.5


@pytest.mark.parametrize("index", ["exact", "fanng"])
def test_lists_take_no_more_memory_than_the_program_does(program, tmp_path, index):
    import json
    import subprocess
    import sys

    # What the search itself needs is the same in both; a copy at the border would add the size of the rows, here 64 MB.
    path = tmp_path / "x.npy"
    np.save(path, np.random.default_rng(0).standard_normal((8000, 2000), np.float32))
    size = path.stat().st_size
    told = json.loads(program("knn", "--embeddings", path, "--neighbors", 5, "--index", index, "--output", tmp_path / "lists", "--json"))
    script = """
import resource, sys
import numpy as np, smartmine
smartmine.evaluate(np.eye(4, dtype=np.float32), [0, 0, 1, 1])
before = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
print(smartmine.knn(np.load(sys.argv[1]), 5, index=sys.argv[2]).stats["peak_memory_bytes"] - before)
"""
    done = subprocess.run([sys.executable, "-c", script, path, index], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < told["peak_memory_bytes"] + size // 2
