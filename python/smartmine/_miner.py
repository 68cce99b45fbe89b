"""Triplets over the whole set: `Miner` selects them from neighbour lists and moves kappa as training goes on."""

from __future__ import annotations

from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple, Union

import numpy as np

from . import _core, _numbers
from ._arrays import class_labels, given_lists, matrix
from ._core import InvalidArgument
from ._index import Index, Stats
from ._progress import ProgressLike, Reporting

_LONGEST_BY_DEFAULT = 16  # times the length of the lists, as the program's --longer-lists


class Mined(NamedTuple):
    """`triplets` (int64, T x 3: anchor, positive, negative, ids of rows) in order of anchor, and what was mined and what it cost."""

    triplets: np.ndarray
    stats: Stats


def violating_share(triplets: Any, x: Any, margin: float = 0.2) -> float:
    """The share of triplets with d(anchor, negative) < d(anchor, positive) + margin, distances not squared: those with a loss."""
    ids = np.asarray(triplets)
    if ids.ndim != 2 or ids.shape[1] != 3:
        raise InvalidArgument(f"triplets has shape {ids.shape}; it must be T x 3")
    if ids.size and ids.dtype.kind not in "iu":
        raise TypeError(f"triplets is of {ids.dtype}; it must be of whole numbers, the ids of rows")
    return _core.violating_share(np.ascontiguousarray(ids, dtype=np.int64), matrix(x), _numbers.real(margin, "margin"))


