"""Networks that `smartmine train` trained, as modules of PyTorch."""

from __future__ import annotations

import json
import os
import struct
from functools import partial
from typing import Any, Callable, Dict, NamedTuple, Tuple, Union

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._core import InvalidArgument, IoError
from .._run import Run
from .backbones import GoogLeNet, ResNet, SmallConvnet

_TYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
}


def read_safetensors(path: str) -> Dict[str, Tensor]:
    """The tensors of a .safetensors file."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        tensors = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            values = np.frombuffer(
                data,
                np.dtype(_TYPES[entry["dtype"]]),
                offset=8 + length + begin,
                count=(end - begin) // np.dtype(_TYPES[entry["dtype"]]).itemsize,
            )
            tensors[name] = torch.from_numpy(values.reshape(entry["shape"]).copy())
        return tensors
    except (struct.error, ValueError, KeyError, TypeError) as error:
        raise IoError(f"{path}: not a safetensors file, or damaged: {error}") from None


class InputFormat(NamedTuple):
    """The images a network eats: a value of 0 to 255 becomes (value - mean) * scale."""

    resize: int  #: Side that images are scaled to before cropping.
    size: int  #: Side of the centre crop the network sees.
    channels: int  #: 1: grey, 3: colour.
    bgr: bool  #: Blue first, as Caffe has it.
    mean: Tuple[float, ...]  #: In the order of the network's channels.
    scale: Tuple[float, ...]  #: After taking off the mean.


class EmbeddingModel(nn.Module):
    """A backbone and the new layer: images in the network's format, [N, C, H, W], to embeddings of length 1, [N, D]."""

    def __init__(self, backbone: nn.Module, features: int, dimension: int, input: InputFormat) -> None:
        super().__init__()
        self.backbone = backbone
        self.embedding = nn.Linear(features, dimension)
        self.input = input

    def forward(self, images: Tensor) -> Tensor:
        return F.normalize(self.embedding(self.backbone(images)), p=2.0, dim=1, eps=1e-12)

    def prepare(self, images: Any) -> Tensor:
        """Bytes, [N, H, W, C] with red first or [N, H, W] grey, as the network wants them: centre crop, mean, scale.

        Images of another size than `input.resize` should be scaled to it first; the program does so by area.
        """
        pixels = torch.as_tensor(images)
        if pixels.dim() == 3:
            pixels = pixels.unsqueeze(3)
        form = self.input
        if pixels.dim() != 4 or pixels.dtype != torch.uint8 or pixels.shape[3] != form.channels or min(pixels.shape[1:3]) < form.size:
            raise InvalidArgument(
                f"images are {tuple(pixels.shape)} of {pixels.dtype}; they must be uint8, N x H x W x {form.channels}, with H and W at "
                f"least {form.size}"
            )
        top, left = (pixels.shape[1] - form.size) // 2, (pixels.shape[2] - form.size) // 2
        cut = pixels[:, top : top + form.size, left : left + form.size].permute(0, 3, 1, 2)
        if form.bgr:
            cut = cut.flip(1)
        mean, scale = (torch.tensor(value).view(1, -1, 1, 1) for value in (form.mean, form.scale))
        return (cut.float() - mean) * scale


_Made = Tuple[nn.Module, int, InputFormat]


def _number(config: Dict[str, Any], name: str, default: int) -> int:
    """A size of the settings; one that is auto, or not there, is the backbone's own."""
    value = config.get(name)
    return default if value in (None, 0, "", "auto") else int(value)


