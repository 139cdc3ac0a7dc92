"""JSON Schemas of what curator reads and writes, made from the declarations themselves."""

from typing import Any

import pyarrow as pa

from curator.schema.record import COLUMNS, KINDS, ROLES, SCHEMA_VERSION, score_type

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def record_json_schema() -> dict[str, Any]:
    """The JSON Schema of one record, as `curator show --json` prints it."""
    properties = {column.name: {**_json_type(column.type), "description": column.meaning} for column in COLUMNS}
    properties["kind"]["enum"] = list(KINDS)
    properties["messages"]["items"]["properties"]["role"] = {"type": "string", "enum": list(ROLES)}
    properties["metadata"]["additionalProperties"] = {"type": ["string", "number", "boolean", "null"]}
    number_or_flag = _json_type(score_type(pa.float64()))
    number_or_flag["properties"]["value"] = {"type": ["number", "boolean", "null"]}
    properties["scores"] = {
        "type": ["object", "null"],
        "description": "value (null when it could not be measured), status, and by whom (name@version:digest)",
        "additionalProperties": number_or_flag,
    }
    return {
        "$schema": _DRAFT,
        "title": "curator record",
        "version": SCHEMA_VERSION,
        "type": "object",
        "properties": properties,
        "required": ["id", "content_hash", "kind", "messages"],
        "additionalProperties": False,
    }


def _json_type(type_: pa.DataType) -> dict[str, Any]:
    if pa.types.is_struct(type_):
        return {
            "type": ["object", "null"],
            "properties": {field.name: _json_type(field.type) for field in type_},
            "additionalProperties": False,
        }
    if pa.types.is_list(type_):
        return {"type": ["array", "null"], "items": _json_type(type_.value_type)}
    if pa.types.is_boolean(type_):
        return {"type": ["boolean", "null"]}
    if pa.types.is_integer(type_):
        return {"type": ["integer", "null"]}
    if pa.types.is_floating(type_):
        return {"type": ["number", "null"]}
    return {"type": ["string", "null"]}


def settings_json_schema(cls: type, title: str) -> dict[str, Any]:
    """The JSON Schema of a settings dataclass (a recipe, a mix, a training config)."""
    import msgspec

    return {"$schema": _DRAFT, "title": title, **msgspec.json.schema(cls)}
