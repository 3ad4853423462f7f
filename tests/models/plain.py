"""Networks written out in torch.nn.functional from the tables of their papers, over tensors by name: nothing of src is used.

Each takes P, the tensors of a network by name (running statistics move in training), x [B, 3, h, w] and whether it trains; it returns the
input of the head and the logits.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

Tensors = dict[str, Tensor]
Both = tuple[Tensor, Tensor]


def linear(P: Tensors, at: str, x: Tensor) -> Tensor:
    return F.linear(x, P[f"{at}.weight"], P.get(f"{at}.bias"))


def conv(P: Tensors, at: str, x: Tensor, **how: int) -> Tensor:
    return F.conv2d(x, P[f"{at}.weight"], P.get(f"{at}.bias"), **how)


def batch_norm(P: Tensors, at: str, x: Tensor, train: bool) -> Tensor:
    running = P[f"{at}.running_mean"], P[f"{at}.running_var"]
    return F.batch_norm(x, *running, P[f"{at}.weight"], P[f"{at}.bias"], train, 0.1, 1e-5)


def layer_norm(P: Tensors, at: str, x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], P[f"{at}.weight"], P[f"{at}.bias"])


def headed(P: Tensors, z: Tensor) -> Both:
    return z, linear(P, "head", z)


def digits_cnn(P: Tensors, x: Tensor, train: bool) -> Both:
    """Four times convolution 3x3, BN, ReLU; max pooling after the first three; global average."""
    for s in (1, 2, 3, 4):
        at = f"stages.stage{s}"
        x = F.relu(batch_norm(P, f"{at}.bn", conv(P, f"{at}.conv", x, padding=1), train))
        x = F.max_pool2d(x, 2) if s < 4 else x
    return headed(P, x.mean((2, 3)))


def digits_dg_cnn(P: Tensors, x: Tensor, train: bool) -> Both:
    """StableFDG's code (ConvNet of Dassl): four times convolution 3x3, ReLU, max pooling; 256 numbers at 32 px."""
    for s in (1, 2, 3, 4):
        x = F.max_pool2d(F.relu(conv(P, f"stages.stage{s}.0", x, padding=1)), 2)
    return headed(P, F.adaptive_avg_pool2d(x, 2).flatten(1))


