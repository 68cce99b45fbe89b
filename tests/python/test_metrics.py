import json

import numpy as np
import pytest

import smartmine


def test_the_same_numbers_and_names_as_the_program(program, tmp_path, data):
    x, y = data
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    told = json.loads(program("eval", "--embeddings", tmp_path / "x.npy", "--labels", tmp_path / "y.npy", "--seed", 2, "--json"))
    found = smartmine.evaluate(x, y, seed=2)
    assert set(told) - {"read_seconds"} == set(found)
    for name in told:
        if "seconds" not in name and name != "peak_memory_bytes":
            assert told[name] == found[name], name


def test_a_gallery_apart_gives_the_programs_numbers(program, tmp_path, data):
    x, y = data
    parts = {"x": x[::2], "y": y[::2], "gx": x[1::2], "gy": y[1::2]}
    for name, part in parts.items():
        np.save(tmp_path / f"{name}.npy", part)
    told = json.loads(
        program(
            "eval",
            "--embeddings",
            tmp_path / "x.npy",
            "--labels",
            tmp_path / "y.npy",
            "--gallery",
            tmp_path / "gx.npy",
            "--gallery-labels",
            tmp_path / "gy.npy",
            "--recall-at",
            "1,10",
            "--json",
        )
    )
    found = smartmine.evaluate(parts["x"].copy(), parts["y"], gallery=parts["gx"].copy(), gallery_labels=parts["gy"], recall_at=(1, 10))
    for name in ("recall@1", "recall@10", "map@r", "r_precision", "nmi", "gallery_size", "note"):
        assert told[name] == found[name], name
    with pytest.raises(ValueError, match="gallery_labels is missing"):
        smartmine.evaluate(x, y, gallery=x)


def test_what_is_left_out_is_none(data):
    found = smartmine.evaluate(*data, nmi=False, map_at_r=False, recall_at=(1, 10))
    assert found["nmi"] is None and found["map@r"] is None and found["clusters"] is None
    assert 0 < found["recall@1"] <= found["recall@10"] <= 1 and "recall@2" not in found


def test_kmeans_finds_groups_that_are_there():
    random = np.random.default_rng(0)
    x = (np.eye(4)[np.arange(200) % 4] + 0.01 * random.normal(size=(200, 4))).astype(np.float32)
    assignments, centres, stats = smartmine.kmeans(x, 4)
    assert all(len(set(assignments[group::4])) == 1 for group in range(4)) and len(set(assignments)) == 4
    assert centres.shape == (4, 4) and stats["converged"]


def test_a_map_keeps_groups_together():
    random = np.random.default_rng(0)
    x = (5 * np.eye(3, 8)[np.arange(150) % 3] + random.normal(size=(150, 8)) * 0.3).astype(np.float32)
    places, stats = smartmine.tsne(x, perplexity=10)
    assert places.shape == (150, 2) and np.allclose(places.mean(0), 0, atol=1e-6) and stats["divergence"] > 0
    middle = np.array([places[group::3].mean(0) for group in range(3)])
    nearest = ((places[:, None] - middle[None]) ** 2).sum(2).argmin(1)
    assert (nearest == np.arange(150) % 3).all()
    assert (places == smartmine.tsne(x, perplexity=10, threads=1).places).all()


def test_glyphs_are_the_programs_characters():
    train, test = smartmine.glyphs("train", classes=6, images_per_class=3), smartmine.glyphs("test", classes=6, images_per_class=3)
    assert train.images.shape == (9, 28, 28) and train.images.dtype == np.uint8
    assert train.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2] and test.labels.tolist() == [3, 3, 3, 4, 4, 4, 5, 5, 5]
    assert (train.images == smartmine.glyphs("train", classes=40, images_per_class=3).images[:9]).all()
    assert (train.images != smartmine.glyphs("train", classes=6, images_per_class=3, seed=2).images).any()
    with pytest.raises(ValueError, match="size"):
        smartmine.glyphs(size=3)
