"""Neighbour lists: `knn` for one set of rows, `Index` for rows that move from epoch to epoch."""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from typing import Any, Dict, NamedTuple, Optional, Union

import numpy as np

from . import _core, _numbers
from ._arrays import matrix
from ._core import InvalidArgument, IoError
from ._progress import ProgressLike, Reporting

Stats = Dict[str, Any]


class Neighbors(NamedTuple):
    """Lists of all rows: `ids` (int32, N x k) and squared `distances` (float32, N x k), nearest first, and what they cost."""

    ids: np.ndarray
    distances: np.ndarray
    stats: Stats


class Found(NamedTuple):
    """Answers to queries: `ids` (int32, Q x k) and squared `distances` (float32, Q x k), nearest first."""

    ids: np.ndarray
    distances: np.ndarray


_DEFAULTS: Dict[str, Any] = {
    "index": "auto",
    "start": "partition",
    "recall": 0.98,
    "success_rate": 0.98,
    "certify": False,
    "edge_candidates": 0,
    "max_degree": 64,
}


def _asks_for_graph(options: Dict[str, Any]) -> bool:
    """Whether an option is given that lists alone have no use for."""
    return any(options[name] != _DEFAULTS[name] for name in ("success_rate", "certify", "edge_candidates", "max_degree"))


def _core_index(options: Dict[str, Any], k: int, for_search: bool, keep: bool, seed: int, threads: int) -> _core.NeighborIndex:
    return _core.NeighborIndex(
        kind=_numbers.one_of(options["index"], "index", ("auto", "exact", "fanng")),
        neighbors=k,
        start=_numbers.one_of(options["start"], "start", ("partition", "random", "previous")),
        recall=_numbers.real(options["recall"], "recall"),
        success_rate=_numbers.real(options["success_rate"], "success_rate"),
        certify=bool(options["certify"]),
        edge_candidates=_numbers.whole(options["edge_candidates"], "edge_candidates", 0, 4096),
        max_degree=_numbers.whole(options["max_degree"], "max_degree", 4, 1024),
        for_search=for_search,
        keep=keep,
        seed=seed,
        threads=threads,
    )


def knn(
    x: Any,
    k: int = 100,
    *,
    index: str = "auto",
    start: str = "partition",
    recall: float = 0.98,
    success_rate: float = 0.98,
    certify: bool = False,
    edge_candidates: int = 0,
    max_degree: int = 64,
    seed: int = 1,
    threads: int = 0,
    progress: ProgressLike = None,
) -> Neighbors:
    """The k nearest other rows of every row of `x`, by Euclidean distance.

    Options and results are those of `smartmine knn`, to the bit: `index` is auto (the faster), exact or fanng; `recall` is the share of
    true neighbours that the lists must hold, checked on a sample; the others say how the graph is built. `threads=0` takes all cores and
    never changes the result. Ids are int32, distances squared, a row is never its own neighbour.
    """
    rows = matrix(x)
    if start == "previous":
        raise InvalidArgument("start is 'previous'; a graph to start from is kept by smartmine.Index, whose update uses it")
    options = dict(
        _DEFAULTS,
        index=index,
        start=start,
        recall=recall,
        success_rate=success_rate,
        certify=certify,
        edge_candidates=edge_candidates,
        max_degree=max_degree,
    )
    asked = start != _DEFAULTS["start"] or _asks_for_graph(options)
    if asked and index == "exact":
        raise InvalidArgument("an option for a graph is given, and index='exact' builds none; use index='fanng' or 'auto'")
    if asked and index == "auto":
        options["index"] = "fanng"  # who says how the graph is to be wants one
    finder = _core_index(options, _numbers.neighbors(k, len(rows)), asked, False, _numbers.seed(seed), _numbers.threads(threads))
    with Reporting(progress) as report:
        lists, stats = finder.neighbors(rows, _numbers.seed(seed), report)
    return Neighbors(lists.ids, lists.distances, stats)


