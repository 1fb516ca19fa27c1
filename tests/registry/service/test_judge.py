"""Check and resolve of stored drafters: by the registry's own bytes and the request, and by nothing else."""

from __future__ import annotations

import os

import msgspec
import pytest
from sqlalchemy import event

from drafter_contracts.engines.store import load_profile
from drafter_registry.documents import CheckRequest, ResolveRequest
from drafter_registry.errors import InvalidError, NotAuthorisedError, NotFoundError, RefusedError, UnknownError
from drafter_registry.names import read_reference
from drafter_registry.service import aliases, judge
from drafter_registry.service.context import Actor
from drafter_registry.service.locate import locate
from drafter_registry.service.plan_cache import Answer, Key, PlanCache
from drafter_registry.service.versions import delete, yank

READER = Actor("reader", ("read",))
NOBODY = Actor("anonymous", ())
NAME = "tiny-eagle3"
TARGET_CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 8,
    "vocab_size": 64, "max_position_embeddings": 4096,
}  # fmt: skip
LAUNCH = (
    "python", "-m", "sglang.launch_server", "--model-path", "org/target", "--speculative-algorithm", "EAGLE3",
    "--speculative-draft-model-path", "/drafter", "--speculative-num-steps", "3", "--speculative-eagle-topk", "1",
    "--speculative-num-draft-tokens", "4",
)  # fmt: skip


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    """Every test begins with no answer kept."""
    monkeypatch.setattr(judge, "_PLANS", PlanCache())


@pytest.fixture
def stored(registry, admin, publish, drafter):
    """A version on which `prod` points."""
    done = publish(drafter())
    aliases.move(registry, admin, NAME, "prod", "1.0.0", expected=None)
    return done


def ask(reference="1.0.0", engine="sglang==0.5.23", **more):
    more = {"steps": 3, "topk": 1} | more if engine else more
    return ResolveRequest(drafter=f"{NAME}@{reference}", engine=engine, **more)


