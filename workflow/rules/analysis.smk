# From finished packs to tables, figures and verdicts, for one experiment each. A change in the experiment's file, in
# protocols, in published numbers or in the code of the analysis renders anew and trains nothing.

PUBLISHED = [
    "reference/published.csv",
    "reference/published.yaml",
    "reference/claims.csv",
    "reference/claims.yaml",
    "reference/claims_groups.csv",
]


rule collect:
    input:
        packs_of,
        evaluated_of,
    output:
        "results/metrics/{experiment}.parquet",
        "results/metrics/{experiment}.statistics.parquet",
        "results/metrics/{experiment}.runs.parquet",
        touch("results/metrics/{experiment}.collected"),
    log:
        "logs/collect/{experiment}.log",
    benchmark:
        "logs/collect/{experiment}.tsv"
    params:
        runs=runs_of,
        shown=shown_by,
    message:
        "rule collect: {wildcards.experiment}"
    shell:
        "exec python -m fedshift collect {wildcards.experiment:q} > {log:q} 2>&1"


rule table:
    input:
        lambda wildcards: collected(wildcards.experiment),
        compared_by,
        "experiments/{experiment}.yaml",
        PUBLISHED,
    output:
        "results/tables/{experiment}/table.csv",
        "results/tables/{experiment}/table.md",
    log:
        "logs/table/{experiment}.log",
    benchmark:
        "logs/table/{experiment}.tsv"
    params:
        shown=shown_by,
    message:
        "rule table: {wildcards.experiment}"
    shell:
        "exec python -m fedshift table {wildcards.experiment:q} > {log:q} 2>&1"


# A figure that the results do not allow is named in the report and at the end of the workflow; the others are there.
rule figure:
    input:
        lambda wildcards: collected(wildcards.experiment),
        compared_by,
        "experiments/{experiment}.yaml",
        PUBLISHED,
    output:
        report(
            directory("results/figures/{experiment}"),
            patterns=["{figure}.svg"],
            caption="../report/figure.rst",
            category="{experiment}",
            labels={"result": "{figure}"},
        ),
    log:
        "logs/figure/{experiment}.log",
    benchmark:
        "logs/figure/{experiment}.tsv"
    params:
        shown=shown_by,
    message:
        "rule figure: {wildcards.experiment}"
    shell:
        "exec python -m fedshift figure {wildcards.experiment:q} --lenient > {log:q} 2>&1"
