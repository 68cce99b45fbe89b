"""A trained network in Python gives what the program's does."""

import json
import struct

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: the tests of load_run are left out")

import smartmine
from smartmine.torch import load_run
from smartmine.torch.backbones import GoogLeNet, ResNet, SmallConvnet


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, value in tensors.items():
        raw = value.numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_images(folder, images):
    """Binary PGM/PPM is not read by the program, so PNG, written by hand: one block of zlib a file."""
    import zlib

    folder.mkdir()

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    for number, image in enumerate(images):
        height, width = image.shape[:2]
        colour = 0 if image.ndim == 2 else 2
        raw = b"".join(b"\0" + row.tobytes() for row in image)
        (folder / f"{number:03}.png").write_bytes(
            b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(raw))
            + chunk(b"IEND", b"")
        )


@pytest.fixture(scope="module")
def trains(program):
    if "train " not in program("--help"):
        pytest.skip("the program is built without LibTorch")
    return program


def test_small_embeds_as_the_program_does(trains, tmp_path):
    trains(
        "train", "--threads", 1, "--epochs", 1, "--triplets-per-anchor", 1, "--evaluate-every", 9, "--quiet", "--output", tmp_path / "run"
    )
    model = load_run(tmp_path / "run")
    assert not model.training
    images = smartmine.glyphs("test", classes=8, images_per_class=5, size=model.input.resize).images
    write_images(tmp_path / "images", images)
    trains("embed", "--run", tmp_path / "run", "--input", tmp_path / "images", "--output", tmp_path / "x.npy", "--quiet")
    with torch.no_grad():
        found = model(model.prepare(images)).numpy()
    assert np.abs(found - np.load(tmp_path / "x.npy")).max() < 1e-4
    run = smartmine.Run(tmp_path / "run")
    assert run.finished and run.config["backbone"] == "small"


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["average", "both"])
def test_googlenet_embeds_as_the_program_does(trains, tmp_path, pooling):
    folder = tmp_path / "photos"
    folder.mkdir()
    random = np.random.default_rng(0)
    photos = np.kron(random.integers(0, 256, size=(16, 4, 4, 3)), np.ones((64, 64, 1))).astype(np.uint8)  # noise would look all alike
    for label in range(4):
        write_images(folder / f"class{label}", photos[4 * label : 4 * label + 4])
    trains(
        "train",
        "--dataset",
        "folder",
        "--data-root",
        folder,
        "--backbone",
        "googlenet",
        "--pooling",
        pooling,
        "--threads",
        1,
        "--epochs",
        1,
        "--batch-size",
        2,
        "--quiet",
        "--learning-rate",
        0.0001,
        "--output",
        tmp_path / "run",
    )
    model = load_run(tmp_path / "run")
    write_images(tmp_path / "images", photos[:6])
    trains("embed", "--run", tmp_path / "run", "--input", tmp_path / "images", "--output", tmp_path / "x.npy", "--quiet")
    with torch.no_grad():
        found = model(model.prepare(photos[:6])).numpy()
    assert np.abs(found - np.load(tmp_path / "x.npy")).max() < 1e-3


def test_googlenet_has_the_names_of_the_weights_file():
    names = {GoogLeNet.file_name(name) for name, _ in GoogLeNet("average").named_parameters()}
    assert {"conv1/7x7_s2.weight", "conv2/3x3_reduce.bias", "inception_3a/5x5_reduce.weight", "inception_5b/pool_proj.bias"} <= names
    assert len(names) == 2 * (3 + 9 * 6)


@pytest.mark.parametrize("layers", [18, 50])
def test_resnets_are_torchvisions(layers):
    models = pytest.importorskip("torchvision.models", reason="torchvision is not installed: ResNets are not compared with it")
    theirs = getattr(models, f"resnet{layers}")(weights=None).eval()
    theirs.fc = torch.nn.Identity()
    own = ResNet(layers, "average").eval()
    own.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 3, 96, 96)
    with torch.no_grad():
        assert torch.allclose(own(x), theirs(x), atol=1e-4)


