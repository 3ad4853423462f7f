# Targets that no rule makes: runs, whose directories are never declared, and results of experiments that are not
# requested. The first become rules of their names, which ask for the packs of the runs; the others end here. So does an
# existing result of lost runs become a rule, which asks for these.

WORDS = sys.argv[1:] if workflow.is_main_process and "--unlock" not in sys.argv else []
PLACES = {
    word: Path(os.path.relpath(word))
    for before, word in zip(["", *WORDS], WORDS)
    if word and before != "--report"
}
NAMED = []  # runs that are targets

for word, place in PLACES.items():
    for name in shown_at(place):
        if name not in REQUEST.experiments:
            raise WorkflowError(
                f"experiments/{name}.yaml is there, but it is not requested. Type:",
                f"snakemake --profile profiles/local --config 'experiments=[{name}]' -- {word}",
                f"or, for all of its results: fedshift run {name}",
            )
    lost = [
        str(WORKSPACE.collected(name))
        for shown in shown_at(place)
        for name in (shown, *PLAN.compared.get(shown, ()))
        if not WORKSPACE.collected(name).exists()
    ]
    if lost and place.exists():

        rule:
            name:
                word
            input:
                str(place),
                lost,

    if any(place.is_relative_to(folder) for folder in ("results/runs", "results/packs")):
        if not (found := runs_at(place)):
            raise WorkflowError(
                f"{word} is not a run or a pack of this plan. See fedshift status --runs, fedshift plan --print packs."
            )
        NAMED += found
        if str(place) not in stamps(found):

            rule:
                name:
                    word
                input:
                    stamps(found),


for directory in sorted({run.directory for run in NAMED if WORKSPACE.run_at(run.directory).failed_for_good}):
    print(
        f"{directory} failed and is not trained again (reason: fedshift status). "
        "Fix the reason, then: fedshift plan --retry-failed",
        file=sys.stderr,
    )
FORCED = {"-f", "--force", "-R", "--forcerun"} & {*WORDS} and (NAMED or "train" in WORDS)
if FORCED or ({"-F", "--forceall"} & {*WORDS} and "--touch" not in WORDS):
    print(
        "Finished runs are reused even where rule train is forced. To train one again, delete its directory below "
        "results/runs and start again.",
        file=sys.stderr,
    )
