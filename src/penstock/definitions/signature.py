"""The JSON Schema of a handler's parameters from its type hints, and JSON text from the arguments of a call."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from penstock.domain import payload
from penstock.domain.errors import InvalidDefinition, InvalidPayload

if TYPE_CHECKING:
    from pydantic import BaseModel

CONTEXT = "ctx"
"""A first parameter of this name is the context, not a parameter of the job."""

KeyOf = str | Callable[[Mapping[str, Any]], str | None]
"""How to get a job's concurrency key: the name of a parameter, or a function of all parameters."""

_Kind = inspect.Parameter
_LONGEST_MESSAGE = 300
_HINT = "Use types that JSON can carry (str, int, float, bool, list, dict, dates, enums, models), defined in a module."


_NO_PARAMETERS = '{"additionalProperties": false, "properties": {}, "title": "Parameters", "type": "object"}'
"""The schema of a handler without parameters; it needs no pydantic."""


class Signature:
    """The parameters of a handler: binds calls, validates parameters, and has their schema."""

    def __init__(self, function: Callable[..., Any], key: str, secret: Sequence[str] = ()) -> None:
        self._key = key
        self._function = function
        self._secret = secret
        self.takes_context: bool
        self.takes_context, self._parameters = _parameters(function, key)
        self.open_ended: bool = any(each.kind is _Kind.VAR_KEYWORD for each in self._parameters)
        """Whether it takes parameters of any name, with `**`."""
        self.names: list[str] = [each.name for each in self._parameters if each.kind is not _Kind.VAR_KEYWORD]
        self._fields = {f"field_{index}": name for index, name in enumerate(self.names)}
        self.defaults: dict[str, Any] = {
            each.name: each.default for each in self._parameters if each.default is not _Kind.empty
        }
        self.required: bool = len(self.names) > len(self.defaults)
        """Whether there are required parameters."""
        self._positional = [each.name for each in self._parameters if each.kind is _Kind.POSITIONAL_OR_KEYWORD]
        self._model: type[BaseModel] | None = None
        self._schema: str | None = None
        self._validator: Validator | None = None

    @property
    def schema(self) -> str:
        """The JSON Schema of the parameters, as text."""
        if self._schema is None:
            self._schema = _schema(self._parameter_model(), self._key) if self._parameters else _NO_PARAMETERS
        return self._schema

    @property
    def validator(self) -> Validator:
        if self._validator is None:
            self._validator = Validator(self._key, self.schema, self._secret)
        return self._validator

    def arguments(self, params: str) -> dict[str, Any]:
        """Return the handler's arguments, converted from JSON text to the types of its hints."""
        if params == "{}" and not self.required:
            return {}
        from pydantic_core import ValidationError

        try:
            filled = self._parameter_model().model_validate(payload.load(params))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise InvalidPayload(
                f"Parameters of {self._key} do not fit: {first['msg']}.", path=_pointer(first["loc"])
            ) from None
        values, given = filled.__dict__, filled.model_fields_set
        return {
            **{name: values[field] for field, name in self._fields.items() if field in given},
            **(filled.model_extra or {}),
        }

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return a call's arguments by name."""
        if not args:
            return dict(kwargs)
        if len(args) > len(self._positional):
            raise InvalidPayload(
                f"{self._key} takes {len(self._positional)} parameters by position, {len(args)} were given."
            )
        given = dict(zip(self._positional, args, strict=False))
        for name, value in kwargs.items():
            if name in given:
                raise InvalidPayload(f"{self._key} got {name!r} twice.", path=_pointer([name]))
            given[name] = value
        return given

    def _parameter_model(self) -> type[BaseModel]:
        if self._model is None:
            self._model = _model(self._function, self._parameters, self.open_ended, self._key)
        return self._model


