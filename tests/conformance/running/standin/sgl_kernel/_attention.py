"""Reference attention over the engine's paged cache: decode and extend, grouped heads, windows, sinks, trees."""

import torch

_DECODE = (
    "decode_attention_cpu(Tensor q, Tensor(a!) kb, Tensor(b!) vb, float ks, float vs, Tensor(c!) out, Tensor? k, "
    "Tensor? v, Tensor loc, Tensor attn_logits, Tensor req_to_token, Tensor req_pool_indices, Tensor seq_lens, "
    "float scale, float cap, bool cross, int window, Tensor? enc, Tensor? sinks) -> ()"
)
_EXTEND = (
    "extend_attention_cpu(Tensor q, Tensor? k, Tensor? v, Tensor(a!) out, Tensor kb, Tensor vb, float ks, float vs, "
    "Tensor req_to_token, Tensor req_pool_indices, Tensor seq_lens, Tensor ext_lens, Tensor ext_start, int max_ext, "
    "float scale, float cap, bool cross, int window, Tensor? enc, Tensor? sinks, Tensor? tree_mask, "
    "bool causal) -> ()"
)


def _attend(q, keys, values, scale, cap, mask, sinks):
    """q [n, heads, d], keys and values [m, kv heads, d], mask [n, m] of what is seen."""
    groups = q.shape[1] // keys.shape[1]
    keys, values = keys.repeat_interleave(groups, 1).float(), values.repeat_interleave(groups, 1).float()
    scores = torch.einsum("nhd,mhd->hnm", q.float(), keys) * scale
    if cap and cap > 0:
        scores = cap * torch.tanh(scores / cap)
    scores = scores.masked_fill(~mask, float("-inf"))
    if sinks is not None:
        column = sinks.float().view(-1, 1, 1).expand(-1, scores.shape[1], 1)
        weights = torch.softmax(torch.cat([scores, column], -1), -1)[..., :-1]
    else:
        weights = torch.softmax(scores, -1)
    return torch.einsum("hnm,mhd->nhd", weights, values)


def _decode(  # noqa: PLR0917 - the operator's own signature
    q, kb, vb, ks, vs, out, k, v, loc, _logits, req_to_token, indices, seq_lens, scale, cap, _cross, window, _enc, sinks
):
    if k is not None:
        kb[loc] = k.view(-1, kb.shape[1], kb.shape[2]).to(kb.dtype)
        vb[loc] = v.view(-1, vb.shape[1], vb.shape[2]).to(vb.dtype)
    for i in range(seq_lens.shape[0]):
        n = int(seq_lens[i])
        slots = req_to_token[int(indices[i]), :n].long()
        mask = torch.ones(1, n, dtype=torch.bool)
        if window > 0:
            mask[:, : max(0, n - window)] = False
        out[i : i + 1] = _attend(q[i : i + 1], kb[slots], vb[slots], scale, cap, mask, sinks).to(out.dtype)


def _mask(n, new, window, *, causal):
    """What each of the last `new` of `n` tokens sees."""
    if not causal:
        return torch.ones(new, n, dtype=torch.bool)
    own = torch.arange(new)[:, None] + (n - new)
    mask = torch.arange(n)[None, :] <= own
    return mask & (torch.arange(n)[None, :] > own - window) if window > 0 else mask


def _extend(  # noqa: PLR0917 - the operator's own signature
    q, k, v, out, kb, vb, ks, vs, req_to_token, indices, seq_lens, ext_lens, ext_start, _max, scale, cap, _cross,
    window, _enc, sinks, tree_mask, causal,
):  # fmt: skip
    offset = 0
    for i in range(seq_lens.shape[0]):
        n, new, s = int(seq_lens[i]), int(ext_lens[i]), int(ext_start[i])
        before = n - new
        slots = req_to_token[int(indices[i]), :n].long()
        mask = _mask(n, new, window, causal=causal)
        if tree_mask is not None:
            mask = torch.ones(new, n, dtype=torch.bool)
            mask[:, before:] = tree_mask.reshape(-1)[offset : offset + new * new].view(new, new).bool()
            offset += new * new
        if k is None:
            keys, values = kb[slots], vb[slots]
        else:  # the committed prefix from the pool, the new tokens as given: with latent attention their widths differ
            keys = k[s : s + new].reshape(new, -1, q.shape[-1])
            values = v[s : s + new].reshape(new, -1, out.shape[-1])
            if before:
                keys = torch.cat([kb[slots[:before]].to(keys.dtype), keys])
                values = torch.cat([vb[slots[:before]].to(values.dtype), values])
        out[s : s + new] = _attend(q[s : s + new], keys, values, scale, cap, mask, sinks).to(out.dtype)


def register(library):
    """Define both operators."""
    library.define(_DECODE)
    library.define(_EXTEND)
    library.impl("decode_attention_cpu", _decode, "CPU")
    library.impl("extend_attention_cpu", _extend, "CPU")
