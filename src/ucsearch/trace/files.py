"""A trace in a file: whole or not at all, refused when its content does not match."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.trace.law import Declared
from ucsearch.trace.members import ARRAYS, freeze, freeze_nodes

if TYPE_CHECKING:
    from ucsearch.trace.trace import Trace

__all__ = ["load_trace", "save_trace"]

_MOST = 1 << 30  # bytes that any file may unpack to
_TIMES = 100  # its own size, which a larger one may unpack to


def save_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write an .npz file, whole or not at all."""
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".trace-", suffix=".npz")
    try:
        with os.fdopen(handle, "wb") as stream:
            np.savez_compressed(
                stream, members=trace.members, weights=trace.weights, mean=trace.mean, q=trace.q, u=trace.u,
                node=np.zeros(0) if trace.node is None else trace.node,
                meta=np.array(json.dumps({**trace.meta(), "panel": trace.panel, "hash": trace.hash})),
            )  # fmt: skip
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load_trace(path: str | os.PathLike[str], made: Callable[..., Trace]) -> Trace:
    """Read what `save_trace` wrote; a file whose content does not match its hash is refused."""
    try:
        with np.load(path, allow_pickle=False) as file:
            _unpacks_to(sum(part.file_size for part in file.zip.infolist()), os.path.getsize(path))
            meta = json.loads(str(file["meta"]))
            arrays = [freeze(_of_kind(file[name], "f8").astype(np.float64)) for name in ARRAYS]
            node = file["node"] if "node" in file.files else np.zeros(0)
        nodes = freeze_nodes(_of_kind(node, "i8")) if node.size else None
        unread = made(
            *arrays, meta["panel"], meta["coupling"], meta["model"],
            tuple(meta["cutoff"]), tuple(meta["issued"]), tuple(meta["notes"]), Declared.read(meta.get("law", {})),
            nodes,
        )  # fmt: skip
        recorded = str(meta["hash"])
        content = unread.hash
    except FileNotFoundError:
        raise
    except Exception as error:
        seen = f"{path} ({type(error).__name__}: {error})"
        raise InputError("trace file", seen, "a file written by Trace.save") from None
    if content != recorded:
        raise InputError("trace file", f"content hash {content[:12]}", f"{recorded[:12]} as recorded")
    try:
        unread.check()  # a hash says that nothing was changed, not that it was right
    except Exception as error:
        raise InputError("trace file", f"{path} ({error})", "a file written by Trace.save") from None
    return unread


def _unpacks_to(size: int, packed: int) -> None:
    """A megabyte of zeros packed a thousand times would be a gigabyte of memory before anybody could look at it."""
    if size > max(_MOST, _TIMES * packed):
        raise ValueError(f"{packed:,} bytes unpack to {size:,}")


def _of_kind(array: NDArray[Any], kind: str) -> NDArray[Any]:
    """Numbers as `save_trace` writes them, in any order of bytes: the hash takes all for doubles, so what is narrower
    or longer than it looks would go unseen."""
    if array.dtype.str[1:] != kind:
        raise ValueError(f"numbers of kind {array.dtype}, not {kind}")
    return array
