"""`tokens.toml`: the tokens of a service as hashes, with roles, ends and scopes. Whoever may write the file may change
it while the service runs; it is read again within a second."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import stat
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ucsearch.errors import InputError, RecordError
from ucsearch.records.files import check_owner, regular_file, whole_file

__all__ = [
    "FILE", "PROXIED", "ROLES", "Principal", "Scope", "TokenBook", "TokenInfo", "allows", "asker", "write_tokens",
]  # fmt: skip

_log = logging.getLogger("ucsearch.service")
FILE = "tokens.toml"
asker = ContextVar("asker", default="")  # `Principal.token` of whoever makes the request at hand
ROLES = ("viewer", "operator", "admin", "agent")
PROXIED = "proxy:"  # begins the name of everybody whom a proxy names: no token has such a name
_PREFIX = "ucs_"
_AGAIN_S = 1.0  # between looks at the file; a revoked token is gone well within five seconds
_NAME = re.compile(r"[\w.@ -]{1,100}")
_MOST_BYTES = 1 << 24  # of the file
_TRIES, _TRY_S = 250, 0.02  # for a turn to change it
_TEXTS = frozenset({"name", "role", "sha256", "expires"})
_LISTS = frozenset({"plans", "series"})
# What each role may do: an agent decides and reports, and must not override.
_GRANTS = {
    "viewer": frozenset({"viewer"}),
    "operator": frozenset({"viewer", "operator"}),
    "admin": frozenset({"viewer", "operator", "admin"}),
    "agent": frozenset({"agent", "viewer"}),
}


@dataclass(frozen=True)
class Scope:
    """Which plans and series somebody may look at and act on."""

    plans: tuple[str, ...] = ()  # all of them where none is named
    series: tuple[str, ...] = ()  # what their names begin with; all of them where nothing is

    @property
    def is_whole(self) -> bool:
        return not self.plans and not self.series

    def has_plan(self, name: str) -> bool:
        return not self.plans or name in self.plans

    def has(self, plan: str, series: str) -> bool:
        return self.has_plan(plan) and (not self.series or series.startswith(self.series))


@dataclass(frozen=True)
class Principal:
    """Somebody who was recognised."""

    name: str
    role: str
    token: str  # first digits of the token's hash, for limits and logs; never the token
    scope: Scope = Scope()


@dataclass(frozen=True)
class TokenInfo:
    """A token as the file keeps it."""

    name: str
    role: str
    sha256: str
    expires: str  # ISO time with offset; "" never
    scope: Scope = Scope()


def allows(role: str, needed: str) -> bool:
    """Whether a role may do what needs another."""
    return needed in _GRANTS.get(role, frozenset())


class TokenBook:
    """The tokens of a service."""

    def __init__(self, path: str | Path, clock: Callable[[], datetime] | None = None) -> None:
        self.path = Path(path)
        self._clock = clock or (lambda: datetime.now(UTC))
        self._tokens: tuple[TokenInfo, ...] = ()
        self._mark: tuple[int, ...] = ()
        self._checked_at = 0.0
        self._problem = ""  # what was said last about a file that cannot be used
        self.reload()

    def reload(self) -> None:
        """Read the file again; what cannot be read, or can be read by others, is refused. Without a lock: a signal may
        ask for it in the midst of itself."""
        try:
            with regular_file(self.path) as file:
                status = os.fstat(file.fileno())
                if os.name == "posix" and stat.S_IMODE(status.st_mode) & 0o077:
                    raise RecordError(f"{self.path}: others may read it; chmod 600 it")
                content = tomllib.loads(file.read(_MOST_BYTES).decode("utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise RecordError(f"{self.path}: cannot be read ({error})") from error
        self._tokens, self._mark = _tokens_of(content, self.path), _file_mark(status)
        self._checked_at, self._problem = time.monotonic(), ""

    def find(self, text: str) -> Principal | None:
        """Whose token it is; None when it is nobody's, or has expired."""
        self._refresh()
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
        match: TokenInfo | None = None
        for token in self._tokens:  # all of them, so that the time taken says nothing
            if hmac.compare_digest(token.sha256, digest):
                match = token
        if match is None or (match.expires and not self._clock() < datetime.fromisoformat(match.expires)):
            return None
        return Principal(match.name, match.role, digest[:12], match.scope)

    def is_valid(self, principal: Principal) -> bool:
        """Whether a token that was recognised earlier still is: for sessions that outlive a request."""
        self._refresh()
        for token in self._tokens:
            if token.sha256.startswith(principal.token) and _is_same(token, principal):
                return not token.expires or self._clock() < datetime.fromisoformat(token.expires)
        return False

    def _refresh(self) -> None:
        if time.monotonic() - self._checked_at < _AGAIN_S:
            return
        try:
            if _file_mark(self.path.stat()) != self._mark:
                self.reload()
            self._checked_at = time.monotonic()
        except (OSError, RecordError) as error:
            # A file that is gone, half written or open to others: nobody is recognised until it is right again.
            self._tokens, self._mark = (), ()
            if str(error) != self._problem:  # once: everybody who asks is refused for it
                self._problem = str(error)
                _log.error("no token is accepted: %s", error)

    @property
    def problem(self) -> str:
        """Why nobody is recognised now; "" where the file can be used."""
        self._refresh()
        return self._problem

    def list(self) -> tuple[TokenInfo, ...]:
        self._refresh()
        return self._tokens

    def add(
        self, name: str, role: str, expires: str = "", plans: Sequence[str] = (), series: Sequence[str] = ()
    ) -> str:
        """A new token, for these plans and for series whose names begin so, or for all; its text is returned here and
        kept nowhere."""
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
        for field, texts in (("plans", plans), ("series", series)):
            if not all(x and x.isprintable() and len(x) <= 200 for x in texts):
                raise InputError(field, repr(list(texts))[:80], "printable names of at most 200 characters")
        text = _PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()
        with _file_lock(self.path):
            self.reload()
            if any(t.name == name for t in self._tokens):
                raise InputError("name", repr(name), "a name that no token has yet; revoke that one first")
            scope = Scope(tuple(plans), tuple(series))
            token = TokenInfo(name, role, hashlib.sha256(text.encode()).hexdigest(), expires, scope)
            self._write((*self._tokens, token))
        return text

    def revoke(self, name: str) -> None:
        with _file_lock(self.path):
            self.reload()
            others = tuple(t for t in self._tokens if t.name != name)
            if len(others) == len(self._tokens):
                raise InputError("name", repr(name), f"one of {', '.join(t.name for t in self._tokens) or 'none'}")
            self._write(others)

    def _write(self, tokens: tuple[TokenInfo, ...]) -> None:
        write_tokens(self.path, tokens)
        self.reload()


