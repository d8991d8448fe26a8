"""`TypeWriter`: classes and annotations for structural schemas, such that `@resource` makes the same schemas of them."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from typing import Any, Final, Literal, NamedTuple

from kcp_py.client.forms import from_duration, to_base64, to_duration
from kcp_py.golang.base64 import decode_base64
from kcp_py.library.generation.names import class_name, field_name
from kcp_py.library.types.markers import IntOrString, Quantity, Schema

Style = Literal["pydantic", "dataclass"]

_FREE: Final = "x-kubernetes-preserve-unknown-fields"
_RULES: Final = "x-kubernetes-validations"
_SCALARS: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
_FIXED: Final = {
    "Quantity": dict(Quantity.__metadata__[0].schema),  # type: ignore[attr-defined]
    "IntOrString": dict(IntOrString.__metadata__[0].schema),  # type: ignore[attr-defined]
}
_RULE_MEMBERS: Final = {
    "rule": "rule",
    "message": "message",
    "messageExpression": "message_expression",
    "reason": "reason",
    "fieldPath": "field_path",
    "optionalOldSelf": "optional_old_self",
}
_REQUIRED: Final = "<required>"


def _any(value: Any) -> Any:
    return value


def _named_keywords() -> dict[str, str]:
    """Keyword of a schema -> parameter of `Schema`."""
    # The first would add a rule, and the second takes the place of the type.
    left_out = {"immutable", "preserve_unknown_fields", "more"}
    names = [one.name for one in fields(Schema) if one.name not in left_out]
    return {next(iter(Schema(**_any({name: 1})).keywords())): name for name in names}


_NAMED: Final = _named_keywords()


class Written(NamedTuple):
    """A type as it is written."""

    annotation: str
    """Without `Annotated`."""
    schema: dict[str, Any]
    """The schema that `@resource` makes of the annotation alone."""
    marks: tuple[str, ...] = ()
    """The rest of the schema."""


class TypeWriter:
    """Writes the classes of a module, each behind those that it uses."""

    def __init__(self, style: Style, models: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """Begin an empty module.

        Args:
            style: of the classes.
            models: the schemas that references stand for, by the last part of the reference.
        """
        self._style = style
        self._models = models or {}
        self._referenced: dict[str, str] = {}
        self.blocks: list[str] = []
        self.names: set[str] = set()

    def annotation(self, schema: Mapping[str, Any], words: str) -> str:
        """The annotation of the elements of a list or of the values of a map.

        Args:
            schema: structural.
            words: for the name of its class.
        """
        written = self._written(schema, words)
        description = schema.get("description")
        more = {"default": schema["default"]} if "default" in schema else {}
        if description and not (written.annotation.partition(" ")[0] in self.names and _is_clean(description)):
            more["description"] = description
        return _annotated(written._replace(marks=(*written.marks, *_schema_marks(more))))

    def write_class(
        self,
        schema: Mapping[str, Any],
        words: str,
        *,
        decorators: Sequence[str] = (),
        body: Sequence[str] = (),
        left_out: Sequence[str] = (),
    ) -> str:
        """Write the class of an object, and before it those of its fields; its name.

        Args:
            schema: with properties.
            words: for its name.
            decorators: lines above it; a class with decorators stands for a whole object.
            body: lines at its beginning.
            left_out: properties without a field.
        """
        name = class_name(words, self.names)
        self.names.add(name)
        lines, taken = list(body), set[str]()
        required = set(schema.get("required") or ())
        for key, value in (schema.get("properties") or {}).items():
            if key not in left_out:
                attribute = field_name(key, taken)
                taken.add(attribute)
                lines += self._field(attribute, key, value, f"{name}{key[:1].upper()}{key[1:]}", required=key in required)
        marks = [f"@{_rule(one)}" for one in schema.get(_RULES) or ()]
        if decorators:
            marks += [f"@{mark}" for mark in _schema_marks(_of_class(schema))]
        heads = [*decorators, *marks]
        if self._style == "dataclass":
            heads += ["@dataclass(kw_only=True)", f"class {name}:"]
        else:
            heads.append(f"class {name}(Model):")
        inner = [_docstring(schema["description"]), ""] if _is_clean(schema.get("description")) else []
        if self._style == "pydantic" and schema.get(_FREE) is True and not decorators:
            inner += ['model_config = ConfigDict(extra="allow")', ""]
        inner += lines
        while inner and not inner[-1]:
            inner.pop()
        self.blocks.append("\n".join([*heads, *(f"    {line}" if line else "" for line in inner or ["pass"])]))
        return name

    def _written(self, schema: Mapping[str, Any], words: str, *, optional: bool = False) -> Written:
        """A type and its marks, but for its description and its default.

        Args:
            schema: structural.
            words: for the name of its class.
            optional: a field that need not be there: None is its absence, and its schema does not say so.
        """
        reference = _reference(schema)
        if reference is not None:
            name = self._class_of(reference)
            return Written(f"{name} | None" if optional and name != "Any" else name, {})
        wanted = {key: value for key, value in schema.items() if key not in {"description", _RULES, "default"}}
        base = self._base(wanted, schema, words)
        annotation, predicted = base.annotation, dict(base.schema)
        rules = tuple(_rule(one) for one in schema.get(_RULES) or ())
        of_class = annotation in self.names
        if annotation != "Any":
            if optional:
                annotation = f"{annotation} | None"
            elif wanted.get("nullable") is True:
                annotation, predicted["nullable"] = f"{annotation} | None", True
        if any(key not in wanted for key in predicted):
            return Written(annotation, {}, (f"Fixed({literal(wanted)})", *rules))
        missing = {key: value for key, value in wanted.items() if key not in predicted or predicted[key] != value}
        return Written(annotation, {}, (*_schema_marks(missing), *(() if of_class else rules)))

    def _base(self, schema: Mapping[str, Any], whole: Mapping[str, Any], words: str) -> Written:
        """The type that says most of a schema, and the schema that it stands for.

        Args:
            schema: without description, default and rules.
            whole: with them.
            words: for the name of its class.
        """
        kind = schema.get("type")
        if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
            for name, known in _FIXED.items():
                if all(schema.get(key) == value for key, value in known.items()):
                    return Written(name, dict(known))
            return Written("int | str", {"": None})
        values = schema.get("enum")
        if values and kind in {"string", "integer"} and all(type(one) is (str if kind == "string" else int) for one in values):
            return Written(f"Literal[{', '.join(map(literal, values))}]", {"type": kind, "enum": list(values)})
        if kind == "string" and schema.get("format") == "byte" and _is_base64(whole.get("default", "")):
            return Written("bytes", {"type": kind, "format": "byte"})
        if kind == "string" and schema.get("format") == "duration" and _is_duration(whole.get("default", "0s")):
            return Written("timedelta", {"type": kind})
        if kind in _SCALARS:
            return Written(_SCALARS[kind], {"type": kind})
        if kind == "array" and isinstance(schema.get("items"), Mapping):
            item = self.annotation(schema["items"], _singular(words))
            return Written(f"list[{item}]", {"type": "array", "items": schema["items"]})
        if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
            value = self.annotation(schema["additionalProperties"], _singular(words))
            free = {_FREE: True} if value == "Any" else {"additionalProperties": schema["additionalProperties"]}
            return Written(f"dict[str, {value}]", {"type": "object", **free})
        if kind == "object" and schema.get("properties"):
            predicted: dict[str, Any] = {"type": "object", "properties": schema["properties"]}
            if required := schema.get("required"):
                predicted["required"] = required
            if self._style == "pydantic" and schema.get(_FREE) is True:
                predicted[_FREE] = True
            return Written(self.write_class(whole, words), predicted)
        if kind == "object":
            return Written("dict[str, Any]", {"type": "object", _FREE: True})
        return Written("Any", {_FREE: True})

    def _field(self, attribute: str, key: str, schema: Mapping[str, Any], words: str, *, required: bool) -> list[str]:
        """The lines of a field."""
        default, given = _REQUIRED, schema.get("default")
        if not required:
            plain = isinstance(given, (str, int, float, bool)) and not schema.get("nullable")
            default = literal(given) if plain else "None"
        written = self._written(schema, words, optional=default == "None")
        if written.annotation == "bytes" and default not in {"None", _REQUIRED}:
            default = _bytes_literal(decode_base64(str(given)))
        if written.annotation == "timedelta" and default not in {"None", _REQUIRED}:
            default = f"timedelta(microseconds={from_duration(str(given)) // timedelta(microseconds=1)})"
        marks = [*written.marks]
        if "default" in schema and default in {"None", _REQUIRED}:
            marks += _schema_marks({"default": given})
        if attribute != key:
            marks.insert(0, f"Field(alias={json.dumps(key)})")
        description = schema.get("description")
        below = []
        if _is_clean(description):
            if written.annotation.partition(" ")[0] not in self.names or _reference(schema) is not None:
                below = [_docstring(str(description))]
        elif description:
            marks += _schema_marks({"description": description})
        annotation = _annotated(written._replace(marks=tuple(marks)))
        return [f"{attribute}: {annotation}{'' if default == _REQUIRED else f' = {default}'}", *below]

    def _class_of(self, model: str) -> str:
        """The type of a model that is referred to."""
        known = self._referenced.get(model)
        if known is not None:
            return known
        schema, title = self._models.get(model, {}), model.rpartition(".")[2]
        if title in {"ObjectMeta", "IntOrString", "Quantity"}:
            self._referenced[model] = title
        elif not schema.get("properties"):
            self._referenced[model] = _SCALARS.get(schema["type"], "dict[str, Any]") if schema.get("type") else "Any"
        else:
            # A model may contain itself: its name is known before its fields are.
            self._referenced[model] = class_name(title, self.names)
            self.write_class(schema, title)
        return self._referenced[model]


def literal(value: Any) -> str:
    """A value of JSON as Python code, with double quotes.

    Raises:
        ValueError: JSON has no such value. YAML has: numbers without an end, and times.
    """
    if isinstance(value, str):
        return repr(value) if set(value) & {'"', "\\"} or not value.isprintable() else f'"{value}"'
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{literal(key)}: {literal(one)}' for key, one in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(literal, value))}]"
    if not (value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value))):
        raise ValueError(f"JSON has no {type(value).__name__} {value}: write texts in quotes")
    return repr(value)


def _is_base64(text: Any) -> bool:
    """Whether a text is what bytes are written as."""
    try:
        return isinstance(text, str) and to_base64(decode_base64(text)) == text
    except ValueError:
        return False


def _is_duration(text: Any) -> bool:
    """Whether a text is what a timedelta is written as."""
    try:
        return isinstance(text, str) and to_duration(from_duration(text)) == text
    except ValueError:
        return False


def _bytes_literal(value: bytes) -> str:
    return repr(value) if b'"' in value or b"'" in value else f'b"{repr(value)[2:-1]}"'


def _reference(schema: Mapping[str, Any]) -> str | None:
    """The name of the model that a schema refers to."""
    whole = schema.get("allOf")
    found = schema.get("$ref") or (whole[0].get("$ref") if isinstance(whole, list) and len(whole) == 1 else None)
    return str(found).rpartition("/")[2] if found else None


def _of_class(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of a whole object that its class does not say by itself."""
    said = {"type", "properties", "required", _RULES} | ({"description"} if _is_clean(schema.get("description")) else set())
    return {key: value for key, value in schema.items() if key not in said}


