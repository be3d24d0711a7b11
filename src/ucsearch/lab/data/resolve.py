"""From a registry name to a checked file: an explicit folder, the UCSEARCH_DATA folder, or the cache.

An explicit folder is final: when the file is not there, nothing else is tried. Nothing is ever
downloaded unless the caller asks for it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from ucsearch.errors import DataError
from ucsearch.lab.data.records import ResolvedFile, Status
from ucsearch.lab.data.registry import Copy, DataFile, get_file

__all__ = ["CACHE_ENV", "DATA_ENV", "cache_folder", "fetch", "resolve", "resolve_optional", "sha256_of"]

DATA_ENV = "UCSEARCH_DATA"
CACHE_ENV = "UCSEARCH_CACHE"
RECORD_SUFFIX = ".sha256.json"
CHUNK = 1 << 20


def resolve(
    name: str | DataFile,
    *,
    data_dir: str | Path | None = None,
    download: bool = False,
    cache_dir: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> ResolvedFile:
    """Find a file, check it against what is known about it, and say where it came from."""
    file = get_file(name) if isinstance(name, str) else name
    places = _places(data_dir, cache_dir, environ)
    found = _search(file, places)
    if found is not None:
        return found
    if download and data_dir is None:
        return fetch(file, cache_dir=cache_dir, environ=environ)
    tried = " or ".join(f"{found_in} {folder}" for found_in, folder in places)
    raise DataError(f"{file.name}: not found in {tried}. {_what_to_do(file)}")


def resolve_optional(
    name: str,
    *,
    data_dir: str | Path | None = None,
    download: bool = False,
    cache_dir: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> ResolvedFile | None:
    """As `resolve`, but None for a file that is nowhere; one that is there and wrong is still an error."""
    file = get_file(name)
    found = _search(file, _places(data_dir, cache_dir, environ))
    if found is None and download and data_dir is None:
        return fetch(file, cache_dir=cache_dir, environ=environ)
    return found


def _places(
    data_dir: str | Path | None, cache_dir: str | Path | None, environ: Mapping[str, str] | None
) -> list[tuple[str, Path]]:
    env = os.environ if environ is None else environ
    if data_dir is not None:
        return [("data-dir", _existing_folder(Path(data_dir), "data_dir"))]
    places = []
    if env.get(DATA_ENV):
        places.append((DATA_ENV, _existing_folder(Path(env[DATA_ENV]), DATA_ENV)))
    places.append(("cache", cache_folder(cache_dir, env)))
    return places


def _search(file: DataFile, places: list[tuple[str, Path]]) -> ResolvedFile | None:
    for found_in, folder in places:
        for copy in file.copies:
            for relative in copy.paths:
                path = folder / relative
                if path.is_file():
                    return _checked(file, copy, path, found_in)
    return None


def fetch(
    file: DataFile, *, cache_dir: str | Path | None = None, environ: Mapping[str, str] | None = None
) -> ResolvedFile:
    """Download into the cache, check or record the hash."""
    source = next((copy for copy in file.copies if copy.url is not None), None)
    if source is None or source.url is None:
        raise DataError(f"{file.name}: there is no direct download address. {_what_to_do(file)}")
    try:
        import pooch
    except ImportError:
        raise DataError(f"{file.name}: downloading needs pooch: pip install pooch") from None
    folder = cache_folder(cache_dir, os.environ if environ is None else environ)
    target = folder / source.paths[0]
    target.parent.mkdir(parents=True, exist_ok=True)
    archive = None if source.member is None else folder / "archives" / source.url.rsplit("/", 1)[1]
    goal = target if archive is None else archive
    known = f"sha256:{source.sha256}" if archive is None and source.sha256 is not None else None
    pooch.get_logger().setLevel("WARNING")
    try:
        pooch.retrieve(source.url, known_hash=known, fname=goal.name, path=goal.parent, progressbar=False)
    except Exception as error:  # pooch raises whatever the transport raised
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"{file.name}: download of {source.url} failed: {reason}. Try again, or {_by_hand(file)}."
        ) from error
    if archive is not None and source.member is not None:
        _extract(archive, source.member, target)
    if source.sha256 is None:
        _record(target, source.url)
    return _checked(file, source, target, "cache")


def cache_folder(cache_dir: str | Path | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """Where downloads go: the argument, UCSEARCH_CACHE, or the system's cache folder for this user."""
    env = os.environ if environ is None else environ
    if cache_dir is not None:
        return Path(cache_dir)
    if env.get(CACHE_ENV):
        return Path(env[CACHE_ENV])
    base = env.get("XDG_CACHE_HOME") or env.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".cache") / "ucsearch"


