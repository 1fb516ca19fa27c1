"""The examples that start an engine with a drafter of the registry: their commands run, with paths of this machine."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib

import kubernetes_validate
import pytest
import yaml

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
EXAMPLES = os.path.join(ROOT, "examples")
ENGINE = os.path.join(EXAMPLES, "engine")
POD = os.path.join(EXAMPLES, "kubernetes", "engine.yaml")
RELEASE = "sglang==0.5.12.post1"
#: A release that captures nothing of this target.
OTHER_RELEASE = "sglang==0.4.5"
OTHER_LAYERS = '{"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 2], "use_aux_hidden_state": true}}'


def documents():
    with open(POD, encoding="utf-8") as file:
        return {one["kind"]: one for one in yaml.safe_load_all(file)}


def pod():
    return documents()["Deployment"]["spec"]["template"]["spec"]


class Host:
    """A registry with one drafter, a stand-in engine, and what a pod or a unit would find in its environment."""

    def __init__(self, bench, shop, command):
        self.bench, self.shop = bench, shop
        shop.publish(shop.drafter(), "--steps", "3", "--topk", "1", "--draft-tokens", "4", "--alias", "prod")
        os.symlink("python", os.path.join(bench.binaries, "python3"))
        self.path = os.pathsep.join((bench.binaries, os.path.dirname(command), os.environ["PATH"]))
        self.volume = os.path.join(bench.folder, "volume")
        os.mkdir(self.volume)

    def run(self, argv, does="exit 17", **variables):
        # The session's cache: the stand-in engine's profile is kept there.
        own = {**self.shop.variables, "DRAFTERS_CACHE": os.environ["DRAFTERS_CACHE"], "PATH": self.path}
        given = {"REFERENCE": "tiny@prod", "TARGET": self.shop.target, "ENGINE": RELEASE}
        every = os.environ | own | given | self.bench.variables(does) | variables
        return subprocess.run(
            argv,
            env={name: value for name, value in every.items() if value is not None},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )

    def in_pod(self, container, **variables):
        """Run a container's command with the pod's paths replaced by this host's."""
        scripts = os.path.join(self.bench.folder, "scripts")
        os.makedirs(scripts, exist_ok=True)
        for name, text in documents()["ConfigMap"]["data"].items():
            with open(os.path.join(scripts, name), "w", encoding="utf-8") as file:
                file.write(text)
        places = {"/scripts": scripts, "/drafter": self.volume, "/models/Kimi-K2.5": self.shop.target}

        def here(text):
            return next(
                (text.replace(there, place, 1) for there, place in places.items() if text.startswith(there)), text
            )

        set_here = {one["name"]: here(one["value"]) for one in container["env"] if "value" in one}
        mine = {"REFERENCE": "tiny@prod", "ENGINE": RELEASE}
        for name in ("DRAFTERS_URL", "DRAFTERS_CACHE"):  # the registry in this process
            set_here.pop(name, None)
        return self.run([*map(here, container["command"]), *container.get("args", ())], **set_here | mine | variables)


@pytest.fixture
def host(bench, own_shop, command):
    return Host(bench, own_shop, command)


def test_the_pod_is_what_kubernetes_understands():
    for kind, document in documents().items():
        assert kubernetes_validate.validate(document, "1.31", strict=True), kind
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(documents()["Deployment"] | {"spec": {"replicas": "one"}}, "1.31", strict=True)


def test_the_pod_s_scripts_are_the_examples():
    for name, text in documents()["ConfigMap"]["data"].items():
        with open(os.path.join(ENGINE, name), encoding="utf-8") as file:
            assert text == file.read()


