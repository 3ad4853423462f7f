# Targets of experiments that exist and are not asked for: how to ask for them, in place of a bare MissingRuleException.

import re

FILES = sorted(Path("experiments").rglob("*.yaml"))
NAMES = [path.relative_to("experiments").with_suffix("").as_posix() for path in FILES]
UNLISTED = [name for name in NAMES if name not in REQUEST.experiments]
OF_AN_EXPERIMENT = {
    "tables": "results/tables/{unlisted}/{file}",
    "figures": "results/figures/{unlisted}",
    "report": "results/report/{unlisted}/index.html",
    "metrics": "results/metrics/{unlisted}.parquet",
    "evaluated": "results/metrics/{unlisted}.evaluated",
}


def refused(pattern):
    """The input function of a target that cannot be made now."""

    def refuse(wildcards):
        name, target = wildcards.unlisted, pattern.format(**dict(wildcards.items()))
        raise WorkflowError(
            f"experiments/{name}.yaml is there, but it is not asked for. Type:",
            f"snakemake --profile profiles/local --config 'experiments=[{name}]' -- {target}",
            f"or, for all of its results: fedshift run {name}",
        )

    return refuse


for kind, pattern in OF_AN_EXPERIMENT.items() if UNLISTED else ():

    rule:
        name:
            f"unlisted_{kind}"
        input:
            refused(pattern),
        output:
            pattern,
        wildcard_constraints:
            unlisted="|".join(map(re.escape, UNLISTED)),
            file="[^/]+",
