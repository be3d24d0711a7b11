"""The HTML report: what it says, in which order, and that nothing in the evidence can do harm on the page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.suites.report_kit import (
    HOSTILE,
    as_validation,
    make_rows,
    many_folders,
    no_go_rows,
    write_folder,
)
from ucsearch.cli.evidence import evidence_app
from ucsearch.errors import InputError
from ucsearch.lab.suites.evidence.manifest import read_part
from ucsearch.lab.suites.evidence.rows import EvidenceError
from ucsearch.lab.suites.report import write_reports
from ucsearch.lab.suites.report.figures import key_figures
from ucsearch.lab.suites.report.pages import embedded
from ucsearch.records.canonical import canonical, loads
from ucsearch.report.text import signed

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(HTMLParser):
    """Elements, attributes and text of a page; refuses tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.json = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.json = self.json or data
        elif not self.open or self.open[-1] != "style":
            self.texts.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def figures(self) -> list[str | None]:
        return [a["id"] for a in self.named("figure")]

    @property
    def sections(self) -> list[str | None]:
        return [a["id"] for a in self.named("section")]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = many_folders(tmp_path_factory.mktemp("evidence"))
    write_reports(folder)
    return folder


def page(root: Path, suite: str = "") -> Page:
    return Page((root / suite / "report.html").read_text("utf-8"))


def manifest(root: Path, suite: str) -> Any:
    return loads((root / suite / "manifest.json").read_bytes())


# -------------------------------------------------------------------- what it says


def test_sections_come_in_the_order_a_reader_needs(root: Path) -> None:
    found = page(root, "hostile")
    assert found.sections == ["tested", "deltas", "tables", "failures", "rerun"]
    body = (root / "hostile" / "report.html").read_text("utf-8")
    assert body.index('class="verdict') < body.index("<nav") < body.index('<section id="tested"')


def test_every_comparator_has_a_picture_with_a_name_and_a_description(root: Path) -> None:
    found = page(root, "orders40")
    assert found.figures == [f"delta-1-{n}" for n in range(3)] + [f"delta-0-{n}" for n in range(6)]
    drawn = [a for a in found.named("svg") if a.get("role") == "img"]
    assert len(drawn) == len(found.figures)
    ids = {a.get("id") for _, a in found.elements}
    for attributes in drawn:
        title, desc = (attributes["aria-labelledby"] or "").split()
        assert {title, desc} <= ids
    assert len([a["id"] for _, a in found.elements if a.get("id")]) == len(ids - {None})


@pytest.mark.parametrize(
    ("suite", "name", "words"),
    [
        ("orders40", "Certified", "all 25 conditions of the gate hold and the test split was opened once"),
        ("orders200", "Boundary", "lower_bound (m4-hourly, mppi)"),
        ("repair", "No-go", "4 of 24 validation windows lack a positive candidate; share 0.8333 < 0.95"),
    ],
)
def test_the_verdict_is_the_manifests(root: Path, suite: str, name: str, words: str) -> None:
    verdict = manifest(root, suite)["predicate"]["verdict"]
    text = page(root, suite).text
    assert text.index(name) < text.index(verdict["interpretation"]) < text.index("Reasons") < text.index(words)
    assert f'class="verdict {verdict["class"]}"' in (root / suite / "report.html").read_text("utf-8")


def test_what_was_tested_against_what(root: Path) -> None:
    text = page(root, "orders40").text
    assert (
        "UC-Search against CEM, MPPI, Risk-random, Base-stock, Delay-aware greedy, Exact DP, Greedy, Rolling-quantile "
        "and (s,S), on 80 windows of 40 series in 5 families (test split)." in text
    )
    assert "1 of 1 candidates are eligible" in text
    assert "m4/Daily-train.csv 95.8 MB verified " + "ef" * 32 in text
    assert "walkforward" in text
    assert "task.lead_time 2" in text
    # 252 expansions and 9000 oracle nodes in 12 decisions.
    assert "UC-Search 481 yes CEM 480 no" in text


