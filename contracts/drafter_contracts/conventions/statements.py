"""Where configs state layer ids: every key of the field, in order of precedence."""

from __future__ import annotations

import msgspec

from drafter_contracts.checkpoint.config_view import dotted, layer_ids, shown
from drafter_contracts.numberings.words import DFLASH, NESTED, TOP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Families of keys: those of one family mean the same numbers.
TOP_FAMILY = "top"
NESTED_FAMILY = "nested"
TARGET_FAMILY = "target"
DSPARK_FAMILY = "dspark"
ANGEL_FAMILY = "angelslim"
RAW_FAMILY = "raw"
GGUF_FAMILY = "gguf"
KEYS = (
    (TOP, TOP_FAMILY),
    ("aux_hidden_state_layer_ids", TOP_FAMILY),
    (NESTED, NESTED_FAMILY),
    (DFLASH, TARGET_FAMILY),
    ("target_layer_ids", TARGET_FAMILY),
    ("model.target_layer_ids", TARGET_FAMILY),
    ("dspark_target_layer_ids", DSPARK_FAMILY),
    ("text_config.dspark_target_layer_ids", DSPARK_FAMILY),
    ("aux_hidden_states_layer_ids", ANGEL_FAMILY),
    ("eagle_config.layer_ids", RAW_FAMILY),
    ("dflash_config.layer_ids", RAW_FAMILY),
    ("eagle3.target_layers", GGUF_FAMILY),
    ("eagle3.extract_layers", GGUF_FAMILY),
    ("dflash.target_layers", GGUF_FAMILY),
)


class Stated(msgspec.Struct, frozen=True):
    """One list of ids in a config.

    Attributes:
        key: Dotted key.
        family: Which keys it speaks like.
        ids: The ids as written.
    """

    key: str
    family: str
    ids: tuple[int, ...]

    def described(self) -> str:
        """For messages: "eagle_config.eagle_aux_hidden_state_layer_ids = [2, 30, 58]"."""
        return f"{self.key} = {list(self.ids)}"


def find_statements(config: Mapping[str, object]) -> tuple[tuple[Stated, ...], tuple[str, ...]]:
    """Every list of layer ids of a config, and one line for each such key that holds anything but a list of ids."""
    found: list[Stated] = []
    malformed: list[str] = []
    for key, family in KEYS:
        value = dotted(config, key)
        if value is None:
            continue
        ids = layer_ids(value)
        if ids is None:
            malformed.append(f"{key} is not a list of layer numbers: {shown(value)}")
        else:
            found.append(Stated(key, family, ids))
    return tuple(found), tuple(malformed)
