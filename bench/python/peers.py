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
from peer_lists import PEERS, Seconds, Task, timed  # noqa: E402

import smartmine  # noqa: E402

K, THREADS = arguments.neighbors, arguments.threads


def made(rows, dimension, seed=1, of_class=30, width=0.6):
    """Unit rows in classes of thirty whose later dimensions vary less, as those of trained embeddings do; as bench_neighbors makes them."""
    random = np.random.default_rng(seed)
    spread = 1 / np.sqrt(1 + np.arange(dimension))
    labels = np.arange(rows) // of_class % max(1, rows // of_class)
    centres = random.normal(size=(labels.max() + 1, dimension)) * spread
    x = centres[labels] + width * random.normal(size=(rows, dimension)) * spread
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32), labels.astype(np.int64)


def own_lists(task):
    seconds, found = timed(lambda: smartmine.knn(task.x, K, recall=arguments.recall, threads=THREADS))
    return {**seconds.told(), "recall": task.recall(found.ids), "settings": found.stats["index"]}, found[:2]


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


def one_round(results, task, labels):
    x = task.x
    wanted = arguments.only.split(",")
    lists = {}
    if "knn" in wanted or "mine" in wanted:
        measured, lists["smartmine"] = own_lists(task)
        best(results["knn"], "smartmine", measured)
        if arguments.program:
            best(results["knn"], "program", {**program_seconds(x).told(), "recall": None, "settings": "smartmine knn --json"})
        for name in arguments.peers.split(","):
            try:
                measured, lists[name] = PEERS[name](task)
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
    task = Task(x, K, arguments.recall, THREADS)
    results = {"knn": {}, "mine": {}, "evaluate": {}}
    for _ in range(arguments.rounds):
        one_round(results, task, labels)
    results["versions"] = versions()
    print(table(results))
    print("\n" + ", ".join(f"{name} {version}" for name, version in results["versions"].items()))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=2))


main()
