"""The public files we know: where they lie in a data folder, their hashes, licence, origin and address.

A hash is present where a whole copy was at hand when this list was written. Where none was, the first
download writes down what it got (see `resolve`) and later reads are held to that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ucsearch.errors import DataError

__all__ = ["FILES", "Copy", "DataFile", "datasets", "fi2010_name", "find", "get_file"]

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


# -------------------------------------------------------------------- long-horizon forecasting: ETT and LTSF

ETT_COMMIT = "1d16c8f4f943005d613b5bc962e9eeb06058cf07"
LTSF_COMMIT = "0045b460bd65c402f91e738b4b5ac826433b00b0"

# name: (sha256 and bytes of the .gz, sha256 and bytes of the CSV in it)
_ETT_FILES = {
    "ETTh1": (
        ("3c56c865b8f6fc9b760a07f055ff8a993d3cf2a747235dc382b98821ed35f029", 405540),
        ("f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066", 2589657),
    ),
    "ETTh2": (
        ("a549927e8cd45bd1c20a8ec51529cd037bf6da38fe37c2ba3dc0e9c8446d6cb5", 428740),
        ("a3dc2c597b9218c7ce1cd55eb77b283fd459a1d09d753063f944967dd6b9218b", 2417960),
    ),
    "ETTm1": (
        ("ca45123028f1acad120b5f971ca64594746aa9b881d56cdff589ee9aa6cdbd8f", 1551162),
        ("6ce1759b1a18e3328421d5d75fadcb316c449fcd7cec32820c8dafda71986c9e", 10360719),
    ),
    "ETTm2": (
        ("40da2dc79c8f7140eab4f3456debdf85fe8baca5d626280f1ba50181be8ae4ed", 1520942),
        ("db973ca252c6410a30d0469b13d696cf919648d0f3fd588c60f03fdbdbadd1fd", 9677236),
    ),
}


def _ett() -> Iterable[DataFile]:
    for name, (packed, plain) in _ETT_FILES.items():
        yield DataFile(
            name=f"ett/{name}",
            licence="CC BY-ND 4.0",
            origin="zhouhaoyi/ETDataset",
            copies=(
                Copy(
                    paths=(f"ett/{name}.csv", f"ETT-small/{name}.csv", f"{name}.csv"),
                    layout="csv",
                    sha256=plain[0],
                    bytes=plain[1],
                    url=f"{RAW}/zhouhaoyi/ETDataset/{ETT_COMMIT}/ETT-small/{name}.csv",
                ),
                Copy(
                    paths=(f"ett/{name}.csv.gz",),
                    layout="csv",
                    sha256=packed[0],
                    bytes=packed[1],
                    content_sha256=plain[0],
                ),
            ),
        )


def _ltsf() -> Iterable[DataFile]:
    packed_at = "aspire-zero/long_term_forecast_data"
    matrix = f"{RAW}/laiguokun/multivariate-time-series-data/master"

    def archived(name: str, plain: str, size: int, packed: str, packed_size: int) -> tuple[Copy, Copy]:
        return (
            Copy(
                paths=(f"ltsf/{name}.csv", f"{name}/{name}.csv", f"{name}.csv"),
                layout="ltsf-csv",
                sha256=plain,
                bytes=size,
                url=f"{RAW}/{packed_at}/{LTSF_COMMIT}/{name}.zip",
                member=f"{name}.csv",
            ),
            Copy(
                paths=(f"ltsf/{name}.csv.gz",),
                layout="ltsf-csv",
                sha256=packed,
                bytes=packed_size,
                content_sha256=plain,
            ),
        )

    def full(name: str) -> tuple[Copy, Copy]:
        return (
            Copy(paths=(f"ltsf/{name}.csv", f"{name}/{name}.csv", f"{name}.csv"), layout="ltsf-csv"),
            Copy(
                paths=(f"ltsf/{name}.txt.gz", f"{name}/{name}.txt.gz", f"{name}.txt.gz"),
                layout="matrix-txt",
                url=f"{matrix}/{name}/{name}.txt.gz",
            ),
        )

    yield DataFile(
        "ltsf/weather",
        NONE_STATED,
        f"Max Planck Institute for Biogeochemistry, LTSF packaging; read from {packed_at}",
        archived(
            "weather",
            "34ee981d07313e51da2a50bb600072c8ae4a69cb4b0651f4cb93a069d7a2ba63",
            7235425,
            "a08c6d04be34805e0167e75461d7cc6a565f81ca3296f43cc154ce9cbcf9027c",
            2275195,
        ),
    )
    yield DataFile(
        "ltsf/exchange_rate",
        NONE_STATED,
        f"laiguokun/multivariate-time-series-data, LTSF packaging; read from {packed_at}",
        (
            *archived(
                "exchange_rate",
                "48b4d9d3d508f5104162e85b9a6042e3557fde11aa9f2944eba8c0d0efc89842",
                637800,
                "a62d2ee3092d4b0eb2547092a7d066f32a35ab7a3ee26b14f90c2dc430d1a802",
                190562,
            ),
            full("exchange_rate")[1],
        ),
    )
    yield DataFile(
        "ltsf/electricity",
        "CC BY 4.0 at UCI, not stated in the copies",
        "UCI ElectricityLoadDiagrams20112014, LTSF packaging; subset read from Lucasmhw/CONCORD",
        (
            *full("electricity"),
            Copy(
                paths=("ltsf/electricity_6clients.csv.gz",),
                layout="ltsf-csv",
                sha256="18879ee722a41a6906e610c43451d7350a3752bab18f780ae9999acd0c549746",
                bytes=276724,
                whole=False,
                note="first 6 of 321 clients",
            ),
        ),
    )
    yield DataFile(
        "ltsf/electricity_202x1000",
        "Apache-2.0 (repository)",
        "the same set, read from suncy998/MELLM-DW-Suppression-Evaluation",
        (
            Copy(
                paths=("ltsf/electricity_202clients_1000h.csv.gz",),
                layout="ltsf-csv",
                sha256="737f4589c77e0970fad8550ad5f3d6ee8bd80cfb5a26a4d1f86158026e0971a2",
                bytes=364863,
                whole=False,
                note="first 202 of 321 clients, first 1,000 of 26,304 hours",
            ),
        ),
    )
    yield DataFile(
        "ltsf/traffic",
        NONE_STATED,
        "Caltrans PeMS, LTSF packaging; subset read from Lucasmhw/CONCORD",
        (
            *full("traffic"),
            Copy(
                paths=("ltsf/traffic_6sensors.csv.gz",),
                layout="ltsf-csv",
                sha256="dc6f08367927721f6da9e30e9a76773e7eae285651097eef390f181f5d425447",
                bytes=249343,
                whole=False,
                note="first 6 of 862 sensors",
            ),
        ),
    )
    yield DataFile(
        "ltsf/traffic_bay100_log",
        NONE_STATED,
        "cvxgrp/low_rank_forecasting_code (not the LTSF file)",
        (
            Copy(
                paths=("ltsf/traffic_pems_bay100_log.csv.gz",),
                layout="ltsf-csv",
                sha256="3d9717714c5357c01092e72bdda1456a6719a6a23531597f02254fbd5cbcfb5b",
                bytes=982537,
                note="natural log of occupancy, 100 Bay Area sensors",
            ),
        ),
    )


# -------------------------------------------------------------------- competitions and order books

# frequency: (train sha256, bytes, test sha256, bytes, note where the copy is a subset)
_M4 = {
    "yearly": (
        ("aaa157a2471431dd01250a8b9f353b5315a1e88a042135780bae20d975e3ba96", 2846048),
        ("1f12cf2eaf28ebee2212d65fb84a203d45ce7cffeaceafe33fdb6c82d06cdb33", 839819),
        "",
    ),
    "quarterly": (
        ("c763bb9453705574c3132703c6ce22f23dd3fdba68e86d0f3a73c6c8f2d75628", 1851487),
        ("0eab56cc0f75e2d3daa807a289d3689ee3187b41f081a25e6b033bf59b1935a9", 230076),
        "6,541 of 24,000 series, not a random sample",
    ),
    "monthly": (
        ("a7d08c214d42f6cb8678288e3009f9e537f5abefc54ef8f7825c081c4978b112", 436333),
        ("1d47d004eb8075403576bc7e617a611c6a49080b6bc6c9fc38932a2081d8b065", 43461),
        "576 of 48,000 series, not a random sample",
    ),
    "weekly": (
        ("d305ea076e750cb7d407987f103a08f130c7e05f655ed342ce88f65cb16650a3", 1505645),
        ("7caf7f821a65c7853a941a9c7d5fda05915979e3558ca051f8bcb036e7f6a6e9", 25084),
        "",
    ),
    "daily": (
        ("0b39739ad6b9061259b2a8fc0178a955e0f8eead898f0b12c585123a8353575f", 1015821),
        ("0fefd11f78b435661cd9ee5f8c5e2d270d550a0e21874a85c2c25bb7da62413c", 31303),
        "717 of 4,227 series, mostly category Other",
    ),
    "hourly": (
        ("f4123dc7d6f7dec28c7496858824b83dbcfe8c4e7435ee9e12115aecea054398", 621889),
        ("623e63ea4aaca1521731c028863b041e536e624457e2e5ba388a924594672a6d", 44850),
        "",
    ),
}


def _m4() -> Iterable[DataFile]:
    origin = "Mcompetitions/M4-methods; the Parquet copies were collected from several public repositories"
    for frequency, (train, test, note) in _M4.items():
        for part, (sha256, size) in (("train", train), ("test", test)):
            folder, file = part.capitalize(), f"{frequency.capitalize()}-{part}.csv"
            original = Copy(
                paths=(f"m4/{folder}/{file}", f"m4/{file}", f"Dataset/{folder}/{file}", f"{folder}/{file}"),
                layout="m4-csv",
                url=f"{RAW}/Mcompetitions/M4-methods/master/Dataset/{folder}/{file}",
            )
            parquet = Copy(
                paths=(f"m4/{frequency}_{part}.parquet",),
                layout="m4-parquet",
                sha256=sha256,
                bytes=size,
                whole=not note,
                note=note,
            )
            copies = (original, parquet) if note else (parquet, original)
            yield DataFile(f"m4/{frequency}/{part}", NONE_STATED, origin, copies)
    yield DataFile(
        "m4/info",
        NONE_STATED,
        origin,
        (
            Copy(
                paths=("m4/m4_info.csv.gz",),
                layout="m4-info-shared",
                sha256="47819cab0eb8eb0639a3eb032e875ebbef646ba3391849945076d35734d9d6c4",
                bytes=98124,
                whole=False,
                note="one row per stored series",
            ),
            Copy(
                paths=("m4/M4-info.csv", "Dataset/M4-info.csv", "M4-info.csv"),
                layout="m4-info",
                url=f"{RAW}/Mcompetitions/M4-methods/master/Dataset/M4-info.csv",
            ),
        ),
    )
    tails = {
        "train": ("parquet", "6ed4035ac988e8918276ba03f4307b690e7d3eeb46297c56619aa17d0f306b3e", 1255112),
        "test": ("parquet", "e8b28d075c29c7b72800cba77a5867616eacd8f5bb9eb67dd193482935bdd9c2", 117010),
        "info": ("csv.gz", "1057789f1d7fa52d871aa713d23bc2d4593fab2d2370d15cea27f96ece05c28c", 4186),
    }
    for part, (ending, sha256, size) in tails.items():
        copy = Copy(
            paths=(f"m4/partial/daily_tail_{part}.{ending}",),
            layout="m4-parquet" if ending == "parquet" else "m4-tail-info",
            sha256=sha256,
            bytes=size,
            whole=False,
            note="ends of 1,578 further daily series, from position 4,000 on",
        )
        yield DataFile(f"m4/daily-tail/{part}", "Apache-2.0", "functime-org/functime", (copy,))


def _lobster() -> Iterable[DataFile]:
    level1 = {
        "AAPL": ("bf38548f3487d109fa87820c0d9191fb7fec6eb7ed770c70f53cd49ce4a52e4f", 264364),
        "AMZN": ("a9df82cc9a3a5775b77e2c9576a6790615c19d7812c15786b34884ac0abc445c", 133467),
    }
    for ticker, (sha256, size) in level1.items():
        for part in ("orderbook", "message"):
            file = f"{ticker}_2012-06-21_34200000_57600000_{part}_1.csv"
            original = Copy(
                paths=(f"lob/{file}", file),
                layout=f"lobster-{part}",
                url=f"https://lobsterdata.com/info/sample/LOBSTER_SampleFile_{ticker}_2012-06-21_1.zip",
                member=file,
            )
            shared = Copy(
                paths=(f"lob/lobster_{ticker.lower()}_20120621_level1.csv.gz",),
                layout="lobster-level1",
                sha256=sha256,
                bytes=size,
                note="best quotes only, no time stamps",
            )
            copies = (original, shared) if part == "orderbook" else (original,)
            yield DataFile(f"lobster/{ticker}/{part}", "LOBSTER's own terms", "lobsterdata.com sample files", copies)


def _m5() -> Iterable[DataFile]:
    origin, licence = "functime-org/functime", "Apache-2.0 (repository); the M5 competition's own terms for the data"
    note = "five of ten stores, 447 of 1,941 days"
    files = {
        "sales": (
            "sales_daily_wide.parquet",
            "m5-wide",
            "2697084290a902fcd94ca21bf5c9888c848d3bc5334705f83122d18a0fc75000",
            2898876,
        ),
        "more": (
            "more_stores_440.parquet",
            "m5-wide",
            "e254a9b05f7e2f17aed381937da82dbecfad0eedc63fb4f17f3595fc8a062ae6",
            648511,
        ),
        "snap": (
            "calendar_snap.csv.gz",
            "csv",
            "52836709281e78caae06cbfff21dfda664db0461f09c1e7bb0a6e4a3292bc1cc",
            1063,
        ),
    }
    for part, (file, layout, sha256, size) in files.items():
        copy = Copy(paths=(f"m5/{file}",), layout=layout, sha256=sha256, bytes=size, whole=False, note=note)
        yield DataFile(f"m5/{part}", licence, origin, (copy,))


def _gefcom() -> Iterable[DataFile]:
    copy = Copy(
        paths=("electricity_price/gefcom2014_price_hourly.csv.gz",),
        layout="csv",
        sha256="c4f6cd4e93b6d6486bffb332cb525db4f43d698df562674180d4f792ae242ade",
        bytes=275315,
        note="the published solution of the last day is filled in",
    )
    yield DataFile("gefcom/price", NONE_STATED, "GEFCom2014 price track, task 15; ynukou/datasetsforpaper", (copy,))


FI2010_NORMALISATIONS = {
    "zscore": ("ZScore", "Zscore"),
    "minmax": ("MinMax", "MinMax"),
    "decpre": ("DecPre", "DecPre"),
}
_DEEPLOB = (
    f"{RAW}/zcakhaa/DeepLOB-Deep-Convolutional-Neural-Networks-for-Limit-Order-Books/master/data/data.zip",
    {("train", 7), ("test", 7), ("test", 8), ("test", 9)},
)


def fi2010_name(normalisation: str, fold: int, part: str, *, auction: bool = False) -> str:
    """The registry name of one of the 108 FI-2010 files."""
    if normalisation not in FI2010_NORMALISATIONS:
        known = ", ".join(FI2010_NORMALISATIONS)
        raise DataError(f"FI-2010 normalisation: saw {normalisation!r}, expected one of {known}")
    if fold not in range(1, 10):
        raise DataError(f"FI-2010 fold: saw {fold}, expected 1..9")
    if part not in ("train", "test"):
        raise DataError(f"FI-2010 part: saw {part!r}, expected train or test")
    return f"fi2010/{'auction' if auction else 'noauction'}-{normalisation}-{fold}-{part}"


def _fi2010() -> Iterable[DataFile]:
    for auction in (False, True):
        kind = "Auction" if auction else "NoAuction"
        for number, (normalisation, (label, folder)) in enumerate(FI2010_NORMALISATIONS.items(), start=1):
            for fold in range(1, 10):
                for part, long in (("train", "Training"), ("test", "Testing")):
                    file = f"{part.capitalize()}_Dst_{kind}_{label}_CF_{fold}.txt"
                    tree = f"BenchmarkDatasets/{kind}/{number}.{kind}_{folder}/{kind}_{folder}_{long}/{file}"
                    mirrored = normalisation == "decpre" and not auction and (part, fold) in _DEEPLOB[1]
                    yield DataFile(
                        fi2010_name(normalisation, fold, part, auction=auction),
                        "CC BY 4.0",
                        "etsin.fairdata.fi/dataset/73eb48d7-4dbc-4a10-a52a-da745b47a649",
                        (
                            Copy(
                                paths=(f"fi2010/{file}", tree, f"fi2010/{tree}", file),
                                layout="fi2010-text",
                                url=_DEEPLOB[0] if mirrored else None,
                                member=file if mirrored else None,
                            ),
                        ),
                    )


FILES: tuple[DataFile, ...] = (*_ett(), *_m4(), *_ltsf(), *_m5(), *_gefcom(), *_lobster(), *_fi2010())
_BY_NAME = {file.name: file for file in FILES}


def datasets() -> tuple[str, ...]:
    """Names of the data sets, in registry order."""
    return tuple(dict.fromkeys(file.dataset for file in FILES))


def get_file(name: str) -> DataFile:
    """The file of exactly this name."""
    if name not in _BY_NAME:
        raise DataError(f"no file is called {name!r}; `ucsearch data` names all {len(FILES)}")
    return _BY_NAME[name]


def find(name: str) -> tuple[DataFile, ...]:
    """A file by its name, or all files under a prefix such as `ett` or `m4/hourly`."""
    prefix = name.rstrip("/") + "/"
    found = tuple(file for file in FILES if file.name == name or file.name.startswith(prefix))
    if not found:
        known = ", ".join(datasets())
        raise DataError(f"nothing is called {name!r}; data sets: {known}; `ucsearch data` names all")
    return found
