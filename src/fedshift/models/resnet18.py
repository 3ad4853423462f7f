"""ResNet-18 in torchvision's layout.

He et al., "Deep Residual Learning for Image Recognition" (CVPR 2016): 11,180,103 parameters at 7 classes,
1,813.6 M multiply-adds for an image of 224 px.
"""

from types import MappingProxyType
from typing import Any

from fedshift.models._resnet import TorchvisionResNet


class ResNet18(TorchvisionResNet):
    """Four stages of two basic blocks: 64, 128, 256 and 512 channels."""

    name = "resnet18"
    blocks = [2, 2, 2, 2]
    weights = MappingProxyType({"imagenet": "resnet18-f37072fd.pth"})

    @classmethod
    def block(cls) -> Any:
        from torchvision.models.resnet import BasicBlock

        return BasicBlock
