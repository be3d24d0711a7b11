import gzip
import hashlib
import http.server
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ucsearch.errors import DataError
from ucsearch.lab.data.registry import Copy, DataFile
from ucsearch.lab.data.resolve import cache_folder, fetch, resolve, resolve_optional

TEXT = b"date,x\n2020-01-01 00:00:00,1.5\n"
DIGEST = hashlib.sha256(TEXT).hexdigest()


def known(**changes: object) -> DataFile:
    settings = {"paths": ("set/file.csv", "file.csv"), "layout": "csv", "sha256": DIGEST, "bytes": len(TEXT)}
    settings.update(changes)
    return DataFile("set/file", "CC0", "somebody/somewhere", (Copy(**settings),))  # type: ignore[arg-type]


def put(folder: Path, relative: str, content: bytes = TEXT) -> Path:
    path = folder / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_argument_wins_over_environment_and_cache(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("argument", "environment", "cache")}
    for folder in folders.values():
        put(folder, "set/file.csv")
    env = {"UCSEARCH_DATA": str(folders["environment"])}
    first = resolve(known(), data_dir=folders["argument"], environ=env, cache_dir=folders["cache"])
    second = resolve(known(), environ=env, cache_dir=folders["cache"])
    third = resolve(known(), environ={}, cache_dir=folders["cache"])
    assert [r.found_in for r in (first, second, third)] == ["data-dir", "UCSEARCH_DATA", "cache"]
    assert [r.path.parent.parent.name for r in (first, second, third)] == list(folders)
    assert (first.sha256, first.bytes, first.status) == (DIGEST, len(TEXT), "verified")


def test_second_accepted_path(tmp_path: Path) -> None:
    put(tmp_path, "file.csv")
    assert resolve(known(), data_dir=tmp_path).path == tmp_path / "file.csv"


def test_explicit_folder_is_final(tmp_path: Path) -> None:
    empty, full = tmp_path / "empty", tmp_path / "full"
    empty.mkdir()
    put(full, "set/file.csv")
    with pytest.raises(DataError) as caught:
        resolve(known(), data_dir=empty, environ={"UCSEARCH_DATA": str(full)}, download=True)
    text = str(caught.value)
    assert text.startswith(f"set/file: not found in data-dir {empty}. Get it by hand and put it at set/file.csv")
    assert "somebody/somewhere" in text


def test_missing_file_names_the_next_command(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Run `ucsearch data ett/ETTh1 --get`, or put it at ett/ETTh1.csv"):
        resolve("ett/ETTh1", environ={}, cache_dir=tmp_path)
    assert resolve_optional("ett/ETTh1", environ={}, cache_dir=tmp_path) is None


def test_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data_dir: .*nowhere is not a folder"):
        resolve(known(), data_dir=tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"UCSEARCH_DATA: .*nowhere is not a folder"):
        resolve(known(), environ={"UCSEARCH_DATA": str(tmp_path / "nowhere")})


def test_wrong_hash_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "set/file.csv", TEXT.replace(b"1.5", b"9.5"))
    with pytest.raises(DataError, match=r"saw sha256 [0-9a-f]{16}\.\.\., expected .*: not the published file"):
        resolve(known(), data_dir=tmp_path)


def test_truncated_file_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "set/file.csv", TEXT[:-4])
    with pytest.raises(DataError, match=rf"saw {len(TEXT) - 4} bytes, expected {len(TEXT)}: the file is truncated"):
        resolve(known(), data_dir=tmp_path)


def test_gzip_packed_by_somebody_else_passes_by_its_content(tmp_path: Path) -> None:
    file = known(paths=("file.csv.gz",), sha256="0" * 64, bytes=1, content_sha256=DIGEST)
    put(tmp_path, "file.csv.gz", gzip.compress(TEXT, compresslevel=1))
    assert resolve(file, data_dir=tmp_path).status == "verified"
    put(tmp_path, "file.csv.gz", gzip.compress(TEXT + b"x"))
    with pytest.raises(DataError, match="not the published file"):
        resolve(file, data_dir=tmp_path)


