"""The dashboard, as far as it can be told without Grafana: every panel asks something, and nothing dangles."""

from __future__ import annotations

import itertools
import json
import re

import pytest
import yaml

#: Grafana's own.
BUILT_IN = {"__rate_interval", "__interval", "__range", "__all"}
KINDS = {"row", "stat", "timeseries"}


@pytest.fixture(scope="module")
def dashboard(example):
    with open(example("dashboard.json"), encoding="utf-8") as file:
        return json.load(file)


@pytest.fixture(scope="module")
def panels(dashboard):
    """The panels that ask something."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def variables(text):
    return set(re.findall(r"\$\{?(\w+)", text))


def test_panels_have_ids_of_their_own_titles_and_a_place(dashboard):
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids)) >= 10
    assert all(panel["title"] and panel["type"] in KINDS for panel in dashboard["panels"])
    for one, other in itertools.combinations(dashboard["panels"], 2):
        first, second = one["gridPos"], other["gridPos"]
        beside = first["x"] + first["w"] <= second["x"] or second["x"] + second["w"] <= first["x"]
        below = first["y"] + first["h"] <= second["y"] or second["y"] + second["h"] <= first["y"]
        assert beside or below, (one["title"], other["title"])
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in dashboard["panels"])


def test_every_panel_asks_the_chosen_data_source_and_says_what_it_shows(panels):
    source = {"type": "prometheus", "uid": "${datasource}"}
    for panel in panels:
        assert panel["description"]
        assert panel["datasource"] == source
        assert panel["targets"]
        refs = [target["refId"] for target in panel["targets"]]
        assert len(refs) == len(set(refs))
        assert all(target["expr"] and target["legendFormat"] for target in panel["targets"])
        assert all(target["datasource"] == source for target in panel["targets"])


def test_no_variable_dangles(dashboard):
    stated = [variable["name"] for variable in dashboard["templating"]["list"]]
    assert stated == ["datasource", "drafter", "instance"]
    assert dashboard["templating"]["list"][0]["type"] == "datasource"
    assert variables(json.dumps(dashboard["panels"])) - BUILT_IN == set(stated)
    for place, variable in enumerate(dashboard["templating"]["list"][1:], 1):
        assert variables(variable["query"]["query"]) <= set(stated[:place])
        assert variable["definition"] == variable["query"]["query"]
        assert variable["datasource"]["uid"] == "${datasource}"
        assert variable["allValue"] == ".*"  # with the names alone, an engine without the label would be left out


def test_a_legend_names_labels_that_its_expression_keeps(panels):
    for target in (target for panel in panels for target in panel["targets"]):
        kept = set(re.findall(r"\w+", " ".join(re.findall(r"\bby \(([^)]*)\)", target["expr"]))))
        if kept:  # else a recorded series as it is
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= kept, target


def test_overrides_match_a_legend(panels):
    for panel in panels:
        legends = [re.sub(r"\{\{\w+\}\}", "x", target["legendFormat"]) for target in panel["targets"]]
        for override in panel["fieldConfig"]["overrides"]:
            assert any(re.search(override["matcher"]["options"], legend) for legend in legends)


def test_length_stands_beside_the_promise_positions_calls_and_history_are_there(panels):
    drawn = {panel["title"]: " ".join(target["expr"] for target in panel["targets"]) for panel in panels}
    beside = [text for text in drawn.values() if "drafters:acceptance_length" in text]
    assert any("drafters:promised_length" in text for text in beside)
    history = [text for text in drawn.values() if "drafters_observed_length" in text]
    assert any("drafters_promised_length" in text for text in history)
    for name in (
        "drafters:accepted_at_position",
        "sglang:spec_verify_calls_total",
        "vllm:spec_decode_num_drafts_total",
    ):
        assert any(name in text for text in drawn.values()), name


def test_prometheus_takes_every_expression(panels, promtool, tmp_path):
    filled = {"__rate_interval": "1m", "drafter": ".*", "instance": "gpu-1|gpu-2"}
    rules = []
    for target in (target for panel in panels for target in panel["targets"]):
        expression = re.sub(r"\$(\w+)", lambda match: filled[match[1]], target["expr"])
        rules.append({"record": f"panel:{len(rules)}", "expr": expression})
    path = tmp_path / "panels.rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = promtool("check", "rules", str(path))
    assert done.returncode == 0, done.stderr
    assert f"{len(rules)} rules found" in done.stdout
