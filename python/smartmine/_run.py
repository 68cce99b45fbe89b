"""What `smartmine train` left in a run directory."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Optional, Union

import numpy as np

from ._core import IoError


def _read_toml(text: str, path: str) -> Dict[str, Any]:
    try:
        import tomllib as toml  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        import tomli as toml  # type: ignore[no-redef, import-not-found, unused-ignore]
    try:
        return toml.loads(text)
    except toml.TOMLDecodeError as error:
        raise IoError(f"{path}: cannot be read as TOML: {error}") from None


class Run:
    """A run directory, finished or not: its settings, its log and where its files are.

        run = smartmine.Run("runs/glyphs-1")
        plt.plot(run.epochs, run["recall@1"])

    `run[name]` is a value of every epoch of the log as a float array, NaN where an epoch has none: a name of the log, such as loss or
    kappa, of its metrics, such as recall@1, or with dots for what lies deeper, such as mining.mined. Epoch 0 is before training.
    Reads the log when made; `reload()` reads it anew while training goes on.
    """

    def __init__(self, path: Union[str, "os.PathLike[str]"]) -> None:
        self.path = os.fspath(path)
        config = os.path.join(self.path, "config.toml")
        if not os.path.isdir(self.path):
            raise IoError(f"{self.path}: there is no such run")
        if not os.path.isfile(config):
            raise IoError(f"{self.path}: not the folder of a run: it has no config.toml")
        with open(config, encoding="utf-8") as file:
            #: Settings by the names of the command line.
            self.config: Dict[str, Any] = _read_toml(file.read(), config)
        #: Records, one an epoch, as in log.jsonl.
        self.log: List[Dict[str, Any]] = []
        #: What was tried and chosen on held-out classes, as in choice.json; None where nothing was.
        self.choice: Optional[Dict[str, Any]] = None
        self.reload()

    def reload(self) -> "Run":
        """Reads the log and the choice anew. A last line that is still being written is left out."""
        self.choice = _read_choice(os.path.join(self.path, "choice.json"))
        path = os.path.join(self.path, "log.jsonl")
        self.log = []
        if not os.path.isfile(path):
            return self
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        for number, line in enumerate(lines[:-1], start=1):  # what follows the last newline is not complete
            try:
                self.log.append(json.loads(line))
            except ValueError as error:
                raise IoError(f"{path}: line {number} is not JSON: {error}") from None
        return self

    @property
    def epochs(self) -> np.ndarray:
        """The numbers of the epochs, the x of every plot."""
        return np.array([record["epoch"] for record in self.log], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.log)

    def __getitem__(self, name: str) -> np.ndarray:
        values = [_find(record, name) for record in self.log]
        if self.log and all(value is None for value in values):
            raise KeyError(f"{name} is in no record of {self.path}; there are: {', '.join(self.names())}")
        return np.array([np.nan if value is None else float(value) for value in values])

    def names(self) -> List[str]:
        """What `run[name]` knows."""
        names: Dict[str, None] = {}
        for record in self.log:
            for name, value in record.items():
                if isinstance(value, (int, float)):
                    names[name] = None
                elif isinstance(value, dict):
                    prefix = "" if name == "metrics" else name + "."
                    names.update({prefix + inner: None for inner, number in value.items() if isinstance(number, (int, float))})
        return list(names)

    @property
    def _kept(self) -> Optional[Dict[str, Any]]:
        """What choice.json says of the weights at model_path. A run that was made longer and has not ended no longer has the epoch it kept,
        unless that is in a file of its own."""
        kept = (self.choice or {}).get("kept")
        done = self.log[-1]["epoch"] if self.log else 0
        return kept if kept and (kept["epoch"] == done or os.path.isfile(os.path.join(self.path, "kept.safetensors"))) else None

    @property
    def metrics(self) -> Dict[str, float]:
        """The metrics of the weights that the run keeps, those at model_path, by the names of `smartmine eval`; empty if they have not been
        measured. While it trains, and without a choice, of the last epoch that was measured."""
        if self._kept:
            return dict(self._kept["metrics"])
        for record in reversed(self.log):
            if record.get("metrics"):
                return dict(record["metrics"])
        return {}

    @property
    def finished(self) -> bool:
        """Whether all epochs of the settings are in the log."""
        return bool(self.log) and self.log[-1]["epoch"] >= int(self.config.get("epochs", 0))

    @property
    def model_path(self) -> Optional[str]:
        """The weights that the run keeps, or of its last checkpoint, a safetensors file; None before the first.

        `smartmine.torch.load_run` loads them."""
        for name in ("kept.safetensors", "checkpoint/model.safetensors", "checkpoint.old/model.safetensors"):
            path = os.path.join(self.path, *name.split("/"))
            if os.path.isfile(path):
                return path
        return None

    def _array(self, kind: str, epoch: int) -> np.ndarray:
        path = os.path.join(self.path, kind, f"epoch-{epoch:04d}.npy")
        if not os.path.isfile(path):
            raise IoError(f"{path}: there is no such file; --save-epochs {epoch} keeps {kind} of that epoch")
        return np.load(path)

    def embeddings(self, epoch: int) -> np.ndarray:
        """The embeddings of the measured images after an epoch named in --save-epochs."""
        return self._array("embeddings", epoch)

    def triplets(self, epoch: int) -> np.ndarray:
        """The triplets of an epoch named in --save-epochs."""
        return self._array("triplets", epoch)

    def labels(self) -> np.ndarray:
        """The labels of the rows of `embeddings`."""
        path = os.path.join(self.path, "embeddings", "labels.npy")
        if not os.path.isfile(path):
            raise IoError(f"{path}: there is no such file; --save-epochs keeps embeddings and their labels")
        return np.load(path)

    def __repr__(self) -> str:
        best = self.metrics.get("recall@1")
        told = "" if best is None else f", recall@1 {100 * best:.1f} %"
        told += f", kept: {self._kept['reason']}" if self._kept else ""
        return f"smartmine.Run({self.path!r}): {max(0, len(self.log) - 1)} epochs{told}"


def _read_choice(path: str) -> Optional[Dict[str, Any]]:
    if not os.path.isfile(path):
        return None
    with open(path, encoding="utf-8") as file:
        try:
            return dict(json.load(file))
        except (ValueError, TypeError) as error:
            raise IoError(f"{path}: not JSON of a choice: {error}") from None


def _find(record: Dict[str, Any], name: str) -> Optional[float]:
    metrics = record.get("metrics") or {}
    if name in metrics:
        return metrics[name]
    value: Any = record
    for part in [name] if name in record else name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, (int, float)) else None
