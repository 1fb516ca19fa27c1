"""Every limit of this package, with its unit. Bad input stops here, before it costs memory or time."""

from __future__ import annotations

#: Largest safetensors header read, bytes. A drafter's is about 2 kB; 97 % of the Hub's are under 100 kB.
header_max_bytes = 4 * 1024 * 1024
#: Largest shard index read, bytes.
index_max_bytes = 16 * 1024 * 1024
#: Largest weight file that a render rewrites, bytes.
rewritten_file_max_bytes = 64 * 1024 * 1024 * 1024
#: Largest config.json (drafter's or target's) read, bytes.
config_max_bytes = 1024 * 1024
#: Largest drafters-manifest.json read, bytes.
manifest_max_bytes = 1024 * 1024
#: Largest drafters.lock read, bytes.
lock_max_bytes = 1024 * 1024
#: Largest `--config` file of a launch read, bytes.
launch_config_max_bytes = 1024 * 1024
#: Most decoder layers a target may have (loop models included).
target_max_layers = 4096
#: Most taps of one layout.
layout_max_taps = 256
#: Largest engine profile read, bytes. The shipped ones have 25 to 175 kB.
profile_max_bytes = 16 * 1024 * 1024
#: Largest source file of an engine that the scanner reads, bytes.
scan_file_max_bytes = 8 * 1024 * 1024
#: Most source that the scanner reads of one engine, bytes. SGLang 0.5.23 has 35 MiB in 2,141 files.
scan_total_max_bytes = 256 * 1024 * 1024
#: Most source files of one engine.
scan_max_files = 20_000
#: Memory of a scanning child process, bytes.
scan_memory_max_bytes = 4 * 1024 * 1024 * 1024
#: CPU time of a scanning child process, seconds.
scan_cpu_max_seconds = 300
#: Largest answer of a scanning child process, bytes.
scan_answer_max_bytes = 64 * 1024 * 1024
#: Largest document of evidence read, bytes.
evidence_max_bytes = 4 * 1024 * 1024
#: Most tokens of a fingerprint's probe.
probe_max_tokens = 256
#: Largest pickle-framed sample (.pt, .ckpt) whose structure is read, bytes of pickle; the states lie beside it.
sample_pickle_max_bytes = 64 * 1024 * 1024
#: Most tokens of one sample.
sample_max_tokens = 4 * 1024 * 1024
#: Largest sample that is unpacked beside its file (.gz, torch's old container), bytes.
sample_unpacked_max_bytes = 32 * 1024 * 1024 * 1024
#: Most members of a sample's zip container, by the size of its directory, bytes.
sample_directory_max_bytes = 4 * 1024 * 1024
#: Most samples of one file (a list, a batch); a folder or cache may hold any number.
sample_max_entries = 65_536
#: Longest log line of an engine that is looked at, characters. A decode line has some 250.
log_line_max_characters = 64 * 1024
#: Largest exposition of metrics read, characters. SGLang's with every histogram has some 200,000.
metrics_max_characters = 16 * 1024 * 1024
#: Longest line of an exposition that is looked at, characters.
metrics_line_max_characters = 16 * 1024
#: Most samples about speculation in one exposition.
metrics_max_samples = 16_384
#: Most data-parallel ranks of one engine.
engine_max_ranks = 4096
#: Longest acceptance length that an engine may report where it tells no number of draft tokens.
acceptance_max_length = 1024
