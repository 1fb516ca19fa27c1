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
#: Most acceptances attached to one version, and the largest of them, bytes of canonical JSON.
acceptances_max = 100
acceptance_max_bytes = 16 * 1024
#: Most observations of one request, and its largest body, bytes.
observations_max_items = 200
observations_max_bytes = 512 * 1024
#: Longest text in an observation's conditions, characters.
condition_max_length = 255
#: Largest count in an observation: what every reader of JSON keeps exactly.
count_max = 2**53
#: Most rows that one version has for one hour: engines, times their conditions, times their observers' runs.
observed_hour_max_rows = 1000
#: How far the clock of whoever observes may be ahead of the registry's, seconds.
clock_skew_seconds = 300
#: How long an observation is kept, seconds.
observation_retention_seconds = 90 * 24 * 3600
#: Reports of one engine instance, and of one token, on each server: at once, and how many more come free per minute.
instance_reports_burst = 60
instance_reports_per_minute = 20
token_reports_burst = 600
token_reports_per_minute = 600
#: Observations that `/metrics` tells: how old their hour may be, seconds, and how many series at most.
metrics_recent_seconds = 3 * 3600
metrics_max_series = 500
#: How long `/metrics` tells what it found before, seconds.
metrics_kept_seconds = 15
#: Longest request header section accepted, bytes.
header_max_bytes = 16 * 1024
