"""`service.toml`: where the service listens, where it writes, its limits and its plans. Unknown keys are refused."""

from __future__ import annotations

import ipaddress
import json
import re
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ucsearch.decision.gate import Gate
from ucsearch.errors import InputError, UCSearchError
from ucsearch.monitor import Settings as Watching
from ucsearch.monitor import Watch
from ucsearch.service.schemas import MOST_ITEMS

__all__ = [
    "Backup",
    "Config",
    "ConfigError",
    "Limits",
    "MonitorTable",
    "PlanTable",
    "Retention",
    "Rotation",
    "Server",
    "Store",
    "Webhook",
    "load_config",
]

FILE = "service.toml"
_CENTURY_S = 3.2e9  # longer times end after the calendar does
_SCHEME = re.compile(r"[a-z0-9+.-]+://|postgres(ql)?:", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")


class ConfigError(InputError):
    """Everything wrong with the file, one line each."""

    def __init__(self, lines: list[str]) -> None:
        UCSearchError.__init__(self, "\n".join(lines))
        self.lines = tuple(lines)
        self.field, self.index, self.seen, self.expected = "service.toml", None, "", ""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Server(_Table):
    """Where it listens and whom it believes."""

    bind: str = Field(default="127.0.0.1:8411", description="address and port")
    admin_bind: str = Field(
        default="127.0.0.1:8412",
        description="address and port of /healthz, /readyz and /metrics; the last one needs a viewer's token off "
        "loopback",
    )
    hosts: tuple[str, ...] = Field(
        default=("127.0.0.1", "localhost", "[::1]"), description="allowed Host headers, without port"
    )
    tls_cert: str = Field(default="", description="certificate chain, PEM; needed off loopback")
    tls_key: str = Field(default="", description="its private key, PEM")
    proxy_user_header: str = Field(
        default="", description="header in which a proxy names the user it has logged in, such as X-Remote-User"
    )
    proxies: tuple[str, ...] = Field(default=(), description="addresses from which that header is believed")
    proxy_role: Literal["viewer", "operator"] = Field(default="viewer", description="role of users named by the proxy")
    proxy_groups_header: str = Field(
        default="", description="header in which the proxy names the user's groups, separated by commas"
    )
    proxy_groups: dict[str, Literal["viewer", "operator", "admin"]] = Field(
        default={}, description="role of a group's members; of several groups the highest; of none proxy_role"
    )

    @property
    def on_loopback(self) -> bool:
        return is_loopback(host_of(self.bind))

    @model_validator(mode="after")
    def _check_addresses(self) -> Server:
        for field, text in (("bind", self.bind), ("admin_bind", self.admin_bind)):
            host, _, port = text.rpartition(":")
            if not host or not port.isdecimal() or not int(port) < 65536:
                raise ValueError(f"{field}: saw {text!r}, expected an address and a port, such as 127.0.0.1:8411")
        if self.bind == self.admin_bind and port_of(self.bind):
            raise ValueError(f"admin_bind: saw {self.admin_bind!r}, expected another port than bind")
        for name in self.hosts or ("",):  # others would be compared for ever, and everybody refused
            if _HOST.fullmatch(name) is None:
                raise ValueError(f"hosts: saw {name!r}, expected names without scheme and port, IPv6 as '[::1]'")
        if bool(self.tls_cert) != bool(self.tls_key):
            raise ValueError("tls_cert and tls_key: expected both or neither")
        if self.proxy_user_header and not self.proxies:
            raise ValueError("proxies: saw none, expected the addresses from which proxy_user_header is believed")
        for text in self.proxies:
            ipaddress.ip_network(text)
        if bool(self.proxy_groups_header) != bool(self.proxy_groups):
            raise ValueError("proxy_groups_header and proxy_groups: expected both or neither")
        if self.proxy_groups_header and not self.proxy_user_header:
            raise ValueError("proxy_groups_header: saw it alone, expected proxy_user_header beside it")
        if not self.on_loopback and not self.tls_cert and not self.proxy_user_header:
            raise ValueError(
                f"bind: saw {self.bind!r}, expected a loopback address: others need tls_cert and tls_key, or a proxy "
                "(proxy_user_header and proxies)"
            )
        return self


def host_of(bind: str) -> str:
    """The address of an address and port."""
    return bind.rpartition(":")[0].strip("[]")


def port_of(bind: str) -> int:
    return int(bind.rpartition(":")[2])


def is_loopback(host: str) -> bool:
    """Whether an address is one of this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Store(_Table):
    """Where decisions are written."""

    log: str = Field(default="log/decisions.db", description="file of the log, or postgresql://...")
    checkpoint: str = Field(
        default="checkpoint/decisions.json", description="kept outside the log's folder; the log must confirm it"
    )
    checkpoint_every: int = Field(default=1_000, ge=1, description="entries between checkpoints")
    wal_autocheckpoint: int = Field(default=1_000, ge=0, description="SQLite: pages; 0 where Litestream does it")
    max_pages: int | None = Field(default=None, ge=1, description="SQLite: upper limit of the file's size")
    least_free_bytes: int = Field(default=256 << 20, ge=0, description="below this nothing is accepted any more")

    @property
    def is_postgres(self) -> bool:
        return self.log.startswith(("postgresql://", "postgres://"))

    @field_validator("log")
    @classmethod
    def _check_log(cls, value: str) -> str:
        if not value.startswith(("postgresql://", "postgres://")) and _SCHEME.match(value):
            raise ValueError("expected a file, or postgresql://user@host/database")
        return value


class Backup(_Table):
    """Copies of the log, taken while the service runs."""

    folder: str = Field(default="", description="where copies are put; none are taken without one")
    every_h: float = Field(default=24.0, gt=0.0, le=8_760.0, description="hours between two copies")
    keep: int = Field(default=14, ge=1, description="copies; older ones are deleted")


class Rotation(_Table):
    """When the log continues in another file (SQLite)."""

    entries: int = Field(default=0, ge=0, description="of a file, after which the next one is begun; 0: never")


class Retention(_Table):
    """How long what was recorded is kept."""

    days: float = Field(
        default=0.0, ge=0.0, le=36_525.0, description="after which contents of entries are erased; 0: never"
    )


Event = Literal["tripped", "rearmed", "hold", "paused", "resumed", "log_altered", "backup_failed"]


class Webhook(_Table):
    """An address that is told what a person should know."""

    url: str = Field(description="http:// or https://")
    secret_file: str = Field(description="file with the secret that messages are signed with; mode 0600")
    events: tuple[Event, ...] = Field(default=("tripped", "hold", "log_altered", "backup_failed"), min_length=1)

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        if not re.match(r"https?://[^/@\s]+(/\S*)?$", value):
            raise ValueError("expected http:// or https://, a host, and no user or password")
        return value


class Limits(_Table):
    """What a request may ask for."""

    body_bytes: int = Field(default=2 << 20, ge=1024, description="of a request's body, counted while it is read")
    items: int = Field(default=500, ge=1, le=MOST_ITEMS)
    members: int = Field(default=4_096, ge=1)
    steps: int = Field(default=512, ge=1)
    numbers: int = Field(default=65_536, ge=1, description="members x steps of one item")
    series_length: int = Field(default=200, ge=1, le=1_000, description="characters of a series' name")
    body_s: float = Field(default=10.0, gt=0)
    request_s: float = Field(default=30.0, gt=0)
    held_bytes: int = Field(
        default=16 << 20,
        ge=1 << 20,
        description="of large bodies, from the first byte to the answer; a token has at most half of it; more is 503",
    )
    queue_items: int = Field(default=512, ge=1)
    queue_s: float = Field(default=0.15, gt=0, description="what is not answered yet may take so long, else 503")
    batch_items: int = Field(default=64, ge=1, description="decided and committed together")
    per_token: float = Field(default=50.0, gt=0, description="requests a second")
    per_agent: float = Field(default=500.0, gt=0, description="requests a second of a token with role agent")
    logins: int = Field(
        default=10, ge=1, description="failed logins a minute from one address; a right token always gets in"
    )


class MonitorTable(_Table):
    """The calibration monitor of a plan."""

    max_undercoverage: float | None = Field(
        default=None, ge=0.0, description="tolerated; else gate.max_undercoverage of the plan's settings, else 0.035"
    )
    watch: Watch = "both"
    within: int = Field(default=5_000, ge=1)
    alpha: float = Field(default=0.01, gt=0.0, lt=1.0)
    lags: int = Field(default=1, ge=1, le=64, description="steps whose sum is the target; 1: the next period")
    probation: int = Field(default=50, ge=1)
    calm: float = Field(default=1_000.0, gt=0.0)
    max_overdue: float | None = Field(
        default=None, ge=0.0, description="maximum number of missing outcomes; none: no limit"
    )
    grace_s: float = Field(
        default=86_400.0, ge=0.0, le=_CENTURY_S, description="after which a missing outcome is overdue"
    )

    def watching(self, gate: Gate | None = None) -> Watching:
        """What it watches by, where the plan's settings have this gate."""
        names = ("watch", "within", "alpha", "lags", "probation", "calm")
        tolerated = self.max_undercoverage
        if tolerated is None and gate is not None:
            tolerated = gate.max_undercoverage
        tolerance: dict[str, Any] = {} if tolerated is None else {"max_undercoverage": tolerated}
        return Watching(**tolerance, **{name: getattr(self, name) for name in names})


class PlanTable(_Table):
    """A settings file under a name."""

    name: str
    settings: str = Field(description="file, as for `ucsearch decide`")
    task: str | None = Field(default=None, description="a task of your own, 'package:object'")
    valid_for_s: float = Field(
        default=86_400.0, gt=0.0, le=_CENTURY_S, description="how long a decision may be followed"
    )
    allow_plain: bool = Field(default=False, description="decide without compiled kernels where they cannot be made")
    shapes: tuple[dict[str, int | float | str], ...] = Field(
        default=(), description="parameters that states may name, such as {lead_time = 3}: compiled before the start"
    )
    monitor: MonitorTable | None = None

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str) -> str:
        if _NAME.fullmatch(value) is None:
            raise ValueError("expected letters, digits, '.', '_' and '-', at most 64")
        return value


