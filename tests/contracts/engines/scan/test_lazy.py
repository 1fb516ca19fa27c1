"""Names of a release are resolved by executing the one statement that defines each."""

from __future__ import annotations

import pytest

from drafter_contracts.engines.scan.lazy import LazyRelease
from drafter_contracts.engines.scan.standins import Module, Standin, is_standin


@pytest.fixture
def make():
    """Build releases, and take their modules out of `sys.modules` afterwards."""
    made = []

    def build(files):
        release = LazyRelease(files)
        made.append(release)
        return release

    yield build
    for release in made:
        release.close()


def test_only_what_is_asked_for_is_executed(make):
    release = make({"a.py": "BAD = 1 / 0\ndef f():\n    return g() + 1\ndef g():\n    return 41\n"})
    assert release.module("a.py").f() == 42
    with pytest.raises(ZeroDivisionError):
        release.module("a.py").BAD  # noqa: B018


def test_imports_between_files_absolute_relative_and_inside_functions(make):
    release = make(
        {
            "a/__init__.py": "from .b import value\nfrom sglang.srt.c import *\n",
            "a/b.py": "from .. import c as sea\nvalue = sea.base + 1\ndef late():\n    from sglang.srt.a import star\n"
            "    import sglang.srt.c\n    return star, sglang.srt.c.base\n",
            "c.py": "base = 1\nstar = 'star'\n_private = 2\n",
        }
    )
    assert release.module("a/__init__.py").value == 2
    assert release.module("a/b.py").late() == ("star", 1)
    assert release.used == {"a/__init__.py", "a/b.py", "c.py"}
    with pytest.raises(AttributeError):
        release.module("a/__init__.py")._private  # noqa: B018


def test_what_the_release_does_not_have_cannot_be_imported(make):
    release = make(
        {
            "a.py": "try:\n    from sglang.srt.gone import x\nexcept ImportError:\n    x = 'fallback'\n"
            "from sglang.srt.b import missing\n",
            "b.py": "",
        }
    )
    module = release.module("a.py")
    assert module.x == "fallback"
    with pytest.raises(ImportError, match="cannot import name 'missing'"):
        module.missing  # noqa: B018


def test_branches_are_taken_as_they_would_be(make):
    release = make(
        {
            "a.py": "import torch\nfrom typing import TYPE_CHECKING\nFAST = True\n"
            "if FAST:\n    x = 'fast'\nelse:\n    x = 'slow'\n"
            "if torch.cuda.is_available():\n    y = 'gpu'\nelse:\n    y = 'cpu'\n"
            "if TYPE_CHECKING:\n    from sglang.srt.b import Typed\n"
            "for i in range(3):\n    last = i\n",
            "b.py": "class Typed:\n    pass\n",
        }
    )
    module = release.module("a.py")
    assert (module.x, module.y, module.last) == ("fast", "cpu", 2)
    assert module.Typed.__name__ == "Typed"


def test_the_last_definition_wins_and_changes_in_place_count(make):
    release = make(
        {
            "a.py": "x = 1\nx = x + 1\nnames = ['a']\nnames.append('b')\ntable = {}\ntable['k'] = names\n"
            "def f():\n    return 1\ndef f():\n    return 2\n"
            "class Open:\n    allow = True\nclass User:\n    seen = Open.allow\nOpen.allow = False\n"
        }
    )
    module = release.module("a.py")
    assert (module.x, module.names, module.table, module.f()) == (2, ["a", "b"], {"k": ["a", "b"]}, 2)
    assert module.User.seen is True
    assert module.Open.allow is False


def test_dataclasses_enums_and_classes_with_bodies(make):
    release = make(
        {
            "a.py": "from __future__ import annotations\nfrom dataclasses import dataclass, field\nimport enum\n"
            "LIMIT = 7\nclass Color(enum.Enum):\n    RED = LIMIT\n"
            "@dataclass\nclass Point:\n    x: int = LIMIT\n    colors: list[Color] = field(default_factory=list)\n"
            "    def both(self):\n        return self.x, Color.RED.value\n"
        }
    )
    assert release.module("a.py").Point().both() == (7, 7)


