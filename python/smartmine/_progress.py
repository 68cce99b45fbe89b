"""How long calls tell where they stand."""

from __future__ import annotations

import sys
from typing import Any, Callable, NamedTuple, Optional, Union


class ProgressEvent(NamedTuple):
    """Where a long call stands: `done` of `total` units of a stage. `total` is 0 while it is unknown."""

    stage: str
    done: int
    total: int
    unit: str


#: False or None: quiet. True: a bar. A callable: called with each ProgressEvent; it cancels the call by returning False.
ProgressLike = Union[None, bool, Callable[[ProgressEvent], Any]]


class _Bar:
    """A bar a stage: tqdm's where it is installed, else a plain line on a terminal."""

    def __init__(self) -> None:
        self._stage = ""
        self._bar: Any = None
        try:
            from tqdm.auto import tqdm

            self._tqdm: Any = tqdm
        except ImportError:
            self._tqdm = None

    def __call__(self, stage: str, done: int, total: int, unit: str) -> None:
        if stage != self._stage:
            self.close()
            self._stage = stage
            if self._tqdm is not None:
                self._bar = self._tqdm(total=total or None, desc=stage, unit=" " + (unit or "rows"), leave=False)
        if self._bar is not None:
            self._bar.update(max(0, done - self._bar.n))
        elif sys.stderr.isatty():
            share = f"{100 * done // total:3d} %" if total else f"{done} {unit}"
            sys.stderr.write(f"\r{stage}: {share}  ")
            sys.stderr.flush()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        elif self._stage and sys.stderr.isatty():
            sys.stderr.write("\r" + " " * 40 + "\r")
            sys.stderr.flush()


class Reporting:
    """`with Reporting(progress) as callback:` gives the core its callback, or None, and closes the bar whatever happens."""

    def __init__(self, progress: ProgressLike) -> None:
        self._bar: Optional[_Bar] = None
        self._callback: Optional[Callable[[str, int, int, str], Any]] = None
        if progress is True:
            self._bar = self._callback = _Bar()
        elif callable(progress):
            self._callback = lambda stage, done, total, unit: progress(ProgressEvent(stage, done, total, unit))
        elif progress not in (None, False):
            raise TypeError(f"progress is {progress!r}; it must be True, False, None or a callable")

    def __enter__(self) -> Optional[Callable[[str, int, int, str], Any]]:
        return self._callback

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.close()
