"""What releases before 0.5.9 take from their AMX build on a CPU: linear layers, norms, activations, rotary embedding.

Weights are left unpacked.
"""

import torch
import torch.nn.functional as F  # noqa: N812

_ROTARY = "rotary_embedding_cpu(Tensor pos, Tensor q, Tensor k, int head, Tensor cache, bool neox) -> (Tensor, Tensor)"

_EXPERTS = (
    "fused_experts_cpu(Tensor x, Tensor w13, Tensor w2, Tensor weights, Tensor ids, bool inplace, bool int8, bool fp8, "
    "Tensor? a, Tensor? b, int[]? block, Tensor? c, Tensor? d, bool packed) -> Tensor"
)
_SHARED = (
    "shared_expert_cpu(Tensor x, Tensor gate_up, Tensor down, Tensor experts, float factor, bool inplace, bool int8, "
    "bool fp8, Tensor? a, Tensor? b, int[]? block, Tensor? c, Tensor? d, bool packed) -> Tensor"
)
_SOFTMAX = (
    "topk_softmax_cpu(Tensor hidden_states, Tensor gating_output, int topk, bool renormalize) -> (Tensor, Tensor)"
)
_BIASED = (
    "biased_grouped_topk_cpu(Tensor hidden_states, Tensor gating_output, Tensor correction_bias, int topk, "
    "bool renormalize, int num_expert_group, int topk_group, int num_fused_shared_experts, "
    "float? routed_scaling_factor, Tensor? num_token_non_padded) -> (Tensor, Tensor)"
)


def _norm(x, weight, eps):
    return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps) * weight.float()).to(x.dtype)


def _add_and_norm(x, residual, weight, eps):
    residual.add_(x)
    x.copy_(_norm(residual, weight, eps))


def _gated(x):
    half = x.shape[-1] // 2
    return F.silu(x[..., :half]) * x[..., half:]


def _linear(x, weight, bias, _packed):
    return F.linear(x, weight, None if bias is None else bias.to(x.dtype))


def _rotary(positions, query, key, head, cache, neox):
    table = cache[positions.long()].float()
    cos, sin = (part[:, None, :] for part in table.chunk(2, -1))
    turned = table.shape[-1]

    def rotate(tensor):
        x = tensor.reshape(tensor.shape[0], -1, head).float()
        part = x[..., :turned]
        if neox:
            first, second = part.chunk(2, -1)
            out = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
        else:
            first, second = part[..., ::2], part[..., 1::2]
            out = torch.stack([first * cos - second * sin, second * cos + first * sin], -1).flatten(-2)
        return torch.cat([out, x[..., turned:]], -1).to(tensor.dtype).reshape(tensor.shape)

    return rotate(query), rotate(key)


def _chosen(x, gates, topk, renormalize):
    weights, ids = torch.softmax(gates.float(), -1).topk(topk, -1)
    return weights / weights.sum(-1, keepdim=True) if renormalize else weights, ids.to(torch.int32)


def _chosen_by_bias(x, gates, bias, topk, renormalize, groups, _topk_group, _shared, _factor, _padded):
    if groups != 1:
        raise NotImplementedError("the stand-in knows one group of experts")
    scores = gates.float().sigmoid()
    ids = (scores + bias.float()).topk(topk, -1).indices
    weights = scores.gather(-1, ids)
    return weights / weights.sum(-1, keepdim=True) if renormalize else weights, ids.to(torch.int32)


def _experts(x, w13, w2, weights, ids, *_options):
    out = torch.zeros_like(x, dtype=torch.float32)
    for expert in range(w13.shape[0]):
        share = (weights * (ids == expert)).sum(-1, keepdim=True).float()
        out += share * (_gated(x @ w13[expert].T) @ w2[expert].T).float()
    return out.to(x.dtype)


def _shared(x, gate_up, down, experts, factor, *_options):
    return experts * factor + (_gated(x @ gate_up.T) @ down.T).to(experts.dtype)


def _bmm(out, a, weight, _packed, scale):
    if scale is not None:
        raise NotImplementedError("the stand-in knows no scaled weights")
    out.copy_(a @ weight.transpose(1, 2))


def register(library):
    """Define the operators, and let the release believe that this CPU has what it asks for."""
    torch._C._cpu._is_amx_tile_supported = lambda: True
    torch.cpu._is_amx_tile_supported = lambda: True
    for schema, function in (
        ("convert_weight_packed(Tensor w) -> Tensor", lambda weight: weight.clone()),
        ("weight_packed_linear(Tensor x, Tensor w, Tensor? b, bool packed) -> Tensor", _linear),
        ("rmsnorm_cpu(Tensor x, Tensor w, float eps) -> Tensor", _norm),
        ("fused_add_rmsnorm_cpu(Tensor(a!) x, Tensor(b!) r, Tensor w, float eps) -> ()", _add_and_norm),
        ("silu_and_mul_cpu(Tensor x) -> Tensor", _gated),
        (_ROTARY, _rotary),
        (_EXPERTS, _experts),
        (_SHARED, _shared),
        (_SOFTMAX, _chosen),
        (_BIASED, _chosen_by_bias),
        ("bmm_cpu(Tensor(a!) out, Tensor a, Tensor w, bool packed, Tensor? scale) -> ()", _bmm),
    ):
        library.define(schema)
        library.impl(schema.partition("(")[0], function, "CPU")
    library.define("init_cpu_threads_env(str ids) -> str")
    library.impl("init_cpu_threads_env", lambda _ids: "", "CompositeExplicitAutograd")
    library.define("initialize(int size, int rank) -> ()")
    library.impl("initialize", lambda _size, _rank: None, "CompositeExplicitAutograd")
    # Only declared, so that registering their fake versions succeeds; with one process they never run.
    for name in ("shm_allreduce", "shm_allgather"):
        library.define(f"{name}(Tensor x, int op) -> Tensor")