def sha256_of(path: Path, *, unpack: bool = False) -> str:
    """SHA-256 of the bytes on disk, or of what a gzip file holds."""
    digest = hashlib.sha256()
    try:
        with gzip.open(path, "rb") if unpack else path.open("rb") as stream:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
    except (EOFError, zlib.error, OSError) as error:
        raise DataError(f"{path}: cannot be read to its end ({error}); fetch the file again") from error
    return digest.hexdigest()


def _checked(file: DataFile, copy: Copy, path: Path, found_in: str) -> ResolvedFile:
    seen = sha256_of(path)
    size = path.stat().st_size
    status: Status
    if copy.sha256 is not None:
        if seen != copy.sha256 and not _same_content(copy, path):
            if copy.bytes is not None and size < copy.bytes:
                what = f"saw {size:,} bytes, expected {copy.bytes:,}: the file is truncated"
            else:
                what = f"saw sha256 {seen[:16]}..., expected {copy.sha256[:16]}...: not the published file"
            raise DataError(f"{file.name}: {path}: {what}. {_what_to_do(file)}")
        status = "verified"
    else:
        record = path.with_name(path.name + RECORD_SUFFIX)
        status = "unverified"
        if record.is_file():
            expected = _recorded_hash(record)
            if seen != expected:
                raise DataError(
                    f"{file.name}: {path}: saw sha256 {seen[:16]}..., but {record.name} says "
                    f"{expected[:16]}...: the file has changed since its first download"
                )
            status = "recorded"
    return ResolvedFile(
        name=file.name,
        path=path,
        sha256=seen,
        bytes=size,
        status=status,
        found_in=found_in,
        layout=copy.layout,
        whole=copy.whole,
        note=copy.note,
    )


def _same_content(copy: Copy, path: Path) -> bool:
    if copy.content_sha256 is None:
        return False
    try:
        return sha256_of(path, unpack=True) == copy.content_sha256
    except DataError:
        return False


def _recorded_hash(record: Path) -> str:
    try:
        value = json.loads(record.read_text(encoding="utf-8"))["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{record}: not a hash record ({error!r}); delete it together with its file") from error
    return str(value)


def _record(path: Path, url: str) -> None:
    record = {
        "bytes": path.stat().st_size,
        "note": "no official hash is known: this is the one of the first download",
        "sha256": sha256_of(path),
        "url": url,
    }
    target = path.with_name(path.name + RECORD_SUFFIX)
    if target.is_file():
        return
    draft = target.with_name(target.name + ".part")
    draft.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    draft.replace(target)


def _extract(archive: Path, member: str, target: Path) -> None:
    try:
        with zipfile.ZipFile(archive) as packed:
            inside = [n for n in packed.namelist() if n.rsplit("/", 1)[-1] == member]
            if len(inside) != 1:
                raise DataError(f"{archive}: saw {len(inside)} files called {member!r}, expected one")
            draft = target.with_name(target.name + ".part")
            with packed.open(inside[0]) as source, draft.open("wb") as sink:
                shutil.copyfileobj(source, sink, CHUNK)
            draft.replace(target)
    except zipfile.BadZipFile as error:
        raise DataError(f"{archive}: not a readable zip file ({error}); delete it and try again") from error


def _existing_folder(folder: Path, what: str) -> Path:
    if not folder.is_dir():
        raise DataError(f"{what}: {folder} is not a folder")
    return folder


def _what_to_do(file: DataFile) -> str:
    if any(copy.url is not None for copy in file.copies):
        return f"Run `ucsearch data {file.name} --get`, or {_by_hand(file)}."
    return f"Get it by hand and {_by_hand(file)}."


def _by_hand(file: DataFile) -> str:
    where = " or ".join(copy.paths[0] for copy in file.copies)
    return f"put it at {where} in the folder that {DATA_ENV} names (origin: {file.origin})"
