"""Public data sets in their own formats, checked against published counts and hashes."""

from ucsearch.lab.data.embedded import SampleState, sample_demand, sample_states
from ucsearch.lab.data.ett import ETT_COLUMNS, ETT_NAMES, load_ett
from ucsearch.lab.data.gefcom import GEFCOM_COLUMNS, load_gefcom_price
from ucsearch.lab.data.lob import load_fi2010, load_lobster, read_fi2010, read_lobster
from ucsearch.lab.data.ltsf import LTSF_SETS, load_ltsf
from ucsearch.lab.data.m4 import M4_FREQUENCIES, load_m4, load_m4_daily_tails
from ucsearch.lab.data.m5 import M5_STORES, load_m5
from ucsearch.lab.data.records import FI2010, Finding, LoadReport, OrderBook, ResolvedFile, Series, SeriesSet, Table
from ucsearch.lab.data.registry import FILES, DataFile, datasets, find
from ucsearch.lab.data.resolve import fetch, resolve

__all__ = [
    "ETT_COLUMNS",
    "ETT_NAMES",
    "FI2010",
    "FILES",
    "GEFCOM_COLUMNS",
    "LTSF_SETS",
    "M4_FREQUENCIES",
    "M5_STORES",
    "DataFile",
    "Finding",
    "LoadReport",
    "OrderBook",
    "ResolvedFile",
    "SampleState",
    "Series",
    "SeriesSet",
    "Table",
    "datasets",
    "fetch",
    "find",
    "load_ett",
    "load_fi2010",
    "load_gefcom_price",
    "load_lobster",
    "load_ltsf",
    "load_m4",
    "load_m4_daily_tails",
    "load_m5",
    "read_fi2010",
    "read_lobster",
    "resolve",
    "sample_demand",
    "sample_states",
]
