import json

import numpy as np
import pytest

import smartmine


@pytest.fixture
def run(tmp_path):
    (tmp_path / "config.toml").write_text('# a run\ndataset = "glyphs"\nbackbone = "small"\nepochs = 2\nembedding-dim = 64\n')
    lines = [
        {"epoch": 0, "metrics": {"recall@1": 0.2, "map@r": 0.1}},
        {"epoch": 1, "training_error": 0.5, "kappa": None, "loss": 0.3, "metrics": None, "mining": {"mined": 5}},
        {"epoch": 2, "training_error": 0.6, "kappa": 4.0, "loss": 0.2, "metrics": {"recall@1": 0.7, "map@r": 0.4}},
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def test_reads_settings_and_plots_in_three_lines(run):
    found = smartmine.Run(run)
    assert found.config["embedding-dim"] == 64 and found.finished and len(found) == 3
    assert found.epochs.tolist() == [0, 1, 2]
    assert np.array_equal(found["recall@1"], [0.2, np.nan, 0.7], equal_nan=True)
    assert np.array_equal(found["kappa"], [np.nan, np.nan, 4.0], equal_nan=True)
    assert np.array_equal(found["mining.mined"], [np.nan, 5, np.nan], equal_nan=True)
    assert found.metrics == {"recall@1": 0.7, "map@r": 0.4} and "70.0 %" in repr(found)
    with pytest.raises(KeyError, match="there are: .*recall@1"):
        found["recall@3"]


def test_a_line_still_being_written_is_left_out(run):
    with open(run / "log.jsonl", "a") as log:
        log.write('{"epoch": 3, "tra')
    found = smartmine.Run(run)
    assert len(found) == 3
    with open(run / "log.jsonl", "a") as log:
        log.write('ining_error": 0.1}\n')
    assert len(found.reload()) == 4


def test_what_is_no_run_or_damaged_is_refused(run, tmp_path):
    with pytest.raises(smartmine.IoError, match="no such run"):
        smartmine.Run(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(smartmine.IoError, match="config.toml"):
        smartmine.Run(tmp_path / "empty")
    with pytest.raises(smartmine.IoError, match="save-epochs"):
        smartmine.Run(run).embeddings(2)
    (run / "log.jsonl").write_text("{}\nnonsense\n")
    with pytest.raises(smartmine.IoError, match="line 2"):
        smartmine.Run(run)
    (run / "config.toml").write_text("nonsense\n")
    with pytest.raises(smartmine.IoError, match="TOML"):
        smartmine.Run(run)
