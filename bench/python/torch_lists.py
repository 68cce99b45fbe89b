"""Exact lists by torch on a GPU, as most people would: products of a chunk of rows with all, then top-k. torch_lists.py [ROWS DIMENSION K]..."""

import sys

import torch


def lists(rows, k, chunk, half):
    squares = rows.square().sum(1)
    other = rows.half() if half else rows
    ids = torch.empty(len(rows), k, dtype=torch.int64, device=rows.device)
    distances = torch.empty(len(rows), k, device=rows.device)
    for first in range(0, len(rows), chunk):
        queries = other[first : first + chunk]
        if half:
            scores = squares - 2 * (queries @ other.t()).float()
        else:
            scores = torch.addmm(squares, queries, other.t(), alpha=-2)
        own = torch.arange(len(queries), device=rows.device)
        scores[own, own + first] = float("inf")
        distances[first : first + chunk], ids[first : first + chunk] = scores.topk(k, dim=1, largest=False)
    return ids, distances


def seconds(work):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1e3


def main():
    numbers = [int(value) for value in sys.argv[1:]] or [100_000, 64, 100, 1_000_000, 64, 100]
    print("| rows | dim | k | products | chunk | seconds |\n|---|---|---|---|---|---|")
    for size, dimension, k in zip(numbers[0::3], numbers[1::3], numbers[2::3]):
        torch.manual_seed(1)
        spread = (1 + torch.arange(dimension, device="cuda")).rsqrt()
        centres = torch.randn(size // 30 + 1, dimension, device="cuda").repeat_interleave(30, 0)[:size]
        rows = torch.nn.functional.normalize((centres + 0.6 * torch.randn(size, dimension, device="cuda")) * spread)
        for name, tf32, half in [("float32", False, False), ("tf32", True, False), ("float16", False, True)]:
            torch.backends.cuda.matmul.allow_tf32 = tf32
            for scores in [1 << 27, 1 << 30]:  # values of a chunk
                chunk = max(1, min(size, scores // size))
                lists(rows[: 4 * chunk], min(k, 4 * chunk - 1), chunk, half)  # warm
                times = [seconds(lambda: lists(rows, k, chunk, half)) for _ in range(1 if size >= 1_000_000 else 3)]
                print(f"| {size} | {dimension} | {k} | {name} | {chunk} | {min(times):.4f} |", flush=True)


main()
