"""The example's alerts and records, by Prometheus' own tool; and what they share with the command's judgement."""

from __future__ import annotations

import re
import shutil

import pytest
import yaml

from drafter_contracts.acceptance import blocks, judge


def test_promtool_takes_the_rules(promtool, example):
    done = promtool("check", "rules", example("acceptance.rules.yml"), example("promises.rules.yml"))
    assert done.returncode == 0, done.stderr
    assert "SUCCESS" in done.stdout


def test_alerts_fire_where_they_should_and_nowhere_else(promtool, example):
    done = promtool("test", "rules", example("acceptance.test.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_takes_the_configuration_with_its_rules(promtool, example, tmp_path):
    for name in ("acceptance.rules.yml", "promises.rules.yml"):
        shutil.copy(example(name), tmp_path)
    token = tmp_path / "token"
    token.write_text("x")
    with open(example("prometheus.yml"), encoding="utf-8") as file:
        text = file.read().replace("/etc/prometheus/drafters.token", str(token))
    (tmp_path / "prometheus.yml").write_text(text)
    done = promtool("check", "config", str(tmp_path / "prometheus.yml"))
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "acceptance.rules.yml") in done.stdout


def test_every_alert_is_seen_to_fire_and_not_to_fire(rules, example):
    with open(example("acceptance.test.yml"), encoding="utf-8") as file:
        cases = [case for test in yaml.safe_load(file)["tests"] for case in test.get("alert_rule_test", ())]
    seen = {(case["alertname"], bool(case["exp_alerts"])) for case in cases}
    alerts = {rule["alert"] for rule in rules if "alert" in rule}
    assert len(alerts) == 8
    assert seen >= {(alert, True) for alert in alerts}
    assert {alert for alert, fires in seen if not fires} >= alerts - {"DrafterNoData", "DrafterEngineNotScraped"}


def test_what_is_recorded_is_used_by_an_alert_or_drawn(rules, example):
    with open(example("dashboard.json"), encoding="utf-8") as file:
        text = file.read()
    for record in {rule["record"] for rule in rules if "record" in rule}:
        users = [rule for rule in rules if rule.get("record") != record and record in rule["expr"]]
        assert users or record in text, record


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("drafters:least_length", f"1 + {judge.KEPT:g} * (drafters:promised_length - 1)"),
        ("drafters:collapsed_length", f"1 + {judge.LEFT:g} * (drafters:promised_length - 1)"),
        ("DrafterNeverAccepted", f"< {judge.NEVER_SEEN:g}"),
        ("DrafterCollapsed", f">= {judge.NEVER_SEEN:g}"),
        ("drafters:acceptance_length", f">= {judge.LEAST_BLOCKS * blocks.BLOCK_STEPS}"),
        ("drafters:acceptance_length", f"drafters_observed_readings >= {judge.LEAST_BLOCKS * blocks.BLOCK_READINGS}"),
        ("drafters:acceptance_length", f">= {judge.LEAST_BLOCKS}\n"),
    ],
)
def test_borders_are_those_of_the_judgement(rules, name, expected):
    found = [rule["expr"] + "\n" for rule in rules if name in (rule.get("record"), rule.get("alert"))]
    assert any(expected in expression for expression in found), found


def test_an_alert_names_commands_that_there_are(rules):
    from drafter_cli.main import COMMANDS

    texts = " ".join(text for rule in rules for text in rule.get("annotations", {}).values())
    named = set(re.findall(r"`drafters ([a-z]+)", " ".join(texts.split())))
    assert named == {"doctor", "observe", "acceptance"}
    assert named <= {name.split()[0] for name in COMMANDS}
    assert "promises.rules.yml" in texts
