"""Settings from YAML or flags into frozen dataclasses: unknown keys and wrong types are errors with a suggestion."""

import dataclasses
import difflib
import re
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from curator.errors import UsageError

T = TypeVar("T")


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint naming the closest known word, or all of them when none is close and they are few."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    return f"known: {', '.join(known)}" if 0 < len(known) <= 24 else None


def build(cls: type[T], mapping: Mapping[str, Any], where: str) -> T:
    """An instance of the dataclass `cls` from a mapping as YAML gives it.

    Keys are checked through nested dataclasses, lists and dictionaries before values; `where` (a file and a path
    such as `recipe.yaml: train`) begins every message. Raises UsageError.
    """
    import msgspec

    _check_keys(cls, mapping, where)
    try:
        return msgspec.convert(mapping, cls)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        place = _below(where, path.rstrip("`").removeprefix("."))
        expected = re.search(r"xpected `(\w+)", text)
        hint = _WAYS.get(expected[1]) if expected else None
        raise UsageError(f"{place}: {text[0].lower()}{text[1:]}", hint=hint) from None


_WAYS = {
    "str": "put it in quotes",
    "int": "write a whole number",
    "float": "write a number, with a point: 1.5",
    "bool": "write true or false",
    "array": "write a list: [a, b]",
    "object": "write keys and values: {a: 1}",
}
"""How a value of a type is written in YAML."""


def _below(where: str, key: str) -> str:
    """The place of a key: `recipe.yaml: train.steps`."""
    if not key or key.startswith("["):
        return f"{where}{key}"
    return f"{where}.{key}" if ": " in where else f"{where}: {key}"


def _check_keys(type_: Any, value: Any, where: str) -> None:
    origin = typing.get_origin(type_)
    if origin in (typing.Union, types.UnionType):
        for member in typing.get_args(type_):
            if _fits(member, value):
                _check_keys(member, value, where)
                return
        return
    if dataclasses.is_dataclass(type_):
        if not isinstance(value, Mapping):
            raise UsageError(f"{where}: expected keys and values, got {_kind(value)}")
        hints = typing.get_type_hints(type_)
        known = {field.name for field in dataclasses.fields(type_) if field.init}
        for key, child in value.items():
            if key not in known:
                raise UsageError(f"{where}: unknown key {key!r}", hint=did_you_mean(str(key), known))
            _check_keys(hints[key], child, _below(where, str(key)))
        missing = [
            field.name
            for field in dataclasses.fields(type_)
            if field.init
            and field.name not in value
            and field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
        ]
        if missing:
            raise UsageError(f"{where}: {missing[0]} is missing")
        return
    if origin in (list, tuple) and isinstance(value, list):
        for index, item in enumerate(value):
            _check_keys(typing.get_args(type_)[0], item, f"{where}[{index}]")
    elif origin is dict and isinstance(value, Mapping):
        for key, item in value.items():
            _check_keys(typing.get_args(type_)[1], item, _below(where, str(key)))


def _fits(type_: Any, value: Any) -> bool:
    if dataclasses.is_dataclass(type_) or typing.get_origin(type_) is dict:
        return isinstance(value, Mapping)
    if typing.get_origin(type_) in (list, tuple):
        return isinstance(value, list)
    return False


def _kind(value: Any) -> str:
    return {type(None): "nothing", str: "text", int: "a number", float: "a number", list: "a list"}.get(
        type(value), type(value).__name__
    )


_BOOL = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
_FLOAT = re.compile(
    r"^[-+]?(?:(?:\d[\d_]*)?\.\d[\d_]*(?:[eE][-+]?\d+)?|\d[\d_]*\.(?:[eE][-+]?\d+)?"
    r"|\d[\d_]*[eE][-+]?\d+|\.(?:inf|nan))$"
)


def load_yaml(text: str, where: str) -> Any:
    """Parse YAML; a duplicate key is an error, as is anything but plain data. Raises UsageError with the line."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            key = "null" if key is None else key  # a key is a word: `null: keep`
            if isinstance(key, list | dict):
                raise UsageError(f"{where}, line {key_node.start_mark.line + 1}: a key must be one word or number")
            if key in result:
                raise UsageError(f"{where}, line {key_node.start_mark.line + 1}: key {key!r} is there twice")
            result[key] = loader.construct_object(value_node, deep=True)
        return result

    # YAML 1.2 rules: `on` is a word, `1e-3` is a number.
    scalars = {"tag:yaml.org,2002:bool": _BOOL, "tag:yaml.org,2002:float": _FLOAT}
    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in scalars]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver("tag:yaml.org,2002:bool", _BOOL, list("tTfF"))
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))
    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise UsageError(f"{where}{line}: not YAML: {problem}") from None
