"""Makes pages of the site out of files that stand outside `docs/`, and points links at them (`make docs`)."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "CHANGELOG.md": "changelog.md",
    "RELEASING.md": "releasing.md",
    "SECURITY.md": "security-policy.md",
    "benchmarks/RESULTS.md": "results.md",
    "README.md": "index.md",
}
"""A file of the repository to its page."""
MERMAID = "javascripts/mermaid-tiny-11.17.2.js"
"""Draws; without it the theme's own script fetches one from elsewhere."""
INSIDE = (
    "internals/",
    "architecture.md",
    "pravega-facts.md",
    "contributing.md",
    "testing.md",
    "releasing.md",
)
"""Pages for those who change the package: users' searches don't lead there."""
_LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(?=[)#])")
_WHOLE_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s:]+)(#[^)]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages.

    Args:
        files: those of `docs/`.
        config: the site's.
    """
    for source, page in PAGES.items():
        if files.get_file_from_path(page) is None:
            text = (ROOT / source).read_text()
            files.append(
                File.generated(
                    config, page, content=moved(text, source, page)
                )
            )
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point a page's links to files outside `docs/` at their pages, and keep pages about the inside out of the search.

    Args:
        markdown: the page's text.
        page: the page.
    """
    if page.file.src_uri.startswith(INSIDE):
        page.meta["search"] = {"exclude": True}
    if (
        page.file.src_uri in PAGES.values()
        and page.file.src_uri != "index.md"
    ):
        return markdown
    return moved(markdown, f"docs/{page.file.src_uri}", page.file.src_uri)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Let pages with drawings load what draws them.

    Args:
        output: the page as HTML.
        page: the page.
    """
    if 'class="mermaid"' not in output:
        return output
    up = "../" * (len(PurePosixPath(page.file.dest_uri).parts) - 1)
    return output.replace(
        "</head>", f'<script src="{up}{MERMAID}"></script></head>', 1
    )


def moved(text: str, source: str, page: str) -> str:
    """A text whose relative links lead to the same places from its page as they did from its file.

    What the site doesn't have, as the source of a test, is named and not linked.

    Args:
        text: the text.
        source: its file, from the root of the repository.
        page: its page, from the root of the site.
    """

    def linked(link: re.Match[str]) -> str:
        place = _normal(PurePosixPath(source).parent / link[2])
        there = (
            place in PAGES
            or place.startswith("docs/")
            or not (ROOT / place).exists()
        )
        return link[0] if there else link[1]

    def target(link: re.Match[str]) -> str:
        place = _normal(PurePosixPath(source).parent / link[1])
        to = PAGES.get(place, place.removeprefix("docs/"))
        up = "../" * (len(PurePosixPath(page).parts) - 1)
        return f"{up}{to}"

    return _LINK.sub(target, _WHOLE_LINK.sub(linked, text))


def _normal(place: PurePosixPath) -> str:
    parts: list[str] = []
    for part in place.parts:
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
