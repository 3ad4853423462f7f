# What jobs that failed have written, shown at the end: with `quiet: rules` (profiles/local, slurm) Snakemake names no more than their
# commands, and `show-failed-logs` has no effect.


onerror:
    if workflow.is_main_process:
        told = "\n".join(Path(name).read_text(errors="replace") for name in log)
        words = re.findall(r"> (logs/\S+|'logs/.*') 2>&1' returned non-zero", told)
        for name in dict.fromkeys(shlex.split(" ".join(words))):
            if Path(name).is_file() and f"Logfile {name}:" not in told:
                lines = Path(name).read_text(errors="replace").splitlines()
                print(f"{name}:", *(f"  {line}" for line in lines[-12:]), sep="\n", file=sys.stderr)
        if "on user request" in told:  # Ctrl-C
            print("Stopped. The same command goes on from here.", file=sys.stderr)
        else:
            asked = " ".join(REQUEST.experiments) if len(REQUEST.experiments) < 4 else ""
            print(f"Which runs failed, and why: fedshift status {asked}".rstrip(), file=sys.stderr)
