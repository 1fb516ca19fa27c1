"""What one SGLang release's config.json for a drafter must say, and under which names its tensors must lie.

Derived from the drafter's facts, its manifest and the release's profile; rules decide whether the result serves.
"""

from __future__ import annotations

import msgspec

from drafter_contracts.layout import describe_taps
from drafter_contracts.rendering.config_class import ClassChoice, choose_class, renamed
from drafter_contracts.rendering.config_edit import ConfigEdit
from drafter_contracts.rendering.config_flat import lay_flat
from drafter_contracts.rendering.config_keys import set_keys
from drafter_contracts.rendering.records import UNCHANGED, WeightChange
from drafter_contracts.rendering.tensor_names import told
from drafter_contracts.rules.remedy import capture_switch
from drafter_contracts.rules.rule import engine, target_class
from drafter_contracts.solve import in_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.situation import Situation
    from drafter_contracts.solve import Solution


class Rendering(msgspec.Struct, frozen=True):
    """How a release must see a drafter.

    Attributes:
        config: Its config.json; None for its own.
        weights: What to change of its weights.
        changes: What is changed of both, one sentence each with its reason.
    """

    config: dict[str, object] | None = None
    weights: WeightChange = UNCHANGED
    changes: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether anything changes."""
        return self.config is not None or self.weights.any


class Shape(msgspec.Struct, frozen=True):
    """A drafter brought into the release's form, its capture ids not yet set.

    Attributes:
        own: The drafter's config, as it is.
        config: The config, laid flat and with the name of the release's class.
        changes: What was changed in it.
        choice: The release's class for the drafter.
        situation: The situation with that config and class, in which the ids are looked for.
    """

    own: dict[str, object]
    config: dict[str, object]
    changes: tuple[str, ...]
    choice: ClassChoice
    situation: Situation


def shape(s: Situation) -> Shape | None:
    """The drafter in the release's form; None if its files or the release are not known."""
    facts = s.drafter
    if facts is None or s.profile is None:
        return None
    edit, choice = ConfigEdit(facts.config), choose_class(s)
    lay_flat(edit, facts, s.profile.name)
    if choice.name:
        edit.put("architectures", [choice.name], choice.reason)
    seen = msgspec.structs.replace(
        facts,
        config=edit.config,
        architectures=(choice.name,) if choice.name else facts.architectures,
        tensors=renamed(facts.tensors, choice.renames),
    )
    by_flag = {key: value for key, value in s.draft_config.items() if value != facts.config.get(key)}
    situation = msgspec.structs.replace(
        s, drafter=seen, draft_class=choice.known, draft_config={**edit.config, **by_flag}
    )
    return Shape(facts.config, edit.config, tuple(edit.changes), choice, situation)


def render(shaped: Shape, found: Solution | None, *, write_ids: bool = True) -> Rendering:
    """The whole render.

    Args:
        shaped: The drafter in the release's form.
        found: The capture ids with which the release feeds the layout; None to leave ids alone.
        write_ids: Whether the config shall hold them; if not, they come by flag, and the rest fits them.
    """
    s, choice = shaped.situation, shaped.choice
    ids = ConfigEdit(shaped.config)
    _set_ids(ids, s, found)
    keys = ConfigEdit(ids.config)
    if choice.known is not None:
        set_keys(keys, s, choice.known)
    config = keys.config if write_ids else keys.repeated_on(shaped.config)
    order = found.order if found is not None else ()
    return Rendering(
        None if config == shaped.own else config,
        WeightChange(order, choice.renames),
        (
            *shaped.changes,
            *(ids.changes if write_ids else ()),
            *keys.changes,
            *told(choice.renames, engine(s)),
            *_reordered(s, order),
        ),
    )


def _set_ids(edit: ConfigEdit, s: Situation, found: Solution | None) -> None:
    if found is None or not found.found or s.stated is None:
        return
    switch = capture_switch(s)
    if switch:
        edit.put(switch, True, "it turned the capture of hidden states off")
    if found.ids is not None:
        fed = describe_taps(in_order(s.stated.layout, found.order or range(len(s.stated.layout.taps))).taps)
        edit.put(found.key, list(found.ids), f"{engine(s)} makes {fed} of them for {target_class(s)}")
        return
    reading = s.profile.readings.get(s.method) if s.profile is not None else None
    for key in reading.keys if reading is not None else ():
        edit.drop(key, found.reason)


def _reordered(s: Situation, order: tuple[int, ...]) -> tuple[str, ...]:
    if not order or s.stated is None:
        return ()
    fed = describe_taps(in_order(s.stated.layout, order).taps)
    told = (
        f"the column blocks of fc, and norms before it, are put in the order {list(order)} of the trained one:"
        f" {engine(s)} concatenates {fed}, whatever the order of the ids"
    )
    return (told,)
