# Experiments that are tuned: their tuning is an experiment of its own (<name>.tuning), and what it chooses decides which runs the final
# one has. So the choice is a checkpoint: when it is made, the plan is made anew, which then has the final runs, and the workflow goes on.


def tuned(experiment):
    """Before an experiment's final runs are asked for: wait for its choice, then take the plan that has them. In a job the choice was made."""
    if experiment in CHOICES and workflow.is_main_process:
        checkpoints.choose.get(tuned=experiment, key=CHOICES[experiment].key)
        if not CHOICES[experiment].made:
            take(the_plan())


def chosen_of(wildcards):
    """The points that were tried and the values that were chosen, beside the choice."""
    choice = WORKSPACE.choices(wildcards.tuned) / f"{CHOICES[wildcards.tuned].key}.json"
    return [str(choice.with_suffix(suffix)) for suffix in (".csv", ".md")]


def tuning_of(wildcards):
    return str(WORKSPACE.metrics(f"{wildcards.tuned}{TUNING}"))


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
    shell:
        "exec python -m fedshift tune {wildcards.tuned} > {log} 2>&1"


rule searched:
    input:
        chosen_of,
    output:
        "results/tables/{tuned}/searched.csv",
        report(
            "results/tables/{tuned}/chosen.md",
            caption="../report/chosen.rst",
            category="{tuned}",
            labels={"result": "chosen settings"},
        ),
    log:
        "logs/searched/{tuned}.log",
    wildcard_constraints:
        tuned="|".join(map(re.escape, TUNED)) or "(?!)",
    shell:
        "(cp {input[0]} {output[0]} && cp {input[1]} {output[1]}) > {log} 2>&1"
