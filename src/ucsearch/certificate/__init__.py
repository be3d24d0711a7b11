"""Certificates: what is proved about a searched first action, and what is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ucsearch.certificate.certificate import Certificate, CertifiedPanel
else:
    from ucsearch.lazy import lazy_names

    __getattr__, __dir__ = lazy_names(__name__, {"Certificate": "certificate", "CertifiedPanel": "certificate"})

__all__ = ["Certificate", "CertifiedPanel"]
