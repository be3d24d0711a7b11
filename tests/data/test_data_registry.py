import re

import pytest

from ucsearch.errors import DataError
from ucsearch.lab.data.registry import FILES, datasets, fi2010_name, find, get_file


def test_names_are_unique_and_cover_the_five_sources() -> None:
    names = [file.name for file in FILES]
    assert len(set(names)) == len(names)
    assert datasets() == ("ett", "m4", "ltsf", "m5", "gefcom", "lobster", "fi2010")


def test_every_copy_is_well_formed() -> None:
    for file in FILES:
        assert file.copies, file.name
        assert file.licence, file.name
        assert file.origin, file.name
        for copy in file.copies:
            for path in copy.paths:
                assert not path.startswith("/"), path
                assert ".." not in path
            for digest in (copy.sha256, copy.content_sha256):
                assert digest is None or re.fullmatch(r"[0-9a-f]{64}", digest)
            assert (copy.sha256 is None) == (copy.bytes is None), file.name
            assert copy.url is None or copy.url.startswith("https://"), file.name


def test_hashes_are_not_shared_by_two_different_files() -> None:
    # The two LOBSTER parts are separate files; a copy-and-paste slip would show up here.
    seen: dict[str, str] = {}
    for file in FILES:
        for copy in file.copies:
            if copy.sha256 is not None:
                assert seen.setdefault(copy.sha256, file.name) == file.name


def test_whole_copies_come_before_subsets() -> None:
    for file in FILES:
        if file.name == "m4/info":
            continue  # the stored one goes with the stored series and holds the same columns
        whole = [copy.whole for copy in file.copies]
        assert whole == sorted(whole, reverse=True), file.name


def test_find_by_prefix() -> None:
    assert [file.name for file in find("m4/hourly")] == ["m4/hourly/train", "m4/hourly/test"]
    assert [file.name for file in find("ett/ETTh1")] == ["ett/ETTh1"]
    assert len(find("fi2010")) == 108
    with pytest.raises(DataError, match=r"nothing is called 'ET'; data sets: ett, m4"):
        find("ET")


def test_unknown_exact_name() -> None:
    with pytest.raises(DataError, match="no file is called 'm4'"):
        get_file("m4")


def test_fi2010_names() -> None:
    assert fi2010_name("decpre", 7, "train") == "fi2010/noauction-decpre-7-train"
    file = get_file("fi2010/noauction-decpre-7-train")
    assert "fi2010/Train_Dst_NoAuction_DecPre_CF_7.txt" in file.copies[0].paths
    with pytest.raises(DataError, match=r"saw 10, expected 1\.\.9"):
        fi2010_name("zscore", 10, "train")
    with pytest.raises(DataError, match="saw 'z'"):
        fi2010_name("z", 1, "train")
    with pytest.raises(DataError, match="saw 'validation'"):
        fi2010_name("zscore", 1, "validation")