def test_what_the_pod_names_is_there():
    every = pod()
    volumes = {volume["name"] for volume in every["volumes"]}
    for container in (*every["initContainers"], *every["containers"]):
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
        assert os.path.basename(container["command"][1]) in documents()["ConfigMap"]["data"]
        for variable in container["env"]:
            if "valueFrom" in variable:
                secret = variable["valueFrom"]["secretKeyRef"]
                assert secret["name"] == documents()["Secret"]["metadata"]["name"]
                assert secret["key"] in documents()["Secret"]["stringData"]
    labels = documents()["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert documents()["Service"]["spec"]["selector"] == labels


def test_the_pod_serves_what_it_resolved(host):
    (init,), (engine,) = pod()["initContainers"], pod()["containers"]
    done = host.in_pod(init)
    assert done.returncode == 0, done.stderr
    assert {"drafter", "flags"} <= set(os.listdir(host.volume))
    done = host.in_pod(engine)
    assert done.returncode == 17, done.stderr
    told = host.bench.told()["argv"]
    assert told[:8] == ["--model-path", host.shop.target, *engine["args"]]
    assert told[told.index("--speculative-draft-model-path") + 1] == os.path.join(host.volume, "drafter")
    assert "EAGLE3" in told


@pytest.mark.parametrize(("variables", "code"), [({"REFERENCE": "tiny@nope"}, 2), ({"ENGINE": OTHER_RELEASE}, 3)])
def test_a_pod_whose_drafter_cannot_be_served_starts_no_engine(host, variables, code):
    (init,), (engine,) = pod()["initContainers"], pod()["containers"]
    assert host.in_pod(init).returncode == 0, "what an earlier start left must not be taken for this one's"
    done = host.in_pod(init, **variables)
    assert done.returncode == code, done.stderr
    assert "flags" not in os.listdir(host.volume)
    assert host.in_pod(engine).returncode != 0
    assert not host.bench.started


def changed(host):
    """Someone writes into the volume between the two containers."""
    path = os.path.join(host.volume, "drafter", "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = [0, 1, 2]
    os.chmod(path, 0o600)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)


def test_a_pod_guards_what_it_starts(host):
    (init,), (engine,) = pod()["initContainers"], pod()["containers"]
    host.in_pod(init)
    changed(host)
    done = host.in_pod(engine)
    assert done.returncode == 3, done.stderr
    assert not host.bench.started


@pytest.mark.parametrize("flags", ["", None])
def test_without_flags_nothing_is_started(host, flags):
    path = os.path.join(host.volume, "flags")
    if flags is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(flags)
    done = host.run([os.path.join(ENGINE, "start-engine.sh")], FLAGS=path)
    assert done.returncode != 0
    assert not host.bench.started


def test_the_entry_point_becomes_the_engine(host):
    done = host.run([os.path.join(ENGINE, "entrypoint.sh"), "--tp", "8", "--served-model-name", "a  'b'"])
    assert done.returncode == 17, done.stderr
    assert host.bench.told()["argv"][2:6] == ["--tp", "8", "--served-model-name", "a  'b'"]


def test_the_entry_point_starts_nothing_that_was_refused(host):
    done = host.run([os.path.join(ENGINE, "entrypoint.sh")], REFERENCE="tiny@other")
    assert done.returncode == 2, done.stderr
    done = host.run([os.path.join(ENGINE, "entrypoint.sh")], TARGET=host.bench.plain_target)
    assert done.returncode == 3, done.stderr
    twice = [os.path.join(ENGINE, "entrypoint.sh"), "--json-model-override-args", OTHER_LAYERS]
    done = host.run(twice)
    assert done.returncode == 3, done.stderr
    assert "the launch was not started" in done.stderr
    assert not host.bench.started


def test_the_image_is_made_of_what_is_there():
    with open(os.path.join(ENGINE, "Dockerfile"), encoding="utf-8") as file:
        text = file.read()
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        version = tomllib.load(file)["project"]["version"]
    assert f"drafter-registry[client]=={version}" in text
    copied = re.search(r"^COPY (.*) (\S+)$", text, flags=re.MULTILINE)
    assert all(os.access(os.path.join(ENGINE, name), os.X_OK) for name in copied[1].split())
    (entry,) = json.loads(re.search(r"^ENTRYPOINT (.*)$", text, flags=re.MULTILINE)[1])
    assert entry.removeprefix(copied[2]) in copied[1].split()


def unit():
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    with open(os.path.join(ENGINE, "sglang.service"), encoding="utf-8") as file:
        parser.read_file(file)
    return parser["Service"]


def unit_command(name, host):
    """The argv of a unit's line, as systemd reads it, with its programs where they are here."""
    words = [word.replace("$$", "$") for word in shlex.split(unit()[name])]
    return [word.replace("/opt/engine/libexec", ENGINE) for word in words]


def test_the_unit_s_commands_serve_what_they_resolved(host):
    flags = os.path.join(host.volume, "flags")
    done = host.run(unit_command("ExecStartPre", host), FLAGS=flags)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    done = host.run(unit_command("ExecStart", host), FLAGS=flags)
    assert done.returncode == 17, done.stderr
    assert host.bench.told()["argv"][2:4] == ["--host", "0.0.0.0"]  # noqa: S104 - the example's


def test_a_unit_whose_drafter_is_refused_fails_before_its_start(host):
    done = host.run(
        unit_command("ExecStartPre", host), FLAGS=os.path.join(host.volume, "flags"), REFERENCE="tiny@other"
    )
    assert done.returncode == 2
    assert host.run(unit_command("ExecStart", host), FLAGS=os.path.join(host.volume, "flags")).returncode == 5
    assert not host.bench.started


@pytest.mark.parametrize("name", ["engine/sglang.service", "drafters.service", "drafters-registry.service"])
def test_units_are_what_systemd_understands(name, tmp_path):
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd-analyze is not installed")
    with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
        text = re.sub(r"(?<==)/opt/\S+", "/bin/true", file.read())
    path = tmp_path / os.path.basename(name)
    path.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [tool, "verify", "--man=no", str(path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