def test_pictures_and_table_show_the_manifests_bounds(root: Path) -> None:
    predicate = manifest(root, "orders200")["predicate"]
    text = page(root, "orders200").text
    for row in predicate["deltas"]:
        if row["comparator"] == "hindsight":
            continue  # told what will happen; no competitor
        assert f"{row['family']} {row['mean']:+.3g} ({row['lower']:+.3g} to {row['upper']:+.3g})" in text
    tail = text[text.index("All deltas with their bounds") :]
    low = min(predicate["deltas"], key=lambda row: row["lower"])
    assert f"{low['family']}" in tail


def test_failures_name_the_condition_the_cause_and_the_worst(root: Path) -> None:
    text = page(root, "orders200").text
    tail = text[text.index("Where it failed and why") :]
    assert "Risk-active rate of the family m4-hourly" in tail
    assert "m4-hourly: in 0.0799 of decisions λ was idle or nothing was proved" in tail
    (row,) = (
        r for r in manifest(root, "orders200")["predicate"]["deltas"]
        if (r["family"], r["comparator"]) == ("m4-hourly", "mppi")
    )  # fmt: skip
    assert row["mean"] > 0.0 > row["lower"]
    assert (
        f"m4-hourly against MPPI: mean {signed(row['mean'], 4)}, better on {row['better']} of 12 series. "
        "Better on average, but" in tail
    )
    assert "Series with the lowest deltas" in tail
    assert "Conditions that held most narrowly" not in tail
    good = page(root, "orders40").text
    assert "Nothing failed: every condition of the gate and every check holds." in good
    assert "Conditions that held most narrowly" in good
    assert "Expansions of uc 2,689 = 2,688 ✗ fails" in page(root, "hostile").text


def test_the_worst_series_come_first(root: Path) -> None:
    rows = [loads(line) for line in read_part(root / "orders200", "rows.jsonl").splitlines()]
    found = []
    for who in ("cem", "mppi", "risk-random"):
        for family, series in {(r["family"], r["series"]) for r in rows}:
            own, other = (
                sum(
                    r["policies"][p]["cost"]
                    for r in rows
                    if r["split"] == "test" and (r["family"], r["series"]) == (family, series)
                )
                for p in ("uc", who)
            )
            found.append(((other - own) / (other + own), series, family))
    _, series, family = min(found)
    assert f"Our cost Its cost {series} {family} " in page(root, "orders200").text


def test_a_comparator_that_is_better_is_said_to_be_so(tmp_path: Path) -> None:
    rows = make_rows(
        ("a-x", "a-y"), others={"cem": (0.8, 1.0, 480), "mppi": (1.3, 1.0, 480), "risk-random": (1.3, 1.0, 480)}
    )
    folder = write_folder(tmp_path / "worse", rows, as_validation(make_rows(("a-x", "a-y"))))
    text = Page(write_reports(folder)[0].read_text("utf-8")).text
    assert "a-x against CEM: mean −0.1" in text
    assert "The comparator is at least as good on average; more series would not change that." in text


def test_a_stopped_route_has_no_results(root: Path) -> None:
    found = page(root, "repair")
    assert found.figures == []
    assert found.sections == ["tested", "deltas", "tables", "failures", "rerun"]
    assert "No comparison with intervals: the test split stayed closed." in found.text
    assert "4 of 24 validation windows offer no positive candidate" in found.text
    assert "Test split opened 0 times" in found.text


def test_a_window_without_a_figure_is_not_left_out(tmp_path: Path) -> None:
    rows = make_rows(("a-x", "a-y"))
    rows[0]["policies"]["cem"]["cost"] = None
    folder = write_folder(tmp_path / "gaps", rows, as_validation(make_rows(("a-x", "a-y"))))
    text = Page(write_reports(folder)[0].read_text("utf-8")).text
    assert "a-y against CEM: a series lacks" not in text
    assert "a-x against CEM: a series lacks a figure, so there is no bound." in text


