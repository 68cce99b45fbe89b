"""Networks that `smartmine train` trained, as modules of PyTorch."""

from __future__ import annotations

import json
import os
import struct
from typing import Any, Dict, List, NamedTuple, Tuple, Union

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._core import InvalidArgument, IoError
from .._run import Run

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


class SmallConvnet(nn.Module):
    """The backbone `small`: four convolutions with batch norm and ReLU."""

    def __init__(self, channels: int, size: int) -> None:
        super().__init__()
        self.layers = 0
        before, side = channels, size
        for filters, kernel, stride in ((32, 5, 2), (64, 3, 2), (128, 3, 2), (128, 3, 1)):
            self.layers += 1
            self.add_module(f"conv{self.layers}", nn.Conv2d(before, filters, kernel, stride, kernel // 2, bias=False))
            self.add_module(f"norm{self.layers}", nn.BatchNorm2d(filters))
            before, side = filters, -(-side // stride)
        self.features = before * side * side

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.relu(self.norm2(self.conv2(x)))
        x = F.relu(self.norm3(self.conv3(x)))
        return F.relu(self.norm4(self.conv4(x))).flatten(1)


class _Rectified(nn.Module):
    def __init__(self, before: int, filters: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(before, filters, kernel, stride, kernel // 2)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.conv(x))


class _Inception(nn.Module):
    def __init__(self, before: int, out: Tuple[int, ...]) -> None:
        super().__init__()
        self.b1x1 = _Rectified(before, out[0], 1)
        self.b3x3_reduce = _Rectified(before, out[1], 1)
        self.b3x3 = _Rectified(out[1], out[2], 3)
        self.b5x5_reduce = _Rectified(before, out[3], 1)
        self.b5x5 = _Rectified(out[3], out[4], 5)
        self.bpool_proj = _Rectified(before, out[5], 1)

    def forward(self, x: Tensor) -> Tensor:
        pooled = F.max_pool2d(x, 3, 1, 1, ceil_mode=True)
        return torch.cat([self.b1x1(x), self.b3x3(self.b3x3_reduce(x)), self.b5x5(self.b5x5_reduce(x)), self.bpool_proj(pooled)], 1)


_INCEPTIONS: Tuple[Tuple[str, int, Tuple[int, ...]], ...] = (
    ("inception_3a", 192, (64, 96, 128, 16, 32, 32)),
    ("inception_3b", 256, (128, 128, 192, 32, 96, 64)),
    ("inception_4a", 480, (192, 96, 208, 16, 48, 64)),
    ("inception_4b", 512, (160, 112, 224, 24, 64, 64)),
    ("inception_4c", 512, (128, 128, 256, 24, 64, 64)),
    ("inception_4d", 512, (112, 144, 288, 32, 64, 64)),
    ("inception_4e", 528, (256, 160, 320, 32, 128, 128)),
    ("inception_5a", 832, (256, 160, 320, 32, 128, 128)),
    ("inception_5b", 832, (384, 192, 384, 48, 128, 128)),
)


class GoogLeNet(nn.Module):
    """The backbone `googlenet`: the first GoogLeNet as Caffe's model zoo has it, up to its last pool."""

    features = 1024

    def __init__(self, pooling: str) -> None:
        super().__init__()
        if pooling not in ("average", "max", "both"):
            raise InvalidArgument(f"pooling is {pooling!r}; it must be average, max or both")
        self.pooling = pooling
        self.conv1 = _Rectified(3, 64, 7, 2)
        self.conv2_reduce = _Rectified(64, 64, 1)
        self.conv2 = _Rectified(64, 192, 3)
        for name, before, out in _INCEPTIONS:
            self.add_module(name, _Inception(before, out))

    @staticmethod
    def file_name(parameter: str) -> str:
        """The name that Caffe, and the weights file, has for a parameter of this module."""
        layer, value = parameter.replace(".conv.", ".").rsplit(".", 1)
        first = {"conv1": "conv1/7x7_s2", "conv2_reduce": "conv2/3x3_reduce", "conv2": "conv2/3x3"}
        return f"{first[layer] if layer in first else layer.replace('.b', '/')}.{value}"

    def forward(self, x: Tensor) -> Tensor:
        x = _channel_norm(F.max_pool2d(self.conv1(x), 3, 2, 0, ceil_mode=True))
        x = F.max_pool2d(_channel_norm(self.conv2(self.conv2_reduce(x))), 3, 2, 0, ceil_mode=True)
        x = F.max_pool2d(self.inception_3b(self.inception_3a(x)), 3, 2, 0, ceil_mode=True)
        x = self.inception_4e(self.inception_4d(self.inception_4c(self.inception_4b(self.inception_4a(x)))))
        x = self.inception_5b(self.inception_5a(F.max_pool2d(x, 3, 2, 0, ceil_mode=True)))
        if self.pooling == "max":
            return x.amax((2, 3))
        average = x.mean((2, 3))
        return average + x.amax((2, 3)) if self.pooling == "both" else average


def _channel_norm(x: Tensor) -> Tensor:
    return F.local_response_norm(x, 5, alpha=1e-4, beta=0.75, k=1.0)


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


def _small(config: Dict[str, Any]) -> Tuple[nn.Module, int, InputFormat]:
    size = int(config.get("input-size") or 32)
    channels = int(config.get("channels") or 1)
    middle = 255.0 if channels == 1 else 127.5
    resize = int(config.get("image-size") or size)
    backbone = SmallConvnet(channels, size)
    return backbone, backbone.features, InputFormat(resize, size, channels, False, (middle,) * channels, (1 / 127.5,) * channels)


def _googlenet(config: Dict[str, Any]) -> Tuple[nn.Module, int, InputFormat]:
    size = int(config.get("input-size") or 227)
    resize = int(config.get("image-size") or max(256, size * 9 // 8))
    seen = int(config.get("evaluation-size") or size)
    form = InputFormat(resize, seen, 3, True, (104.0, 117.0, 123.0), (1.0, 1.0, 1.0))
    return GoogLeNet(config.get("pooling", "average")), GoogLeNet.features, form


_BACKBONES = {"small": _small, "googlenet": _googlenet}


def load_run(run: Union[str, "os.PathLike[str]", Run]) -> EmbeddingModel:
    """The network of a run directory with the weights of its last checkpoint, in evaluation mode, on the CPU.

    It is a plain nn.Module: `torch.onnx.export`, `torch.jit.trace`, `state_dict` and `.to(device)` work as with any other. Images go
    through `model.prepare` first; `model.input` says what it does.
    """
    run = run if isinstance(run, Run) else Run(run)
    path = run.model_path
    if path is None:
        raise IoError(f"{run.path}: the run has no checkpoint yet")
    name = run.config.get("backbone", "small")
    if name not in _BACKBONES:
        raise InvalidArgument(f"backbone is {name!r}; load_run knows {', '.join(_BACKBONES)}")
    backbone, features, form = _BACKBONES[name](run.config)
    model = EmbeddingModel(backbone, features, int(run.config["embedding-dim"]), form)
    _fill(model, read_safetensors(path), path)
    return model.eval()


def _fill(model: EmbeddingModel, tensors: Dict[str, Tensor], path: str) -> None:
    """Copies every tensor into its place; all must fit and be used."""
    rename = getattr(model.backbone, "file_name", lambda parameter: parameter)
    state, wrong = {}, []  # type: Tuple[Dict[str, Tensor], List[str]]
    used = set()
    for name, value in model.state_dict().items():
        if name.endswith("num_batches_tracked"):
            state[name] = value
            continue
        source = rename(name[len("backbone.") :]) if name.startswith("backbone.") else name
        used.add(source)
        if source not in tensors:
            wrong.append(f"{source} is missing")
        elif tensors[source].shape != value.shape:
            wrong.append(f"{source} is {tuple(tensors[source].shape)}, not {tuple(value.shape)}")
        else:
            state[name] = tensors[source]
    wrong += [f"{name} is not of this network" for name in tensors if name not in used]
    if wrong:
        raise IoError(f"{path}: does not fit the network of config.toml: {'; '.join(wrong[:5])}{' ...' if len(wrong) > 5 else ''}")
    model.load_state_dict(state)
