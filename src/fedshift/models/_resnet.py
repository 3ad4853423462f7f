"""ResNets in torchvision's layout: the base of resnet18 and resnet50."""

from types import MappingProxyType
from typing import Any, ClassVar

from torch import nn

from fedshift.models.base import Model
from fedshift.models.layers.blocks import GlobalAverage


class TorchvisionResNet(Model):
    """A stem and four stages: `conv1` is `stem.0` here, `bn1` `stem.1`, `layer1` `stage1`, `fc` `head`."""

    version = 2
    kaiming = "fan_out"  # as torchvision (He et al. 2015)
    blocks: ClassVar[list[int]]  # of the four stages
    indicator = "stages.stage1.1.conv2.weight"  # by this name in FedRD's code
    pieces = MappingProxyType(
        {"stages.stem.0": "conv1", "stages.stem.1": "bn1"}
        | {f"stages.stage{i}": f"layer{i}" for i in (1, 2, 3, 4)}
    )

    @classmethod
    def block(cls) -> Any:
        """torchvision's class of the blocks, or a subclass of it."""
        raise NotImplementedError

    def __init__(self, classes: int, input_px: int, **params: Any) -> None:
        from torchvision.models import ResNet  # takes a second, and plans build no network

        super().__init__(classes, input_px, **params)
        net = ResNet(self.block(), self.blocks, num_classes=classes)
        stem = nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool)
        layers = [net.layer1, net.layer2, net.layer3, net.layer4]
        self.stages = nn.ModuleDict({"stem": stem, **{f"stage{i}": x for i, x in enumerate(layers, 1)}})
        self.neck = GlobalAverage()
        self.feature_dim = net.fc.in_features
        self.head = net.fc