class Index:
    """Lists of rows that move a little from epoch to epoch, and answers to queries among them.

    `update(x)` gives the lists of all rows. Where a graph is used, it is kept, and the next `update` with as many rows of the same
    dimension starts from it, which is faster the less they moved; `keep_graph=False` saves the third that
    keeping it adds to a first update. The rows of the last update are kept too, without a copy: do not change
    them in place if you query.
    """

    #: Of what `save` and pickle write. Others are refused.
    FORMAT = 1

    def __init__(
        self,
        k: int = 100,
        *,
        index: str = "auto",
        recall: float = 0.98,
        success_rate: float = 0.98,
        certify: bool = False,
        edge_candidates: int = 0,
        max_degree: int = 64,
        keep_graph: bool = True,
        seed: int = 1,
        threads: int = 0,
    ) -> None:
        self._options: Dict[str, Any] = {
            "k": _numbers.whole(k, "k", 1, 2**31 - 2),
            "index": index,
            "recall": recall,
            "success_rate": success_rate,
            "certify": certify,
            "edge_candidates": edge_candidates,
            "max_degree": max_degree,
            "keep_graph": bool(keep_graph),
            "seed": _numbers.seed(seed),
            "threads": _numbers.threads(threads),
        }
        self._rows: Optional[np.ndarray] = None
        self._lists: Optional[_core.Lists] = None
        self._finder = self._make_finder()
        self._walked: Optional[_core.NeighborIndex] = None

    def _make_finder(self) -> _core.NeighborIndex:
        keep = self._options["keep_graph"]
        options = dict(self._options, start="previous" if keep else "partition")
        return _core_index(options, options["k"], _asks_for_graph(options), keep, options["seed"], options["threads"])

    def _with_edges(self, report: Any) -> Optional[_core.NeighborIndex]:
        """What can be walked along; None: there is no graph. Lists need no edges: they are made when first asked for."""
        if self._finder.has_edges or not self._finder.has_graph:
            return self._finder if self._finder.has_edges else None
        if self._walked is None:
            options = dict(self._options, index="fanng", start="partition")
            walked = _core_index(options, options["k"], True, True, options["seed"], options["threads"])
            walked.neighbors(self._rows, options["seed"], report)
            self._walked = walked
        return self._walked

    @property
    def options(self) -> Dict[str, Any]:
        """What the index was made with."""
        return dict(self._options)

    @property
    def rows(self) -> Optional[np.ndarray]:
        """The rows of the last update; None before the first."""
        return self._rows

    @property
    def lists(self) -> _core.Lists:
        """The lists of the last update, for a miner. Raises InvalidArgument before the first, and after loading."""
        if self._lists is None:
            raise InvalidArgument("the index has no lists yet; call update first")
        return self._lists

    def __len__(self) -> int:
        return 0 if self._rows is None else len(self._rows)

    def __repr__(self) -> str:
        held = "no rows yet" if self._rows is None else f"{len(self._rows)} rows of dimension {self._rows.shape[1]}"
        return f"smartmine.Index(k={self._options['k']}, index={self._options['index']!r}): {held}"

    def update(self, x: Any, *, seed: Optional[int] = None, progress: ProgressLike = None) -> Neighbors:
        """The lists of all rows of `x`, which the index then holds. `seed`: for this call alone."""
        rows = matrix(x)
        _numbers.neighbors(self._options["k"], len(rows))
        if self._rows is not None and self._rows.shape != rows.shape:
            self._finder = self._make_finder()  # other points: the graph is of no use
        with Reporting(progress) as report:
            lists, stats = self._finder.neighbors(rows, self._options["seed"] if seed is None else _numbers.seed(seed), report)
        self._rows, self._lists, self._walked = rows, lists, None
        return Neighbors(lists.ids, lists.distances, stats)

    def query(
        self, queries: Any, k: int = 10, *, budget: Optional[int] = None, threads: Optional[int] = None, progress: ProgressLike = None
    ) -> Found:
        """The k rows nearest each query; a row equal to a query is an answer like any other.

        Exact unless `budget` is given: then at most so many rows a query are looked at, by walking the graph, which is quicker for few
        queries among many rows. The first such query after an update makes the graph's edges, which takes longer than the update did.
        Never fewer than k: a query that cannot reach as many through the graph is answered exactly.
        """
        if self._rows is None:
            raise InvalidArgument("the index holds no rows yet; call update first")
        wanted = matrix(queries, "queries")
        if wanted.shape[1] != self._rows.shape[1]:
            raise InvalidArgument(f"queries have dimension {wanted.shape[1]}; the rows have {self._rows.shape[1]}")
        k = _numbers.whole(k, "k", 1, len(self._rows))
        workers = self._options["threads"] if threads is None else _numbers.threads(threads)
        with Reporting(progress) as report:
            walked = None if budget is None else self._with_edges(report)
            if walked is None:
                lists, _ = _core.search_exact(self._rows, wanted, k, workers, report)
                return Found(lists.ids, lists.distances)
            budget = _numbers.whole(budget, "budget", k, 2**31 - 1)
            lists = walked.search(self._rows, wanted, k, budget, workers, report)
            found = Found(lists.ids, lists.distances)
            short = np.flatnonzero(found.ids[:, 0] < 0)
            if len(short):
                rest, _ = _core.search_exact(self._rows, np.ascontiguousarray(wanted[short]), k, workers, report)
                found.ids[short], found.distances[short] = rest.ids, rest.distances
        return found

    # ---- files and pickle: a zip of settings, rows and graph ----

    def _graph_bytes(self) -> bytes:
        if not self._finder.has_graph:
            return b""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "graph")
            self._finder.save(path)
            with open(path, "rb") as file:
                return file.read()

    def _write(self, file: Any) -> None:
        settings = {"format": self.FORMAT, "version": _core.version, "options": self._options}
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            archive.writestr("index.json", json.dumps(settings))
            if self._rows is not None:
                with archive.open("rows.npy", "w", force_zip64=True) as part:
                    np.lib.format.write_array(part, self._rows, allow_pickle=False)
            graph = self._graph_bytes()
            if graph:
                archive.writestr("graph", graph)

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes settings, rows and graph into one file, whole or not at all. Lists are not in it: `update` gives them anew."""
        path = os.fspath(path)
        folder = os.path.dirname(path) or "."
        try:
            handle, temporary = tempfile.mkstemp(prefix=os.path.basename(path) + ".", dir=folder)
        except OSError as error:
            raise IoError(f"{path}: cannot be written: {error.strerror}") from None
        try:
            with os.fdopen(handle, "wb") as file:
                self._write(file)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise

    @classmethod
    def _read(cls, file: Any, name: str) -> "Index":
        try:
            with zipfile.ZipFile(file) as archive:
                settings = json.loads(archive.read("index.json"))
                if settings.get("format") != cls.FORMAT:
                    raise IoError(
                        f"{name}: an index of format {settings.get('format')}, written by smartmine {settings.get('version')}; "
                        f"this one reads format {cls.FORMAT}: make it anew from its rows"
                    )
                index = cls(**settings["options"])
                names = archive.namelist()
                if "rows.npy" in names:
                    with archive.open("rows.npy") as part:
                        index._rows = np.lib.format.read_array(part, allow_pickle=False)
                if "graph" in names:
                    with tempfile.TemporaryDirectory() as folder:
                        index._finder.load(archive.extract("graph", folder))
        except (zipfile.BadZipFile, KeyError, ValueError, TypeError, EOFError) as error:
            raise IoError(f"{name}: not an index written by smartmine.Index.save, or damaged: {error}") from None
        return index

    @classmethod
    def load(cls, path: Union[str, "os.PathLike[str]"]) -> "Index":
        """Reads what `save` wrote. Raises IoError saying what is wrong with a damaged, foreign or newer file."""
        path = os.fspath(path)
        if not os.path.isfile(path):
            raise IoError(f"{path}: there is no such file")
        return cls._read(path, path)

    def __reduce__(self) -> Any:
        buffer = io.BytesIO()
        self._write(buffer)
        return _unpickle, (buffer.getvalue(),)


def _unpickle(data: bytes) -> Index:
    return Index._read(io.BytesIO(data), "pickled index")
