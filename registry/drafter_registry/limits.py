"""Every limit of the registry, with its unit. What arrives is stopped here, before it costs memory or time."""

from __future__ import annotations

#: Largest manifest accepted, bytes (`drafter_contracts.limits.manifest_max_bytes` bounds what can be read back).
manifest_max_bytes = 1024 * 1024
#: Largest JSON body of any other request, bytes: a target's config and a launch command fit many times.
body_max_bytes = 2 * 1024 * 1024
#: Largest blob, bytes. A drafter's largest shard is a few GB.
blob_max_bytes = 64 * 1024 * 1024 * 1024
#: Most files of one version.
version_max_files = 512
#: Longest name of a drafter, characters.
name_max_length = 96
#: Longest version or alias, characters.
version_max_length = 64
#: Longest path of a file inside a version, characters, and most folders on the way.
path_max_length = 255
path_max_depth = 8
#: Longest reason (of a move, a yank), characters.
reason_max_length = 1000
#: Largest page of a list, and the one given if nothing is asked for.
page_max_items = 500
page_items = 50
#: Buffer between network, hash and disk, bytes.
chunk_bytes = 1024 * 1024
#: Largest object that a staged upload is kept in, bytes (object stores: one object per part).
part_bytes = 16 * 1024 * 1024
#: An upload that nobody continued for this long is swept, seconds.
upload_idle_seconds = 24 * 3600
#: An unreferenced blob younger than this is kept, seconds: its version may be about to be published.
gc_grace_seconds = 24 * 3600
#: Failed authentications of one address before it has to wait, and how fast that is forgiven, per minute.
auth_failures_burst = 10
auth_failures_per_minute = 6
#: Longest request header section accepted, bytes.
header_max_bytes = 16 * 1024