def test_everything_else_is_a_stand_in(make):
    release = make(
        {
            "a.py": "import torch\nfrom transformers import PretrainedConfig\nfrom torch import nn\nimport triton\n"
            "@triton.jit\ndef kernel(x):\n    return x\n"
            "class Config(PretrainedConfig):\n    kind = torch.float16\n"
            "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.x = 1\n"
            "    def forward(self, y):\n        return self.x + y\n"
            "def use():\n    a, b = torch.topk(1, 2)\n"
            "    with torch.no_grad():\n        return a, b, torch.ones(3) + 1\n"
        }
    )
    module = release.module("a.py")
    assert module.kernel(3) == 3
    assert module.Model()(2) == 3
    assert issubclass(module.Model, Module)
    assert not hasattr(module.Model(), "missing")
    assert is_standin(module.Config().anything)
    assert module.Config.kind is release.import_module("torch").float16
    assert all(is_standin(value) for value in module.use())


def test_stand_ins_are_false_empty_and_equal_to_themselves_only():
    thing, other = Standin("thing"), Standin("thing")
    assert not thing
    assert (len(thing), int(thing), list(thing), thing == other, thing < 3, 3 in thing) == (
        0,
        0,
        [],
        False,
        False,
        False,
    )
    assert thing == thing  # noqa: PLR0124
    assert f"{thing:>5}" == "thing"
    assert isinstance(thing | None, Standin)
    first, *rest = thing
    assert is_standin(first)
    assert rest == []


def test_an_attribute_that_was_made_up_does_not_exist(make):
    release = make(
        {
            "a.py": "import lib\ndef f(x=lib.made_up):\n"
            "    return hasattr(lib, 'made_up'), getattr(lib, 'made_up', 'default')\n"
        }
    )
    assert release.module("a.py").f() == (False, "default")


def test_replaced_names_foreign_names_and_stubbed_files(make):
    release = make(
        {
            "a.py": "from sglang.srt.b import size\nfrom sglang.srt.c.kernels import run\nimport lib\nx = lib.value\n",
            "b.py": "def size():\n    raise RuntimeError('no process group')\n",
            "c/kernels.py": "1 / 0\n",
        }
    )
    release.replace("size", lambda: 1)
    release.foreign("lib.value", 5)
    release.stub("c/")
    module = release.module("a.py")
    assert module.size() == 1
    assert module.x == 5
    assert is_standin(module.run())


def test_a_place_is_told_without_decorators(make):
    release = make({"models/a.py": "import torch\n\nclass A:\n    @torch.no_grad()\n    def f(self):\n        pass\n"})
    place = release.place(release.module("models/a.py").A.f)
    assert place == {"file": "models/a.py", "function": "A.f", "line": 5}
    assert release.place(len) == {}
    assert release.place(test_a_place_is_told_without_decorators) == {}


def test_a_class_is_registered_by_bare_calls_of_the_file_s_own_functions(make):
    text = """
class Algorithm:
    known = []

    @classmethod
    def register(cls, name):
        cls.known.append(name)

def register(name):
    Algorithm.register(name)

def announce():
    print("nothing of a class")

announce()
register("EAGLE")
Algorithm.register("EAGLE3")
register("NGRAM")
"""
    assert sorted(make({"a.py": text}).module("a.py").Algorithm.known) == ["EAGLE", "EAGLE3", "NGRAM"]


def test_no_environment_no_arguments_no_paths(make):
    release = make(
        {
            "a.py": "import os, sys\nhome = os.environ.get('HOME')\ntmp = os.getenv('TMP', 'none')\n"
            "there = os.path.exists('/')\njoined = os.path.join('a', 'b')\nargv = sys.argv\n"
        }
    )
    module = release.module("a.py")
    assert (module.home, module.tmp, module.there, module.joined, module.argv) == (None, "none", False, "a/b", [])


def test_a_missing_file_is_a_key_error(make):
    with pytest.raises(KeyError):
        make({}).module("models/none.py")
