"""ResNet-50 in torchvision's layout.

He et al., "Deep Residual Learning for Image Recognition" (CVPR 2016), with the stride in the 3x3
convolutions: 23,522,375 parameters at 7 classes, 4,087 M multiply-adds for an image of 224 px.
"""

from types import MappingProxyType
from typing import Any

from fedshift.models._resnet import TorchvisionResNet


class ResNet50(TorchvisionResNet):
    """Four stages of 3, 4, 6 and 3 bottleneck blocks: 256, 512, 1,024 and 2,048 channels."""

    name = "resnet50"
    blocks = [3, 4, 6, 3]
    weights = MappingProxyType({"imagenet": "resnet50-0676ba61.pth"})

    @classmethod
    def block(cls) -> Any:
        from torchvision.models import resnet

        class Bottleneck(resnet.Bottleneck):
            """torchvision's block; FDSE decomposes its last convolution."""

            decomposes = ("conv3", "bn3")

        return Bottleneck
