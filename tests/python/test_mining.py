import json
import pickle

import numpy as np
import pytest

import smartmine
from conftest import clustered


@pytest.fixture(scope="module")
def hard():
    return clustered(rows=2000, dimension=16, of_class=20, spread=1.5)


def test_triplets_name_anchor_positive_and_negative(hard):
    x, y = hard
    triplets, stats = smartmine.Miner(kappa=1.5, neighbors=60).mine(x, y)
    a, p, n = triplets.T
    assert triplets.dtype == np.int64 and (a == np.arange(len(x))).all()
    assert (y[a] == y[p]).all() and (a != p).all() and (y[a] != y[n]).all()
    assert stats["mined"] > 0.3 * len(x)
    assert smartmine.violating_share(triplets, x) > smartmine.violating_share(smartmine.Miner(mined_fraction=0.0).mine(x, y).triplets, x)


@pytest.mark.parametrize("index", ["exact", "fanng"])
def test_the_same_bits_as_the_program(program, tmp_path, hard, index):
    x, y = hard
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    told = json.loads(
        program(
            "mine",
            "--embeddings",
            tmp_path / "x.npy",
            "--labels",
            tmp_path / "y.npy",
            "--kappa",
            1.5,
            "--seed",
            3,
            "--index",
            index,
            "--triplets-per-anchor",
            2,
            "--mined-fraction",
            0.7,
            "--longer-lists",
            "--neighbors",
            30,
            "--output",
            tmp_path / "t.npy",
            "--json",
        )
    )
    settings = dict(seed=3, index=index, triplets_per_anchor=2, mined_fraction=0.7, longer_lists=True, neighbors=30)
    triplets, _ = smartmine.Miner(1.5, **settings).mine(x, y)
    assert (np.load(tmp_path / "t.npy") == triplets).all()
    # The program keeps no graph unless told, and so measures a little less.
    triplets, stats = smartmine.Miner(1.5, keep_graph=False, **settings).mine(x, y)
    assert (np.load(tmp_path / "t.npy") == triplets).all()
    assert set(told) - {"read_seconds", "write_seconds"} == set(stats)
    assert set(told["stage_seconds"]) == set(stats["stage_seconds"])
    for name in (
        "mined",
        "random_no_negative",
        "random_by_share",
        "negative_distance_median",
        "kappa",
        "classes",
        "extended_anchors",
        "distance_computations",
    ):
        assert told[name] == stats[name], name


def test_lists_from_elsewhere_give_the_same(hard):
    x, y = hard
    found = smartmine.knn(x, 40)
    given = smartmine.Miner(1.5, neighbors=40).mine(x, y, lists=(found.ids, found.distances))
    own = smartmine.Miner(1.5, neighbors=40).mine(x, y)
    without = smartmine.Miner(1.5, neighbors=40).mine(None, y, lists=found[:2])
    assert (given.triplets == own.triplets).all() and (without.triplets == own.triplets).all()
    broken = found.ids.copy()
    broken[7, 0] = 7
    with pytest.raises(ValueError, match="7"):
        smartmine.Miner().mine(x, y, lists=(broken, found.distances))
    with pytest.raises(ValueError, match="shape"):
        smartmine.Miner().mine(x, y, lists=(found.ids[:, :3], found.distances))
    with pytest.raises(ValueError, match="None"):
        smartmine.Miner().mine(None, y)


def test_epochs_differ_and_can_be_repeated(hard):
    x, y = hard
    miner = smartmine.Miner(1.5, neighbors=60, mined_fraction=0.5)
    first, second = miner.mine(x, y).triplets, miner.mine(x, y).triplets
    assert (first != second).any()
    miner.epoch = 0
    assert (miner.mine(x, y).triplets == first).all()


def test_kappa_follows_the_error(hard):
    x, y = hard
    miner = smartmine.Miner(4.0, neighbors=60, target_error=0.6)
    miner.mine(x, y)
    harder_than_wanted = miner.observe(0.9, mined=1.0)
    assert harder_than_wanted > 4 and "0.900" in miner.explanation
    miner.mine(x, y)
    assert miner.observe(0.1, mined=1.0) < harder_than_wanted
    fixed = smartmine.Miner(4.0)
    fixed.mine(x, y)
    assert fixed.observe(0.9) == 4


def test_kappa_auto_starts_where_the_error_is_expected(hard):
    x, y = hard
    miner = smartmine.Miner("auto", neighbors=60, target_error=0.8)
    triplets, stats = miner.mine(x, y)
    assert 1 <= stats["kappa"] <= 4
    harder, easier = (smartmine.violating_share(smartmine.Miner(k, neighbors=60).mine(x, y).triplets, x) for k in (1.0, 4.0))
    assert easier - 0.02 <= smartmine.violating_share(triplets, x) <= harder + 0.02


