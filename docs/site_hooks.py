"""The site's pages: those of the folder of the documents, and some that live elsewhere in the repository.

Links in all of them are as they must be in the repository. On the site a link to a page leads to that page, and one to
any other file of the repository only names it.
"""

import logging
import posixpath
import re
import shutil
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

log = logging.getLogger("mkdocs.site")
ROOT = Path(__file__).parents[1]
ELSEWHERE = {  # place in the repository -> page of the site
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
} | {
    path.relative_to(ROOT).as_posix(): f"results/{path.relative_to(ROOT / 'experiments' / 'results').as_posix()}"
    for path in sorted((ROOT / "experiments" / "results").rglob("*.md"))
}
PLACES = {page: place for place, page in ELSEWHERE.items()}
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Show the tutorial of live data without its outputs where there is no broker to run it with."""
    if not (shutil.which("mosquitto") or Path("/usr/sbin/mosquitto").exists()):
        log.info("no Mosquitto here: the tutorial of live data is not run")
        config.plugins["mkdocs-jupyter"].config["execute_ignore"] = ["tutorials/live.py"]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take in the pages that live elsewhere."""
    for place, page in ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / place).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - MkDocs' call
    """Lead each link to where its target is on the site."""
    here = page.file.src_uri
    place = PLACES.get(here, f"docs/{here}")

    def led(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        meant = posixpath.normpath(posixpath.join(posixpath.dirname(place), target))
        there = ELSEWHERE.get(meant, meant.removeprefix("docs/") if meant.startswith("docs/") else None)
        if there is not None and files.get_file_from_path(there) is not None:
            return f"[{text}]({posixpath.relpath(there, posixpath.dirname(here) or '.')}{anchor})"
        return text if (ROOT / meant).exists() else match[0]

    return LINK.sub(led, markdown)
