"""What a service stands on besides its settings: an address, a certificate, folders that can be written."""

from __future__ import annotations

import os
import socket
import ssl
from contextlib import suppress
from pathlib import Path

from ucsearch.errors import InputError, RecordError
from ucsearch.service.config import Config

__all__ = ["check_address", "check_certificate", "check_folders", "raise_open_files", "taken"]


def check_address(config: Config) -> None:
    """Before kernels are compiled and the log is opened: whether the address can be listened to."""
    hint = "Stop what listens there, or take another one: server.bind in service.toml, or --bind ADDRESS:PORT."
    if seen := taken(config.server.host, config.server.port):
        raise InputError(
            "server.bind", f"{config.server.bind} ({seen})", "an address and port that are free", hint=hint
        )


def taken(host: str, port: int) -> str:
    """Why nobody can listen there; "" where one can."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as trial:
            if os.name == "posix":  # as the server itself does
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except OSError as error:
        return str(error.strerror or error)
    return ""


def raise_open_files() -> None:
    """Raise the limit of open files as far as the system allows: each connection is one, and so is the log."""
    try:
        import resource
    except ImportError:  # not on this system, nor the limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # some systems have another limit that they do not tell
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else max(soft, 65_536), hard)
        )


def check_certificate(config: Config, folder: Path) -> None:
    """Whether certificate and key can be read, and belong together."""
    server = config.server
    if not server.tls_cert:
        return
    for field, name in (("server.tls_cert", server.tls_cert), ("server.tls_key", server.tls_key)):
        try:
            (folder / name).read_bytes()
        except OSError as error:
            raise InputError(field, f"{folder / name} ({error.strerror})", "a file that can be read") from error
    try:
        # Somebody who is asked for a password would wait for ever.
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
            folder / server.tls_cert, folder / server.tls_key, password=""
        )
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        expected = "a certificate and its key in PEM, without a password"
        raise InputError("server.tls_cert", f"{server.tls_cert} and {server.tls_key} ({error})", expected) from error


def check_folders(config: Config, folder: Path) -> str:
    """Raise where the log cannot be written by whoever asks; returns what else cannot, "" where all can."""
    store = config.store
    if not store.is_postgres:
        log = folder / store.log
        for path in (log, *log.parent.glob(f"{log.name}-*"), _nearest(log.parent)):
            if os.path.exists(path) and not os.access(path, os.W_OK):
                raise RecordError(f"{path}: it cannot be written, so nothing can be recorded")
    kept = _nearest((folder / store.checkpoint).parent)
    return "" if os.access(kept, os.W_OK) else f"{kept}: it cannot be written, so there will be no checkpoints"


def _nearest(folder: Path) -> Path:
    """The folder, or the one in which it would be made."""
    while not os.path.exists(folder) and folder != folder.parent:
        folder = folder.parent
    return folder
