"""A real Prometheus with the example's configuration: it scrapes a vLLM and a registry, and the rules find both."""

from __future__ import annotations

import json
import queue
import re
import subprocess
import threading
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

_LABELS = 'model_name="m",engine="0"'


class Exposition:
    """Serves a text that may change with each time it is asked, and tells each time."""

    def __init__(self, text):
        self.asked, self.keys, times = queue.Queue(), [], iter(range(1, 10**6))
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.keys.append(self.headers.get("authorization"))
                data = text(next(times)).encode()
                outer.asked.put(None)
                self.send_response(200)
                self.send_header("content-type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_words):
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def engine():
    """A vLLM that verifies 1000 times between two scrapes, and accepts 600 tokens."""

    def text(times):
        counts = {"drafts": 1000, "draft_tokens": 3000, "accepted_tokens": 600}
        return "".join(f"vllm:spec_decode_num_{name}_total{{{_LABELS}}} {n * times}\n" for name, n in counts.items())

    made = Exposition(text)
    yield made
    made.close()


@pytest.fixture
def registry(vocabulary):
    """A registry that was told of the same engine."""
    made = Exposition(lambda _: vocabulary.of_registry())
    yield made
    made.close()


@pytest.fixture
def configured(tmp_path, example, engine, registry):
    """Path of the example's configuration with these two, every quarter of a second."""
    for name in ("acceptance.rules.yml", "promises.rules.yml"):
        with open(example(name), encoding="utf-8") as file:
            (tmp_path / name).write_text(file.read().replace("interval: 30s", "interval: 250ms"))
    with open(example("prometheus.yml"), encoding="utf-8") as file:
        stated = yaml.safe_load(file)
    stated["global"] = {"scrape_interval": "250ms", "scrape_timeout": "250ms", "evaluation_interval": "250ms"}
    engines, registries = stated["scrape_configs"]
    engines["static_configs"] = [one for one in engines["static_configs"] if one["labels"]["instance"] == "gpu-2"]
    engines["static_configs"][0]["targets"] = [engine.address]
    registries["static_configs"][0]["targets"] = [registry.address]
    (tmp_path / "token").write_text("secret")
    registries["authorization"]["credentials_file"] = str(tmp_path / "token")
    path = tmp_path / "prometheus.yml"
    path.write_text(yaml.safe_dump(stated))
    return str(path)


@pytest.fixture
def ask(program, configured, tmp_path):
    """A running Prometheus: `ask(expression)` is a list of (labels, value)."""
    command = [program("prometheus"), "--config.file", configured, "--storage.tsdb.path", str(tmp_path / "data")]
    command += ["--web.listen-address", "127.0.0.1:0", "--log.format", "json"]
    reader = None
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        port = None
        for line in process.stderr:
            found = re.search(r'"address":"127\.0\.0\.1:([1-9]\d*)"', line)
            port = found[1] if found else port
            if "Server is ready to receive web requests" in line:
                break
        assert port, process.wait(30)
        reader = threading.Thread(target=process.stderr.readlines)  # or it would stop at a full pipe
        reader.start()

        def query(expression):
            url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
            with urllib.request.urlopen(url, timeout=30) as answer:
                found = json.load(answer)["data"]["result"]
            return [(one["metric"], float(one["value"][1])) for one in found]

        yield query
    finally:
        process.kill()
        process.wait(30)
        if reader is not None:
            reader.join()
        process.stderr.close()


def test_an_engine_and_its_promise_meet(ask, engine, registry):
    for _ in range(60):  # scrapes: nothing else says that time goes on
        engine.asked.get(timeout=30)
        alerts = ask('ALERTS{alertname="DrafterCollapsed"}')
        if alerts:
            break
    ((alert, _),) = alerts
    assert (alert["alertstate"], alert["instance"], alert["source"]) == ("pending", "gpu-2", "vllm")
    ((labels, length),) = ask('drafters:acceptance_length{source!="registry"}')
    assert length == pytest.approx(1.6)
    assert (labels["job"], labels["drafter"], labels["rank"]) == ("engines", "kimi-k2.5-eagle3", "0")
    assert [value for _, value in ask("drafters:promised_length")] == [2.75]
    assert [value for _, value in ask("drafters:least_length")] == [2.575]
    ((observed, _),) = ask("drafters_observed_length")
    assert (observed["exported_instance"], observed["instance"]) == ("gpu-2", registry.address)
    assert set(registry.keys) == {"Bearer secret"}
    assert set(engine.keys) == {None}
    assert ask('up == 0 or ALERTS{alertname="DrafterNeverAccepted"}') == []
