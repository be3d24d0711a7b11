"""Write src/ucsearch/client/client.py from async_client.py: the same client without `await`.

python scripts/unasync.py            # write
python scripts/unasync.py --check    # compare; what `make test` does
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

CLIENT = Path(__file__).resolve().parents[1] / "src" / "ucsearch" / "client"
SOURCE, TARGET = CLIENT / "async_client.py", CLIENT / "client.py"
WORDS = (
    ("import asyncio\nimport itertools\n", "import itertools\nimport time\n"),
    ("AsyncIterator, Awaitable, Callable,", "Callable, Iterator,"),
    ("Callable[[float], Awaitable[None]] = asyncio.sleep", "Callable[[float], None] = time.sleep"),
    ("AsyncIterator", "Iterator"),
    ("AsyncClient", "Client"),
    ("__aenter__", "__enter__"),
    ("__aexit__", "__exit__"),
    ("aclose", "close"),
    ("for item in page.items:\n                yield item", "yield from page.items"),
)


def synchronous(text: str) -> str:
    """The source of the client that waits."""
    head, _, rest = text.partition("\n")
    assert head.startswith('"""'), head
    for ours, theirs in WORDS:
        rest = rest.replace(ours, theirs)
    rest = re.sub(r"\b(async|await) ", "", rest)
    return f'"""The client that waits for answers. Written by scripts/unasync.py from {SOURCE.name}."""\n{rest}'


def main() -> int:
    made = synchronous(SOURCE.read_text(encoding="utf-8"))
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(made, encoding="utf-8")
        return 0
    if TARGET.read_text(encoding="utf-8") != made:
        print(f"{TARGET} is not what {SOURCE.name} makes; run: python scripts/unasync.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
