"""README as a package index shows it: hatchling asks this hook for the long description and the addresses.

On an index there is no folder beside the text, so links into the repository must be whole addresses. Where the project
lives is said by UCSEARCH_HOME when a release is built (such as https://github.com/someone/ucsearch). Without it links
become their words and the picture is left out: nothing on the page leads nowhere.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # the text alone is wanted, as in the tests
    MetadataHookInterface = object  # type: ignore[assignment,misc]

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
FENCED = re.compile(r"(^```.*?^```$)", re.S | re.M)


def for_the_index(text: str, home: str, tag: str) -> str:
    """The text with whole addresses, or with no links into the repository where there is no home."""
    if home and not re.fullmatch(r"https://[\w.-]+(?:/[\w.-]+)+", home):
        raise ValueError(f"UCSEARCH_HOME: saw {home!r}, expected an address such as https://host/owner/name")

    def whole(found: re.Match[str]) -> str:
        picture, words, target = found.groups()
        if "://" in target or target.startswith(("#", "mailto:")):
            return found[0]
        if not home:
            return "" if picture else words
        kind = "raw" if picture else "tree" if (ROOT / target.partition("#")[0]).is_dir() else "blob"
        return f"{picture}[{words}]({home}/{kind}/{tag}/{target})"

    parts = FENCED.split(text)  # code is shown as it is
    return "".join(part if part.startswith("```") else LINK.sub(whole, part) for part in parts)


class IndexReadme(MetadataHookInterface):
    """Called by hatchling for `dynamic = ["readme", "urls"]`."""

    def update(self, metadata: dict[str, Any]) -> None:
        home, tag = os.environ.get("UCSEARCH_HOME", "").rstrip("/"), f"v{metadata['version']}"
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_the_index(text, home, tag)}
        if home:
            metadata["urls"] = {
                "Source": home,
                "Documents": f"{home}/blob/{tag}/docs/index.md",
                "Changes": f"{home}/blob/{tag}/CHANGELOG.md",
                "Issues": f"{home}/issues",
            }
