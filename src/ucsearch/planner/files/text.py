"""Text files as people have them: packed by gzip or not, in UTF-8, the UTF-16 of spreadsheets or Windows-1252; anything
else is refused by what it is. What is read is watched, so that a small packed file cannot fill the memory."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from functools import lru_cache
from pathlib import Path
from typing import IO, cast

from ucsearch.errors import DataError

__all__ = ["BROKEN", "TEXTS", "broken", "encoding_like", "foreign", "is_packed", "open_text"]

TEXTS = (".csv", ".tsv", ".txt")
BROKEN = (OSError, EOFError, zlib.error)  # gzip has its own ways to say that a file was cut off
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_UNPACKED = 256 << 20  # bytes up to which a packed file may be as small as it likes
_PACKED_BY = 200  # times that tables are packed by at most; most by 5 to 30
_PIECE = 1 << 18
_KINDS = (
    (b"\x1f\x8b", "data packed by gzip", "call it .csv.gz, or unpack it"),
    (b"PK\x03\x04", "a zip archive or a spreadsheet", "save the sheet as CSV UTF-8, or unpack the archive"),
    (b"\xd0\xcf\x11\xe0", "an old spreadsheet", "save the sheet as CSV UTF-8"),
    (b"PAR1", "a Parquet file", "call it .parquet"),
    (b"SQLite format 3", "a database", "export the table as CSV"),
    (b"%PDF", "a PDF", "export the table as CSV"),
)
_MARKUP = (b"<html", b"<!doctype", b"<table", b"<?xml", b"<meta", b"<div")


def is_packed(path: Path) -> bool:
    """A text in gzip's format, by its name (sales.csv.gz); read as it is, never written."""
    return path.suffix.lower() == ".gz" and path.with_suffix("").suffix.lower() in TEXTS


class _Watched(io.RawIOBase):
    """The bytes of a file as they are asked for, refused where they can be no table."""

    def __init__(self, path: Path) -> None:
        self.path, self.packed = path, is_packed(path)
        opened = gzip.GzipFile(path, "rb") if self.packed else path.open("rb")
        self.inner = cast(IO[bytes], opened)
        self.most = max(_UNPACKED, _PACKED_BY * path.stat().st_size) if self.packed else None
        self.size = self.lines = 0
        self.wide = False  # two bytes a character

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        piece = self.inner.read(min(len(buffer), _PIECE))
        if not self.size:
            self.wide = piece.startswith(_UTF16)
            if (said := foreign(piece, self.packed)) is not None:
                raise DataError(f"{self.path}: {said}")
        self.size += len(piece)
        if self.most is not None and self.size > self.most:
            raise DataError(
                f"{self.path}: saw more than {self.most >> 20} MB unpacked, over {_PACKED_BY} times its size, expected "
                "a table; unpack it yourself (gunzip) if it is one"
            )
        if not self.wide and (at := piece.find(b"\0")) >= 0:
            line = self.lines + piece.count(b"\n", 0, at) + 1
            raise DataError(f"{self.path}: line {line}: saw a NUL character, expected a text in UTF-8{_SAVE}")
        self.lines += piece.count(b"\n")
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        if not self.closed:
            self.inner.close()
        super().close()


_SAVE = "; save it as UTF-8 (in a spreadsheet: CSV UTF-8)"


def foreign(head: bytes, packed: bool = False) -> str | None:
    """What a file that begins so is instead of a text, and what to do; None for what may be a text."""
    for mark, seen, mend in _KINDS:
        if head.startswith(mark):
            if packed:
                return f"saw {seen} inside what gzip packed, expected a text; unpack it first"
            return f"saw {seen}, expected a text; {mend}"
    if head[:256].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_MARKUP):
        return "saw a web page or XML, expected a table; open it in your spreadsheet and save it as .xlsx or CSV"
    return None


def open_bytes(path: Path) -> IO[bytes]:
    return io.BufferedReader(_Watched(path), _PIECE)


def open_text(path: Path) -> IO[str]:
    """The text of a file, line ends kept. UTF-16 is told by its first two bytes; Windows-1252 is taken where a file is
    no UTF-8 and no character of it beyond ASCII is."""
    file = open_bytes(path)
    try:
        wide = cast(io.BufferedReader, file).peek(2)[:2] in _UTF16
    except BaseException:
        file.close()
        raise
    return io.TextIOWrapper(file, encoding="utf-16" if wide else _encoding(path), newline="")


def _encoding(path: Path) -> str:
    try:
        known = path.stat()
        return _encoding_of(path, known.st_mtime_ns, known.st_size)
    except (DataError, *BROKEN):  # whoever reads it says what is wrong
        return "utf-8-sig"


@lru_cache(maxsize=64)
def _encoding_of(path: Path, changed: int, size: int) -> str:
    """UTF-8, or cp1252 where that alone can be meant. A damaged UTF-8 file, which has other characters that are right,
    stays UTF-8 and is refused where it is damaged."""
    utf8 = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    windows = codecs.getincrementaldecoder("cp1252")()
    strange = False
    with open_bytes(path) as file:
        while True:
            piece = file.read(_PIECE)
            if strange or not piece.isascii() or utf8.getstate()[0]:
                text = utf8.decode(piece, final=not piece)
                if any(x >= "\x80" and not "\udc80" <= x <= "\udcff" for x in text if not x.isascii()):
                    return "utf-8-sig"
                strange = strange or any(not x.isascii() for x in text)
                try:
                    windows.decode(piece)
                except UnicodeDecodeError:
                    return "utf-8-sig"
            if not piece:
                return "cp1252" if strange else "utf-8-sig"


def encoding_like(path: Path) -> str:
    """How a text is written for people who have that file: UTF-8, with the mark by which spreadsheets know it where
    theirs has one too, or where theirs is no UTF-8, so that their spreadsheet takes no text without a mark for it."""
    if is_packed(path):
        return "utf-8"
    with path.open("rb") as file:
        head = file.read(len(codecs.BOM_UTF8))
    marked = head == codecs.BOM_UTF8 or head[:2] in _UTF16
    return "utf-8-sig" if marked or _encoding(path) == "cp1252" else "utf-8"


def broken(path: Path, error: Exception) -> DataError:
    """Any way in which reading can go wrong, in one line."""
    if isinstance(error, UnicodeDecodeError):
        return DataError(f"{path}: line {_line_of(path)}: not a text in UTF-8{_SAVE}")
    if isinstance(error, gzip.BadGzipFile) and "Not a gzipped" in str(error):
        with path.open("rb") as file:
            head = file.read(16)
        said = foreign(head)
        if head.startswith(_KINDS[0][0]):
            return DataError(f"{path}: saw something else after the packed data, expected its end; pack it again")
        return DataError(f"{path}: {said}" if said else f"{path}: saw data that gzip did not pack; call it .csv")
    if isinstance(error, (EOFError, gzip.BadGzipFile, zlib.error)):
        return DataError(f"{path}: saw packed data that is cut off or damaged ({error}); copy or pack the file again")
    return DataError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})")


def _line_of(path: Path) -> int:
    """The first line that is not UTF-8, for a message."""
    with open_bytes(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8-sig")
            except UnicodeDecodeError:
                return number
    return 1
