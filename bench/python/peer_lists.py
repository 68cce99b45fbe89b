"""Lists of all rows by what one would take instead: hnswlib, usearch, pynndescent and faiss of the package index, and torch on a GPU.

    OMP_NUM_THREADS=2 python bench/python/peer_lists.py hnswlib x.npy --neighbors 100 --recall 0.98 --threads 2 --sample ids.npy

Prints one JSON object: seconds, of the clock and of the processor, settings and peak memory. --sample writes the lists of up to 1,000 rows,
evenly spread. `bench_neighbors --python` calls it so; peers.py takes the functions. The searches that came short of the recall are left
out of the time.
"""

import argparse
import importlib.metadata
import json
import resource
import time
from typing import NamedTuple

import numpy as np

TIMED_QUERIES = 10_000  # of faiss exact
CHUNK_SCORES = (1 << 27, 1 << 30)  # values that torch has at once
PRECISIONS = (("float32", False, False), ("TF32", True, False), ("float16", False, True))  # TF32, halves


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


class Task:
    """Rows, how long lists are to be, and how many of their entries must be right."""

    def __init__(self, x, neighbors, recall, threads):
        self.x, self.neighbors, self.wanted_recall, self.threads = x, neighbors, recall, threads
        self.sample = np.arange(min(1000, len(x))) * len(x) // min(1000, len(x))
        self.true_ids = np.empty((len(self.sample), neighbors), np.int64)
        norms = np.einsum("ij,ij->i", x, x)
        for place, row in enumerate(self.sample):
            squared = norms - 2 * (x @ x[row])
            squared[row] = np.inf
            self.true_ids[place] = np.argpartition(squared, neighbors - 1)[:neighbors]

    def recall(self, ids):
        return float(np.mean([len(np.intersect1d(a, b)) / self.neighbors for a, b in zip(self.true_ids, ids[self.sample])]))

    def without_self(self, ids, distances):
        """Lists that are one too long and hold their own row, mostly first, as lists of others."""
        own = ids == np.arange(len(ids))[:, None]
        own[~own.any(1), -1] = True
        return ids[~own].reshape(len(ids), -1), distances[~own].reshape(len(ids), -1)

    def best_search(self, build, search):
        """Build and the first search that reaches the recall."""
        build_seconds, index = timed(build)
        for effort in (int(factor * self.neighbors) for factor in (1.2, 2, 3, 5, 8)):
            seconds, (ids, distances) = timed(lambda: self.without_self(*search(index, effort)))
            recall = self.recall(ids)
            if recall >= self.wanted_recall:
                break
        told = {"recall": recall, "settings": f"M 16, ef construction 100, ef {effort}"}
        return {**build_seconds.plus(seconds).told(), **told}, (ids, distances)


def hnswlib_lists(task):
    import hnswlib

    def build():
        index = hnswlib.Index("l2", task.x.shape[1])
        index.init_index(len(task.x), ef_construction=100, M=16)
        index.add_items(task.x, num_threads=task.threads)
        return index

    def search(index, effort):
        index.set_ef(effort)
        return index.knn_query(task.x, task.neighbors + 1, num_threads=task.threads)

    return task.best_search(build, search)


def usearch_lists(task):
    from usearch.index import Index

    def build():
        index = Index(ndim=task.x.shape[1], metric="l2sq", dtype="f32", connectivity=16, expansion_add=100)
        index.add(np.arange(len(task.x)), task.x, threads=task.threads)
        return index

    def search(index, effort):
        index.expansion_search = effort
        found = index.search(task.x, task.neighbors + 1, threads=task.threads)
        return found.keys.astype(np.int64), found.distances

    return task.best_search(build, search)


def faiss_hnsw_lists(task):
    import faiss

    faiss.omp_set_num_threads(task.threads)

    def build():
        index = faiss.IndexHNSWFlat(task.x.shape[1], 16)
        index.hnsw.efConstruction = 100
        index.add(task.x)
        return index

    def search(index, effort):
        index.hnsw.efSearch = effort
        distances, ids = index.search(task.x, task.neighbors + 1)
        return ids, distances

    return task.best_search(build, search)


