"""Records of decisions and the log that keeps them: canonical bytes, blobs, hash chain, audit log.

`canonical` the function stays in `ucsearch.records.canonical`: exported here it would hide its module.
"""

from typing import TYPE_CHECKING, Any

from ucsearch.records.canonical import (
    blob_id,
    blob_ref,
    decode_array,
    decode_number,
    digest,
    encode_array,
    encode_number,
    loads,
    record_id,
    seal,
)
from ucsearch.records.chain import ChainReport, Checkpoint
from ucsearch.records.entries import Effective, Entry, Request, RequestTaken, Row, Sealed
from ucsearch.records.log import AuditLog, AuditReader

__all__ = [
    "AuditLog",
    "AuditReader",
    "ChainReport",
    "Checkpoint",
    "Effective",
    "Entry",
    "Request",
    "RequestTaken",
    "Row",
    "Sealed",
    "blob_id",
    "blob_ref",
    "decision_record",
    "decode_array",
    "decode_number",
    "digest",
    "encode_array",
    "encode_number",
    "loads",
    "record_id",
    "seal",
]


if TYPE_CHECKING:
    from ucsearch.records.record import decision_record
else:

    def __getattr__(name: str) -> Any:
        """Loaded when asked for: who reads records need not load what makes decisions."""
        if name != "decision_record":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from ucsearch.records.record import decision_record

        return decision_record
