"""smartmine from Python beside what one would take instead, in one run: lists, evaluation and mined triplets of 100,000 x 64.

    pip install hnswlib usearch pynndescent faiss-cpu pytorch-metric-learning torch
    python bench/python/peers.py --threads 2 --program build/release/smartmine [--only knn,evaluate,mine] [--rounds 3]

Prints a table in markdown and the versions; --json FILE writes all figures. Each figure is the quickest of --rounds. Peers that are not
installed are left out and named. Let nothing else run meanwhile; where that cannot be had, go by the seconds of processor time, which are
told beside.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import platform
import resource
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=100_000)
parser.add_argument("--dimension", type=int, default=64)
parser.add_argument("--neighbors", type=int, default=100)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--rounds", type=int, default=1)
parser.add_argument("--recall", type=float, default=0.98)
parser.add_argument("--only", default="knn,evaluate,mine")
parser.add_argument("--peers", default="hnswlib,usearch,pynndescent,faiss-hnsw")
parser.add_argument("--program", default="")
parser.add_argument("--json", default="")
arguments = parser.parse_args()
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # a thread that waits is no work done
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[name] = str(arguments.threads)

import numpy as np  # noqa: E402  the threads above are read when it is imported

import smartmine  # noqa: E402

K, THREADS = arguments.neighbors, arguments.threads
EFFORTS = tuple(int(factor * K) for factor in (1.2, 2, 3, 5, 8))


def made(rows, dimension, seed=1, of_class=30, width=0.6):
    """Unit rows in classes of thirty whose later dimensions vary less, as those of trained embeddings do; as bench_neighbors makes them."""
    random = np.random.default_rng(seed)
    spread = 1 / np.sqrt(1 + np.arange(dimension))
    labels = np.arange(rows) // of_class % max(1, rows // of_class)
    centres = random.normal(size=(labels.max() + 1, dimension)) * spread
    x = centres[labels] + width * random.normal(size=(rows, dimension)) * spread
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32), labels.astype(np.int64)


class Truth:
    """True neighbours of 1,000 rows spread over the set, by numpy alone."""

    def __init__(self, x):
        self.rows = np.linspace(0, len(x) - 1, min(1000, len(x))).astype(int)
        self.ids = np.empty((len(self.rows), K), np.int64)
        norms = np.einsum("ij,ij->i", x, x)
        for place, row in enumerate(self.rows):
            squared = norms - 2 * (x @ x[row])
            squared[row] = np.inf
            self.ids[place] = np.argpartition(squared, K)[:K]

    def recall(self, ids):
        return float(np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(self.ids, ids[self.rows])]))


def without_self(ids, distances):
    """Lists of K + 1 that hold their own row, mostly first, as lists of K others."""
    own = ids == np.arange(len(ids))[:, None]
    own[~own.any(1), -1] = True
    return ids[~own].reshape(len(ids), K), distances[~own].reshape(len(ids), K)


class Seconds(NamedTuple):
    """Of the clock, and of the processor over all threads."""

    clock: float
    processor: float

    def plus(self, other):
        return Seconds(self.clock + other.clock, self.processor + other.processor)

    def told(self):
        return {"seconds": self.clock, "processor_seconds": self.processor}


def timed(work):
    begin = time.perf_counter(), time.process_time()
    result = work()
    return Seconds(time.perf_counter() - begin[0], time.process_time() - begin[1]), result


def with_search(build, search, truth):
    """Build and the first search that reaches the recall; searches that did not are left out of the time."""
    build_seconds, index = timed(build)
    for effort in EFFORTS:
        seconds, (ids, distances) = timed(lambda: without_self(*search(index, effort)))
        recall = truth.recall(ids)
        if recall >= arguments.recall:
            break
    told = {"recall": recall, "settings": f"M 16, ef construction 100, ef {effort}"}
    return {**build_seconds.plus(seconds).told(), **told}, (ids, distances)


def hnswlib_lists(x, truth):
    import hnswlib

    def build():
        index = hnswlib.Index("l2", x.shape[1])
        index.init_index(len(x), ef_construction=100, M=16)
        index.add_items(x, num_threads=THREADS)
        return index

    def search(index, effort):
        index.set_ef(effort)
        return index.knn_query(x, K + 1, num_threads=THREADS)

    return with_search(build, search, truth)


def usearch_lists(x, truth):
    from usearch.index import Index

    def build():
        index = Index(ndim=x.shape[1], metric="l2sq", dtype="f32", connectivity=16, expansion_add=100)
        index.add(np.arange(len(x)), x, threads=THREADS)
        return index

    def search(index, effort):
        index.expansion_search = effort
        found = index.search(x, K + 1, threads=THREADS)
        return found.keys.astype(np.int64), found.distances

    return with_search(build, search, truth)


def faiss_hnsw_lists(x, truth):
    import faiss

    faiss.omp_set_num_threads(THREADS)

    def build():
        index = faiss.IndexHNSWFlat(x.shape[1], 16)
        index.hnsw.efConstruction = 100
        index.add(x)
        return index

    def search(index, effort):
        index.hnsw.efSearch = effort
        distances, ids = index.search(x, K + 1)
        return ids, distances

    return with_search(build, search, truth)


def pynndescent_lists(x, truth):
    from pynndescent import NNDescent

    NNDescent(
        x[:2000], n_neighbors=K + 1, random_state=1, n_jobs=THREADS
    ).neighbor_graph  # compiles its code, which is not what is measured
    for settings in ({}, {"n_iters": 20, "delta": 0.0001}, {"n_iters": 30, "delta": 0.0, "max_candidates": 100}):
        seconds, (ids, distances) = timed(
            lambda: without_self(*NNDescent(x, n_neighbors=K + 1, random_state=1, n_jobs=THREADS, **settings).neighbor_graph)
        )
        recall = truth.recall(ids)
        if recall >= arguments.recall:
            break
    told = ", ".join(f"{name} {value}" for name, value in settings.items()) or "defaults"
    return {**seconds.told(), "recall": recall, "settings": told}, (ids, distances.astype(np.float32) ** 2)


def own_lists(x, truth):
    seconds, found = timed(lambda: smartmine.knn(x, K, recall=arguments.recall, threads=THREADS))
    return {**seconds.told(), "recall": truth.recall(found.ids), "settings": found.stats["index"]}, found[:2]


PEERS = {"hnswlib": hnswlib_lists, "usearch": usearch_lists, "pynndescent": pynndescent_lists, "faiss-hnsw": faiss_hnsw_lists}


def numpy_triplets(ids, distances, labels, kappa, seed=1):
    """The same selection from lists, as one would write it with numpy."""
    random = np.random.default_rng(seed)
    order = np.argsort(distances, axis=1, kind="stable")
    ids, distances = np.take_along_axis(ids, order, 1), np.take_along_axis(distances, order, 1)
    same = labels[ids] == labels[:, None]
    rows, places = np.arange(len(ids)), np.arange(ids.shape[1])[None]
    nearest = same.argmax(1)
    usable = ~same & (distances >= (kappa * distances[rows, nearest])[:, None]) & (places > nearest[:, None])
    negative = usable.argmax(1)
    behind = same & (places > negative[:, None])
    found = same.any(1) & usable.any(1)
    members = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[members], labels)
    sizes = np.bincount(labels)[labels]
    others = members[starts + (random.random(len(ids)) * sizes).astype(int)]
    positive = np.where(behind.any(1), ids[rows, behind.argmax(1)], others)
    return np.stack([rows, positive, np.where(found, ids[rows, negative], random.integers(len(ids), size=len(ids)))], 1)


def pml_evaluation(x, labels):
    import torch
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    torch.set_num_threads(THREADS)
    import faiss

    faiss.omp_set_num_threads(THREADS)
    calculator = AccuracyCalculator(
        include=("precision_at_1", "mean_average_precision_at_r", "r_precision", "NMI"), k="max_bin_count", device=torch.device("cpu")
    )
    seconds, found = timed(lambda: calculator.get_accuracy(torch.from_numpy(x), torch.from_numpy(labels)))
    return {**seconds.told(), "values": {name: float(value) for name, value in found.items()}}


def program_seconds(x):
    with tempfile.TemporaryDirectory() as folder:
        np.save(os.path.join(folder, "x.npy"), x)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        told = subprocess.run(
            [
                arguments.program,
                "knn",
                "--embeddings",
                os.path.join(folder, "x.npy"),
                "--neighbors",
                str(K),
                "--threads",
                str(THREADS),
                "--output",
                os.path.join(folder, "lists"),
                "--json",
            ],
            capture_output=True,
            text=True,
            check=True,
        )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime  # reading and writing the files included
    return Seconds(json.loads(told.stdout)["seconds"], processor)


def best(results, name, measured, key="seconds"):
    if name not in results or measured[key] < results[name][key]:
        results[name] = measured
    print(name, measured, file=sys.stderr, flush=True)


def one_round(results, x, labels, truth):
    wanted = arguments.only.split(",")
    lists = {}
    if "knn" in wanted or "mine" in wanted:
        measured, lists["smartmine"] = own_lists(x, truth)
        best(results["knn"], "smartmine", measured)
        if arguments.program:
            best(results["knn"], "program", {**program_seconds(x).told(), "recall": None, "settings": "smartmine knn --json"})
        for name in arguments.peers.split(","):
            try:
                measured, lists[name] = PEERS[name](x, truth)
            except ImportError as error:
                print(f"{name} is left out: {error}", file=sys.stderr)
                continue
            best(results["knn"], name, measured)
    if "mine" in wanted:
        seconds, mined = timed(lambda: smartmine.Miner(1.5, neighbors=K, keep_graph=False, threads=THREADS).mine(x, labels))
        best(results["mine"], "smartmine", {**seconds.told(), "mined": mined.stats["mined"] + mined.stats["mined_outside_positive"]})
        for name, (ids, distances) in lists.items():
            if name != "smartmine":
                seconds, _ = timed(lambda: numpy_triplets(ids.astype(np.int64), distances, labels, 1.5))
                whole = Seconds(*(results["knn"][name][key] for key in ("seconds", "processor_seconds"))).plus(seconds)
                best(results["mine"], name, {**whole.told(), "selection": seconds.told()})
    if "evaluate" in wanted:
        for name, restarts in (("smartmine", 1), ("smartmine, best of 5 k-means", 5)):  # the peer's k-means runs once
            seconds, found = timed(lambda: smartmine.evaluate(x, labels, restarts=restarts, threads=THREADS))
            values = {metric: found[metric] for metric in ("recall@1", "map@r", "r_precision", "nmi")}
            best(results["evaluate"], name, {**seconds.told(), "stages": found["stage_seconds"], "values": values})
        try:
            best(results["evaluate"], "pytorch-metric-learning", pml_evaluation(x, labels))
        except ImportError as error:
            print(f"pytorch-metric-learning is left out: {error}", file=sys.stderr)


def versions():
    told = {"python": platform.python_version(), "smartmine": smartmine.__version__}
    for name in ("numpy", "hnswlib", "usearch", "pynndescent", "numba", "faiss-cpu", "pytorch-metric-learning", "torch"):
        try:
            told[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return told


def table(results):
    lines = ["| what | with | seconds | of the processor | times smartmine's | recall; or recall@1, MAP@R, R-precision, NMI |"]
    lines.append("|---|---|---|---|---|---|")
    for kind, title in (("knn", "lists of all rows"), ("mine", "a mined triplet an anchor"), ("evaluate", "evaluation")):
        for name, measured in sorted(results[kind].items(), key=lambda item: item[1]["seconds"]):
            told = f"{measured['recall']:.4f}, {measured['settings']}" if measured.get("recall") else ""
            if "values" in measured:
                told = ", ".join(f"{value:.4f}" for value in measured["values"].values())
            ratios = [measured[key] / results[kind]["smartmine"][key] for key in ("seconds", "processor_seconds")]
            seconds = f"{measured['seconds']:.2f} | {measured['processor_seconds']:.2f} | {ratios[0]:.2f}, {ratios[1]:.2f}"
            lines.append(f"| {title} | {name} | {seconds} | {told} |")
    return "\n".join(lines)


def main():
    x, labels = made(arguments.rows, arguments.dimension)
    truth = Truth(x)
    results = {"knn": {}, "mine": {}, "evaluate": {}}
    for _ in range(arguments.rounds):
        one_round(results, x, labels, truth)
    results["versions"] = versions()
    print(table(results))
    print("\n" + ", ".join(f"{name} {version}" for name, version in results["versions"].items()))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=2))


main()
