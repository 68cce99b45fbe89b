import os
import pathlib
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def clustered(rows=3000, dimension=32, of_class=15, spread=0.8, seed=0):
    """Unit rows in classes, as trained embeddings are, and their labels."""
    random = np.random.default_rng(seed)
    labels = np.arange(rows) // of_class
    centres = random.normal(size=(labels[-1] + 1, dimension))
    x = centres[labels] + spread * random.normal(size=(rows, dimension))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32), labels.astype(np.int64)


@pytest.fixture(scope="session")
def data():
    return clustered()


@pytest.fixture(scope="session")
def program():
    """Runs the smartmine program, which the other tests have built."""
    candidates = [os.environ.get("SMARTMINE_PROGRAM")] + [str(ROOT / "build" / preset / "smartmine") for preset in ("dev", "release")]
    path = next((path for path in candidates if path and os.path.isfile(path)), None)
    if path is None:
        pytest.skip("the program is not built; SMARTMINE_PROGRAM=... names one")

    def run(*arguments):
        done = subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