@pytest.fixture
def made(tmp_path):
    (tmp_path / "config.toml").write_text(
        'backbone = "small"\nembedding-dim = 8\ninput-size = 32\nimage-size = 36\nchannels = 1\nepochs = 1\n'
    )
    (tmp_path / "checkpoint").mkdir()

    tensors = {name: value for name, value in SmallConvnet(1, 32).state_dict().items() if "tracked" not in name}
    tensors.update({"embedding.weight": torch.randn(8, 2048), "embedding.bias": torch.randn(8)})
    return tmp_path, tensors


def test_weights_that_do_not_fit_are_named(made):
    path, tensors = made
    file = path / "checkpoint" / "model.safetensors"
    with pytest.raises(smartmine.IoError, match="no checkpoint yet; .*train --resume"):
        load_run(path)
    write_safetensors(file, {name: value for name, value in tensors.items() if name != "conv2.weight"})
    with pytest.raises(smartmine.IoError, match="conv2.weight is missing"):
        load_run(path)
    write_safetensors(file, {**tensors, "conv9.weight": torch.zeros(2)})
    with pytest.raises(smartmine.IoError, match="conv9.weight is not of this network"):
        load_run(path)
    file.write_bytes(b"nonsense")
    with pytest.raises(smartmine.IoError, match="safetensors"):
        load_run(path)


def test_a_backbone_from_a_torchscript_file_is_loaded(tmp_path):
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 6, 3), torch.nn.BatchNorm2d(6), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    ).eval()
    torch.jit.script(network).save(str(tmp_path / "backbone.pt"))
    text = 'backbone = "somewhere/net.pt"\nembedding-dim = 4\ninput-size = 40\nimage-size = 44\ninput-mean = "0.5"\nepochs = 1\n'
    (tmp_path / "config.toml").write_text(text)
    (tmp_path / "checkpoint").mkdir()
    tensors = {name: torch.rand_like(value) for name, value in network.state_dict().items() if "tracked" not in name}
    tensors.update({"embedding.weight": torch.randn(4, 6), "embedding.bias": torch.randn(4)})
    write_safetensors(tmp_path / "checkpoint" / "model.safetensors", tensors)
    model = load_run(tmp_path)
    network.load_state_dict({**network.state_dict(), **{name: value for name, value in tensors.items() if "embedding" not in name}})
    pixels = np.random.default_rng(0).integers(0, 256, size=(3, 44, 44, 3), dtype=np.uint8)
    scaled = (torch.from_numpy(pixels[:, 2:42, 2:42]).permute(0, 3, 1, 2).float() / 255 - 0.5) / torch.tensor([0.229, 0.224, 0.225]).view(
        3, 1, 1
    )
    with torch.no_grad():
        expected = torch.nn.functional.normalize(network(scaled) @ tensors["embedding.weight"].T + tensors["embedding.bias"])
        assert torch.allclose(model(model.prepare(pixels)), expected, atol=1e-5)


def test_a_loaded_network_can_be_exported(made, tmp_path):
    path, tensors = made
    write_safetensors(path / "checkpoint" / "model.safetensors", tensors)
    model = load_run(str(path))
    images = model.prepare(smartmine.glyphs(classes=4, images_per_class=2, size=36).images)
    assert images.shape == (4, 1, 32, 32)
    traced = torch.jit.trace(model, images[:2])
    assert torch.allclose(traced(images), model(images), atol=1e-6)
    scripted = torch.jit.script(model)
    assert torch.allclose(scripted(images), model(images), atol=1e-6)
    assert torch.allclose(model(images).norm(dim=1), torch.ones(4))
    with pytest.raises(ValueError, match="uint8"):
        model.prepare(torch.zeros(2, 36, 36, 1))
