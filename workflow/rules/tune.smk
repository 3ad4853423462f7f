# Experiments that are tuned: their tuning is an experiment of its own (<name>.tuning), and what it chooses decides which runs the final
# one has. So the choice is a checkpoint: when it is made, the plan is made anew, which then has the final runs, and the workflow goes on.


checkpoint choose:
    input:
        tuning_of,
    output:
        "results/tuning/{tuned}/{key}.json",
        "results/tuning/{tuned}/{key}.csv",
        "results/tuning/{tuned}/{key}.md",
    log:
        "logs/tune/{tuned}-{key}.log",
    wildcard_constraints:
        tuned="|".join(map(re.escape, TUNED)) or "(?!)",
        key="[0-9a-f]{16}",
    params:
        shown=ANALYSIS,
    message:
        "rule choose: settings of {wildcards.tuned}"
    shell:
        "exec python -m fedshift tune {wildcards.tuned:q} > {log:q} 2>&1"


rule searched:
    input:
        searched=lambda wildcards: beside_choice(wildcards, ".csv"),
        chosen=lambda wildcards: beside_choice(wildcards, ".md"),
    output:
        searched="results/tables/{tuned}/searched.csv",
        chosen=report(
            "results/tables/{tuned}/chosen.md",
            caption="../report/chosen.rst",
            category="{tuned}",
            labels={"result": "chosen settings"},
        ),
    log:
        "logs/searched/{tuned}.log",
    wildcard_constraints:
        tuned="|".join(map(re.escape, TUNED)) or "(?!)",
    message:
        "rule searched: {wildcards.tuned}"
    shell:
        "(cp {input.searched:q} {output.searched:q} && cp {input.chosen:q} {output.chosen:q}) > {log:q} 2>&1"