def _annotated(written: Written) -> str:
    return f"Annotated[{written.annotation}, {', '.join(written.marks)}]" if written.marks else written.annotation


def _schema_marks(keywords: Mapping[str, Any]) -> tuple[str, ...]:
    """`Schema(...)` with keywords, if there are any."""
    if not keywords:
        return ()
    parts = [f"{_NAMED[key]}={literal(value)}" for key, value in keywords.items() if key in _NAMED]
    if others := {key: value for key, value in keywords.items() if key not in _NAMED}:
        parts.append(f"more={literal(others)}")
    return (f"Schema({', '.join(parts)})",)


def _rule(rule: Mapping[str, Any]) -> str:
    given = [f"{_RULE_MEMBERS[key]}={literal(value)}" for key, value in rule.items() if key != "rule"]
    return f"Rule({', '.join([literal(rule['rule']), *given])})"


def _singular(words: str) -> str:
    if words.endswith("ies"):
        return f"{words[:-3]}y"
    return words[:-1] if words.endswith("s") and not words.endswith("ss") else f"{words}Item"


def _is_clean(text: Any) -> bool:
    """Whether a docstring can say a text unchanged."""
    if not isinstance(text, str) or not text or inspect.cleandoc(text) != text:
        return False
    return all(one.isprintable() or one == "\n" for one in text)


def _docstring(text: str) -> str:
    """A text in three quotes, with the indentation of a body after the first line."""
    # Of three quotes that were escaped as one, the last may stand before a further one, or at the end.
    escaped = re.sub(r'"{2,}|"\Z', lambda found: '\\"' * len(found[0]), text.replace("\\", "\\\\"))
    first, *others = escaped.split("\n")
    if not others:
        return f'"""{escaped}"""'
    return "\n".join([f'"""{first}', *(f"    {line}" if line else "" for line in others), '    """'])
