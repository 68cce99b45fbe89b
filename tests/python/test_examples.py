"""The examples of examples/python run, learn, and reach what docs/results.md says."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import smartmine

pytest.importorskip("torch", reason="torch is not installed: the examples are left out")
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"


def run(name, *arguments, epochs):
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments], capture_output=True, text=True, env={**os.environ, "EPOCHS": str(epochs)}
    )
    assert done.returncode == 0, done.stderr
    return [float(value) for value in re.findall(r"recall@1 ([0-9.]+)", done.stdout)]


def test_the_loop_of_ones_own_is_of_forty_lines():
    assert sum(bool(line.strip()) for line in (EXAMPLES / "torch_loop.py").read_text().splitlines()) <= 40


def test_the_loop_of_ones_own_learns():
    recalls = run("torch_loop.py", epochs=2)
    assert len(recalls) == 2 and recalls[1] > recalls[0] > 0.2


def test_the_loop_with_pml_learns():
    pytest.importorskip("pytorch_metric_learning", reason="pytorch-metric-learning is not installed: its example is left out")
    recalls = run("pml.py", epochs=2)
    assert len(recalls) == 2 and recalls[1] > recalls[0] > 0.2


def test_the_module_of_lightning_learns():
    try:
        import lightning.pytorch  # noqa: F401
    except ImportError:
        pytest.importorskip("pytorch_lightning", reason="Lightning is not installed: its example is left out")
    assert run("lightning_module.py", epochs=2)[-1] > 0.3


@pytest.mark.slow
def test_the_loop_reaches_what_the_program_reaches_and_mining_beats_random_triplets(program, tmp_path):
    recipe = EXAMPLES.parents[1] / "recipes" / "glyphs.toml"
    program("train", "--config", recipe, "--choose", "off", "--quiet", "--output", tmp_path / "run")
    trained = smartmine.Run(tmp_path / "run").metrics["recall@1"]
    mined, random = run("torch_loop.py", epochs=8)[-1], run("torch_loop.py", "--random", epochs=8)[-1]
    assert abs(mined - trained) < 0.02 or mined > trained
    assert mined > random + 0.01
