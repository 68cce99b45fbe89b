#!/usr/bin/env python3
"""What --index auto takes, against both: a table of seconds of the processor on one thread.

  bench/python/auto_choice.py BUILD [ROUNDS [ROWS,... [DIMENSION,...]]]

BUILD is a build folder with smartmine and examples/make_embeddings in it. Programs run in turns, and the least of all rounds counts.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile

KINDS = ("classes", "flat", "noise")


def seconds_of(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, json.loads(out)


def main():
    words = sys.argv[1:]
    if not 1 <= len(words) <= 4:
        sys.exit(__doc__)
    build = words[0]
    rounds = int(words[1]) if len(words) > 1 else 2
    sizes = [int(w) for w in (words[2] if len(words) > 2 else "1000,6000,9000,12000,16000,22000,40000").split(",")]
    dimensions = [int(w) for w in (words[3] if len(words) > 3 else "16,32,64,128,256,512").split(",")]
    worst = 0
    print("| dimension | data | k | rows | exact | fanng | auto | times the faster |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        rows = os.path.join(folder, "rows")
        for dimension in dimensions:
            for kind in KINDS:
                for size in sizes:
                    subprocess.run([f"{build}/examples/make_embeddings", str(size), str(dimension), rows, "1", kind], check=True)
                    for k in (10, 100):
                        least, took = {}, ""
                        for _ in range(rounds):
                            for index in ("exact", "fanng", "auto"):
                                seconds, said = seconds_of(
                                    [f"{build}/smartmine", "knn", "--embeddings", f"{rows}.0.npy", "--output", rows, "--json",
                                     "--neighbors", str(k), "--index", index, "--threads", "1"])
                                least[index] = min(seconds, least.get(index, seconds))
                                took = said["index"]
                        times = least["auto"] / min(least["exact"], least["fanng"])
                        worst = max(worst, times)
                        print(f"| {dimension} | {kind} | {k} | {size:,} | {least['exact']:.3f} | {least['fanng']:.3f} | "
                              f"{took}, {least['auto']:.3f} | {times:.2f} |", flush=True)
    print(f"at most {worst:.2f} times the faster of the two")


if __name__ == "__main__":
    main()
