# From finished packs to tables, figures and verdicts, for one experiment each. A change in the experiment's file, in
# protocols, in published numbers or in the code of the analysis renders anew and trains nothing.

ANALYSIS = planfile.sources_key("analysis")
PUBLISHED = "reference/published.csv"


def results_of(experiment):
    tables = f"results/tables/{experiment}"
    return [
        f"{tables}/table.csv",
        f"{tables}/check.passed",
        f"results/figures/{experiment}",
        f"results/report/{experiment}/index.html",
    ]


def cells_of(wildcards):
    return [cell for cell in CELLS if cell.experiment == wildcards.experiment]


def packs_of(wildcards):
    return sorted({f"results/packs/{RUN[cell.digest].pack}.json" for cell in cells_of(wildcards)})


def runs_of(wildcards):
    """Hash of the experiment's runs: others are other results, whatever the times of the files say."""
    return sha256(repr([(cell.label, cell.axes, RUN[cell.digest].name) for cell in cells_of(wildcards)]))


def shown_by(wildcards):
    """Hash of what decides how results are shown."""
    return sha256(ANALYSIS + planfile.inputs_key(ROOT, planfile.Request((wildcards.experiment,))))


rule collect:
    input:
        packs_of,
    output:
        "results/metrics/{experiment}.parquet",
        "results/metrics/{experiment}.runs.parquet",
    log:
        "logs/collect/{experiment}.log",
    params:
        runs=runs_of,
        shown=shown_by,
    shell:
        "{FEDSHIFT} collect {wildcards.experiment} --plan {PLAN} > {log} 2>&1"


rule table:
    input:
        "results/metrics/{experiment}.parquet",
        "experiments/{experiment}.yaml",
        PUBLISHED,
    output:
        "results/tables/{experiment}/table.csv",
        "results/tables/{experiment}/table.md",
        report(
            "results/tables/{experiment}/table.html",
            caption="../report/table.rst",
            category="{experiment}",
            labels={"what": "tables"},
        ),
    log:
        "logs/table/{experiment}.log",
    params:
        shown=shown_by,
    shell:
        "{FEDSHIFT} table {wildcards.experiment} > {log} 2>&1"


rule figure:
    input:
        "results/metrics/{experiment}.parquet",
        "experiments/{experiment}.yaml",
        PUBLISHED,
    output:
        report(
            directory("results/figures/{experiment}"),
            patterns=["{figure}.svg"],
            caption="../report/figure.rst",
            category="{experiment}",
            labels={"what": "{figure}"},
        ),
    log:
        "logs/figure/{experiment}.log",
    params:
        shown=shown_by,
    shell:
        "{FEDSHIFT} figure {wildcards.experiment} > {log} 2>&1"


# check.json is not declared: where something falls short it must stay, and this job fails each time it is asked for.
rule check:
    input:
        "results/metrics/{experiment}.parquet",
        "experiments/{experiment}.yaml",
        PUBLISHED,
    output:
        touch("results/tables/{experiment}/check.passed"),
    log:
        "logs/check/{experiment}.log",
    params:
        shown=shown_by,
    shell:
        "{FEDSHIFT} check {wildcards.experiment} > {log} 2>&1"
