"""`require_compatible`: the gate for launchers in Python."""

from __future__ import annotations

import dataclasses
import os

import msgspec
import pytest

from drafter_cli.errors import IncompatibleError, UsageError, exit_code_of_error
from drafter_cli.guard import require_compatible
from drafter_contracts.errors import LaunchError

ENGINE = "sglang==0.5.23"


@dataclasses.dataclass
class DataArgs:
    model_path: str
    json_model_override_args: str = "{}"
    speculative_algorithm: str | None = None
    speculative_draft_model_path: str | None = None
    speculative_num_steps: int | None = None
    speculative_eagle_topk: int | None = None
    speculative_num_draft_tokens: int | None = None
    cuda_graph_config: object = None
    stat_loggers: object = None


class StructArgs(msgspec.Struct):
    model_path: str
    json_model_override_args: str = "{}"
    speculative_algorithm: str | None = None
    speculative_draft_model_path: str | None = None
    speculative_num_steps: int | None = None
    speculative_eagle_topk: int | None = None
    speculative_num_draft_tokens: int | None = None
    cuda_graph_config: object = None
    stat_loggers: object = None


class Mapping:
    """Somebody else's mapping."""

    def __init__(self, values):
        self.values = values

    def keys(self):
        return self.values.keys()

    def __getitem__(self, name):
        return self.values[name]


def keywords(files, drafter, **more):
    found = {
        "model_path": os.path.join(files, "target"),
        "speculative_algorithm": "EAGLE3",
        "speculative_draft_model_path": os.path.join(files, drafter),
        "speculative_num_steps": 3,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 4,
    }
    return found | more


def command(values):
    words = ["python", "-m", "sglang.launch_server"]
    return words + [word for name, value in values.items() for word in ("--" + name.replace("_", "-"), str(value))]


FORMS = {
    "command": command,
    "keywords": dict,
    "another mapping": Mapping,
    "dataclass": lambda values: DataArgs(**values),
    "struct": lambda values: StructArgs(**values),
    "keywords of an object": lambda values: {"server_args": StructArgs(**values)},
}


@pytest.fixture(autouse=True)
def _default_mode(monkeypatch):
    monkeypatch.delenv("DRAFTERS_GUARD", raising=False)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_launch_gets_the_same_verdict(files, form):
    with pytest.raises(IncompatibleError) as refused:
        require_compatible(FORMS[form](keywords(files, "wrong")), engine=ENGINE)
    verdict = refused.value.verdict
    assert verdict.decision == "refuse"
    (finding,) = [finding for finding in verdict.findings if finding.severity == "refuse"]
    assert finding.code == "CAPTURE_LAYERS"
    assert finding.actual.startswith("boundaries 2, 4, 6")
    assert "CAPTURE_LAYERS" in str(refused.value)
    assert exit_code_of_error(refused.value) == 3
    verdict = require_compatible(FORMS[form](keywords(files, "right")), engine=ENGINE)
    assert (verdict.decision, verdict.context["engine"]) == ("allow", "sglang 0.5.23")


@pytest.mark.parametrize("form", FORMS)
def test_overrides_are_read_in_every_form(files, form):
    overrides = '{"eagle_config":{"eagle_aux_hidden_state_layer_ids":[0,2,4],"use_aux_hidden_state":true}}'
    values = keywords(files, "wrong", json_model_override_args=overrides)
    assert require_compatible(FORMS[form](values), engine=ENGINE).decision == "allow"


@pytest.mark.parametrize("form", FORMS)
def test_what_is_not_known_raises_too(files, form):
    values = keywords(files, "nothing")
    with pytest.raises(IncompatibleError) as stopped:
        require_compatible(FORMS[form](values), engine=ENGINE)
    assert stopped.value.verdict.decision == "unknown"
    assert exit_code_of_error(stopped.value) == 5


@pytest.mark.parametrize("form", FORMS)
def test_a_launch_without_speculation_asks_for_no_engine(form):
    verdict = require_compatible(FORMS[form]({"model_path": "/nowhere"}), engine="/nowhere/engine")
    assert verdict.decision == "allow"
    assert [finding.code for finding in verdict.findings] == ["NO_SPECULATION"]


def test_the_layout_and_the_manifest_may_be_stated(files):
    wrong = keywords(files, "wrong")
    assert require_compatible(wrong, engine=ENGINE, output_ids=[1, 3, 5]).decision == "allow"
    with pytest.raises(IncompatibleError):
        require_compatible(keywords(files, "right"), engine=ENGINE, output_ids=[1, 3, 5])
    manifest = os.path.join(files, "right", "drafters-manifest.json")
    with pytest.raises(IncompatibleError):
        require_compatible(wrong, engine=ENGINE, manifest=manifest)
    with pytest.raises(UsageError, match="output_ids"):
        require_compatible(wrong, engine=ENGINE, output_ids=[-2])


def test_another_drafter_than_the_launch_loads_is_refused(files):
    with pytest.raises(IncompatibleError) as stopped:
        require_compatible(keywords(files, "wrong"), engine=ENGINE, drafter=os.path.join(files, "right"))
    assert "DRAFT_OTHER" in [finding.code for finding in stopped.value.verdict.findings]