class Miner:
    """The paper's triplet selection over the whole set, epoch by epoch.

    `mine(x, labels)` gives a triplet (or `triplets_per_anchor`) for every row that is not alone in its class. Its negative is the
    nearest that lies beyond `kappa` times the squared distance of the nearest positive; its positive lies behind that negative. Without
    `target_error`, kappa stays; `kappa="auto"` looks for the largest that mines nearly all at every call. With it,
    `observe(training_error)` after each epoch moves kappa so that the share of triplets with a loss comes to the target; `kappa="auto"`
    then starts from the kappa whose triplets have that error before they are trained on.

    Options and results are those of `smartmine mine`: the first call is `smartmine mine --seed seed`, to the bit; the n-th after it is that
    with `seed + n` and the graph of the call before. For a single call, `keep_graph=False` is faster.
    """

    def __init__(
        self,
        kappa: Union[float, str] = 4.0,
        *,
        target_error: Optional[float] = None,
        neighbors: int = 100,
        triplets_per_anchor: int = 1,
        mined_fraction: float = 1.0,
        margin: float = 0.2,
        nearer_positives: bool = False,
        keep_duplicates: bool = False,
        min_negative_rank: int = 0,
        duplicate_distance: float = 0.0,
        max_negative_uses: int = 0,
        hub_limit: float = 0.0,
        longer_lists: bool = False,
        longest_list: int = 0,
        kappa_floor: float = 1.0,
        kappa_fit: str = "log-odds",
        index: str = "auto",
        recall: float = 0.98,
        keep_graph: bool = True,
        seed: int = 1,
        threads: int = 0,
    ) -> None:
        self._arguments = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        if isinstance(kappa, str) and kappa != "auto":
            raise InvalidArgument(f"kappa is {kappa!r}; it must be a positive number or 'auto'")
        _numbers.one_of(kappa_fit, "kappa_fit", ("log-odds", "linear"))
        if not longer_lists and longest_list != 0:
            raise InvalidArgument(f"longest_list is {longest_list}; it is for longer_lists, which was not asked for")
        if not isinstance(kappa, str) and not _numbers.real(kappa, "kappa") > 0:
            raise InvalidArgument(f"kappa is {kappa}; it must be a positive number or 'auto'")
        self._seed = _numbers.seed(seed)
        self._epoch = 0
        self._mined_share: Optional[float] = None
        self._kappa = 0.0 if isinstance(kappa, str) else _numbers.real(kappa, "kappa")
        self._controller: Optional[_core.KappaController] = None
        if target_error is not None:
            self._controller = _core.KappaController(
                target_error=_numbers.real(target_error, "target_error"),
                start=self._kappa,
                min_kappa=_numbers.real(kappa_floor, "kappa_floor"),
                max_kappa=max(64.0, 2 * self._kappa),
                fit=kappa_fit,
            )
        self._options: Dict[str, Any] = {
            "kappa": self._kappa or 4.0,
            "triplets_per_anchor": _numbers.whole(triplets_per_anchor, "triplets_per_anchor", 1, 65536),
            "mined_fraction": _numbers.real(mined_fraction, "mined_fraction"),
            "seed": self._seed,
            "threads": _numbers.threads(threads),
            "margin": _numbers.real(margin, "margin"),
            "nearer_positives": bool(nearer_positives),
            "skip_duplicates": not keep_duplicates,
            "min_negative_rank": _numbers.whole(min_negative_rank, "min_negative_rank", 0, 2**31 - 1),
            "duplicate_distance": _numbers.real(duplicate_distance, "duplicate_distance"),
            "max_negative_uses": _numbers.whole(max_negative_uses, "max_negative_uses", 0, 2**31 - 1),
            "hub_limit": _numbers.real(hub_limit, "hub_limit"),
            "longest_list": _numbers.whole(longest_list, "longest_list", 0, 2**31 - 1),
            "longer_lists": bool(longer_lists),
        }
        _core.check_miner_options(self._options)
        self.index = Index(neighbors, index=index, recall=recall, keep_graph=keep_graph, seed=seed, threads=threads)

    @property
    def kappa(self) -> float:
        """For the next call of `mine`. 0: still to be found by it."""
        return self._controller.kappa if self._controller is not None else self._kappa

    @property
    def explanation(self) -> str:
        """The last change of kappa and its reasons in one line; empty before the first."""
        return self._controller.explanation if self._controller is not None else ""

    @property
    def epoch(self) -> int:
        """How often `mine` was called: the next call's seed is `seed + epoch`."""
        return self._epoch

    @epoch.setter
    def epoch(self, value: int) -> None:
        self._epoch = _numbers.whole(value, "epoch", 0, 2**63 - 1)

    def __repr__(self) -> str:
        return f"smartmine.Miner(kappa={self.kappa:g}): {self._epoch} epochs mined"

    def mine(
        self,
        x: Any,
        labels: Any,
        *,
        lists: Optional[Tuple[Any, Any]] = None,
        seed: Optional[int] = None,
        progress: ProgressLike = None,
    ) -> Mined:
        """Triplets of all rows of `x`. `lists`: ids and squared distances of neighbours computed elsewhere; `x` may be None then."""
        rows = None if x is None else matrix(x)
        given = None if lists is None else given_lists(lists)
        if rows is not None:
            size = len(rows)
        elif given is not None:
            size = len(given.ids)
        else:
            raise InvalidArgument("x is None; embeddings are wanted, or lists computed elsewhere")
        if given is not None and len(given.ids) != size:
            raise InvalidArgument(f"lists has {len(given.ids)} rows; there are {size} embeddings")
        classes = _core.LabelIndex(class_labels(labels, size))
        seed = (self._seed + self._epoch) % 2**64 if seed is None else _numbers.seed(seed)
        with Reporting(progress) as report:
            if given is None:
                _numbers.neighbors(self.index.options["k"], size, "neighbors")
                stats = self.index.update(rows, seed=seed, progress=progress).stats
                found = self.index.lists
            else:
                stats = {"index": "given", "seconds": 0.0, "stage_seconds": {}, "size": size, "note": ""}
                found = given
            triplets, selection = self._select(found, classes, rows, seed, report)
        self._epoch += 1
        return Mined(triplets, _combined(stats, selection, classes.classes))

    def _select(self, lists: _core.Lists, classes: _core.LabelIndex, rows: Optional[np.ndarray], seed: int, report: Any) -> Any:
        options = dict(self._options, seed=seed)
        if options["longer_lists"] and options["longest_list"] == 0:
            options["longest_list"] = _LONGEST_BY_DEFAULT * lists.ids.shape[1]
        if self._controller is not None:

            def expected_error(kappa: float) -> float:
                if rows is None:
                    raise InvalidArgument("kappa is 'auto', which takes embeddings to find; x must not be None")
                tried, _ = _core.mine(lists, classes, rows, dict(options, kappa=kappa), report)
                return _core.violating_share(tried, rows, options["margin"])

            self._controller.begin(expected_error)
        elif self._kappa == 0:
            options["kappa"], _ = _core.find_kappa(lists, classes, options, report)
        if self.kappa > 0:
            options["kappa"] = self.kappa
        triplets, selection = _core.mine(lists, classes, rows, options, report)
        selection["kappa"] = options["kappa"]
        mined = selection["mined"] + selection["mined_outside_positive"] + selection["mined_nearer_positive"]
        share = mined / max(1, selection["triplets"])
        if self._kappa > 0 and options["mined_fraction"] > 0 and share <= _core.HARDLY_MINED * options["mined_fraction"]:
            selection["hint"] = self._hint(lists, classes, options, mined, selection["triplets"], report)
        self._mined_share = min(1.0, share / options["mined_fraction"]) if options["mined_fraction"] > 0 else None
        return triplets, selection

    @staticmethod
    def _hint(lists: _core.Lists, classes: _core.LabelIndex, options: Dict[str, Any], mined: int, triplets: int, report: Any) -> str:
        """Where hardly anything was mined: which kappa would mine, and how much."""
        kappa, share = _core.find_kappa(lists, classes, options, report)
        if share * triplets <= mined or kappa == options["kappa"]:
            return f"only {mined} of {triplets} triplets were mined, and no kappa from 1/256 to 4 mines more from these lists"
        would = f"kappa={kappa:.3g} would mine {100 * share:.0f} % of them, and kappa='auto' finds it"
        return f"only {mined} of {triplets} triplets were mined; {would}"

    def observe(self, training_error: float, mined: Optional[float] = None) -> float:
        """Tells the training error of the epoch just trained, the share of its triplets with a loss; returns the next kappa.

        `mined` is how many of the triplets that were to be mined could be; the last call of `mine` knows. Without `target_error` kappa
        stays.
        """
        training_error = _numbers.real(training_error, "training_error")
        if not 0 <= training_error <= 1:
            raise InvalidArgument(f"training_error is {training_error}; it must be from 0 to 1")
        if self._controller is not None:
            share = self._mined_share if mined is None else _numbers.real(mined, "mined")
            if share is not None and self._controller.kappa > 0:
                self._controller.observe(training_error, share)
        return self.kappa

    def state_dict(self) -> Dict[str, Any]:
        """What changes from epoch to epoch, for a checkpoint: plain values. The graph is not in it; pickle the miner to keep that too."""
        return {"epoch": self._epoch, "mined_share": self._mined_share, "controller": self._controller.save() if self._controller else ""}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Takes up where `state_dict` left off."""
        if not isinstance(state, Mapping):
            raise TypeError(f"the state is {type(state).__name__}; it must be what Miner.state_dict gives")
        missing = [name for name in ("epoch", "mined_share", "controller") if name not in state]
        if missing:
            raise InvalidArgument(f"the state has no {missing[0]!r}; it is not one of Miner.state_dict")
        if bool(state["controller"]) != (self._controller is not None):
            raise InvalidArgument("the state is of a miner with another target_error: one of the two has a controller, the other none")
        share = state["mined_share"]
        share = None if share is None else _numbers.real(share, "mined_share")
        before, self.epoch = self.epoch, state["epoch"]
        try:
            if self._controller is not None:
                self._controller.load(state["controller"])
        except Exception:
            self.epoch = before
            raise
        self._mined_share = share

    def __getstate__(self) -> Dict[str, Any]:
        return {"arguments": self._arguments, "state": self.state_dict(), "index": self.index}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__init__(**state["arguments"])  # type: ignore[misc]
        self.load_state_dict(state["state"])
        self.index = state["index"]


def _combined(lists: Stats, selection: Stats, classes: int) -> Stats:
    """One flat dictionary with the names of `smartmine mine --json`."""
    stats = dict(lists)
    longer = selection.pop("longer_lists_seconds")
    seconds = selection.pop("selection_seconds") - longer
    stats["list_stage_seconds"] = lists["stage_seconds"]
    stats["stage_seconds"] = {"lists": lists["seconds"], "selection": seconds, "longer_lists": longer}
    stats["seconds"] = lists["seconds"] + seconds + longer
    stats["distance_computations"] = lists.get("distance_computations", 0) + selection.pop("longer_lists_computations")
    note = "; ".join(part for part in (lists["note"], selection.pop("note"), selection.pop("hint", "")) if part)
    stats.update(selection, classes=classes, note=note)
    return stats