def test_kappa_auto_without_a_target_is_the_programs(program, tmp_path, hard):
    x, y = hard
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    told = json.loads(
        program(
            "mine",
            "--embeddings",
            tmp_path / "x.npy",
            "--labels",
            tmp_path / "y.npy",
            "--kappa",
            "auto",
            "--output",
            tmp_path / "t.npy",
            "--json",
        )
    )
    triplets, stats = smartmine.Miner("auto").mine(x, y)
    assert stats["kappa"] == told["kappa"] and (np.load(tmp_path / "t.npy") == triplets).all()


def test_says_which_kappa_would_mine_when_hardly_any_was():
    x, y = clustered(rows=600, dimension=32, of_class=20, spread=0.5)
    note = smartmine.Miner(50.0).mine(x, y).stats["note"]
    assert "of 600 triplets were mined" in note


def test_a_miner_survives_pickle_and_state_dicts(hard):
    x, y = hard
    miner = smartmine.Miner(4.0, neighbors=60, target_error=0.6, index="fanng")
    miner.mine(x, y)
    miner.observe(0.8, mined=1.0)
    copy = pickle.loads(pickle.dumps(miner))
    assert copy.kappa == miner.kappa and copy.epoch == 1
    a, b = miner.mine(x, y), copy.mine(x, y)
    assert (a.triplets == b.triplets).all() and b.stats["start"] == "previous"
    fresh = smartmine.Miner(4.0, neighbors=60, target_error=0.6)
    fresh.load_state_dict(json.loads(json.dumps(copy.state_dict())))
    assert fresh.kappa == copy.kappa and fresh.epoch == copy.epoch
    with pytest.raises(ValueError, match="target_error"):
        smartmine.Miner(4.0).load_state_dict(copy.state_dict())


def test_a_callback_that_throws_leaves_the_miner_usable(hard):
    x, y = hard
    miner = smartmine.Miner("auto", target_error=0.6, neighbors=60)
    with pytest.raises(ZeroDivisionError):
        miner.mine(x, y, progress=lambda event: 1 / 0)
    assert miner.epoch == 0
    miner.mine(x, y)


def test_batches_hold_every_row_and_classes_that_lie_near_each_other(hard):
    x, y = hard
    near, drawn = (smartmine.BatchBuilder(8, 4, near_share=share).build(x, y) for share in (1.0, 0.0))
    for batches, stats in (near, drawn):
        assert (np.unique(np.concatenate(batches)) == np.arange(len(x))).all() and len(batches) == stats["batches"]
        assert all(len(np.unique(y[batch])) == 8 for batch in batches[:-8]) and len(batches[0]) == 32

    def nearest_other(batches):
        found = []
        for batch in batches[:20]:
            squared = ((x[batch][:, None] - x[batch][None]) ** 2).sum(2)
            found.append(np.where(y[batch][:, None] == y[batch][None], np.inf, squared).min(1).mean())
        return np.mean(found)

    assert nearest_other(near.batches) < 0.9 * nearest_other(drawn.batches)
    with pytest.raises(ValueError, match="near_share"):
        smartmine.BatchBuilder(near_share=2).build(x, y)


def test_batches_are_those_of_the_program(tmp_path, data, program):
    x, y = data
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    options = ["--classes", "6", "--images-per-class", "5", "--near-share", "0.7", "--rounds", "2", "--seed", "3"]
    files = ["--embeddings", tmp_path / "x.npy", "--labels", tmp_path / "y.npy", "--output", tmp_path / "b.npy"]
    told = json.loads(program("mine", "--batches", "--json", *files, *options))
    for threads in (1, 4):
        builder = smartmine.BatchBuilder(6, 5, near_share=0.7, rounds=2, seed=3, threads=threads)
        batches, stats = builder.build(x, y)
        assert batches.dtype == np.int64 and (batches == np.load(tmp_path / "b.npy")).all()
    counts = ("batches", "groups", "near_groups", "random_groups", "near_share", "repeated", "copies_skipped")
    counts += ("copies_left_out", "alone", "only_copies", "lists_without_negative", "classes_by_centre", "together", "looked_at")
    for name in counts:
        assert stats[name] == told[name], name
    assert stats["batch_error"] == pytest.approx(told["batch_error"])
    ids, distances, _ = smartmine.knn(x, 100, seed=3)
    assert (smartmine.BatchBuilder(6, 5, near_share=0.7, rounds=2, seed=3).build(None, y, lists=(ids, distances)).batches == batches).all()