def test_tables_of_the_manifest_are_shown(root: Path) -> None:
    (table,) = manifest(root, "orders40")["predicate"]["tables"]
    cost = next(r for r in table["rows"] if r[0] == "uc")[1]
    assert f"Costs of all policies (test split) Policy Cost Drawdown Expansions UC-Search {cost:.2f}" in page(
        root, "orders40"
    ).text.replace("  ", " ")


def test_the_command_to_run_it_again(root: Path) -> None:
    text = page(root, "orders40").text
    assert "UCSEARCH_DATA=DATA ucsearch evidence run suite.toml --out OUT" in text
    assert "ucsearch evidence verify OUT/orders40" in text
    assert "pip install 'ucsearch==0.1.0'" in text


def test_a_suite_of_the_package_is_run_by_name(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "synthetic", [], no_go_rows(), data=[])
    assert "ucsearch evidence run synthetic --out OUT" in Page(write_reports(folder)[0].read_text("utf-8")).text


# -------------------------------------------------------------------- index


def test_the_index_starts_with_the_status_and_its_links_lead_somewhere(root: Path) -> None:
    found = page(root)
    text = found.text
    assert text.index("4 suites: 1 certified, 2 boundary and 1 no-go.") < text.index("orders40")
    assert [text.index(f" {s} ") for s in ("orders40", "hostile", "orders200", "repair")] == sorted(
        text.index(f" {s} ") for s in ("orders40", "hostile", "orders200", "repair")
    )
    links = {str(a["href"]) for a in found.named("a")}
    assert len(links) == 4
    lines = re.findall(r"<tr><th scope=.row.><a .*?</tr>", (root / "report.html").read_text("utf-8"), re.DOTALL)
    assert len(lines) == 4  # a line for each suite, and what to conclude is a sentence or two
    assert max(len(re.sub("<[^>]*>", " ", line)) for line in lines) < 400
    assert all((root / link).is_file() for link in links)
    for suite in ("orders40", "repair"):
        back = next(a["href"] for a in page(root, suite).named("a"))
        assert (root / suite / str(back)).resolve() == (root / "report.html").resolve()
    assert set(json.loads(found.json)) == {"orders40", "hostile", "orders200", "repair"}


# -------------------------------------------------------------------- harm


