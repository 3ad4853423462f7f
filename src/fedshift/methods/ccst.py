"""CCST: FedAvg on images that were rendered in other clients' styles (Chen et al., WACV 2023).

The images are rendered once, before training (fedshift.data.renderings.ccst), because styles depend on the
partition. Each training image is replaced by K rendered ones. The paper renders at 512 px with a VGG encoder;
this code renders at the prepared size. The weights of the encoder and the decoder must be given as files
(docs/datasets.md). `space: rgb` is a substitute that needs no weights. Its results must be labelled as such
wherever they are shown. The transfer of styles to the server and back is not among the counted bytes: once
per client, 2 c floats up and 2 c N down.
"""

from fedshift.data.renderings.ccst import Params
from fedshift.federation.method import Method


class CCST(Method):
    """Uniform average, as in the released code; everything else is FedAvg."""

    name = "ccst"
    Params = Params
    rendering = "ccst"
    weights = "uniform"
