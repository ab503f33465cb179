"""Refuses searches for the values of secret parameters: whether a job is found would tell whether a guess is right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.domain.definition import DefinitionRow
from penstock.domain.errors import Hint, InvalidInput
from penstock.domain.secrets.policy import SecretPolicy


def refuse_secrets(names: Sequence[str], row: DefinitionRow) -> None:
    """Refuse parameters that this definition declares as secret; of one that cannot be read nobody knows which are."""
    key = row.definition.key
    if row.error is not None:
        raise InvalidInput(
            f"The definition {key} cannot be read, so nobody knows which of its parameters are secret.", hint=_ANOTHER
        )
    for name in names:
        if name in row.definition.secret_fields:
            raise InvalidInput(f"{name!r} is a secret parameter of {key}: it cannot be searched.", hint=_ANOTHER)


def refuse_secret_names(names: Iterable[str], policy: SecretPolicy) -> None:
    """Refuse names that are those of secrets in every definition."""
    for name in names:
        if policy.is_secret(name):
            raise InvalidInput(
                f"{name!r:.80} is the name of a secret: it cannot be searched.", hint="Search by another parameter."
            )


_ANOTHER = Hint(
    "Search by another parameter, or within another definition: definition_key=...",
    cli="Search by another parameter, or within another definition with --definition-key.",
    http="Search by another parameter, or within another definition with definitionKey.",
)
