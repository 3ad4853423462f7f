"""Typeset: LaTeX source to a PDF, by the user's pdflatex."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from fedshift.common.errors import FedshiftError
from fedshift.common.files import write_bytes, write_text

DOCUMENT = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage{lmodern}
\usepackage[a4paper,landscape,margin=15mm]{geometry}
\usepackage{booktabs,graphicx,siunitx}
\sisetup{separate-uncertainty=true,detect-all}
\pagestyle{empty}
\begin{document}
%s
\end{document}
"""
SECONDS = 120


def _failed(path: Path, latex: str, what: str) -> FedshiftError:
    """The error of a PDF that was not made; its source is written beside it."""
    source = path.with_suffix(".failed.tex")
    write_text(source, DOCUMENT % latex)
    return FedshiftError(path, what, f"Look at {source}.")


def pdf(latex: str, path: Path) -> None:
    """Write the PDF of a piece of LaTeX that needs booktabs, graphicx and siunitx.

    Raises FedshiftError without pdflatex, and with the first error of its log where it fails: what it was
    given is then written beside `path`.
    """
    program = shutil.which("pdflatex")
    if program is None:
        packages = "texlive-latex-recommended texlive-science lmodern"
        cure = f"Install TeX Live (Debian: {packages}), or leave --pdf out."
        raise FedshiftError("pdflatex", "is not on PATH", cure)
    with TemporaryDirectory() as folder:
        Path(folder, "table.tex").write_text(DOCUMENT % latex, encoding="utf-8")
        command = [program, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "table.tex"]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _failed(path, latex, f"pdflatex took more than {SECONDS} seconds") from None
        if done.returncode:
            lines = done.stdout.splitlines()
            first = next((k for k, line in enumerate(lines) if line.startswith("!")), max(len(lines) - 3, 0))
            raise _failed(path, latex, " ".join(lines[first : first + 3]))
        write_bytes(path, Path(folder, "table.pdf").read_bytes())
