"""Views of an MLflow experiment: columns that tell runs apart, and accuracy out of and in distribution first.

MLflow (3.17) keeps a saved view as a tag of the experiment and lists it under "Views". Its own choice of columns shows no metric, and
its own charts begin with the costs. The charts of all other metrics follow below.
"""

from __future__ import annotations

import json
from typing import Any

PARAMS = ("method", "target", "seed")
METRICS = ("final/ood_acc", "final/id_acc", "final/seconds")
CHARTS = {"ood/acc": "LINE", "id/acc": "LINE", "final/ood_acc": "BAR", "final/id_acc": "BAR"}
LINE = {
    "scaleType": "linear",
    "xAxisScaleType": "linear",
    "xAxisKey": "step",
    "yAxisKey": "metric",
    "yAxisExpressions": [],
    "lineSmoothness": 0,
    "range": {},
    "useGlobalXaxisKey": True,
    "useGlobalLineSmoothing": True,
}
SECTION = "accuracy"


def saved_view(name: str = "fedshift", query: str = "") -> tuple[str, str]:
    """Key and value of the tag that is the view `name`, of the runs that `query` finds: `tags.method = 'fedavg'`."""
    state = {
        "searchFilter": query,
        "orderByKey": "attributes.start_time",
        "orderByAsc": True,
        "selectedColumns": [f"params.`{key}`" for key in PARAMS] + [f"metrics.`{key}`" for key in METRICS],
        "runsHiddenMode": "FIRST_20_RUNS",
        "compareRunSections": [{"uuid": SECTION, "name": SECTION, "display": True, "columns": 2}],
        "compareRunCharts": [_chart(metric, kind) for metric, kind in CHARTS.items()],
    }
    view = {"name": name, "createdAt": 0, "updatedAt": 0, "state": json.dumps(state)}
    return f"mlflow.sharedViewState.{name}", json.dumps(view)


def _chart(metric: str, kind: str) -> dict[str, Any]:
    chart = {"uuid": metric, "type": kind, "metricKey": metric, "displayName": metric, "isGenerated": True}
    shown = {"metricSectionId": SECTION, "runsCountToCompare": 20, "deleted": False}
    return chart | shown | (LINE if kind == "LINE" else {})