def hfedf_cnn(P: Tensors, x: Tensor, train: bool) -> Both:
    """hFedF, Table 7: pooling before ReLU, two inception blocks, average pooling to 3 x 3, dropout .2, linear 256, linear."""
    x = F.relu(F.max_pool2d(conv(P, "stages.stage1.0", x, padding=1), 2))
    x = conv(P, "stages.stage2.1", conv(P, "stages.stage2.0", x), padding=1)
    x = F.relu(F.max_pool2d(x, 2))
    for at in ("stages.stage3", "stages.stage4"):
        wide = [conv(P, f"{at}.conv{side}", x, padding=side // 2) for side in (1, 3, 5)]
        x = F.relu(torch.cat([*wide, F.max_pool2d(x, 3, stride=1, padding=1)], 1))
    z = F.dropout(F.adaptive_avg_pool2d(x, 3).flatten(1), 0.2, train)
    return headed(P, linear(P, "neck.3", z))


def alexnet_bn(P: Tensors, x: Tensor, train: bool) -> Both:
    """FedBN's AlexNet: BN after every layer but the last, no dropout; max pooling of 3 with stride 2 after stages 1, 2 and 5."""
    steps = [{"stride": 4, "padding": 2}, {"padding": 2}, {"padding": 1}, {"padding": 1}, {"padding": 1}]
    for s, how in enumerate(steps, start=1):
        at = f"stages.stage{s}"
        x = F.relu(batch_norm(P, f"{at}.bn", conv(P, f"{at}.conv", x, **how), train))
        x = F.max_pool2d(x, 3, 2) if s in (1, 2, 5) else x
    z = F.adaptive_avg_pool2d(x, 6).flatten(1)
    for at in ("neck.2", "neck.3"):
        z = F.relu(batch_norm(P, f"{at}.bn", linear(P, f"{at}.fc", z), train))
    return headed(P, z)


def lenet(P: Tensors, x: Tensor, train: bool) -> Both:
    """LeNet-5 with ReLU and max pooling: convolutions 5x5 of 6 and 16, linear layers of 120 and 84."""
    for s in (1, 2):
        x = F.max_pool2d(F.relu(conv(P, f"stages.stage{s}.0", x)), 2)
    z = F.adaptive_avg_pool2d(x, 5).flatten(1)
    for at in ("neck.2", "neck.4"):
        z = F.relu(linear(P, at, z))
    return headed(P, z)


def vgg(P: Tensors, x: Tensor, train: bool) -> Both:
    """Configuration A: 64, M, 128, M, 256, 256, M, 512, 512, M, 512, 512, M, each convolution with BN and ReLU; global average."""
    place = 0
    for s, convolutions in enumerate((1, 1, 2, 2, 2), start=1):
        for _ in range(convolutions):
            x = conv(P, f"stages.stage{s}.{place}", x, padding=1)
            x = F.relu(batch_norm(P, f"stages.stage{s}.{place + 1}", x, train))
            place += 3
        x, place = F.max_pool2d(x, 2), place + 1
    return headed(P, x.mean((2, 3)))


def vit_small(P: Tensors, x: Tensor, train: bool) -> Both:
    """model/vit.py of FDSE's code: pre-norm attention of 8 heads of 64, feed-forward with BN over (B tokens) and without LayerNorm."""
    B = len(x)
    patches = F.unfold(x, 32, stride=32).unflatten(1, (3, 1024)).permute(0, 3, 2, 1).flatten(2)
    z = layer_norm(P, "stages.stem.norm2", linear(P, "stages.stem.fc", layer_norm(P, "stages.stem.norm1", patches)))  # fmt: skip
    z = torch.cat([P["stages.stem.cls"].expand(B, -1, -1), z], 1) + P["stages.stem.positions"]
    for s in range(1, 7):
        at = f"stages.stage{s}"
        qkv = linear(P, f"{at}.attention.qkv", layer_norm(P, f"{at}.attention.norm", z)).chunk(3, 2)
        q, k, v = (part.unflatten(2, (8, 64)).transpose(1, 2) for part in qkv)
        heads = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        z = z + linear(P, f"{at}.attention.out", heads)
        hidden = linear(P, f"{at}.feedforward.fc1", z).flatten(0, 1)
        hidden = F.gelu(batch_norm(P, f"{at}.feedforward.bn", hidden, train))
        z = z + linear(P, f"{at}.feedforward.fc2", hidden).unflatten(0, (B, -1))
    return headed(P, layer_norm(P, "neck.norm", z)[:, 0])


def block(
    P: Tensors, at: str, x: Tensor, train: bool, outputs: int, G: int, dw: int, activation: str, identity: bool, **how: int
) -> Tensor:  # fmt: skip
    """FDSE, Eq. 2-3: DFE layer, BN_DSE, ReLU, depthwise layer, concatenation, bias, BN_DFE; of convolutions or linear layers."""
    extract = conv if x.dim() == 4 else linear
    z = batch_norm(P, f"{at}.dse.bn", extract(P, f"{at}.dfe.conv", x, **how), train)
    z = F.relu(z) if activation == "relu" else z
    if f"{at}.dse.conv.weight" in P:
        weight, m = P[f"{at}.dse.conv.weight"], z.shape[1]
        if x.dim() == 4:
            more = F.conv2d(z, weight, padding=dw // 2, groups=m)
        else:
            more = z.repeat_interleave(len(weight) // m, 1) * weight.flatten()
        z = torch.cat([z, more], 1) if identity else more
    z = z[:, :outputs]
    for owner in ("dfe", "dse"):
        if f"{at}.{owner}.bias.bias" in P:
            z = z + P[f"{at}.{owner}.bias.bias"].view(-1, *[1] * (x.dim() - 2))
    return batch_norm(P, f"{at}.dfe.bn", z, train)


def alexnet_of_fdse(P: Tensors, x: Tensor, train: bool) -> Both:
    """alexnet_bn of blocks as Table A6 has them; ReLU and pooling where they were."""
    steps = [(64, {"stride": 4, "padding": 2}), (192, {"padding": 2}), (384, {"padding": 1}), (256, {"padding": 1}), (256, {"padding": 1})]  # fmt: skip
    for s, (outputs, how) in enumerate(steps, start=1):
        x = F.relu(block(P, f"stages.stage{s}.conv", x, train, outputs, 2, 3, "relu", True, **how))
        x = F.max_pool2d(x, 3, 2) if s in (1, 2, 5) else x
    z = F.adaptive_avg_pool2d(x, 6).flatten(1)
    for at in ("neck.2.fc", "neck.3.fc"):
        z = F.relu(block(P, at, z, train, 1024, 2, 3, "relu", False))
    return headed(P, z)


def autoencoder(P: Tensors, x: Tensor) -> Both:
    """hFedF, Table 9: the latent and the image that it gives."""
    z = F.max_pool2d(F.relu(F.conv2d(x, P["encoder.0.weight"], P["encoder.0.bias"], padding=1)), 2)
    z = F.max_pool2d(F.relu(F.conv2d(z, P["encoder.3.weight"], P["encoder.3.bias"], padding=1)), 2)
    latent = F.linear(z.flatten(1), P["encoder.7.weight"], P["encoder.7.bias"])
    y = F.linear(latent, P["decoder.0.weight"], P["decoder.0.bias"]).view(-1, 32, 8, 8)
    y = F.relu(F.conv_transpose2d(y, P["decoder.2.weight"], P["decoder.2.bias"], stride=2))
    y = F.conv_transpose2d(y, P["decoder.4.weight"], P["decoder.4.bias"], stride=2)
    return latent, 1 / (1 + torch.exp(-y))