class Config(_Table):
    """The whole file."""

    server: Server = Server()
    store: Store = Store()
    limits: Limits = Limits()
    backup: Backup = Backup()
    rotation: Rotation = Rotation()
    retention: Retention = Retention()
    webhook: tuple[Webhook, ...] = ()
    plan: tuple[PlanTable, ...] = ()

    @model_validator(mode="after")
    def _check_plans(self) -> Config:
        names = [p.name for p in self.plan]
        if twice := sorted({n for n in names if names.count(n) > 1}):
            raise ValueError(f"plan: saw {twice[0]!r} twice, expected each name once")
        if self.rotation.entries and self.store.is_postgres:
            raise ValueError(
                "rotation.entries: saw it with a log in PostgreSQL, expected 0; "
                "docs/how-to/service-operations.md says how"
            )
        return self


def load_config(
    folder: str | Path, *, store: str | None = None, bind: str | None = None, admin_bind: str | None = None
) -> tuple[Config, Path]:
    """The configuration in a folder (or its file), and the folder that its paths are relative to. `store` replaces
    where the log is, `bind` and `admin_bind` the addresses."""
    place = Path(folder)
    path = place / FILE if place.is_dir() else place
    try:
        content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read ({error.strerror}); `ucsearch service init` makes one"]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: not valid TOML: {error}"]) from error
    for name, key, value in (("store", "log", store), ("server", "bind", bind), ("server", "admin_bind", admin_bind)):
        table = content.setdefault(name, {}) if value is not None else None
        if isinstance(table, dict):
            table[key] = value
    try:
        config = Config.model_validate_json(json.dumps(content, default=str), strict=True)
    except ValidationError as error:
        raise ConfigError([f"{path}: {_line(e)}" for e in error.errors()]) from error
    if not config.store.is_postgres:
        log, mark = (path.parent / config.store.log).absolute(), (path.parent / config.store.checkpoint).absolute()
        if log.parent == mark.parent:
            raise ConfigError([f"{path}: store.checkpoint: saw it beside the log, expected it in another folder"])
    return config, path.parent


def _line(error: Any) -> str:
    place = ".".join(str(x) for x in error["loc"])
    # An address may hold a password.
    hidden = isinstance(error["input"], dict | list) or _SCHEME.match(str(error["input"])) is not None
    shown = "" if hidden else f" (saw {error['input']!r})"
    return f"{place}: {error['msg']}{shown}" if place else f"{error['msg']}"