def faiss_exact_lists(task):
    import faiss

    faiss.omp_set_num_threads(task.threads)
    index = faiss.IndexFlatL2(task.x.shape[1])
    index.add(task.x)
    # Every query costs the same, so a part of them, the sample's among them, tells the time of all; the memory of all lists is taken.
    count, size = min(len(task.x), TIMED_QUERIES), len(task.x)
    queries = np.arange(count) * size // count
    seconds, (distances, ids) = timed(lambda: index.search(task.x[queries], task.neighbors + 1))
    own = ids == queries[:, None]
    own[~own.any(1), -1] = True
    all_ids, all_distances = np.full((size, task.neighbors), -1), np.full((size, task.neighbors), np.inf, np.float32)
    all_ids[queries], all_distances[queries] = ids[~own].reshape(count, -1), distances[~own].reshape(count, -1)
    settings = "flat" if count == size else f"flat, from {count} queries"
    whole = Seconds(seconds.clock * size / count, seconds.processor * size / count)
    return {**whole.told(), "recall": task.recall(all_ids), "settings": settings}, (all_ids, all_distances)


def pynndescent_lists(task):
    from pynndescent import NNDescent

    def lists_of(rows, **settings):
        return NNDescent(rows, n_neighbors=task.neighbors + 1, random_state=1, n_jobs=task.threads, **settings).neighbor_graph

    lists_of(task.x[:2000])  # compiles its code, which is not what is measured
    for settings in ({}, {"n_iters": 20, "delta": 0.0001}, {"n_iters": 30, "delta": 0.0, "max_candidates": 100}):
        seconds, (ids, distances) = timed(lambda: task.without_self(*lists_of(task.x, **settings)))
        recall = task.recall(ids)
        if recall >= task.wanted_recall:
            break
    told = ", ".join(f"{name} {value}" for name, value in settings.items()) or "defaults"
    return {**seconds.told(), "recall": recall, "settings": told}, (ids, distances.astype(np.float32) ** 2)


def torch_cuda_lists(task):
    import torch
    from torch_lists import lists, seconds

    if not torch.cuda.is_available():
        raise ImportError("torch sees no GPU")
    copied, rows = timed(lambda: torch.from_numpy(task.x).cuda())
    best = None
    for name, tf32, half in PRECISIONS:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        for chunk in sorted({max(1, min(len(rows), scores // len(rows))) for scores in CHUNK_SCORES}):
            some = rows[: 4 * chunk]
            lists(some, min(task.neighbors, len(some) - 1), chunk, half)  # starts it, which is not what is measured
            found = []
            on_device = seconds(lambda: found.append(lists(rows, task.neighbors, chunk, half)))
            back, (ids, distances) = timed(lambda: tuple(each.cpu().numpy() for each in found.pop()))
            whole = copied.plus(back).plus(Seconds(on_device, on_device))
            told = {**whole.told(), "device_seconds": on_device, "recall": task.recall(ids), "settings": f"{name}, chunks of {chunk}"}
            this = told, (ids, distances)
            best = this if best is None else best_of([best, this], task.wanted_recall)
    return best


def best_of(tried, wanted_recall):
    """The quickest that reaches the recall; of none that does, the one of the highest."""
    return min(tried, key=lambda each: (max(0, wanted_recall - each[0]["recall"]), each[0]["device_seconds"]))


PEERS = {
    "hnswlib": hnswlib_lists,
    "usearch": usearch_lists,
    "pynndescent": pynndescent_lists,
    "faiss-hnsw": faiss_hnsw_lists,
    "faiss-exact": faiss_exact_lists,
    "torch-cuda": torch_cuda_lists,
}
PACKAGES = {"faiss-hnsw": "faiss-cpu", "faiss-exact": "faiss-cpu", "torch-cuda": "torch"}  # where a package has another name


def version_of(peer):
    return importlib.metadata.version(PACKAGES.get(peer, peer))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=sorted(PEERS))
    parser.add_argument("rows")
    parser.add_argument("--neighbors", type=int, default=100)
    parser.add_argument("--recall", type=float, default=0.98)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sample", default="")
    arguments = parser.parse_args()
    task = Task(np.load(arguments.rows), arguments.neighbors, arguments.recall, arguments.threads)
    try:
        measured, (ids, _) = PEERS[arguments.peer](task)
    except ImportError as error:
        print(json.dumps({"failure": str(error)}))
        return
    if arguments.sample:
        np.save(arguments.sample, ids[task.sample].astype(np.int64).ravel())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({**measured, "peak_memory_bytes": peak, "version": version_of(arguments.peer)}))


if __name__ == "__main__":
    main()
