"""The pages of the repository, and the snippets on them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "RELEASING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"),
    *("benchmarks/RESULTS.md", ".github/PULL_REQUEST_TEMPLATE.md"),
    *("native/README.md", "tests/interop/README.md"),
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
]
RUNNABLE = {"sql", "python", "sh", "console"}
SHOWN = {"text", "json", "mermaid", "yaml"}
"""Output, configuration, pictures: nothing that could run."""
_FENCE = re.compile(r"```(\S*)$")
_MARKER = re.compile(r"<!-- not run: *(.*?) *-->")


@dataclass(frozen=True, kw_only=True)
class Snippet:
    """A block of code on a page."""

    page: str
    line: int
    """Of the first line of code, from 1."""
    language: str
    text: str
    marker: str | None
    """Why it doesn't run; None when it does."""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def snippets(page: str) -> list[Snippet]:
    """All blocks of code of a page, from its beginning.

    Args:
        page: its path in the repository.
    """
    page_snippets, lines = [], (ROOT / page).read_text().splitlines()
    number = 0
    while number < len(lines):
        opened = _FENCE.match(lines[number])
        if opened is None:
            number += 1
            continue
        end = lines.index("```", number + 1)
        page_snippets.append(
            Snippet(
                page=page,
                line=number + 2,
                language=opened[1],
                text="\n".join(lines[number + 1 : end]) + "\n",
                marker=_marker(lines[:number]),
            )
        )
        number = end + 1
    return page_snippets


def _marker(above: list[str]) -> str | None:
    """The reason in a comment that ends on the line above a block; it may take several lines."""
    if not above or not above[-1].endswith("-->"):
        return None
    begin = max(index for index, line in enumerate(above) if line.startswith("<!--"))
    match = _MARKER.fullmatch(" ".join(above[begin:]))
    return match[1] if match else None


def prose(page: str) -> list[tuple[int, str]]:
    """The lines of a page outside its blocks of code, with their numbers.

    Args:
        page: its path in the repository.
    """
    inside, kept = False, []
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside:
            kept.append((number, line))
    return kept
