"""Who may do what: tokens in `tokens.toml`, kept as hashes, with roles; read again when the file changes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import secrets
import stat
import threading
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ucsearch.errors import InputError, RecordError
from ucsearch.records.files import whole_file

__all__ = ["ROLES", "Principal", "TokenBook", "TokenInfo", "allows"]

FILE = "tokens.toml"
ROLES = ("viewer", "operator", "admin", "agent")
_PREFIX = "ucs_"
_AGAIN_S = 1.0  # between looks at the file; a revoked token is gone well within five seconds
_NAME = re.compile(r"[\w.@ -]{1,100}")
# What each role may do: an agent decides and reports, and must not override.
_GRANTS = {
    "viewer": frozenset({"viewer"}),
    "operator": frozenset({"viewer", "operator"}),
    "admin": frozenset({"viewer", "operator", "admin"}),
    "agent": frozenset({"agent", "viewer"}),
}


@dataclass(frozen=True)
class Principal:
    """Somebody who was recognised."""

    name: str
    role: str
    token: str  # first digits of the token's hash, for limits and logs; never the token


@dataclass(frozen=True)
class TokenInfo:
    """A token as the file keeps it."""

    name: str
    role: str
    sha256: str
    expires: str  # ISO time with offset; "" never


def allows(role: str, needed: str) -> bool:
    """Whether a role may do what needs another."""
    return needed in _GRANTS.get(role, frozenset())


class TokenBook:
    """The tokens of a service."""

    def __init__(self, path: str | Path, clock: Callable[[], datetime] | None = None) -> None:
        self.path = Path(path)
        self._clock = clock or (lambda: datetime.now(UTC))
        self._lock = threading.Lock()
        self._tokens: tuple[TokenInfo, ...] = ()
        self._seen: tuple[int, int] = (0, 0)
        self._looked = 0.0
        self.reload()

    def reload(self) -> None:
        """Read the file again; what cannot be read, or can be read by others, is refused."""
        try:
            found = self.path.stat()
            if os.name == "posix" and stat.S_IMODE(found.st_mode) & 0o077:
                raise RecordError(f"{self.path}: others may read it; chmod 600 it")
            content = tomllib.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise RecordError(f"{self.path}: cannot be read ({error})") from error
        tokens = []
        for i, item in enumerate(content.get("token", [])):
            try:
                made = TokenInfo(item["name"], item["role"], item["sha256"], item.get("expires", ""))
                right = made.role in ROLES and re.fullmatch("[0-9a-f]{64}", made.sha256) and made.name
                if not right or (made.expires and datetime.fromisoformat(made.expires).utcoffset() is None):
                    raise ValueError
            except (KeyError, TypeError, ValueError) as error:
                raise RecordError(f"{self.path}: token {i + 1} is not one of `ucsearch service token add`") from error
            tokens.append(made)
        with self._lock:
            self._tokens = tuple(tokens)
            self._seen, self._looked = (found.st_ctime_ns, found.st_size), time.monotonic()

    def find(self, text: str) -> Principal | None:
        """Whose token it is; None when it is nobody's, or has expired."""
        self._look()
        given = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
        found: TokenInfo | None = None
        for token in self._tokens:  # all of them, so that the time taken says nothing
            if hmac.compare_digest(token.sha256, given):
                found = token
        if found is None or (found.expires and not self._clock() < datetime.fromisoformat(found.expires)):
            return None
        return Principal(found.name, found.role, given[:12])

    def stands(self, principal: Principal) -> bool:
        """Whether a token that was recognised earlier still is: for sessions that outlive a request."""
        self._look()
        for token in self._tokens:
            if token.sha256.startswith(principal.token) and (token.name, token.role) == (
                principal.name,
                principal.role,
            ):
                return not token.expires or self._clock() < datetime.fromisoformat(token.expires)
        return False

    def _look(self) -> None:
        if time.monotonic() - self._looked < _AGAIN_S:
            return
        try:
            found = self.path.stat()
            if (found.st_ctime_ns, found.st_size) != self._seen:
                self.reload()
            self._looked = time.monotonic()
        except (OSError, RecordError):
            # A file that is gone, half written or open to others: nobody is recognised until it is right again.
            with self._lock:
                self._tokens, self._seen = (), (0, 0)

    def list(self) -> tuple[TokenInfo, ...]:
        self._look()
        return self._tokens

    def add(self, name: str, role: str, expires: str = "") -> str:
        """A new token; its text is returned here and kept nowhere."""
        if role not in ROLES:
            raise InputError("role", repr(role), f"one of {', '.join(ROLES)}")
        if _NAME.fullmatch(name) is None or not name.strip():
            raise InputError("name", repr(name), "letters, digits, spaces and . _ @ -, at most 100")
        if expires:
            try:
                dated = datetime.fromisoformat(expires).utcoffset() is not None
            except ValueError:
                dated = False
            if not dated:
                raise InputError("expires", repr(expires), "a time with its offset, such as 2027-01-01T00:00:00+00:00")
        self.reload()
        if any(t.name == name for t in self._tokens):
            raise InputError("name", repr(name), "a name that no token has yet; revoke that one first")
        text = _PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()
        self._write((*self._tokens, TokenInfo(name, role, hashlib.sha256(text.encode()).hexdigest(), expires)))
        return text

    def revoke(self, name: str) -> None:
        self.reload()
        rest = tuple(t for t in self._tokens if t.name != name)
        if len(rest) == len(self._tokens):
            raise InputError("name", repr(name), f"one of {', '.join(t.name for t in self._tokens) or 'none'}")
        self._write(rest)

    def _write(self, tokens: tuple[TokenInfo, ...]) -> None:
        write_tokens(self.path, tokens)
        self.reload()


def write_tokens(path: Path, tokens: tuple[TokenInfo, ...] = ()) -> None:
    """The whole file, its owner's alone to read."""
    lines = ["# Tokens of the service, as hashes; written by `ucsearch service token`."]
    for t in tokens:
        lines += ["", "[[token]]", f"name = {json.dumps(t.name)}", f'role = "{t.role}"', f'sha256 = "{t.sha256}"']
        lines += [f'expires = "{t.expires}"'] if t.expires else []
    with whole_file(path, private=True) as file:
        file.write(("\n".join(lines) + "\n").encode("utf-8"))
