"""The release that a name states: an image's tag, or a requirement."""

from __future__ import annotations

#: What images and the distribution of the engine are called.
NAME = "sglang"
#: What image tags name beside a release: machines and flavours; and toolkits, which a version follows.
_PLATFORMS = frozenset(
    (
        *("a2", "a3", "910b", "910c", "aarch64", "amd64", "arm64", "x86", "xeon", "xpu", "hpu", "npu", "musa"),
        *("b200", "b300", "gb200", "gb300", "h20", "h100", "h200", "blackwell", "hopper", "srt", "runtime", "slim"),
        *("mi30x", "mi35x", "mi300", "mi300x", "mi325x", "mi350x", "mi355x", "deepep"),
    )
)
_TOOLKITS = frozenset(("cu", "cuda", "rocm", "cann", "ubuntu"))


def _is_platform(suffix: str) -> bool:
    """Whether a part of an image's tag names what the image is for, and no other state of the source."""
    toolkit = suffix.lstrip("abcdefghijklmnopqrstuvwxyz")
    return suffix in _PLATFORMS or (suffix.removesuffix(toolkit) in _TOOLKITS and toolkit[:1].isdecimal())


def release_in(text: str) -> str:
    """A release that an image tag or a requirement names, or "".

    A tag that says more than the platform ("v0.5.9-nightly", "v0.5.9-1-gabcdef") is not taken for the release.

    "lmsysorg/sglang:v0.5.9-cu126" and "sglang[all]==0.5.9" give "0.5.9".
    """
    name, equals, version = text.partition("==")
    if equals and name.partition("[")[0].strip() == NAME:
        return version.partition(";")[0].partition(",")[0].strip()
    repository, _, tag = text.partition("@")[0].rpartition(":")
    if NAME not in repository.rpartition("/")[2] or "/" in tag:
        return ""
    release, *suffixes = tag.split("-")
    release = release.removeprefix("v")
    if not all(_is_platform(suffix) for suffix in suffixes):
        return ""  # a candidate, a nightly, somebody's own build: none of them is that release
    return release if release[:1].isdecimal() and "." in release else ""