def test_the_releases_own_adjustments_are_applied_to_keywords(files):
    values = {name: value for name, value in keywords(files, "right").items() if "num" not in name}
    del values["speculative_eagle_topk"]
    verdict = require_compatible(values, engine=ENGINE)
    assert "SPECULATION_ADJUSTED" in [finding.code for finding in verdict.findings]


def test_objects_that_no_option_takes_are_told_and_stop_nothing(files):
    verdict = require_compatible(DataArgs(**keywords(files, "right"), stat_loggers=object()), engine=ENGINE)
    assert verdict.decision == "allow"
    assert verdict.context["not judged"].startswith("stat_loggers: no option of sglang 0.5.23")
    plain = require_compatible(DataArgs(**keywords(files, "right")), engine=ENGINE)
    assert "not judged" not in plain.context


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("speculative_num_step", 3, "speculative_num_steps"),
        ("speculative_num_steps", "3", "int"),
        ("speculative_draft_model_path", ["a"], "text"),
        ("json_model_override_args", {"eagle_config": {}}, "text"),
    ],
)
def test_a_value_that_decides_must_be_one_of_its_options(files, name, value, expected):
    with pytest.raises(LaunchError) as wrong:
        require_compatible(keywords(files, "right") | {name: value}, engine=ENGINE)
    assert (wrong.value.where, wrong.value.expected) == (name, expected)
    assert repr(value) in wrong.value.actual
    (told,) = wrong.value.__notes__
    assert f"{name}: " in told, "the message alone, which is what a traceback shows, does not say which value"


@pytest.mark.parametrize("ids", ["2,30,58", ["2"], [2.0], [True], [-2], []])
def test_ids_that_are_none_are_a_usage_error(files, ids):
    with pytest.raises(UsageError, match="output_ids is ") as wrong:
        require_compatible(keywords(files, "right"), engine=ENGINE, output_ids=ids)
    assert wrong.value.__notes__ == ["whole numbers from -1 (the embedding) on"]


@pytest.mark.parametrize("launch", ["python -m sglang.launch_server", 3, None, [1, 2], [], object(), DataArgs])
def test_what_is_no_launch_is_a_usage_error(launch):
    with pytest.raises(UsageError, match="cannot be read from"):
        require_compatible(launch, engine=ENGINE)


def test_a_record_that_is_no_server_args_is_a_usage_error():
    with pytest.raises(UsageError, match="has no speculative_algorithm"):
        require_compatible(dataclasses.make_dataclass("Other", ["a"])(1), engine=ENGINE)


def test_modes(files, monkeypatch, capsys):
    wrong = keywords(files, "wrong")
    assert require_compatible(wrong, engine=ENGINE, mode="warn").decision == "refuse"
    assert "CAPTURE_LAYERS" in capsys.readouterr().err
    off = require_compatible(wrong, engine=ENGINE, mode="off")
    assert (off.decision, off.findings, off.checked) == ("unknown", (), ())
    assert capsys.readouterr().err == ""
    unread = require_compatible(wrong | {"speculative_num_steps": "x"}, engine=ENGINE, mode="warn")
    assert (unread.decision, unread.findings) == ("unknown", ())
    assert "speculative_num_steps" in capsys.readouterr().err
    monkeypatch.setenv("DRAFTERS_GUARD", "warn")
    assert require_compatible(wrong, engine=ENGINE).decision == "refuse"
    with pytest.raises(IncompatibleError):
        require_compatible(wrong, engine=ENGINE, mode="enforce")
    monkeypatch.setenv("DRAFTERS_GUARD", "wran")
    with pytest.raises(UsageError, match="DRAFTERS_GUARD is 'wran'"):
        require_compatible(wrong, engine=ENGINE)
    with pytest.raises(UsageError, match="the mode is 'x'"):
        require_compatible(wrong, engine=ENGINE, mode="x")


OWN_ENGINE = """
before = set(sys.modules)  # coverage brings its own
from drafter_cli.guard import require_compatible
verdict = require_compatible(options["right"])
heavy = {"torch", "numpy", "sglang.srt", "dataclasses", "inspect"} & (set(sys.modules) - before)
sys.exit(f"{verdict.decision} by {verdict.context['engine from']} with {heavy}")
"""


def test_without_an_engine_named_it_is_the_one_that_this_process_would_import(engine):
    done = engine.script(OWN_ENGINE.replace("import sglang as sgl\n", ""), DRAFTERS_GUARD="enforce")
    place = os.path.join(engine.site.folder, "sglang")
    assert done.stderr.strip() == f"allow by the package that this process imports, {place} with set()"


def test_where_there_is_no_engine_it_is_unknown(files):
    with pytest.raises(IncompatibleError) as stopped:
        require_compatible(keywords(files, "right"))
    assert [finding.code for finding in stopped.value.verdict.findings] == ["ENGINE_UNKNOWN"]
