"""Printed names: what reference/published.csv calls the columns of our tables (metric_id), in which unit it
has them, and by which rule a number of theirs is judged.
"""

from __future__ import annotations

from typing import Literal

from fedshift.experiments.column import column

Rule = Literal["points", "percent", "exact"]
LAYER = "architecture"
COPIED = "hp:"  # beginning of a setting's metric_id
# Column -> metric_ids, the first of which counts. Of a quantity that is not here: acc_<its name>.
NAMES = {
    "ood": ("acc_ood", "acc_target"),  # papers that print one domain at a time have no word for it
    "gain.id": ("rel_acc_id",),
    "gain.ood": ("rel_acc_ood",),
    "cost.parameters": ("params_1e7",),
    "cost.state_dict": ("comm_MiB_per_round",),
    "cost.macs_norm": ("macs_1e10",),
    "cost.up": ("comm_MB_uplink",),
    "ratio.cost.seconds": ("train_time_s",),
    "setting.local.lr": ("hp:client_lr",),
    "setting.local.weight_decay": ("hp:client_weight_decay",),
    "setting.method.params.mu": ("hp:L2_regularizer",),
    "setting.method.params.l2r": ("hp:L2_regularizer",),
    "setting.method.params.lr": ("hp:server_lr",),
    "setting.method.params.weight_decay": ("hp:server_weight_decay",),
    "setting.method.params.ema": ("hp:server_EMA_decay",),
    "setting.method.params.tau": ("hp:mask_threshold",),
    "setting.method.params.eta": ("hp:server_step_size",),
}
# metric_id -> what a printed number is multiplied by to be in our unit: FDSE prints 1e7 parameters, and 1e10
# multiply-adds of a batch of 50.
UNITS = {"params_1e7": 10.0, "macs_1e10": 1e4 / 50}
# Beginning of a metric_id -> rule: "points", a margin in percentage points; "percent", one in percent of the
# printed number; "exact", to the last printed digit.
RULES: dict[str, Rule] = {
    "acc_": "points",
    "rel_acc_": "points",
    "train_time_": "percent",
    "params_": "exact",
    "comm_": "exact",
    "macs_": "exact",
    COPIED: "exact",
    LAYER: "exact",
}
DECLARED = (COPIED, LAYER)  # what is compared is the declaration itself


def ids(text: str) -> tuple[str, ...]:
    """The metric_ids under which a column may be printed."""
    if column(text).kind == "layer":
        return (LAYER,)
    return NAMES.get(text, (f"acc_{text}",))


def rule(metric_id: str) -> Rule:
    """By which rule a printed number is judged."""
    return next(rule for start, rule in RULES.items() if metric_id.startswith(start))