def _is_same(token: TokenInfo, principal: Principal) -> bool:
    return (token.name, token.role, token.scope) == (principal.name, principal.role, principal.scope)


def _file_mark(status: os.stat_result) -> tuple[int, ...]:
    """What is another one once a file was written or replaced, and when others may read it."""
    return status.st_dev, status.st_ino, status.st_ctime_ns, status.st_size


def _tokens_of(content: dict[str, Any], path: Path) -> tuple[TokenInfo, ...]:
    """What the file says, all of it: a misspelt `expires` would be a token without an end."""
    tables = content.get("token", [])
    if not isinstance(tables, list) or set(content) - {"token"}:
        raise RecordError(f"{path}: expected nothing but [[token]] tables, as `ucsearch service token` writes them")
    tokens = []
    for i, item in enumerate(tables):
        try:
            lists = {name: item.pop(name) for name in _LISTS & set(item)}
            if set(item) - _TEXTS or not all(isinstance(value, str) for value in item.values()):
                raise ValueError
            # An empty list would be a token for everything.
            if not all(isinstance(v, list) and v and all(isinstance(x, str) and x for x in v) for v in lists.values()):
                raise ValueError
            scope = Scope(tuple(lists.get("plans", ())), tuple(lists.get("series", ())))
            token = TokenInfo(item["name"], item["role"], item["sha256"], item.get("expires", ""), scope)
            is_valid = token.role in ROLES and re.fullmatch("[0-9a-f]{64}", token.sha256)
            if not is_valid or not token.name.strip() or not token.name.isprintable() or token.name.startswith(PROXIED):
                raise ValueError
            if token.expires and datetime.fromisoformat(token.expires).utcoffset() is None:
                raise ValueError
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RecordError(f"{path}: token {i + 1} is not one of `ucsearch service token`") from error
        tokens.append(token)
    return tuple(tokens)


@contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    """One process at a time changes the file: of two that do, one would bring back what the other revoked."""
    try:
        import fcntl
    except ImportError:  # not on this system; two at once are then the user's to avoid
        yield
        return
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)  # the lock itself: nothing is left behind
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        for tries_left in reversed(range(_TRIES)):
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not tries_left:
                    raise RecordError(f"{path}: another process is changing it; try again") from None
                time.sleep(_TRY_S)
            except OSError:  # a file system without locks
                break
        yield
    finally:
        os.close(folder)


def write_tokens(path: Path, tokens: tuple[TokenInfo, ...] = ()) -> None:
    """The whole file, its owner's alone to read; whoever writes it, it stays his to whom it belonged."""
    lines = ["# Tokens of the service, as hashes; written by `ucsearch service token`."]
    for t in tokens:
        lines += ["", "[[token]]", f"name = {json.dumps(t.name)}", f'role = "{t.role}"', f'sha256 = "{t.sha256}"']
        lines += [f'expires = "{t.expires}"'] if t.expires else []
        for field, texts in (("plans", t.scope.plans), ("series", t.scope.series)):
            lines += [f"{field} = {json.dumps(list(texts))}"] if texts else []
    check_owner(path)
    with whole_file(path, private=True) as file:
        file.write(("\n".join(lines) + "\n").encode("utf-8"))
