"""The registry's deployment examples: they parse, start nothing as root, and every command in them exists."""

from __future__ import annotations

import configparser
import glob
import importlib
import os
import shlex

import pytest
import yaml

from drafter_cli import main
from drafter_cli.commandline import parse
from drafter_cli.errors import EXIT_CODES

EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "..", "examples")
#: Those of the registry; the engine's has a test of its own.
MANIFESTS = sorted(
    set(glob.glob(os.path.join(EXAMPLES, "kubernetes", "*.yaml")))
    - {os.path.join(EXAMPLES, "kubernetes", "engine.yaml")}
)


def understood(argv):
    """Read a command line as the command itself would; fails if there is no such command, option or word."""
    name, rest = main._find_command(list(argv))
    command = importlib.import_module(f"drafter_cli.{main.COMMANDS[name][0]}").COMMANDS[name]
    return name, parse(command, rest)


def documents(path):
    with open(path, encoding="utf-8") as file:
        return [document for document in yaml.safe_load_all(file) if document]


def unit():
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    with open(os.path.join(EXAMPLES, "drafters-registry.service"), encoding="utf-8") as file:
        parser.read_file(file)
    return parser


def pods():
    """(object, pod specification) of everything that runs."""
    for path in MANIFESTS:
        for document in documents(path):
            spec = document.get("spec", {})
            template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
            if template:
                yield document, template["spec"]


def containers():
    for document, pod in pods():
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            yield document, pod, container


def test_the_unit_starts_a_command_that_exists():
    service = unit()["Service"]
    program, *argv = shlex.split(service["ExecStart"])
    assert os.path.basename(program) == "drafters"
    name, parsed = understood(argv)
    assert name == "serve"
    assert parsed.value("--admin-token-file").startswith("/run/" + service["RuntimeDirectory"] + "/")
    assert service["Environment"] == "DRAFTERS_DATA=/var/lib/" + service["StateDirectory"]


def test_the_unit_does_not_restart_what_would_fail_again():
    stopping = {int(code) for code in unit()["Service"]["RestartPreventExitStatus"].split()}
    assert stopping <= {code for code, _ in EXIT_CODES}
    assert not stopping & {1, 6}, "a fault, or a database that does not answer yet, may be over the next time"


def test_the_compose_file_runs_commands_that_exist():
    (compose,) = documents(os.path.join(EXAMPLES, "compose.yaml"))
    services = compose["services"]
    ours = {name: one for name, one in services.items() if one["image"].startswith("drafter-registry:")}
    assert {name: understood(map(str, one["command"]))[0] for name, one in ours.items()} == {
        "schema": "db upgrade",
        "registry": "serve",
    }
    assert services["registry"]["depends_on"]["schema"]["condition"] == "service_completed_successfully"
    assert all(one["read_only"] and one["cap_drop"] == ["ALL"] for one in ours.values())
    assert all(port.startswith("127.0.0.1:") for port in services["registry"]["ports"])
    for one in services.values():
        for volume in one["volumes"]:
            assert volume.partition(":")[0] in compose["volumes"]


def test_the_image_runs_a_command_that_exists_and_not_as_root():
    with open(os.path.join(EXAMPLES, "Dockerfile"), encoding="utf-8") as file:
        lines = dict(
            line.split(maxsplit=1) for line in file.read().splitlines() if line and not line.startswith(("#", " "))
        )
    assert lines["ENTRYPOINT"] == '["drafters"]'
    assert understood(yaml.safe_load(lines["CMD"]))[0] == "serve"
    assert not lines["USER"].startswith(("0", "root"))


def test_every_container_runs_a_command_that_exists():
    assert {understood(map(str, container["args"]))[0] for *_, container in containers()} == {
        "db upgrade",
        "serve",
        "gc",
        "fsck",
    }


def test_no_container_may_do_more_than_it_needs():
    for document, pod, container in containers():
        name = document["metadata"]["name"]
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert pod["automountServiceAccountToken"] is False, name
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, name


def test_what_containers_write_is_a_volume():
    for document, pod, container in containers():
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        named = {mount["name"] for mount in container["volumeMounts"]}
        data = {one["name"]: one["value"] for one in container["env"]}["DRAFTERS_DATA"]
        assert any(data.startswith(mount + "/") for mount in mounts), document["metadata"]["name"]
        assert "/tmp" in mounts  # noqa: S108 - where the service builds skeletons
        assert named <= {volume["name"] for volume in pod["volumes"]}


def test_the_deployment_is_probed_and_goes_down_in_order():
    (pod,) = [pod for document, pod in pods() if document["kind"] == "Deployment"]
    (server,) = pod["containers"]
    assert server["livenessProbe"]["httpGet"]["path"] == server["startupProbe"]["httpGet"]["path"] == "/healthz"
    assert server["readinessProbe"]["httpGet"]["path"] == "/readyz"
    (port,) = server["ports"]
    assert port["containerPort"] == 8765
    drain = int(understood(server["args"])[1].value("--drain-seconds"))
    assert drain + 30 < pod["terminationGracePeriodSeconds"]
    assert [container["args"] for container in pod["initContainers"]] == [["db", "upgrade"]]


def test_every_secret_and_selector_is_there():
    made = {(document["kind"], document["metadata"]["name"]) for path in MANIFESTS for document in documents(path)}
    for *_, container in containers():
        for source in container["envFrom"]:
            assert ("Secret", source["secretRef"]["name"]) in made
    by_kind = {document["kind"]: document for path in MANIFESTS for document in documents(path)}
    labels = by_kind["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert by_kind["Service"]["spec"]["selector"] == labels
    assert by_kind["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels


@pytest.mark.parametrize("path", MANIFESTS, ids=os.path.basename)
def test_settings_of_the_secret_are_settings(path):
    from drafter_cli.client.configuration import KEYS

    known = {key.variable for key in KEYS}
    for document in documents(path):
        for name in document.get("stringData", {}):
            assert name in known or name.startswith("AWS_")