@pytest.mark.parametrize("reference", ["1.0.0", "prod", "digest"])
def test_a_reference_resolves_to_flags_files_and_a_verdict(registry, stored, reference):
    made = judge.resolve(registry, READER, ask(stored.digest if reference == "digest" else reference))
    assert (made.name, made.version, made.digest, made.fingerprint) == (
        NAME, "1.0.0", stored.digest, stored.fingerprint,
    )  # fmt: skip
    assert made.engine == "sglang 0.5.23"
    assert made.flags[:4] == ("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "{drafter}")
    assert {record.path for record in made.files} == {"config.json", "model.safetensors"}
    assert made.verdict.decision in {"allow", "warn"}
    assert made.manifest.layout.boundaries == (3, 17, 30)


def test_a_release_of_vllm_is_answered_with_its_own_option(registry, stored):
    made = judge.resolve(registry, READER, ask(engine="vllm==0.33.0", draft_path="/srv/d"))
    option, text = made.flags
    assert (made.engine, option) == ("vllm 0.33.0", "--speculative-config")
    assert msgspec.json.decode(text) == {"method": "eagle3", "model": "/srv/d", "num_speculative_tokens": 3}
    assert made.config["eagle_aux_hidden_state_layer_ids"] == [3, 17, 30]
    located = locate(registry, READER, read_reference(f"{NAME}@1.0.0"))
    kept = judge.resolve_kept(READER, ask(engine="vllm==0.33.0", draft_path="/srv/d"), located)
    assert kept == made
    with pytest.raises(RefusedError) as caught:
        judge.resolve(registry, READER, ask(engine="vllm==0.11.0"))
    assert "CAPTURE_LAYERS" in {finding.code for finding in caught.value.verdict.findings}


def test_nothing_is_known_of_another_release_of_vllm_and_its_launches_are_not_judged(registry, stored):
    with pytest.raises(UnknownError) as caught:
        judge.resolve(registry, READER, ask(engine="vllm==0.12.0"))
    (finding,) = caught.value.verdict.findings
    assert (finding.code, "0.33.0" in finding.remedy) == ("ENGINE_UNKNOWN", True)
    with pytest.raises(InvalidError, match="no engine release"):
        judge.check(registry, READER, CheckRequest(drafter=f"{NAME}@1.0.0", engine="vllm==0.33.0", launch=LAUNCH))
    for engine in ("vllm", "vllm==", "vllm==../x", "other==1"):
        with pytest.raises(InvalidError, match="no engine release"):
            judge.resolve(registry, READER, ask(engine=engine))


def test_a_draft_path_takes_the_placeholders_place(registry, stored):
    assert judge.resolve(registry, READER, ask(draft_path="/srv/d")).flags[3] == "/srv/d"
    assert judge.resolve(registry, READER, ask()).flags[3] == "{drafter}"
    with pytest.raises(InvalidError, match="as an option"):
        judge.resolve(registry, READER, ask(draft_path="--help"))


def test_without_an_engine_there_is_the_contract_alone(registry, stored):
    made = judge.resolve(registry, READER, ask(engine=""))
    assert (made.engine, made.flags, made.verdict) == ("", (), None)
    assert made.files
    assert made.manifest is not None


def test_a_refusal_carries_the_whole_verdict(registry, stored):
    config = TARGET_CONFIG | {"num_hidden_layers": 16, "hidden_size": 16}
    with pytest.raises(RefusedError) as caught:
        judge.resolve(registry, READER, ask(target_config=config))
    assert caught.value.code == "REFUSED"
    assert {"TARGET_DEPTH", "TARGET_WIDTH"} <= {finding.code for finding in caught.value.verdict.findings}
    assert caught.value.hint


def test_what_is_missing_is_named_in_the_hint(registry, stored):
    with pytest.raises(RefusedError) as caught:
        judge.resolve(registry, READER, ask(topk=None))
    assert "--speculative-eagle-topk" in caught.value.hint


def test_a_release_of_which_nothing_is_known_is_unknown(registry, stored):
    with pytest.raises(UnknownError) as caught:
        judge.resolve(registry, READER, ask(engine="sglang==9.9.9"))
    assert caught.value.code == "UNDECIDED"
    assert "drafters engine update 9.9.9" in caught.value.hint
    assert [finding.code for finding in caught.value.verdict.findings] == ["ENGINE_UNKNOWN"]
    assert len(judge._PLANS) == 0, "that may be known tomorrow"


@pytest.mark.parametrize("engine", ["trtllm==0.9", "0.5.23", "sglang", "sglang==", "sglang==../../etc", "sglang==5\n"])
def test_an_engine_is_named_one_way(registry, stored, engine):
    with pytest.raises(InvalidError, match="names no engine release"):
        judge.resolve(registry, READER, ask(engine=engine))


def test_a_yanked_version_resolves_by_its_exact_version_and_says_so(registry, admin, stored):
    for reference in ("1.0.0", "prod"):
        assert not any("yanked" in told for told in judge.resolve(registry, READER, ask(reference)).notices)
    yank(registry, admin, NAME, "1.0.0", why="wrong labels", undo=False)
    assert "was yanked: wrong labels" in judge.resolve(registry, READER, ask()).notices[0]
    for reference in ("prod", stored.digest):
        with pytest.raises(NotFoundError, match="yanked"):
            judge.resolve(registry, READER, ask(reference))
    yank(registry, admin, NAME, "1.0.0", why="", undo=True)
    assert not any("yanked" in told for told in judge.resolve(registry, READER, ask("prod")).notices)


def test_kept_answers_know_nothing_of_access_aliases_and_deletions(registry, admin, stored, publish, drafter):
    judge.resolve(registry, READER, ask("prod"))
    with pytest.raises(NotAuthorisedError):
        judge.resolve(registry, NOBODY, ask("prod"))
    publish(drafter(version="1.1.0", boundaries=(3, 17, 29)))
    aliases.move(registry, admin, NAME, "prod", "1.1.0", expected=1)
    assert judge.resolve(registry, READER, ask("prod")).version == "1.1.0"
    aliases.move(registry, admin, NAME, "prod", "1.1.0", expected=None)
    delete(registry, admin, NAME, "1.0.0", why="")
    with pytest.raises(NotFoundError, match="deleted"):
        judge.resolve(registry, READER, ask())


def test_a_repeated_question_costs_one_look_up_and_no_transaction(registry, stored, monkeypatch):
    statements, looks, look = [], [], registry.database.look
    first = judge.resolve(registry, READER, ask("prod"))
    event.listen(registry.database.engine, "before_cursor_execute", lambda *call: statements.append(call[2]))
    monkeypatch.setattr(registry.database, "look", lambda key, **values: looks.append(values) or look(key, **values))
    assert judge.resolve(registry, READER, ask("prod")) == first
    assert (looks, statements) == ([{"name": NAME, "alias": "prod"}], [])


@pytest.mark.parametrize("reference", ["1.0.0", "prod"])
def test_a_kept_answer_is_given_without_the_database(registry, stored, reference):
    located = locate(registry, READER, read_reference(f"{NAME}@{reference}"))
    judge._PLANS._answers.clear()
    assert judge.resolve_kept(READER, ask(reference), located) is None
    first = judge.resolve(registry, READER, ask(reference))
    assert judge.resolve_kept(READER, ask(reference), located) == first
    with pytest.raises(NotAuthorisedError):
        judge.resolve_kept(NOBODY, ask(reference), located)


@pytest.mark.parametrize(
    "other",
    [
        {"engine": "sglang==0.5.22"}, {"steps": 2}, {"target": "elsewhere"}, {"target_config": TARGET_CONFIG},
        {"target_tokenizer_sha256": "a" * 64}, {"extra": ("--page-size", "2")}, {"draft_path": "/elsewhere"},
    ],
)  # fmt: skip
def test_another_question_has_another_answer(registry, stored, other):
    judge.resolve(registry, READER, ask())
    judge.resolve(registry, READER, ask(**other))
    assert len(judge._PLANS) == 2


def test_no_more_answers_are_kept_than_allowed_and_none_that_is_large(stored, registry):
    manifest = judge.resolve(registry, READER, ask(engine="")).manifest
    kept = PlanCache(2)
    keys = [Key(str(number), "", "", "", judge.Wishes()) for number in range(3)]
    for key in keys:
        kept.put(key, Answer(manifest, None))
    assert [kept.get(key) is not None for key in keys] == [False, True, True]
    kept.put(large := Key("x", "", "t" * 100_000, "", judge.Wishes()), Answer(manifest, None))
    assert kept.get(large) is None


def test_a_wish_that_no_launch_can_have_is_invalid(registry, stored):
    with pytest.raises(InvalidError) as caught:
        judge.resolve(registry, READER, ask(steps=0))
    assert caught.value.faults[0].pointer == "steps"
    with pytest.raises(InvalidError):
        judge.resolve(registry, READER, ask(extra=("--speculative-num-steps", "9")))


def test_no_file_of_the_server_is_read(registry, stored, tmp_path, monkeypatch):
    secret = tmp_path / "secret.yaml"
    secret.write_text("page-size: 64\n")
    for make in (
        lambda: judge.resolve(registry, READER, ask(extra=("--config", str(secret)))),
        lambda: judge.check(registry, READER, by_reference(launch=(*LAUNCH, "--config", str(secret)))),
        lambda: judge.check(registry, READER, by_reference(launch=("bash", "-c", f"sglang serve --config {secret}"))),
    ):
        with pytest.raises(InvalidError, match="reads no files"):
            make()
    opened = []
    real = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: opened.append(path) or real(path))
    judge.check(registry, READER, by_reference(launch=LAUNCH))
    assert str(tmp_path) not in opened
    assert "/drafter" not in opened


