"""The options of `@app.job` and the definition that they make of a function."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.definitions.enqueue_options import integer, several_texts
from penstock.definitions.handles import Code
from penstock.definitions.phases import Named, Step, check_inline, plain_step, steps_from
from penstock.definitions.signature import KeyOf, Signature
from penstock.domain import payload
from penstock.domain.definition import HOOKS, Definition, RateLimit
from penstock.domain.errors import InvalidDefinition, InvalidInput, refuse_unknown
from penstock.domain.instant import SECOND, microseconds
from penstock.domain.retry import Backoff, backoff_from

OPTIONS = (
    "version", "description", "priority", "max_attempts", "backoff", "retry_on", "fatal_on", "timeout", "cancel_grace",
    "isolation", "phases", "concurrency", "concurrency_key", "key_concurrency", "rate_limit", "default_params",
    "secret", "stale_after", "delete_after", "memory", "cpu", "files", "file_size", "processes", "environment",
    "secret_environment",
    "reach", "log_level", *HOOKS,
)  # fmt: skip
"""The options of `@app.job`."""

_LONGEST_PLACE = 500

_INTEGERS = ("version", "priority", "max_attempts", "concurrency", "files", "processes")
_DURATIONS = ("timeout", "cancel_grace", "stale_after", "delete_after")
_SIZES = ("memory", "file_size")
_RATE = re.compile(r"(\d+)\s*/\s*(s|m|h|d)\Z")
_PERIODS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b\Z", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}

Classes = type[Exception] | Sequence[type[Exception]]
"""Exception classes of `retry_on` and `fatal_on`."""


def default_key(function: Callable[..., Any]) -> str:
    """Return module and name of a function; the module of a script is the one that an import would give it."""
    if "<lambda>" in function.__qualname__:
        raise InvalidDefinition("A lambda has no name to make a key of.", hint='Give it one: app.job("key")(lambda …).')
    module = function.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        module = spec.name.removesuffix(".__main__") if spec else Path(file).stem if file else module
    return f"{module}.{function.__qualname__}".replace("<locals>.", "")


def declared(
    key: str, function: Callable[..., Any], options: Mapping[str, Any], pipeline: Sequence[Named] | None = None
) -> tuple[Definition, Code]:
    """Return a definition and its code from the options of `@app.job`; the function's parameters are the job's.

    The phases are the given functions, else the option `phases`, else the function itself.

    """
    try:
        return _declared(key, function, options, pipeline)
    except InvalidDefinition:
        raise
    except InvalidInput as error:
        text = error.message if error.message.startswith(f"{key}: ") else f"{key}: {error.message}"
        raise InvalidDefinition(text, hint=error.hint) from None


def size(value: object, what: str) -> int:
    """Return a number of bytes, parsed from a string such as "512MB" or "1.5GiB" if needed."""
    if isinstance(value, str):
        found = _SIZE.match(value.strip())
        if found is None:
            raise InvalidInput(
                f"{what}: {value!r:.80} is not a size.", hint='Write "512MB", "1.5GiB" or a number of bytes.'
            )
        unit: int = (1024 if found[3] else 1000) ** _POWERS[found[2].lower()]
        return round(float(found[1]) * unit)
    return integer(value, what)


def _declared(
    key: str, function: Callable[..., Any], options: Mapping[str, Any], pipeline: Sequence[Named] | None
) -> tuple[Definition, Code]:
    known = OPTIONS if pipeline is None else tuple(name for name in OPTIONS if name != "phases")
    refuse_unknown(options, known, "an option of @app.job" if pipeline is None else "an option of app.pipeline")
    given = {name: value for name, value in options.items() if value is not None}
    signature = Signature(function, key, secret := several_texts(given.pop("secret", ()), f"{key}: secret"))
    _check_parameters(signature, secret, f"{key}: secret")
    key_of: KeyOf | None = given.pop("concurrency_key", None)
    if key_of is None and "key_concurrency" in given:
        raise InvalidDefinition(f"{key}: key_concurrency needs a concurrency_key.")
    key_concurrency = given.pop("key_concurrency", 1)
    _check_key_of(signature, key_of, key, secret)
    code = Code(
        function=function,
        signature=signature,
        key_of=key_of,
        steps=_steps(key, function, signature, given.pop("phases", ()), pipeline),
        hooks=_hooks(given, key),
        retry_on=_classes(given.pop("retry_on", ()), f"{key}: retry_on"),
        fatal_on=_classes(given.pop("fatal_on", ()), f"{key}: fatal_on"),
    )
    if both := set(code.retry_on) & set(code.fatal_on):
        raise InvalidDefinition(f"{key}: {both.pop().__name__} is in both retry_on and fatal_on.")
    numbers: dict[str, Any] = _durations(given, options.get("timeout", ...) is None, key)
    numbers |= {name: integer(given.pop(name), f"{key}: {name}") for name in _INTEGERS if name in given}
    numbers |= {name: size(given.pop(name), f"{key}: {name}") for name in _SIZES if name in given}
    definition = Definition(
        key=key,
        description=_description(given.pop("description", None), function if pipeline is None else None, key),
        phases=tuple(step.name for step in code.steps),
        concurrency_key="" if callable(key_of) else key_of,
        key_concurrency=0 if key_of is None else integer(key_concurrency, f"{key}: key_concurrency"),
        backoff=backoff_from(given.pop("backoff", Backoff())),
        rate_limit=rate_limit(given.pop("rate_limit", None), key),
        default_params=_default_params(given.pop("default_params", {}), signature, key),
        secret_fields=secret,
        hooks=tuple(code.hooks),
        cpu=_whole_seconds(given.pop("cpu", None), f"{key}: cpu"),
        environment=tuple(dict.fromkeys(several_texts(given.pop("environment", ()), f"{key}: environment"))),
        secret_environment=tuple(
            dict.fromkeys(several_texts(given.pop("secret_environment", ()), f"{key}: secret_environment"))
        ),
        handler=_handler(function),
        source=_source(function),
        **numbers,
        **given,
    )
    if definition.isolation == "inline":
        check_inline(key, code.steps)
    return definition, code


def _handler(function: Callable[..., Any]) -> str:
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    return payload.sanitise_text(f"{module or '?'}:{name or type(function).__qualname__}", _LONGEST_PLACE)


def _source(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return ""
    path = Path(code.co_filename)
    try:
        here = Path.cwd()
    except OSError:
        # The folder was removed.
        here = path
    return payload.sanitise_text(str(path.relative_to(here) if path.is_relative_to(here) else path), _LONGEST_PLACE)


def _steps(
    key: str, function: Callable[..., Any], signature: Signature, phases: object, pipeline: Sequence[Named] | None
) -> tuple[Step, ...]:
    if pipeline is not None:
        return steps_from(key, pipeline, signature)
    if not isinstance(phases, list | tuple):
        raise InvalidDefinition(f"{key}: phases must be a list of functions, not {phases!r:.80}.")
    return steps_from(key, [*phases, function], signature) if phases else (plain_step(function, signature),)


def _hooks(given: dict[str, Any], key: str) -> dict[str, Callable[..., Any]]:
    found = {name: given.pop(name) for name in HOOKS if name in given}
    for name, hook in found.items():
        if not callable(hook):
            raise InvalidDefinition(f"{key}: {name} must be a function, not {hook!r:.80}.")
    return found


def _classes(value: object, what: str) -> tuple[type[Exception], ...]:
    classes = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str | bytes) else (value,)
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, Exception)):
            raise InvalidDefinition(f"{what} takes classes of exceptions, not {each!r:.80}.")
    return classes


def _whole_seconds(value: Any, what: str) -> int | None:
    if value is None:
        return None
    length = microseconds(value, what)
    if length % SECOND:
        raise InvalidInput(f"{what} must be whole seconds, not {value!r:.80}.")
    return length // SECOND


def rate_limit(value: RateLimit | str | None, key: str) -> RateLimit | None:
    """Return a rate limit, parsed from a string such as "10/s" if needed."""
    if value is None or isinstance(value, RateLimit):
        return value
    if not isinstance(value, str) or not (found := _RATE.match(value.strip())):
        raise InvalidDefinition(
            f"{key}: {value!r} is not a rate limit.", hint='Write "10/s", "100/m", "1000/h" or "5/d".'
        )
    return RateLimit(int(found.group(1)), _PERIODS[found.group(2)])


def _durations(given: dict[str, Any], endless: bool, key: str) -> dict[str, Any]:
    found = {name: microseconds(given.pop(name), f"{key}: {name}") for name in _DURATIONS if name in given}
    if found.get("timeout") == 0:
        raise InvalidDefinition(
            f"{key}: timeout must be more than 0 seconds.", hint="None means that there is no limit."
        )
    return {**found, "timeout": None} if endless else found


def _default_params(value: object, signature: Signature, key: str) -> str:
    if not isinstance(value, Mapping):
        raise InvalidDefinition(f"{key}: default_params must be a mapping by name, not {value!r:.80}.")
    _check_parameters(signature, value, f"{key}: default_params")
    return payload.encode(dict(value), f"{key}: default_params")


def _check_key_of(signature: Signature, key_of: object, key: str, secret: Sequence[str]) -> None:
    if isinstance(key_of, str):
        if key_of in secret:
            raise InvalidDefinition(
                f"{key}: {key_of!r} is secret and cannot be the concurrency_key, which is shown.",
                hint="Give a function that makes a key of it, such as a hash.",
            )
        _check_parameters(signature, [key_of], f"{key}: concurrency_key")
    elif key_of is not None and not callable(key_of):
        raise InvalidDefinition(
            f"{key}: concurrency_key must be the name of a parameter or a function, not {key_of!r:.80}."
        )


def _check_parameters(signature: Signature, names: Iterable[str], what: str) -> None:
    if not signature.open_ended:
        refuse_unknown(names, signature.names, f"a parameter of the function ({what})")


def _description(value: object, function: Callable[..., Any] | None, key: str) -> str:
    if value is not None and not isinstance(value, str):
        raise InvalidDefinition(f"{key}: description must be a text, not {value!r:.80}.")
    if value is not None:
        return value
    return "" if function is None else inspect.getdoc(function) or ""
