import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed")
from sklearn.manifold import Isomap
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from smartmine.sklearn import NeighborsTransformer


@parametrize_with_checks([NeighborsTransformer(n_neighbors=3)])
def test_keeps_sklearns_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("mode", ["distance", "connectivity"])
def test_gives_what_sklearns_own_gives(data, mode):
    x = data[0][:500]
    own, theirs = NeighborsTransformer(mode=mode, n_neighbors=6), KNeighborsTransformer(mode=mode, n_neighbors=6, algorithm="brute")
    for found, expected in [(own.fit_transform(x), theirs.fit_transform(x)), (own.transform(x[:50] * 1.1), theirs.transform(x[:50] * 1.1))]:
        assert found.shape == expected.shape and found.nnz == expected.nnz
        assert np.allclose(found.toarray(), expected.toarray(), atol=2e-3)


def test_runs_in_pipelines(data):
    x, y = data
    x, y = x[:600], y[:600]
    pipeline = make_pipeline(NeighborsTransformer(n_neighbors=6), KNeighborsClassifier(n_neighbors=5, metric="precomputed"))
    plain = KNeighborsClassifier(n_neighbors=5)
    assert (pipeline.fit(x, y).predict(x) == plain.fit(x, y).predict(x)).mean() > 0.99
    flat = make_pipeline(NeighborsTransformer(n_neighbors=30), Isomap(metric="precomputed", n_neighbors=20)).fit_transform(x)
    assert flat.shape == (600, 2)


def test_too_many_neighbours_are_refused(data):
    with pytest.raises(ValueError, match="10 rows were fitted"):
        NeighborsTransformer(n_neighbors=10).fit_transform(data[0][:10])
    with pytest.raises(ValueError, match="mode"):
        NeighborsTransformer(mode="graph").fit(data[0])
