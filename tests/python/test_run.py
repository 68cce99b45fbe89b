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


def keep(run, epoch, share, metrics, weights=True):
    """What `train` writes of the weights it keeps."""
    kept = {"epoch": epoch, "share": share, "reason": f"epoch {epoch}", "evaluated_on": "test", "metrics": metrics}
    (run / "choice.json").write_text(json.dumps({"summary": "why", "decided": True, "kept": kept}))
    if weights:
        (run / "kept.safetensors").write_bytes(b"")


def test_metrics_are_those_of_the_weights_that_are_kept(run):
    keep(run, epoch=2, share=0.75, metrics={"recall@1": 0.8, "map@r": 0.5})
    found = smartmine.Run(run)
    assert found.model_path.endswith("kept.safetensors")
    assert found.metrics == {"recall@1": 0.8, "map@r": 0.5} and "80.0 %, kept: epoch 2" in repr(found)
    assert found.choice["summary"] == "why" and found["recall@1"].tolist()[-1] == 0.7  # the log is as it was
    keep(run, epoch=2, share=0.75, metrics={})  # they are kept, but not measured yet
    assert found.reload().metrics == {} and "recall" not in repr(found)


def test_what_a_run_kept_before_it_was_made_longer_does_not_count(run):
    keep(run, epoch=1, share=1, metrics={"recall@1": 0.8}, weights=False)
    found = smartmine.Run(run)
    assert found.metrics == {"recall@1": 0.7, "map@r": 0.4} and "70.0 %" in repr(found) and ", kept" not in repr(found)
    keep(run, epoch=1, share=0.5, metrics={"recall@1": 0.8})  # these weights are still there, and used
    assert found.reload().metrics == {"recall@1": 0.8}


def test_without_a_choice_or_before_its_end_the_last_epoch_counts(run):
    assert smartmine.Run(run).choice is None
    (run / "choice.json").write_text(json.dumps({"summary": "why", "decided": True}))
    assert smartmine.Run(run).metrics["recall@1"] == 0.7
    (run / "choice.json").write_text("nonsense")
    with pytest.raises(smartmine.IoError, match="choice.json: not JSON of a choice"):
        smartmine.Run(run)


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