class Validator:
    """Validates parameters against a definition's JSON Schema."""

    def __init__(self, key: str, schema: str, secret: Sequence[str] = ()) -> None:
        import jsonschema_rs

        self._key = key
        self._what = f"parameters of {key}"
        self._secret = frozenset(secret)
        self.schema = schema
        try:
            parsed = json.loads(schema)
            self._checker = jsonschema_rs.validator_for(parsed, validate_formats=True, formats=_FORMATS)
        except (ValueError, jsonschema_rs.ValidationError) as error:
            raise InvalidDefinition(f"{key}: its JSON Schema cannot be used: {error}") from error
        self._properties: Mapping[str, Any] = parsed.get("properties", {})
        self._may_be_empty = self._checker.is_valid({})

    def text(self, params: Mapping[str, Any], defaults: str = "{}", *, decoded: bool = False) -> str:
        """Return valid parameters as JSON text; those `decoded` from JSON need no conversion."""
        if params == {} and defaults == "{}" and self._may_be_empty:
            return "{}"
        given = params if defaults == "{}" else {**json.loads(defaults), **params}
        if decoded:
            plain: Any = given
            text = payload.encode_decoded(given, self._what)
        else:
            text = plain_text(dict(given), self._what)
            plain = payload.load(text)
        if not self._checker.is_valid(plain):
            raise self._refusal(plain)
        return text

    def value(self, params: str, name: str) -> Any:
        """Return the value of a parameter: as given, or its default."""
        given: Any = payload.load(params)
        return given[name] if name in given else self._properties.get(name, {}).get("default")

    def _refusal(self, plain: Any) -> InvalidPayload:
        error = next(iter(self._checker.iter_errors(plain)))
        path = _pointer(error.instance_path)
        problem = error.message if len(error.message) <= _LONGEST_MESSAGE else f"{error.message[:_LONGEST_MESSAGE]}…"
        if self._secret & {*map(str, error.instance_path[:1])}:
            problem = "the value (it is secret) does not fit its schema"
        place = f"do not fit at {path}" if path else "do not fit"
        return InvalidPayload(f"Parameters of {self._key} {place}: {problem}.", path=path, hint=self._nearest(error))

    def _nearest(self, error: Any) -> str:
        """Return a hint with the parameter that an unknown one probably means."""
        unexpected = getattr(error.kind, "unexpected", [])
        if not unexpected or error.instance_path:
            return ""
        near = get_close_matches(str(unexpected[0]), self._properties, n=1)
        return f"Did you mean {near[0]!r}?" if near else f"Its parameters: {', '.join(self._properties) or 'none'}."


def concurrency_key(params: str, key_of: KeyOf, validator: Validator) -> str | None:
    """Return the concurrency key of a job with these parameters; None if it has none."""
    value = validator.value(params, key_of) if isinstance(key_of, str) else key_of(json.loads(params))
    return value if value is None or isinstance(value, str) else payload.encode(value, "concurrency_key")


def plain_text(params: Mapping[str, Any], what: str) -> str:
    """Return parameters as JSON text, including dates, enums and models."""
    try:
        return payload.encode(params, what)
    except InvalidPayload:
        try:
            plain = _Plain().of(params)
        except RecursionError:
            raise payload.too_deep(what) from None
        return payload.encode(plain, what)


class _Plain:
    """Converts dates, enums and models to JSON; other values stay, and the encoder refuses them."""

    def __init__(self) -> None:
        from pydantic_core import PydanticSerializationError, to_jsonable_python

        self._convert = to_jsonable_python
        self._errors = (PydanticSerializationError, TypeError, ValueError)
        self._copies: dict[int, tuple[Any, Any]] = {}

    def of(self, value: Any) -> Any:
        if value is None or type(value) in (str, int, float, bool):
            return value
        if isinstance(value, dict | list | tuple):
            # Each container is copied once: a copy of one that contains itself does so too, and is refused later.
            if id(value) not in self._copies:
                self._copy(value)
            return self._copies[id(value)][1]
        if isinstance(value, set | frozenset):
            # Sorted, so that equal sets are equal parameters.
            return sorted((self.of(each) for each in value), key=repr)
        try:
            return self._convert(value, inf_nan_mode="constants")
        except self._errors:
            return value

    def _copy(self, value: Any) -> None:
        if isinstance(value, dict):
            members: dict[Any, Any] = {}
            self._copies[id(value)] = value, members
            members |= {self._key(key): self.of(each) for key, each in value.items()}
        else:
            items: list[Any] = []
            self._copies[id(value)] = value, items
            items += [self.of(each) for each in value]

    def _key(self, key: Any) -> Any:
        if isinstance(key, str):
            return key
        try:
            return next(iter(self._convert({key: None})))
        except self._errors:
            return key


