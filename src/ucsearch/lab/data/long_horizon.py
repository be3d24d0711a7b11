"""The files of long-horizon forecasting benchmarks: transformer temperatures (ETT) and the LTSF collection."""

from __future__ import annotations

from collections.abc import Iterable

from ucsearch.lab.data.published import NONE_STATED, RAW, Copy, DataFile

__all__ = ["ett_files", "ltsf_files"]

ETT_COMMIT = "1d16c8f4f943005d613b5bc962e9eeb06058cf07"
LTSF_COMMIT = "0045b460bd65c402f91e738b4b5ac826433b00b0"

# name: (sha256 and bytes of the .gz, sha256 and bytes of the CSV in it)
_ETT = {
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


def ett_files() -> Iterable[DataFile]:
    for name, (packed, plain) in _ETT.items():
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


def ltsf_files() -> Iterable[DataFile]:
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