def test_file_without_known_hash_is_unverified_until_recorded(tmp_path: Path) -> None:
    file = known(sha256=None, bytes=None)
    path = put(tmp_path, "set/file.csv")
    assert resolve(file, data_dir=tmp_path).status == "unverified"
    record = path.with_name("file.csv.sha256.json")
    record.write_text(json.dumps({"sha256": DIGEST}))
    assert resolve(file, data_dir=tmp_path).status == "recorded"
    path.write_bytes(TEXT + b"more")
    with pytest.raises(DataError, match="the file has changed since its first download"):
        resolve(file, data_dir=tmp_path)
    record.write_text("{}")
    with pytest.raises(DataError, match="not a hash record"):
        resolve(file, data_dir=tmp_path)


def test_cache_folder_order(tmp_path: Path) -> None:
    env = {"UCSEARCH_CACHE": "/a", "XDG_CACHE_HOME": "/b"}
    assert cache_folder(tmp_path, env) == tmp_path
    assert cache_folder(None, env) == Path("/a")
    assert cache_folder(None, {"XDG_CACHE_HOME": "/b"}) == Path("/b/ucsearch")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A web server on this machine, with the file, and an archive that holds it."""
    root = tmp_path / "served"
    put(root, "file.csv")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("inner/file.csv", TEXT)
        archive.writestr("inner/readme.txt", "hello")
    put(root, "file.zip", packed.getvalue())
    put(root, "broken.zip", packed.getvalue()[:40])

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root))) as web:
        thread = threading.Thread(target=web.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{web.server_address[1]}"
        web.shutdown()
        thread.join()


def test_download_into_the_cache(tmp_path: Path, server: str) -> None:
    pytest.importorskip("pooch")
    file = known(url=f"{server}/file.csv")
    cache = tmp_path / "cache"
    got = resolve(file, download=True, environ={}, cache_dir=cache)
    assert (got.path, got.status, got.found_in) == (cache / "set/file.csv", "verified", "cache")
    assert got.path.read_bytes() == TEXT
    assert not list(cache.rglob("*.json"))
    assert resolve(file, environ={}, cache_dir=cache) == got


def test_first_download_records_its_hash(tmp_path: Path, server: str) -> None:
    pytest.importorskip("pooch")
    file = known(url=f"{server}/file.csv", sha256=None, bytes=None)
    got = fetch(file, cache_dir=tmp_path / "cache")
    assert got.status == "recorded"
    record = json.loads(got.path.with_name("file.csv.sha256.json").read_text())
    assert record["sha256"] == DIGEST
    assert record["bytes"] == len(TEXT)
    assert record["url"].endswith("/file.csv")
    got.path.write_bytes(b"changed")
    with pytest.raises(DataError, match="has changed since its first download"):
        resolve(file, environ={}, cache_dir=tmp_path / "cache")


def test_download_out_of_an_archive(tmp_path: Path, server: str) -> None:
    pytest.importorskip("pooch")
    got = fetch(known(url=f"{server}/file.zip", member="file.csv"), cache_dir=tmp_path / "cache")
    assert got.status == "verified"
    assert got.path.read_bytes() == TEXT
    with pytest.raises(DataError, match=r"saw 0 files called 'other\.csv', expected one"):
        fetch(known(url=f"{server}/file.zip", member="other.csv"), cache_dir=tmp_path / "cache")
    with pytest.raises(DataError, match="not a readable zip file"):
        fetch(known(url=f"{server}/broken.zip", member="file.csv"), cache_dir=tmp_path / "cache")


def test_download_with_the_wrong_content(tmp_path: Path, server: str) -> None:
    pytest.importorskip("pooch")
    with pytest.raises(DataError, match=r"download of http.* failed: SHA256 hash"):
        fetch(known(url=f"{server}/file.csv", sha256="0" * 64), cache_dir=tmp_path / "cache")
    assert not (tmp_path / "cache/set/file.csv").exists()


def test_download_that_does_not_exist(tmp_path: Path, server: str) -> None:
    pytest.importorskip("pooch")
    with pytest.raises(DataError, match=r"failed: 404 .* Try again, or put it at set/file.csv"):
        fetch(known(url=f"{server}/nothing.csv"), cache_dir=tmp_path / "cache")


def test_nothing_is_downloaded_unasked(tmp_path: Path, server: str) -> None:
    with pytest.raises(DataError, match="Run `ucsearch data set/file --get`"):
        resolve(known(url=f"{server}/file.csv"), environ={}, cache_dir=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
