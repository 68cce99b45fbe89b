"""The backbones of `smartmine train`, layer for layer, so that its weights fit."""

from __future__ import annotations

from typing import List, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._core import InvalidArgument


def _checked(pooling: str) -> str:
    if pooling not in ("average", "max", "both"):
        raise InvalidArgument(f"pooling is {pooling!r}; it must be average, max or both")
    return pooling


def _pool_all(x: Tensor, pooling: str) -> Tensor:
    """What the last layer makes of each channel of its feature map."""
    if pooling == "max":
        return x.amax((2, 3))
    average = x.mean((2, 3))
    return average + x.amax((2, 3)) if pooling == "both" else average


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
        self.pooling = _checked(pooling)
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
        return _pool_all(x, self.pooling)


def _channel_norm(x: Tensor) -> Tensor:
    return F.local_response_norm(x, 5, alpha=1e-4, beta=0.75, k=1.0)


class _Block(nn.Module):
    """A residual block with torchvision's names; the stride of a bottleneck is in its 3x3 convolution."""

    def __init__(self, before: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        self.bottleneck = bottleneck
        out = 4 * width if bottleneck else width
        first = (before, width, 1, 1) if bottleneck else (before, width, 3, stride)
        second = (width, width, 3, stride) if bottleneck else (width, width, 3, 1)
        self.conv1, self.bn1 = self._convolution(*first), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = self._convolution(*second), nn.BatchNorm2d(width)
        if bottleneck:
            self.conv3, self.bn3 = self._convolution(width, out, 1, 1), nn.BatchNorm2d(out)
        else:
            self.conv3, self.bn3 = nn.Identity(), nn.Identity()
        shortcut: List[nn.Module] = []
        if stride != 1 or before != out:
            shortcut = [self._convolution(before, out, 1, stride), nn.BatchNorm2d(out)]
        self.downsample = nn.Sequential(*shortcut)

    @staticmethod
    def _convolution(before: int, filters: int, kernel: int, stride: int) -> nn.Conv2d:
        return nn.Conv2d(before, filters, kernel, stride, kernel // 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.bottleneck:
            y = self.bn3(self.conv3(F.relu(y)))
        return F.relu(y + self.downsample(x))


class ResNet(nn.Module):
    """The backbones `resnet18` and `resnet50`, with torchvision's names and without its classifier."""

    def __init__(self, layers: int, pooling: str) -> None:
        super().__init__()
        if layers not in (18, 50):
            raise InvalidArgument(f"layers is {layers}; it must be 18 or 50")
        self.pooling = _checked(pooling)
        bottleneck = layers == 50
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        before, stages = 64, []
        for stage, count in enumerate((3, 4, 6, 3) if bottleneck else (2, 2, 2, 2)):
            width, blocks = 64 << stage, []
            for number in range(count):
                blocks.append(_Block(before, width, 2 if stage > 0 and number == 0 else 1, bottleneck))
                before = 4 * width if bottleneck else width
            stages.append(nn.Sequential(*blocks))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.features = before

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return _pool_all(self.layer4(self.layer3(self.layer2(self.layer1(x)))), self.pooling)
