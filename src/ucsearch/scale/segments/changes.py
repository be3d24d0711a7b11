"""How a row's members were recalibrated: the record's own words and blobs, as the text of the column `source`.

Of a recalibrated row the column holds canonical JSON {"blobs": {id: base64}, "recalibration": {...}}. Everything is by
step, so that a row holds the kept steps alone.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from ucsearch.errors import RecordError
from ucsearch.records.arrays import blob_id
from ucsearch.records.canonical import canonical, loads
from ucsearch.records.record import Recalibrated

__all__ = ["change_of", "change_text"]


def change_text(change: Recalibrated) -> str:
    blobs = {name: base64.b64encode(blob).decode("ascii") for name, blob in change.blobs.items()}
    return canonical({"blobs": blobs, "recalibration": change.part}).decode("utf-8")


def change_of(source: str, series: str) -> Recalibrated | None:
    """What the column says; None where members are as they were read."""
    if not source.startswith("{"):
        return None
    try:
        told: Any = loads(source.encode("utf-8"))
        blobs = {str(k): base64.b64decode(v, validate=True) for k, v in told["blobs"].items()}
        part = dict(told["recalibration"])
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, RecordError) as error:
        raise RecordError(f"series {series!r}: column source is no recalibration ({error})") from error
    if wrong := [name for name, blob in blobs.items() if blob_id(blob) != name]:
        raise RecordError(f"series {series!r}: column source has a blob that is not {wrong[0][:12]}")
    return Recalibrated(part, blobs)
