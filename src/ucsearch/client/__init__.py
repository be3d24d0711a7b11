"""A typed client of the decision service: decisions, overrides, outcomes, from records or data frames, sync and async.

    from ucsearch.client import Client

    with Client("http://127.0.0.1:8411", token) as client:
        answers = client.decide("orders", [Item("SKU-1", {"on_hand": 3.0}, Forecast(members=[[4.0, 6.0], [7.0, 9.0]]))])

Every request that writes carries an idempotency key, so that it can be sent again after any failure without being done
twice. It needs httpx (extra `ucsearch[service]`).
"""

from ucsearch.client.async_client import AsyncClient
from ucsearch.client.client import Client
from ucsearch.client.frames import items_of, outcomes_of
from ucsearch.client.transport import Retry, ServiceProblem, ServiceUnreachable
from ucsearch.client.types import Answer, Forecast, Item, Outcome, Page, Receipt

__all__ = [
    "Answer",
    "AsyncClient",
    "Client",
    "Forecast",
    "Item",
    "Outcome",
    "Page",
    "Receipt",
    "Retry",
    "ServiceProblem",
    "ServiceUnreachable",
    "items_of",
    "outcomes_of",
]