def by_reference(**more):
    given = {"launch": LAUNCH, "engine": "sglang==0.5.12.post1"} | more
    return CheckRequest(drafter=f"{NAME}@1.0.0", **given)


def test_a_launch_is_checked_against_a_stored_drafter(registry, stored):
    verdict = judge.check(registry, READER, by_reference())
    assert verdict.decision in {"allow", "warn"}
    assert verdict.context["drafter"] == f"{NAME}@1.0.0"
    wrong = judge.check(registry, READER, by_reference(launch=(*LAUNCH, "--json-model-override-args",
        '{"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 15, 28]}}')))  # fmt: skip
    assert wrong.decision == "refuse"
    assert "CAPTURE_LAYERS" in {finding.code for finding in wrong.findings}


def test_the_flags_that_resolve_gives_pass_the_check(registry, stored):
    for engine in ("sglang==0.5.23", "sglang==0.5.12.post1", "sglang==0.5.9"):
        made = judge.resolve(registry, READER, ask(engine=engine, draft_path="/drafter"))
        argv = ("python", "-m", "sglang.launch_server", "--model-path", "org/target", *made.flags)
        assert judge.check(registry, READER, by_reference(engine=engine, launch=argv)).decision in {"allow", "warn"}


def test_options_may_be_sent_as_a_mapping(registry, stored):
    serving = {
        "model-path": "org/target", "speculative_algorithm": "EAGLE3", "speculative-draft-model-path": "-odd",
        "speculative-num-steps": 3, "speculative-eagle-topk": 1, "speculative-num-draft-tokens": 4,
        "trust-remote-code": True, "disable-cuda-graph": False, "page-size": None,
    }  # fmt: skip
    verdict = judge.check(registry, READER, by_reference(launch=(), serving=serving))
    assert verdict.decision in {"allow", "warn"}
    refused = judge.check(registry, READER, by_reference(launch=(), serving=serving | {"no-such-option": 1}))
    assert "ARGUMENT_REFUSED" in {finding.code for finding in refused.findings}
    with pytest.raises(InvalidError) as caught:
        judge.check(registry, READER, by_reference(launch=(), serving={"--x": 1, "a b": 2}))
    assert len(caught.value.faults) == 2