def _sizes(config: Dict[str, Any], own: int) -> Tuple[int, int]:
    """What images are scaled to, and what the network sees of them."""
    size = _number(config, "input-size", own)
    return _number(config, "image-size", max(256, size * 9 // 8)), _number(config, "evaluation-size", size)


def _channels(config: Dict[str, Any], name: str, default: Tuple[float, ...]) -> Tuple[float, ...]:
    """ "0.485,0.456,0.406", or one number for all channels."""
    text = str(config.get(name) or "")
    values = tuple(float(part) for part in text.split(",")) if text else default
    return values * 3 if len(values) == 1 else values


def _photo_format(config: Dict[str, Any], channels: int) -> InputFormat:
    """Of networks that take values from 0 to 1, less a mean and divided by a deviation: ImageNet's unless the settings name others."""
    mean = _channels(config, "input-mean", (0.485, 0.456, 0.406))[:channels]
    deviation = _channels(config, "input-deviation", (0.229, 0.224, 0.225))[:channels]
    means, scales = tuple(255 * value for value in mean), tuple(1 / (255 * value) for value in deviation)
    return InputFormat(*_sizes(config, 224), channels, False, means, scales)


def _small(config: Dict[str, Any]) -> _Made:
    size, channels = _number(config, "input-size", 32), _number(config, "channels", 1)
    middle = 255.0 if channels == 1 else 127.5
    form = InputFormat(_number(config, "image-size", size), size, channels, False, (middle,) * channels, (1 / 127.5,) * channels)
    backbone = SmallConvnet(channels, size)
    return backbone, backbone.features, form


def _googlenet(config: Dict[str, Any]) -> _Made:
    form = InputFormat(*_sizes(config, 227), 3, True, (104.0, 117.0, 123.0), (1.0, 1.0, 1.0))
    return GoogLeNet(config.get("pooling", "average")), GoogLeNet.features, form


def _resnet(layers: int, config: Dict[str, Any]) -> _Made:
    backbone = ResNet(layers, config.get("pooling", "average"))
    return backbone, backbone.features, _photo_format(config, 3)


def _scripted(path: str, features: int, config: Dict[str, Any]) -> _Made:
    """The TorchScript file that the run keeps a copy of."""
    if not os.path.isfile(path):
        raise IoError(f"{path}: there is no such file; the run should have a copy of its backbone there")
    return torch.jit.load(path, map_location="cpu"), features, _photo_format(config, _number(config, "channels", 3))


_BACKBONES: Dict[str, Callable[[Dict[str, Any]], _Made]] = {
    "small": _small,
    "googlenet": _googlenet,
    "resnet18": partial(_resnet, 18),
    "resnet50": partial(_resnet, 50),
}


def load_run(run: Union[str, "os.PathLike[str]", Run]) -> EmbeddingModel:
    """The network of a run directory with the weights of its last checkpoint, in evaluation mode, on the CPU.

    It is a plain nn.Module: `torch.onnx.export`, `torch.jit.trace`, `state_dict` and `.to(device)` work as with any other. Images go
    through `model.prepare` first; `model.input` says what it does.
    """
    run = run if isinstance(run, Run) else Run(run)
    path = run.model_path
    if path is None:
        raise IoError(
            f"{run.path}: the run has no checkpoint yet; if it was stopped, smartmine train --resume {run.path} goes on with it"
        )
    tensors = read_safetensors(path)
    name = str(run.config.get("backbone", "small"))
    make = _BACKBONES.get(name)
    if make is None and ("/" in name or name.endswith((".pt", ".pth"))):
        features = tensors["embedding.weight"].shape[1] if "embedding.weight" in tensors else 0
        make = partial(_scripted, os.path.join(run.path, "backbone.pt"), features)
    if make is None:
        raise InvalidArgument(f"backbone is {name!r}; load_run knows {', '.join(_BACKBONES)} and TorchScript files")
    backbone, features, form = make(run.config)
    model = EmbeddingModel(backbone, features, int(run.config["embedding-dim"]), form)
    _fill(model, tensors, path)
    return model.eval()


def _fill(model: EmbeddingModel, tensors: Dict[str, Tensor], path: str) -> None:
    """Copies every tensor into its place; all must fit and be used."""
    rename = getattr(model.backbone, "file_name", lambda parameter: parameter)
    state: Dict[str, Tensor] = {}
    wrong = []
    used = set()
    for name, value in model.state_dict().items():
        source = rename(name[len("backbone.") :]) if name.startswith("backbone.") else name
        used.add(source)
        if source not in tensors and name.endswith("num_batches_tracked"):  # counts that nothing depends on
            state[name] = value
        elif source not in tensors:
            wrong.append(f"{source} is missing")
        elif tensors[source].shape != value.shape:
            wrong.append(f"{source} is {tuple(tensors[source].shape)}, not {tuple(value.shape)}")
        else:
            state[name] = tensors[source]
    wrong += [f"{name} is not of this network" for name in tensors if name not in used]
    if wrong:
        raise IoError(f"{path}: does not fit the network of config.toml: {'; '.join(wrong[:5])}{' ...' if len(wrong) > 5 else ''}")
    model.load_state_dict(state)
