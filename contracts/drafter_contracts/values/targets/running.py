"""A target run once over some tokens, every state handed on as it comes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from drafter_contracts.errors import CaptureError
from drafter_contracts.evidence.documents import ReferenceRecord
from drafter_contracts.layout import FINAL_NORM, Tap
from drafter_contracts.values.records import Capture
from drafter_contracts.values.targets.loading import AUTO, load_model
from drafter_contracts.values.targets.settings import Settings, read_settings, told
from drafter_contracts.values.targets.structure import Parts, find_parts
from drafter_contracts.values.targets.weights import target_digest

#: Logits computed at once: their number is rows times vocabulary.
LOGITS_AT_ONCE = 16 * 1024 * 1024

#: What takes a state [T, H], on the device where it was computed; it must not keep it without copying it.
Keep = Callable[[Tap, torch.Tensor], None]


@dataclass(frozen=True)
class Target:
    """A loaded target.

    Attributes:
        record: What it is and how it runs; `dtype` is that of its weights.
        parts: Its modules.
        settings: Its config.
        device: Where it runs.
        path: Its directory.
    """

    record: ReferenceRecord
    parts: Parts
    settings: Settings
    device: str
    path: str

    def taps(self) -> tuple[Tap, ...]:
        """Every state that it has: boundaries 0 to N, and the final norm."""
        layers = self.record.layers
        return (*(Tap(boundary) for boundary in range(layers + 1)), Tap(layers, FINAL_NORM))

    def run(self, tokens: torch.Tensor, *, taps: Collection[Tap] | None = None) -> Capture:
        """Run it and keep states in memory.

        Args:
            tokens: int64 [T].
            taps: The states to keep; None for all.

        Returns:
            A capture on the CPU, states in the dtype in which the residual stream ran.

        Raises:
            CaptureError: See `stream`.
        """
        states: dict[Tap, torch.Tensor] = {}

        def keep(tap: Tap, state: torch.Tensor) -> None:
            states[tap] = state.to("cpu", copy=True)

        choices = self.stream(tokens, keep, taps=taps)
        return Capture(record=self.record, tokens=tokens.cpu(), states=states, choices=choices)

    def stream(self, tokens: torch.Tensor, keep: Keep, *, taps: Collection[Tap] | None = None) -> torch.Tensor:
        """Run it and hand every state on at once, in ascending order, the final norm last.

        Memory: the model, one layer's activations and what `keep` keeps; logits are never there as a whole.

        Args:
            tokens: int64 [T].
            keep: Takes the states.
            taps: Those to hand on; None for all.

        Returns:
            int64 [T] on the CPU: the first choice of the target's head for the token after each.

        Raises:
            CaptureError: Tokens outside the vocabulary or longer than the context, a layer that has no single
                residual stream, or that does not run exactly once, no final norm after the last one, states that
                are not finite, or whatever the model raises.
        """
        check_tokens(tokens, self.record.vocab_size, self.settings.context, self.path)
        wanted = frozenset(self.taps() if taps is None else taps)
        watch = _Watch(self, len(tokens), wanted, keep)
        try:
            watch.begin()
            with torch.no_grad():
                self.parts.decoder(input_ids=tokens[None].to(self.device), use_cache=False)
                return self._choices(watch.end())
        except CaptureError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the model raises, it does not run here
            raise CaptureError("the target does not run here", where=self.path, actual=told(error)) from None
        finally:
            watch.remove()

    def _choices(self, final: torch.Tensor) -> torch.Tensor:
        """The head's first choices, [T], from the state after the final norm, [T, H]."""
        rows = max(1, LOGITS_AT_ONCE // self.record.vocab_size)
        return torch.cat([self.parts.head(block).argmax(dim=-1).cpu() for block in torch.split(final, rows)])


class _Watch:
    """Hooks on a target's layers and norms during one run."""

    def __init__(self, target: Target, tokens: int, wanted: frozenset[Tap], keep: Keep) -> None:
        self.target = target
        self.shape = (1, tokens, target.record.hidden_size)
        self.wanted = wanted
        self.keep = keep
        self.handles: list[torch.utils.hooks.RemovableHandle] = []
        self.entered = 0  # boundaries passed so far
        self.last: torch.Tensor | None = None
        self.final: list[torch.Tensor] = []

    def begin(self) -> None:
        """Set the hooks."""
        parts = self.target.parts
        for number, layer in enumerate(parts.layers):
            self.handles.append(layer.register_forward_pre_hook(partial(self._enters, number), with_kwargs=True))
        self.handles.append(parts.layers[-1].register_forward_hook(self._leaves))
        self.handles += [norm.register_forward_hook(self._normed) for norm in parts.norms]

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self.handles:
            handle.remove()

    def end(self) -> torch.Tensor:
        """The state after the final norm, [T, H], handed on too."""
        layers = self.target.record.layers
        if self.entered != layers + 1:
            raise self._fault(
                "the decoder layers do not run once each, in order", f"boundary {self.entered}", "the end of the run"
            )
        if len(self.final) != 1:
            raise self._fault(
                "the final norm cannot be found", "one norm that reads the last layer's output", str(len(self.final))
            )
        self._hand_on(Tap(layers, FINAL_NORM), self.final[0])
        return self.final[0][0]

    def _enters(self, number: int, _module: torch.nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        self._pass(number)
        self._hand_on(Tap(number), given[0] if given else named.get("hidden_states"))

    def _leaves(self, _module: torch.nn.Module, _given: tuple[Any, ...], made: Any) -> None:
        self._pass(self.target.record.layers)
        self.last = made[0] if isinstance(made, tuple) else made
        self._hand_on(Tap(self.target.record.layers), self.last)

    def _normed(self, _module: torch.nn.Module, given: tuple[Any, ...], made: Any) -> None:
        if self.last is not None and given and torch.equal(given[0], self.last):
            self.final.append(made)

    def _pass(self, boundary: int) -> None:
        if boundary != self.entered:
            raise self._out_of_order(boundary)
        self.entered += 1

    def _out_of_order(self, boundary: int) -> CaptureError:
        expected = f"boundary {self.entered}" if self.entered <= self.target.record.layers else "no other"
        return self._fault("the decoder layers do not run once each, in order", expected, f"boundary {boundary}")

    def _hand_on(self, tap: Tap, state: Any) -> None:
        if not isinstance(state, torch.Tensor) or state.shape != self.shape:
            shape = list(state.shape) if isinstance(state, torch.Tensor) else type(state).__name__
            raise self._fault(f"{tap.label()} is no single residual stream", str(list(self.shape)), str(shape))
        if tap in self.wanted:
            if not bool(torch.isfinite(state).all()):
                raise self._fault(
                    f"{tap.label()} is not finite in {self.target.record.dtype}", "another dtype", "NaN or infinity"
                )
            self.keep(tap, state.detach()[0])

    def _fault(self, message: str, expected: str, actual: str) -> CaptureError:
        return CaptureError(
            message, where=f"{self.target.path} ({self.target.settings.model_type})", expected=expected, actual=actual
        )


def check_tokens(tokens: torch.Tensor, vocab_size: int, context: int, where: str) -> None:
    """Check token ids before anything is run on them.

    Args:
        tokens: int64 [T].
        vocab_size: Rows of the embedding.
        context: Most tokens of one text, 0 for any number.
        where: The target, for messages.

    Raises:
        CaptureError: Not int64 [T] with T > 0, longer than the context, or an id outside the vocabulary.
    """
    if tokens.dtype != torch.int64 or tokens.dim() != 1 or not len(tokens):
        actual = f"{tokens.dtype} {list(tokens.shape)}"
        raise CaptureError("not a text in token ids", where=where, expected="int64 [T], T > 0", actual=actual)
    if context and len(tokens) > context:
        raise CaptureError(
            "more tokens than the target's context", where=where, expected=f"at most {context}", actual=str(len(tokens))
        )
    wrong = [bound for bound in (int(tokens.min()), int(tokens.max())) if not 0 <= bound < vocab_size]
    if wrong:
        raise CaptureError(
            "a token outside the target's vocabulary",
            where=where,
            expected=f"0 to {vocab_size - 1}",
            actual=str(wrong[0]),
        )


def open_target(path: str, *, dtype: str = AUTO, device: str = "cpu") -> Target:
    """Load a target, to run it on several texts.

    Args:
        path: Its directory, never a name to be downloaded: config.json and safetensors.
        dtype: "float32", "bfloat16", "float16", or "auto" for that of its config.
        device: Where it runs, as torch names it.

    Raises:
        CaptureError: It does not run here, has several residual streams, or its parts cannot be found.
        PickleRefusedError: Its weights exist only as pickle.
    """
    settings = read_settings(path)
    digest = target_digest(path)
    model = load_model(path, settings, dtype, device)
    parts = find_parts(model, settings, path)
    name, revision = named(path)
    record = ReferenceRecord(
        kind="target",
        model=name,
        revision=revision,
        sha256=digest,
        layers=settings.layers,
        hidden_size=settings.hidden_size,
        vocab_size=getattr(parts.embedding, "num_embeddings", settings.vocab_size),
        dtype=str(model.dtype).removeprefix("torch."),
        made_with=made_with(),
    )
    return Target(record, parts, settings, device, path)


def run_target(path: str, tokens: torch.Tensor, *, dtype: str = AUTO, device: str = "cpu") -> Capture:
    """Every state of a target on some tokens, and its own first choices.

    `output_hidden_states` of transformers is not used: its last entry is the state after the final norm
    (`utils/output_capturing.py`), and boundary N is none of them.

    Args:
        path: As `open_target`.
        tokens: int64 [T].
        dtype: As `open_target`.
        device: As `open_target`.

    Returns:
        Boundaries 0 to N, the final norm, and choices, on the CPU.

    Raises:
        CaptureError: See `open_target` and `Target.stream`.
        PickleRefusedError: See `open_target`.
    """
    settings = read_settings(path)
    check_tokens(tokens, settings.vocab_size, settings.context, path)  # before loading it
    return open_target(path, dtype=dtype, device=device).run(tokens)


def named(path: str) -> tuple[str, str]:
    """A target's name and revision: of a snapshot in the Hub's cache its id and commit, else the directory's name."""
    parts = os.path.abspath(path).split(os.sep)
    if len(parts) > 3 and parts[-2] == "snapshots" and re.fullmatch(r"models--[^/]+", parts[-3]):
        return parts[-3].removeprefix("models--").replace("--", "/"), parts[-1]
    return parts[-1], ""


def made_with() -> str:
    """Versions of what ran the target: "transformers 5.24.0, torch 2.13.0"."""
    import transformers

    return f"transformers {transformers.__version__}, torch {torch.__version__.partition('+')[0]}"
