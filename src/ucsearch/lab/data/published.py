"""What is known of a published file: in which forms it is accepted, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NONE_STATED", "RAW", "Copy", "DataFile"]

RAW = "https://raw.githubusercontent.com"
NONE_STATED = "none stated"


@dataclass(frozen=True, slots=True)
class Copy:
    """One form in which a file is accepted."""

    paths: tuple[str, ...]  # relative to the data folder, "/" separated; the first is where a download goes
    layout: str
    sha256: str | None = None  # of the bytes on disk
    bytes: int | None = None
    content_sha256: str | None = None  # of the unpacked text, for .gz files packed by somebody else
    url: str | None = None
    member: str | None = None  # file name inside the archive that `url` is
    whole: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A published file by its name here, such as `ett/ETTh1` or `m4/hourly/train`."""

    name: str  # data set, then file, with "/" between
    licence: str  # as its publisher states it
    origin: str  # who published it, and where
    copies: tuple[Copy, ...]  # in order of preference: whole copies first

    @property
    def dataset(self) -> str:
        return self.name.split("/", 1)[0]
