"""How a release is fitted to a CPU that has none of its kernels: what runs is exchanged, what is captured is not."""

import importlib

import torch


def keep_intel_amx():
    """Do not fall back from `intel_amx` for want of its packed-weight kernels: the stand-in has the operators."""
    for name in ("overrides", "attention_hook"):
        try:
            module = importlib.import_module(f"sglang.srt.arg_groups.{name}")
        except ImportError:
            continue
        if hasattr(module, "_attention_backend_platform_fallbacks"):
            module._attention_backend_platform_fallbacks = lambda _view: {}


def use_reference_attention():
    """Put plain causal attention in the place of the release's backends, which have no kernels for this shape on a CPU.

    One prompt is prefilled, so that keys and values are all at hand.
    """
    from sglang.srt.layers.radix_attention import RadixAttention

    def forward(self, q, k, v, _batch=None, _save=True, *, q_rope=None, k_rope=None, sinks=None, **_keywords):
        n, heads = q.shape[0], self.tp_q_head_num
        q, k = (
            x.reshape(n, -1, x.shape[-1]) if x.dim() == 3 else x.reshape(n, count, -1)
            for x, count in ((q, heads), (k, self.tp_k_head_num))
        )
        if q_rope is not None:
            q = torch.cat([q, q_rope.reshape(n, heads, -1)], -1)
            k = torch.cat([k, k_rope.reshape(n, k.shape[1], -1)], -1)
        v = v.reshape(n, k.shape[1], -1)
        k, v = (x.repeat_interleave(heads // x.shape[1], 1).float() for x in (k, v))
        scores = torch.einsum("nhd,mhd->hnm", q.float(), k) * self.scaling
        gap = torch.arange(n)[:, None] - torch.arange(n)[None, :]
        window = getattr(self, "sliding_window_size", -1)
        seen = (gap >= 0) & (gap <= window) if window is not None and window > 0 else gap >= 0
        scores = scores.masked_fill(~seen, float("-inf"))
        if sinks is not None:
            scores = torch.cat([scores, sinks.float().view(-1, 1, 1).expand(-1, n, 1)], -1)
        weights = torch.softmax(scores, -1)[..., :n]
        return torch.einsum("hnm,mhd->nhd", weights, v).reshape(n, -1).to(q.dtype)

    RadixAttention.forward = forward


def unpacked_latent_attention():
    """Take the way of other devices through latent attention: the CPU's wants weights packed for one operator."""
    from sglang.srt.models import deepseek_v2

    class Unpacked:
        def __init__(self, *_arguments, **_keywords):
            pass

        def process_weights_after_loading(self, module):
            pass

    deepseek_v2.use_intel_amx_backend = lambda _module: False
    deepseek_v2.PackWeightMethod = Unpacked


def norm_in_place():
    """Let the fused add-and-norm write into its two arguments, as the kernels of every device do.

    The release's own PyTorch version, which runs here, makes new tensors instead: a state that was captured without a
    copy would survive here and nowhere else.
    """
    from sglang.srt.layers.layernorm import RMSNorm

    native = RMSNorm.forward_native

    def forward_native(self, x, residual=None, *arguments, **keywords):
        made = native(self, x, residual, *arguments, **keywords)
        if residual is None:
            return made
        for given, result in zip((x, residual), made, strict=True):
            given.copy_(result)
        return x, residual

    RMSNorm.forward_native = forward_native


def load_expert_biases():
    """Load experts as on other devices: the CPU's loader fails at their biases (it narrows a missing dimension)."""
    try:
        module = importlib.import_module("sglang.srt.layers.moe.fused_moe_triton.layer")
    except ImportError:
        return
    if hasattr(module, "_is_cpu"):
        module._is_cpu = False
