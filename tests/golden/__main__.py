"""Write golden results anew, to be reviewed as a diff: what is trained, what the archive says, which runs the papers have.

python -m tests.golden engine     engine.json, for this class of machine (--of REVISION: of that revision's code; to be asked before a change)
python -m tests.golden archive    archive.json; then, for docs/results: python docs/generate --keep archive
python -m tests.golden plan       papers.txt
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.golden import archive, engine, plan


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what", choices=["engine", "archive", "plan", "print"], help="print: the engine's results, as JSON"
    )
    parser.add_argument("--of", metavar="REVISION", help="of engine: whose code to run")
    options = parser.parse_args()
    if options.what == "print":
        json.dump({str(case): engine.result(case)._asdict() for case in engine.cases()}, sys.stdout)
    elif options.what == "engine":
        engine.rewrite(options.of)
    elif options.what == "plan":
        plan.rewrite()
    else:
        with tempfile.TemporaryDirectory() as folder:
            archive.rewrite(Path(folder))
        for file in archive.stale():
            print(f"docs/results/{file} is stale: python docs/generate --keep archive")


if __name__ == "__main__":
    main()
