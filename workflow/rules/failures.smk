# What failed, shown at the end: with `quiet: rules` (profiles/local, slurm) Snakemake names no more than commands, and `show-failed-logs`
# has no effect. A job whose runs failed for good counts as a success for Snakemake, so that is told after successes, too.

SHOWN = 10  # jobs, at most


def say_failures():
    """A line for each of the packs that were to be trained and have runs that failed, and for each sick node."""
    trained = [job for job in workflow.dag.needrun_jobs(exclude_finished=False) if job.rule.name == "train"]
    lines = []
    for runs in (PACKS[job.wildcards.pack] for job in trained):
        directories = {run: WORKSPACE.run_at(run.directory) for run in runs}
        failed = {run: failure for run, directory in directories.items() if (failure := directory.failure())}
        if failed:
            finished = sum(directory.summary() is not None for directory in directories.values())
            run, failure = next(iter(failed.items()))
            what = (
                f"{len(failed)} of {len(runs)} runs of a job failed" if finished else "1 job finished no run"
            )
            seeds = " ".join(dict.fromkeys(str(run.seed) for run in failed))
            reason = f"{failure['kind']}: {failure['text'].partition(chr(10))[0]}"
            lines.append(
                f"{what}: {run.method} on {run.dataset}, held out {run.target}, seed {seeds} ({reason})"
            )
    more = len(lines) - SHOWN
    for line in [*lines[:SHOWN], *([f"and {more} other jobs"] if more > 0 else [])]:
        print(line, file=sys.stderr)
    for what, cure in cluster.troubles(WORKSPACE):
        print(f"{what}\n  {cure}", file=sys.stderr)
    return bool(lines)


def say_status():
    asked = " ".join(REQUEST.experiments) if len(REQUEST.experiments) < 4 else ""
    print(f"Which runs failed, and why: fedshift status {asked}".rstrip(), file=sys.stderr)


def name_undrawn():
    """Figures that the results do not allow: their jobs end well, so that a report is made."""
    for experiment in REQUEST.experiments:
        path = Path(f"logs/figure/{experiment}.log")
        text = (
            path.read_text(encoding="utf-8", errors="replace")
            if workflow.is_main_process and path.is_file()
            else ""
        )
        if "not drawn: " in text:
            print(f"{experiment}: {text[text.index('not drawn: '):].rstrip()}", file=sys.stderr)


onerror:
    if workflow.is_main_process:
        end_progress()
        name_undrawn()
        told = "\n".join(Path(name).read_text(encoding="utf-8", errors="replace") for name in log)
        words = re.findall(r"> (logs/\S+|'logs/.*') 2>&1' returned non-zero", told)
        for name in dict.fromkeys(shlex.split(" ".join(words))):
            if Path(name).is_file() and f"Logfile {name}:" not in told:
                lines = Path(name).read_text(encoding="utf-8", errors="replace").splitlines()
                print(f"{name}:", *(f"  {line}" for line in lines[-12:]), sep="\n", file=sys.stderr)
        if "on user request" in told:  # Ctrl-C
            print("Stopped. The same command goes on from here.", file=sys.stderr)
        else:
            say_failures()
            say_status()