@pytest.mark.parametrize("suite", ["", "orders40", "orders200", "repair", "hostile"])
def test_nothing_is_fetched_and_nothing_runs(root: Path, suite: str) -> None:
    found = page(root, suite)
    data, sorting = found.named("script")  # the second is known by its hash in the policy
    assert (data["type"], sorting) == ("application/json", {})
    assert not found.named("img")
    for tag, attributes in found.elements:
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href", "action", "style"):
            value = attributes.get(name)
            assert value is None or name == "href"
            assert value is None or not re.match(r"[a-z]+:", value) or value == "data:,", (tag, value)
    style = re.search(r"<style>(.*?)</style>", (root / suite / "report.html").read_text("utf-8"), re.DOTALL)
    assert style
    assert "url(" not in style.group(1)
    assert "@import" not in style.group(1)
    policy = next(a["content"] for a in found.named("meta") if a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")


def test_hostile_names_are_shown_as_they_are(root: Path) -> None:
    found = page(root, "hostile")
    assert HOSTILE in found.text
    body = (root / "hostile" / "report.html").read_text("utf-8")
    assert HOSTILE not in body
    assert "<script>document" not in body


@pytest.mark.parametrize("suite", ["orders40", "hostile"])
def test_the_manifest_is_embedded_whole(root: Path, suite: str) -> None:
    found = page(root, suite)
    assert canonical(loads(found.json)) == (root / suite / "manifest.json").read_bytes()


def test_embedded_json_has_no_character_that_could_end_it() -> None:
    value = {"a": "</script><!--\u2028&\u2029", "<": 1}
    text = embedded(value)
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == value


# -------------------------------------------------------------------- files


def test_equal_evidence_gives_equal_bytes(root: Path, tmp_path: Path) -> None:
    other = many_folders(tmp_path / "elsewhere" / "deeper")
    for path in write_reports(other):
        assert path.read_bytes() == (root / path.relative_to(other)).read_bytes()


def test_altered_evidence_gets_no_report(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "x", make_rows())
    rows = (folder / "rows.jsonl").read_bytes()
    (folder / "rows.jsonl").write_bytes(rows.replace(b'"risk_active":11', b'"risk_active":12'))
    with pytest.raises(EvidenceError, match=r"rows\.jsonl.*no report was written"):
        write_reports(folder)
    assert not (folder / "report.html").exists()


def test_a_verdict_typed_by_hand_gets_no_report(tmp_path: Path) -> None:
    from ucsearch.lab.suites.evidence.manifest import seal

    rows = make_rows(series=12, weak="m4-hourly", seed=3)
    folder = write_folder(tmp_path / "x", rows, as_validation(make_rows(series=12)))
    statement = loads((folder / "manifest.json").read_bytes())
    statement["predicate"]["verdict"]["class"] = "certified"
    statement["predicate"]["seal"] = seal(statement["predicate"])
    (folder / "manifest.json").write_bytes(canonical(statement))
    with pytest.raises(EvidenceError, match="verdict"):
        write_reports(folder)


def test_one_bad_folder_stops_all_before_anything_is_written(tmp_path: Path) -> None:
    write_folder(tmp_path / "a", make_rows())
    write_folder(tmp_path / "b", make_rows())
    (tmp_path / "b" / "card.md").write_text("other")
    with pytest.raises(EvidenceError, match=r"card\.md"):
        write_reports(tmp_path)
    assert not list(tmp_path.rglob("report.html"))


def test_where_reports_are_written(tmp_path: Path) -> None:
    one = write_folder(tmp_path / "all" / "a", [], no_go_rows())
    assert write_reports(one, tmp_path / "x" / "mine.html") == [tmp_path / "x" / "mine.html"]
    assert write_reports(one, tmp_path / "y") == [tmp_path / "y" / "report.html"]
    write_folder(tmp_path / "all" / "b c", [], no_go_rows())
    written = write_reports(tmp_path / "all", tmp_path / "z")
    assert written == [tmp_path / "z" / p for p in ("report.html", "a/report.html", "b c/report.html")]
    assert all(p.is_file() for p in written)
    assert 'href="b%20c/report.html"' in written[0].read_text("utf-8")
    with pytest.raises(InputError, match=r"--out: saw .*index\.html, expected a folder"):
        write_reports(tmp_path / "all", tmp_path / "index.html")
    with pytest.raises(InputError, match="expected a folder with evidence"):
        write_reports(tmp_path / "y")
    with pytest.raises(InputError, match="expected a folder that exists"):
        write_reports(tmp_path / "nowhere")


def test_the_command(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "a", [], no_go_rows())
    done = CliRunner().invoke(evidence_app, ["page", str(folder)])
    assert (done.exit_code, done.stdout) == (0, f"wrote {folder / 'report.html'}\n")
    (folder / "rows.jsonl").write_bytes(b"{}\n")
    bad = CliRunner().invoke(evidence_app, ["page", str(folder)])
    assert bad.exit_code == 2
    assert bad.stderr.startswith("Error: ")
    assert bad.stderr.count("\n") == 1


def test_the_command_imports_nothing_heavy() -> None:
    code = "import sys, ucsearch.cli.evidence; sys.exit(bool({'numpy', 'ucsearch.lab.suites'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0


def test_key_figures_show_counts_beside_their_totals() -> None:
    key = {"bounds": 15, "bounds_positive": 13, "certificate": 1, "risk": 0.5, "windows": 80}
    assert key_figures(key) == {
        "Bounds above zero": "13 of 15", "Certificate rate": "1.0000", "Selected λ": "0.5", "Windows": "80",
    }  # fmt: skip
