"""Cache-slot and tree bookkeeping of speculative decoding, for tiny models on a CPU."""

import ctypes

import torch

__all__ = [
    "assign_draft_cache_locs_contiguous_cpu",
    "assign_extend_cache_locs_cpu",
    "assign_req_to_token_pool_cpu",
    "build_draft_decode_metadata_cpu",
    "build_tree_kernel_efficient_cpu",
    "copy_all_layer_kv_cache_cpu",
    "fill_accept_out_cache_loc_cpu",
    "fill_bonus_tokens_cpu",
    "rotate_input_ids_cpu",
    "verify_tree_greedy_cpu",
]


def build_tree_kernel_efficient_cpu(  # noqa: PLR0917 - the kernel's own signature
    parent_list,
    selected_index,
    verified_seq_len,
    tree_mask,
    positions,
    retrieve_index,
    retrieve_next_token,
    retrieve_next_sibling,
    topk,
    depth,
    draft_token_num,
    tree_mask_mode,
):
    """The release's own Triton kernel."""
    from sglang.kernels.ops.speculative import spec_tree

    spec_tree.sgl_build_tree_kernel_triton(
        parent_list,
        selected_index,
        verified_seq_len,
        tree_mask,
        positions,
        retrieve_index,
        retrieve_next_token,
        retrieve_next_sibling,
        topk,
        depth,
        draft_token_num,
        tree_mask_mode,
    )


def verify_tree_greedy_cpu(
    predicts,
    accept_index,
    accept_token_num,
    candidates,
    retrive_index,
    retrive_next_token,
    retrive_next_sibling,
    target_predict,
):
    """The release's own Triton kernel; the misspelt names are the release's."""
    from sglang.kernels.ops.speculative import spec_tree

    spec_tree.verify_tree_greedy_triton(
        predicts,
        accept_index,
        accept_token_num,
        candidates,
        retrive_index,
        retrive_next_token,
        retrive_next_sibling,
        target_predict,
    )


def fill_bonus_tokens_cpu(accept_tokens, accept_lens, bonus_tokens, accept_stride):
    """The last accepted token of each request."""
    n = accept_lens.shape[0]
    index = torch.arange(n, device=accept_lens.device) * accept_stride + accept_lens.long() - 1
    bonus_tokens[:n] = accept_tokens.reshape(-1)[index].to(bonus_tokens.dtype)


def fill_accept_out_cache_loc_cpu(accept_index, out_cache_loc, accept_out_cache_loc):
    """Slots of the accepted tokens, packed."""
    flat = accept_index.reshape(-1)
    source = flat[flat > -1].long()
    accept_out_cache_loc[: source.numel()] = out_cache_loc[source]


def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices, req_to_token, seq_lens, out_cache_loc, pool_len, topk, num_cols
):
    """The slots behind each request's committed tokens."""
    n = topk * num_cols
    for i in range(seq_lens.shape[0]):
        s = int(seq_lens[i])
        out_cache_loc[i * n : (i + 1) * n] = req_to_token[int(req_pool_indices[i]), s : s + n].to(out_cache_loc.dtype)


def assign_extend_cache_locs_cpu(req_pool_indices, req_to_token, start, end, out_cache_loc, pool_len):
    """The slots from `start` to `end` of each request, packed."""
    offset = 0
    for i in range(req_pool_indices.shape[0]):
        s, e = int(start[i]), int(end[i])
        slots = req_to_token[int(req_pool_indices[i]), s:e]
        out_cache_loc[offset : offset + e - s] = slots.to(out_cache_loc.dtype)
        offset += e - s


def assign_req_to_token_pool_cpu(req_pool_indices, req_to_token, start, end, out_cache_loc, pool_len):
    """The reverse: packed slots into each request's row."""
    offset = 0
    for i in range(req_pool_indices.shape[0]):
        s, e = int(start[i]), int(end[i])
        slots = out_cache_loc[offset : offset + e - s]
        req_to_token[int(req_pool_indices[i]), s:e] = slots.to(req_to_token.dtype)
        offset += e - s


def rotate_input_ids_cpu(input_ids, extend_start_loc, extend_seq_lens, topk_index, select_index=None):
    """Each request's tokens moved one to the left, the drafted one put in at the end (or where `select_index` says)."""
    for i in range(extend_seq_lens.shape[0]):
        s, n = int(extend_start_loc[i]), int(extend_seq_lens[i])
        if n > 0:
            input_ids[s : s + n - 1] = input_ids[s + 1 : s + n].clone()
            place = int(select_index[i]) if select_index is not None else s + n - 1
            input_ids[place] = topk_index.reshape(-1)[i]


def build_draft_decode_metadata_cpu(req_to_token, req_pool_indices, seq_lens, topk, num_steps, pool_len):
    """One row per request and branch: the committed prefix, then that branch's own draft slots."""
    requests = seq_lens.shape[0]
    out = torch.zeros((requests * topk, pool_len), dtype=req_to_token.dtype)
    for i in range(requests):
        row, s = req_to_token[int(req_pool_indices[i])], int(seq_lens[i])
        for branch in range(topk):
            out[i * topk + branch, :s] = row[:s]
            first = s + branch * num_steps
            out[i * topk + branch, s : s + num_steps] = row[first : first + num_steps]
    return out


def copy_all_layer_kv_cache_cpu(data_ptrs, strides, tgt_loc, src_loc):
    """Rows of every layer's K and V buffer copied; all rows are read before any is written."""
    sources, targets = src_loc.tolist(), tgt_loc.tolist()
    for base, stride in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        rows = [ctypes.string_at(base + source * stride, stride) for source in sources]
        for target, row in zip(targets, rows, strict=True):
            ctypes.memmove(base + target * stride, row, stride)
