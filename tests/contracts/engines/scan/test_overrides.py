"""How overrides reach a drafter's config: on small releases written here."""

from __future__ import annotations

import pytest
from scan_toy_runner import (
    release,
)

from drafter_contracts.engines.scan.readings import derive


@pytest.mark.parametrize(
    ("given", "apply", "expected"),
    [
        ("server_args.json_model_override_args", "config.update(model_override_args)", (True, "replace", ())),
        (
            "None if is_draft_model else server_args.json_model_override_args",
            "config.update(model_override_args)",
            (False, "replace", ()),
        ),
        (
            "server_args.json_model_override_args",
            (
                "for key, value in model_override_args.items():\n"
                "    held = getattr(config, key, None)\n"
                "    if key == 'rope_scaling' and isinstance(held, dict):\n"
                "        value = {**held, **value}\n"
                "    setattr(config, key, value)"
            ),
            (True, "replace", ("rope_scaling",)),
        ),
        (
            "server_args.json_model_override_args",
            (
                "for key, value in model_override_args.items():\n"
                "    held = getattr(config, key, None)\n"
                "    setattr(config, key, {**held, **value} if isinstance(held, dict) else value)"
            ),
            (True, "unknown", ("dflash_config", "eagle_config", "rope_parameters", "rope_scaling")),
        ),
    ],
)
def test_overrides_reach_the_drafter_and_replace_or_merge_as_the_code_does(given, apply, expected):
    part, _ = derive(release(given=given, apply=apply))
    assert (part.overrides.drafter, part.overrides.merge, part.overrides.merged) == expected


def test_a_worker_that_makes_the_config_itself_hands_the_override_on():
    worker = (
        "class TpModelWorker:\n"
        "    def __init__(self, server_args, is_draft_worker):\n"
        "        self.model_config = ModelConfig(model_override_args=server_args.json_model_override_args)\n"
    )
    extra = {"configs/model_config.py": "class ModelConfig:\n    pass\n", "managers/tp_worker.py": worker}
    part, files = derive(release(extra=extra))
    assert (part.overrides.target, part.overrides.drafter, part.overrides.merge) == (True, True, "replace")
    assert "managers/tp_worker.py" in files