def _parameters(function: Callable[..., Any], key: str) -> tuple[bool, list[inspect.Parameter]]:
    """Return whether the context comes first, and the job's parameters."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise InvalidDefinition(f"{key}: {function!r} has no readable signature.") from error
    takes_context = bool(found) and found[0].name == CONTEXT and found[0].kind is _Kind.POSITIONAL_OR_KEYWORD
    found = found[1:] if takes_context else found
    for each in found:
        if each.kind in (_Kind.VAR_POSITIONAL, _Kind.POSITIONAL_ONLY):
            raise InvalidDefinition(
                f"{key}: parameter {each.name!r} cannot be given by name.",
                hint="Parameters of a job are JSON by name: use ordinary or keyword-only parameters.",
            )
        if each.name == CONTEXT:
            raise InvalidDefinition(f"{key}: {CONTEXT!r} must be the first parameter.")
    if found and found[0].name in ("self", "cls") and not takes_context:
        raise InvalidDefinition(
            f"{key}: {function.__qualname__} is a method of a class, and a worker has no object to call it on.",
            hint="Use a function outside of the class.",
        )
    return takes_context, found


def _model(
    function: Callable[..., Any], parameters: Sequence[inspect.Parameter], open_ended: bool, key: str
) -> type[BaseModel]:
    """Return a pydantic model of the parameters; its fields are numbered because pydantic reserves some names."""
    from pydantic import ConfigDict, Field, create_model
    from pydantic.errors import PydanticUserError

    named = [each for each in parameters if each.kind is not _Kind.VAR_KEYWORD]
    try:
        hints = _type_hints(function, [each.name for each in named])
        fields: dict[str, Any] = {
            f"field_{index}": (
                hints.get(each.name, Any),
                Field(... if each.default is _Kind.empty else each.default, alias=each.name),
            )
            for index, each in enumerate(named)
        }
        config = ConfigDict(extra="allow" if open_ended else "forbid", title="Parameters")
        return create_model("Parameters", __config__=config, **fields)
    except (PydanticUserError, NameError, TypeError) as error:
        raise _no_schema(key, error) from error


def _schema(model: type[BaseModel], key: str) -> str:
    from pydantic.errors import PydanticUserError
    from pydantic.json_schema import GenerateJsonSchema

    class Quiet(GenerateJsonSchema):
        """Omits defaults that are not JSON, without a warning: the function has them."""

        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    try:
        return json.dumps(model.model_json_schema(schema_generator=Quiet), ensure_ascii=False)
    except PydanticUserError as error:
        raise _no_schema(key, error) from error


def _no_schema(key: str, error: Exception) -> InvalidDefinition:
    problem = str(error).splitlines()[0].rstrip(".")
    return InvalidDefinition(f"{key}: its type hints cannot be made into a JSON Schema: {problem}.", hint=_HINT)


def _type_hints(function: Callable[..., Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the types of these parameters only: those of the context and the result need not be importable."""
    import typing

    def holder() -> None: ...

    inner: Any = inspect.unwrap(function)
    holder.__annotations__ = {name: note for name, note in inner.__annotations__.items() if name in names}
    return typing.get_type_hints(holder, globalns=inner.__globals__, include_extras=True)


def _pointer(parts: Sequence[Any]) -> str:
    """Return a JSON pointer."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def _reads(read: Callable[[str], object]) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return fits


# More than JSON Schema would allow: a date-time without a time zone is a datetime as well.
_FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": _reads(datetime.fromisoformat),
    "date": _reads(date.fromisoformat),
    "time": _reads(time.fromisoformat),
    "duration": lambda text: text.lstrip("+-").startswith("P"),
}
