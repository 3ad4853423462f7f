"""Hooks of mkdocs: the repository's own pages and files beside those of docs/, so that its links work in the site as well.

README.md is the first page; what lies elsewhere outside docs/ is found below repository/ in the site; a
notebook is a page of its text and code.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",
    **{
        path: f"repository/{path}"
        for path in (
            "CHANGELOG.md",
            "CONTRIBUTING.md",
            "SECURITY.md",
            "benchmarks/README.md",
            "examples/README.md",
        )
    },
}
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)")
IMAGE = re.compile(r"(?<!\[)!\[[^]]*\]\(([^)\s]+)\)")
MENTION = re.compile(r"(?<!\[)`([\w./-]+\.(?:md|ipynb))`")  # how a page names another in passing
FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """With the script that sorts tables."""
    config.extra_javascript.append("site/sort.js")
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """With the pages outside docs/ and the notebooks."""
    for path, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    for notebook in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        page = f"notebooks/{notebook.stem}.md"
        files.append(File.generated(config, page, content=page_of(notebook)))
    return files


def page_of(notebook: Path) -> str:
    """The notebook as Markdown, with a link to the file."""
    parts = []
    for cell in json.loads(notebook.read_text())["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    title, *rest = parts[0].split("\n", 1)
    link = f"The notebook itself: [{notebook.name}]({notebook.name}). Its outputs are those of your machine."
    return "\n\n".join([title, link, *rest, *parts[1:]])


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """With links that lead to where a file is in the site; a file that is no page is copied there. Pages that
    are named are links, too, and so are figures, to themselves: a telephone shows them large.
    """
    source = next((path for path, where in PAGES.items() if where == page.file.src_uri), None)
    folder = Path(source or f"docs/{page.file.src_uri}").parent

    def place(path: str) -> str | None:
        """Where a path of the repository is in the site."""
        if path in PAGES:
            return PAGES[path]
        if path.startswith("docs/"):
            return path.removeprefix("docs/")
        if not (ROOT / path).is_file():
            return None
        where = f"repository/{path}"
        if files.get_file_from_path(where) is None:
            files.append(File.generated(config, where, abs_src_path=str(ROOT / path)))
        return where

    def relative(where: str) -> str:
        return os.path.relpath(where, Path(page.file.src_uri).parent)

    def link(found: re.Match[str]) -> str:
        where = place(os.path.normpath(folder / found[1]))
        return relative(where) if where else found[1]

    def mention(found: re.Match[str]) -> str:
        path = found[1]
        if not (ROOT / path).is_file() or not (path in PAGES or path.startswith("docs/")):
            return found[0]
        return f"[{found[0]}]({relative(PAGES.get(path) or _page(path))})"

    def linked(text: str) -> str:
        text = MENTION.sub(mention, LINK.sub(link, text))
        return IMAGE.sub(lambda found: f"[{found[0]}]({found[1]})", text)

    parts = FENCE.split(markdown)  # every second one is code
    parts[::2] = map(linked, parts[::2])
    return "".join(parts)


def _page(path: str) -> str:
    """Of a page or notebook below docs/, by its path in the repository."""
    return str(Path(path).relative_to("docs").with_suffix(".md"))
