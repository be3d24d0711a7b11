"""Deployment files: they can be read, name nothing that is not there, and start what they say."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("prometheus_client")

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNITS = ("ucsearch.service",)


def exported() -> set[str]:
    """Every sample name that the service's registry can give."""
    from ucsearch.service.observability import Metrics

    found = set()
    for family in Metrics().registry.collect():
        ends = {
            "counter": ("_total",), "gauge": ("",), "info": ("_info",), "histogram": ("_bucket", "_sum", "_count"),
        }[family.type]  # fmt: skip
        found |= {family.name + end for end in ends}
    return found


def metrics_in(text: str) -> set[str]:
    return set(re.findall(r"\b(?:ucsearch|process)_[a-z_]+", text))


def test_every_figure_that_is_drawn_or_watched_exists() -> None:
    known = exported()
    board = json.loads((DEPLOY / "grafana" / "ucsearch.json").read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(expressions) >= 15
    for expression in expressions:
        assert metrics_in(expression) <= known, expression
        assert metrics_in(expression) or 'up{job="ucsearch"}' in expression
    rules = (DEPLOY / "prometheus" / "alerts.yaml").read_text()
    assert metrics_in(rules) <= known
    assert "ucsearch_monitor_evidence >= ucsearch_monitor_limit" in rules  # every plan has its own
    drawn = set().union(*map(metrics_in, expressions))
    families = {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in drawn}
    # A figure that nobody sees is not worth its price.
    ours = {n for n in known if n.startswith("ucsearch_")}
    assert {n.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for n in ours} == {
        n for n in families if n.startswith("ucsearch_")
    }


def test_panels_do_not_lie_upon_each_other() -> None:
    board = json.loads((DEPLOY / "grafana" / "ucsearch.json").read_text())
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        p = panel["gridPos"]
        cells = {(x, y) for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])}
        assert not taken & cells, panel["title"]
        assert p["x"] + p["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_alerts_lead_to_the_runbook() -> None:
    text = (DEPLOY / "prometheus" / "alerts.yaml").read_text()
    places = re.findall(r"runbook: docs/how-to/service-operations\.md#(\S+)", text)
    assert len(places) == len(re.findall(r"- alert:", text)) == 8
    headings = re.findall(r"^##+ (.*)$", (ROOT / "docs" / "how-to" / "service-operations.md").read_text(), re.M)
    anchors = {re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in headings}
    assert set(places) <= anchors


@pytest.mark.parametrize("name", ["compose.yaml", "prometheus/alerts.yaml", "prometheus/scrape.yaml"])
def test_yaml_can_be_read(name: str) -> None:
    found = yaml.safe_load((DEPLOY / name).read_text())
    if name == "compose.yaml":
        service = found["services"]["ucsearch"]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        mounted = {v.partition(":")[0] for s in found["services"].values() for v in s["volumes"]}
        assert {v for v in mounted if not v.startswith(".")} == set(found["volumes"])
    elif name.endswith("alerts.yaml"):
        rules = [rule for group in found["groups"] for rule in group["rules"]]
        assert all({"alert", "expr", "for", "labels", "annotations"} <= set(rule) for rule in rules)
        assert len({rule["alert"] for rule in rules}) == len(rules) == 8
    else:
        assert [job["job_name"] for job in found["scrape_configs"]] == ["ucsearch"]


def test_who_watches_asks_the_admin_port(tmp_path: Path) -> None:
    """The image's HEALTHCHECK, Prometheus, and the page: not the port that a proxy passes on."""
    from ucsearch.service.config import Server

    own = Server().admin_bind
    assert re.findall(r"http://([^/]+)/readyz", (DEPLOY / "Dockerfile").read_text()) == [own]
    targets = yaml.safe_load((DEPLOY / "prometheus" / "scrape.yaml").read_text())["scrape_configs"][0]["static_configs"]
    assert [target for group in targets for target in group["targets"]] == [own]
    proxy = (DEPLOY / "Caddyfile").read_text()
    assert re.findall(r"reverse_proxy (\S+)", proxy) == [Server().bind]
    assert "8412" not in proxy


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd-analyze is not here")
    for name in UNITS:
        # The program itself is not installed where the tests run.
        text = (DEPLOY / "systemd" / name).read_text().replace("/opt/ucsearch/bin/ucsearch", sys.executable)
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [tool, "verify", *(str(tmp_path / name) for name in UNITS)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith(("ucsearch", str(tmp_path)))] == []


def unknown(call: list[str]) -> list[str]:
    """What is wrong with a call of `ucsearch`: names of commands and options that there are not, or values too many."""
    from typer.main import get_command

    from ucsearch.cli import app

    command: Any = get_command(app)
    rest = list(call)
    while hasattr(command, "commands"):
        own = {o: p for p in command.params for o in getattr(p, "opts", ()) if o.startswith("-")}
        while rest and rest[0] in own:  # options of a group stand before its commands
            flag = getattr(own[rest[0]], "is_flag", False)
            rest = rest[1 if flag else 2 :]
            if flag and not rest:
                return []
        if not rest or rest[0] not in command.commands:
            return rest[:1] or ["a command"]
        command = command.commands[rest.pop(0)]
    if command.name == "verify":  # the verifier reads its own
        return []
    options = {o: p for p in command.params for o in getattr(p, "opts", ()) if o.startswith("-")}
    odd, values = [], 0
    while rest:
        word = rest.pop(0)
        name, equals, _ = word.partition("=")
        if not word.startswith("-"):
            values += 1
        elif name not in options:
            odd.append(word)
        elif not equals and not getattr(options[name], "is_flag", False):
            rest = rest[1:]
    most = sum(p.param_type_name == "argument" for p in command.params)
    return odd or (["values"] if values > most else [])


def test_the_commands_of_units_and_image_are_commands() -> None:
    texts = [(DEPLOY / "systemd" / name).read_text() for name in UNITS]
    starts = [line for text in texts for line in re.findall(r"^ExecStart=.*?/bin/ucsearch (.*)", text, re.M)]
    calls = [line.rstrip("'").split() for line in starts]
    docker = (DEPLOY / "Dockerfile").read_text()
    calls.append(json.loads(re.findall(r"^CMD (\[.*\])$", docker, re.M)[-1]))
    calls.append(json.loads(re.findall(r"command: (\[\"service\".*\])", (DEPLOY / "compose.yaml").read_text())[0]))
    assert len(calls) == 3
    assert [call for call in calls if unknown(call)] == []


@pytest.mark.parametrize(
    "page",
    [
        "how-to/service.md",
        "how-to/service-operations.md",
        "how-to/monitor.md",
        "tutorials/operator.md",
    ],
)
def test_the_commands_of_pages_are_commands(page: str) -> None:
    """Whoever has to restore a log at night types what stands there."""
    text = (ROOT / "docs" / page).read_text()
    lines = [line.strip() for line in text.splitlines()]
    shown = [line.removeprefix("$ ") for line in lines if line.startswith(("$ ucsearch ", "$ /opt/ucsearch/bin/"))]
    shown += [found for found in re.findall(r"`(ucsearch [^`]*)`", text) if not found.endswith("...")]
    calls = [shlex.split(re.sub(r"\s[|>&].*", "", line)) for line in shown]
    calls = [call[1:] for call in calls if call[0].rpartition("/")[2] == "ucsearch"]
    assert len(calls) >= 2
    assert [(call, odd) for call in calls if (odd := unknown(call))] == []


def test_the_image_runs_as_nobody_special_and_keeps_its_promises() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    lines = re.sub(
        r"\\\n\s*", " ", "\n".join(x for x in text.splitlines() if not x.lstrip().startswith("#"))
    ).splitlines()
    words = [line.split()[0] for line in lines if line.strip()]
    assert set(words) <= {"FROM", "ENV", "WORKDIR", "COPY", "RUN", "ARG", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL",
                          "HEALTHCHECK", "ENTRYPOINT", "CMD"}  # fmt: skip
    assert all(":latest" not in line and ":" in line.split()[1] for line in lines if line.startswith("FROM"))
    user = [line for line in lines if line.startswith("USER")]
    assert user == ["USER 8411:8411"]
    last = max(i for i, line in enumerate(lines) if line.startswith("RUN"))
    assert lines.index(user[0]) < last  # kernels belong to who uses them
    for source in re.findall(r"^COPY (?!--from)(?:--\S+ )*(.*) \S+$", "\n".join(lines), re.M):
        for name in source.split():
            if "$" not in name:
                assert (ROOT / name).exists(), name


def test_the_plans_of_the_image_can_be_loaded() -> None:
    from ucsearch.service.config import load_config
    from ucsearch.service.writer.plans import load_plan

    config, folder = load_config(DEPLOY / "plans")
    assert config.server.on_loopback
    assert [load_plan(table, folder).name for table in config.plan] == ["orders"]


def test_every_test_that_the_page_of_faults_names_is_there() -> None:
    page = (ROOT / "docs" / "how-to" / "service-operations.md").read_text().partition("## What it survives")[2]
    place, names = "", re.findall(r"`(test_\w+\.py)?(?:::(test_\w+))?`", page)
    assert len(names) > 15
    for file, name in names:
        place = file or place
        text = (ROOT / "tests" / "service" / place).read_text()
        assert not name or f"def {name}(" in text, f"{place}::{name}"


def test_the_proxy_has_the_limits_that_the_service_leans_on() -> None:
    from ucsearch.service import run
    from ucsearch.service.config import Limits

    text, limits = (DEPLOY / "Caddyfile").read_text(), Limits()
    assert f"max_size {limits.body_bytes >> 20}MiB" in text
    assert f"read_body {limits.body_s:g}s" in text
    assert re.search(r"read_header \d+s", text)
    waits = re.search(r"read_timeout (\d+)s", text)
    assert waits is not None
    assert int(waits[1]) > limits.request_s
    head = re.search(r"max_header_size (\d+)KB", text)
    assert head is not None
    assert int(head[1]) << 10 == run._HEAD
    idle = re.search(r"idle (\d+)s", text)
    assert idle is not None
    assert int(idle[1]) > 0
    connections = re.search(r"max_conns_per_host (\d+)", text)
    open_files = re.search(r"^LimitNOFILE=(\d+)$", (DEPLOY / "systemd" / "ucsearch.service").read_text(), re.M)
    assert connections is not None
    assert open_files is not None
    assert 2 * int(connections[1]) < int(open_files[1])


def test_the_proxy_removes_what_only_it_may_say() -> None:
    text = (DEPLOY / "Caddyfile").read_text()
    named = set(re.findall(r"header_up -(\S+)", text))
    page = (ROOT / "docs" / "how-to" / "service.md").read_text()
    assert named == {"X-Remote-User", "X-Remote-Groups"}
    assert all(name in page for name in named)


def test_what_is_held_in_memory_fits_the_memory_that_unit_and_compose_allow() -> None:
    """A number of two bytes in a body is 32 in memory; 300 MB are the service's own."""
    from ucsearch.service.config import Limits

    allowed = re.search(r"^MemoryMax=(\d+)G$", (DEPLOY / "systemd" / "ucsearch.service").read_text(), re.M)
    assert allowed is not None
    assert "mem_limit: 1g" in (DEPLOY / "compose.yaml").read_text()
    assert 300e6 + 32 * Limits().held_bytes < int(allowed[1]) * 2**30
