"""CCST: FedAvg on images that were rendered in other clients' styles (Chen et al., WACV 2023).

The rendering is made once, before training (fedshift.data.renderings.ccst), because styles depend on who
holds what; each training image is replaced by K rendered ones. The paper renders at 512 px with a VGG
encoder; here the prepared size is rendered. The encoder's and decoder's weights must be given as files
(docs/datasets.md); `space: rgb` is a substitute without them, to be named so wherever its results are
shown. The styles' way to the server and back, 2 c floats up and 2 c N down for each client, once, is not
among the counted bytes.
"""

from fedshift.data.renderings.ccst import Params
from fedshift.federation.method import Method


class CCST(Method):
    """Uniform average, as in the released code; everything else is FedAvg."""

    name = "ccst"
    Params = Params
    rendering = "ccst"
    weights = "uniform"
