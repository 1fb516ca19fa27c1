"""Stand-in of a Hugging Face config, for probes that execute code reading a drafter's config.

A config's keys are attributes, as transformers makes them; nested objects stay dictionaries. Every key that is
asked for is recorded with its dotted path, whether it is there or not.
"""

from __future__ import annotations

import copy

#: Value of a key that stands for a method of the config which hands out the config itself.
ITSELF = "<the config itself>"
#: The part of a multimodal config that describes the language model.
TEXT_PART = "text_config"


class RecordingDict(dict):  # type: ignore[type-arg]
    """A nested object of a config: a dictionary that records which of its keys are asked for."""

    def __init__(self, values: dict[str, object], log: set[str], path: str) -> None:
        super().__init__({key: wrap(value, log, f"{path}.{key}") for key, value in values.items()})
        self._log = log
        self._path = path

    def _note(self, key: object) -> None:
        self._log.add(f"{self._path}.{key}")

    def __getitem__(self, key: str) -> object:
        self._note(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._note(key)
        return super().__contains__(key)

    def __iter__(self) -> object:  # type: ignore[override]
        self._log.add(f"{self._path}.*")
        return super().__iter__()

    def get(self, key: str, default: object = None) -> object:
        """As dict's."""
        self._note(key)
        return super().get(key, default)

    def __deepcopy__(self, memo: object) -> RecordingDict:
        return self


class RecordingConfig:
    """A config: attributes are its keys.

    Args:
        values: The keys. Nested dictionaries are recorded too.
        log: Receives the dotted path of every key that is asked for.
        path: Where this config lies in another one: "text_config.", or "" for the whole.
    """

    _values: dict[str, object]
    _log: set[str]
    _path: str

    def __init__(self, values: dict[str, object], log: set[str], path: str = "") -> None:
        object.__setattr__(self, "_values", {key: wrap(value, log, path + key) for key, value in values.items()})
        object.__setattr__(self, "_log", log)
        object.__setattr__(self, "_path", path)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        self._log.add(self._path + name)
        try:
            value = self._values[name]
        except KeyError:
            raise AttributeError(f"config has no attribute '{self._path}{name}'") from None
        return (lambda *_args, **_kwargs: self) if value is ITSELF else value

    def __setattr__(self, name: str, value: object) -> None:
        self._values[name] = value

    def __delattr__(self, name: str) -> None:
        self._values.pop(name, None)

    def get_text_config(self, *_args: object, **_kwargs: object) -> object:
        """The text sub-config, or the config itself, as transformers answers."""
        return self._values.get("text_config", self)

    def update(self, values: dict[str, object]) -> None:
        """Set keys, as transformers does: one attribute each, nothing merged."""
        for key, value in values.items():
            setattr(self, key, value)

    def get(self, key: str, default: object = None) -> object:
        """As a dictionary's get: some configs are handled as such."""
        return getattr(self, key, default)

    def to_dict(self) -> dict[str, object]:
        """The keys."""
        return dict(self._values)

    def __deepcopy__(self, memo: object = None) -> RecordingConfig:
        made = RecordingConfig({}, self._log, self._path)
        object.__setattr__(made, "_values", copy.copy(self._values))
        return made

    __copy__ = __deepcopy__


def wrap(value: object, log: set[str], path: str) -> object:
    """A value of a config, recording if it is a dictionary; the text part is a config itself, as in transformers."""
    if path == TEXT_PART and isinstance(value, dict):
        return RecordingConfig(value, log, f"{path}.")
    if isinstance(value, dict) and not isinstance(value, RecordingDict):
        return RecordingDict(value, log, path)
    return value
