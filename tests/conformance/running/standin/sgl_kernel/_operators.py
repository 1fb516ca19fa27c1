"""What releases before 0.5.9 take from their AMX build on a CPU: linear layers, norms, activations, rotary embedding.

Weights are left unpacked.
"""

import torch
import torch.nn.functional as F  # noqa: N812

_ROTARY = "rotary_embedding_cpu(Tensor pos, Tensor q, Tensor k, int head, Tensor cache, bool neox) -> (Tensor, Tensor)"


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