def test_every_switch_is_written_as_the_release_reads_it():
    from drafter_contracts.serving.parse import parse_arguments
    from drafter_registry.service.asked_launch import serving_arguments

    flags = load_profile("sglang", "0.5.23").launch.flags
    for flag in flags:
        name = next((name for name in flag.names if name.startswith("--")), "")
        if not name or flag.action not in {"store_true", "BooleanOptionalAction"}:
            continue
        for value in (True, False):
            read = parse_arguments(flags, ("--model-path=x", *serving_arguments({name[2:]: value}, flags)))
            assert not read.problems, name
            dest = flag.dest or name[2:].replace("-", "_")
            assert read.values[dest] is value or (not value and read.values[dest] == flag.default)


def test_a_manifest_may_be_sent_instead(registry, stored):
    made = judge.resolve(registry, READER, ask(engine=""))
    request = CheckRequest(manifest=made.manifest, launch=LAUNCH, engine="sglang==0.5.12.post1")
    open_question = judge.check(registry, READER, request)
    assert open_question.decision == "unknown"
    config = {"architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 8, "num_hidden_layers": 1, "vocab_size": 64,
        "draft_vocab_size": 16, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [9, 16, 29]}}  # fmt: skip
    refused = judge.check(registry, READER, msgspec.structs.replace(request, config=config))
    assert "CAPTURE_LAYERS" in {finding.code for finding in refused.findings}


@pytest.mark.parametrize(
    ("request_", "pointers"),
    [
        ({"engine": "sglang==0.5.23"}, {"/drafter", "/launch"}),
        ({"drafter": "a@1", "launch": LAUNCH, "serving": {}, "engine": "sglang==0.5.23"}, {"/launch"}),
        ({"drafter": "a@1", "launch": LAUNCH, "config": {}, "engine": "sglang==0.5.23"}, {"/config"}),
    ],
)
def test_a_check_names_one_drafter_and_one_launch(registry, request_, pointers):
    with pytest.raises(InvalidError) as caught:
        judge.check(registry, READER, CheckRequest(**request_))
    assert {fault.pointer for fault in caught.value.faults} == pointers


def test_a_command_that_starts_no_engine_is_unknown(registry, stored):
    verdict = judge.check(registry, READER, by_reference(launch=("bash", "start.sh")))
    assert [finding.code for finding in verdict.findings] == ["LAUNCH_UNREADABLE"]
    assert verdict.decision == "unknown"


def test_no_variable_of_the_server_has_a_part_in_a_verdict(registry, stored, monkeypatch):
    monkeypatch.setenv("SECRET_PATH", "/the/secret")
    text = "python -m sglang.launch_server --model-path m --no-such-option $SECRET_PATH"
    verdict = judge.check(registry, READER, by_reference(launch=("bash", "-c", text)))
    assert "/the/secret" not in msgspec.json.encode(verdict).decode()
    monkeypatch.setenv("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", "1")
    assert judge.check(registry, READER, by_reference()) == judge.check(registry, READER, by_reference())


def test_a_target_config_that_cannot_be_is_told(registry, stored):
    config = TARGET_CONFIG | {"num_hidden_layers": -3}
    with pytest.raises(InvalidError, match="target's config"):
        judge.resolve(registry, READER, ask(target_config=config))
    assert judge.check(registry, READER, by_reference(target_config=config)).decision == "unknown"


def test_judging_needs_a_scope_and_something_to_judge(registry, stored):
    for call in (
        lambda actor, reference: judge.resolve(registry, actor, ask(reference)),
        lambda actor, reference: judge.check(
            registry, actor, CheckRequest(drafter=f"{NAME}@{reference}", launch=LAUNCH, engine="sglang==0.5.23")
        ),
    ):
        with pytest.raises(NotAuthorisedError):
            call(NOBODY, "1.0.0")
        with pytest.raises(NotFoundError):
            call(READER, "7.7.7")
