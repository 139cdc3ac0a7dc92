"""The jinja2 environment in which Hugging Face chat templates are written. Imported when a template is compiled."""

import json
from datetime import datetime
from typing import Any

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment


class _GenerationExtension(jinja2.ext.Extension):
    """`{% generation %}` as its body between two marks, which survive filters, macros and set blocks."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        opened = nodes.Output([nodes.Name("generation_open_mark", "load")])
        closed = nodes.Output([nodes.Name("generation_close_mark", "load")])
        # Scoped, because the call block that transformers makes of it keeps assignments to itself.
        return [opened.set_lineno(line), nodes.Scope(body).set_lineno(line), closed.set_lineno(line)]


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def template_environment(now: datetime) -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationExtension, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = now.strftime
    return environment


def literal_text(environment: jinja2.Environment, source: str) -> str:
    """Every text that a template itself can write, joined with NUL so that no match spans two of them."""
    tree = environment.parse(source)
    literals = {node.data for node in tree.find_all(nodes.TemplateData)}
    literals |= {node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str)}
    return "\0".join(sorted(literals))
