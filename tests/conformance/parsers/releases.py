"""The releases whose parsers are asked."""

from drafter_contracts.engines.store import releases

#: Those that must agree, and others of each dependency set.
WANTED = (*("0.4.6.post5", "0.4.10.post2", "0.5.2", "0.5.9", "0.5.12.post1", "0.5.15", "0.5.18", "0.5.22", "0.5.23"),)
#: Those of them that a profile is shipped for.
RELEASES = tuple(release for release in WANTED if release in releases("sglang"))
