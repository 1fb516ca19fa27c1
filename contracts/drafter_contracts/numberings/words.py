"""Words that several rows of the table share."""

from __future__ import annotations

#: SGLang's key.
NESTED = "eagle_config.eagle_aux_hidden_state_layer_ids"
#: vLLM's and speculators' key.
TOP = "eagle_aux_hidden_state_layer_ids"
#: The key of DFLASH and DSPARK drafters.
DFLASH = "dflash_config.target_layer_ids"
OUTPUT = "output of layer i"
BOUNDARY = "residual stream after i layers (input of layer i)"
#: The default of every trainer that counts outputs: the same states as `BOUNDARY_DEFAULT`.
OUTPUT_DEFAULT = ("1", "N//2-1", "N-4")
#: The default of every reader that counts inputs.
BOUNDARY_DEFAULT = ("2", "N//2", "N-3")