def test_batches_refuse_what_cannot_be_right(data):
    x, y = data
    for options in ({"classes": 1}, {"images_per_class": 1}, {"near_share": float("nan")}, {"rounds": 0}, {"negatives": 0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            smartmine.BatchBuilder(**options).build(x, y)
    with pytest.raises(ValueError, match="labels"):
        smartmine.BatchBuilder().build(x, y[:-1])
    with pytest.raises(ValueError, match="one member only"):
        smartmine.BatchBuilder().build(x, np.arange(len(x)))
    with pytest.raises(ValueError, match="x is None"):
        smartmine.BatchBuilder().build(None, y)


def cosine(a, b):
    return (a / np.linalg.norm(a, axis=1, keepdims=True)) @ (b / np.linalg.norm(b, axis=1, keepdims=True)).T


class TestHardNegatives:
    def setup_method(self):
        random = np.random.default_rng(5)
        self.corpus = random.normal(size=(500, 12)).astype(np.float32) * 3
        self.queries = (self.corpus[:40] + random.normal(size=(40, 12))).astype(np.float32)
        self.similar = cosine(self.queries, self.corpus)

    def ranked(self, query, without):
        order = np.argsort(-self.similar[query], kind="stable")
        return order[~np.isin(order, without)]

    def test_are_the_nearest_that_are_not_positives(self):
        found = smartmine.mine_hard_negatives(self.queries, self.corpus, np.arange(40), negatives=3)
        assert found.rows.shape == (120, 3)
        for query in range(40):
            rows = found.rows[found.rows[:, 0] == query]
            assert (rows[:, 1] == query).all() and (rows[:, 2] == self.ranked(query, [query])[:3]).all()
        expected = self.similar[found.rows[:, :1], found.rows[:, 1:]]
        assert np.allclose(found.similarities, expected, atol=1e-5)

    def test_keep_to_margins_and_ranges(self):
        found = smartmine.mine_hard_negatives(
            self.queries,
            self.corpus,
            np.arange(40),
            negatives=2,
            range_min=5,
            absolute_margin=0.2,
            relative_margin=0.3,
            max_similarity=0.6,
            min_similarity=-0.5,
        )
        positive, negative = found.similarities.T
        assert (negative <= positive - 0.2 + 1e-6).all() and (negative <= 0.7 * positive + 1e-6).all()
        assert (negative <= 0.6).all() and (negative >= -0.5).all()
        for query in range(40):
            ranked = self.ranked(query, [query])[5:]
            s, p = self.similar[query, ranked], self.similar[query, query]
            expected = ranked[(s <= min(p - 0.2, 0.7 * p, 0.6)) & (s >= -0.5)][:2]
            assert (found.rows[found.rows[:, 0] == query, 2] == expected).all()

    def test_nobody_gets_fewer_unless_there_are_none(self):
        found = smartmine.mine_hard_negatives(self.queries, self.corpus, np.arange(40), negatives=499)
        assert found.stats["pairs_short"] == 0 and len(found.rows) == 40 * 499
        short = smartmine.mine_hard_negatives(self.queries, self.corpus, np.arange(40), negatives=4, range_max=10, absolute_margin=0.6)
        assert short.stats["pairs_short"] > 0 and short.stats["negatives"] == len(short.rows)

    def test_come_as_tuples_of_complete_rows(self):
        found = smartmine.mine_hard_negatives(
            self.queries, self.corpus, np.arange(40), negatives=4, range_max=10, absolute_margin=0.4, output="tuples"
        )
        assert found.rows.shape == (40 - found.stats["pairs_short"], 6) and found.similarities.shape == (len(found.rows), 5)

    def test_take_several_positives_or_none(self):
        positives = [[q, q + 40] if q % 2 else [] for q in range(40)]
        found = smartmine.mine_hard_negatives(self.queries, self.corpus, positives)
        assert found.stats["queries_without_positive"] == 20 and len(found.rows) == 40
        for query, positive, negative in found.rows:
            assert positive in positives[query] and negative not in positives[query]

    def test_random_ones_are_drawn_from_the_range_by_the_seed(self):
        draw = [
            smartmine.mine_hard_negatives(self.queries, self.corpus, np.arange(40), negatives=5, range_max=50, sampling="random", seed=s)
            for s in (1, 1, 2)
        ]
        assert (draw[0].rows == draw[1].rows).all() and (draw[0].rows != draw[2].rows).any()
        for query, _, negative in draw[0].rows:
            assert negative in self.ranked(query, [query])[:50]

    def test_bad_input_is_refused(self):
        for change, hint in [
            ({"positives": np.arange(39)}, "39 entries"),
            ({"positives": np.full(40, 500)}, "row 500"),
            ({"queries": self.queries[:, :5].copy()}, "dimension 5"),
            ({"sampling": "best"}, "sampling"),
            ({"output": "pairs"}, "output"),
            ({"range_max": 0}, "range_max"),
            ({"corpus": np.zeros_like(self.corpus)}, "zeros"),
        ]:
            arguments = {"queries": self.queries, "corpus": self.corpus, "positives": np.arange(40)}
            arguments.update(change)
            with pytest.raises(ValueError, match=hint):
                smartmine.mine_hard_negatives(**arguments)
