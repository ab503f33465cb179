"""The secrets that are removed from the output of jobs: those of their parameters and of their definition."""

from __future__ import annotations

import os
from collections.abc import Sequence

from penstock.domain.definition import Definition
from penstock.domain.secrets.policy import Scrubber, SecretPolicy
from penstock.isolation.confinement import allowed_environment


class DeclaredSecrets:
    """Makes the scrubbers of jobs; the secrets of a definition are found once."""

    def __init__(self, policy: SecretPolicy, environment: Sequence[str] = ()) -> None:
        """`environment`: the variables that jobs of all definitions see."""
        self._policy = policy
        self._environment = tuple(environment)
        self._known: dict[tuple[str, int], tuple[Definition, Scrubber]] = {}

    def scrubber(self, definition: Definition, params: str) -> Scrubber:
        """A scrubber for the texts of a job with these parameters."""
        return self._policy.scrubber(definition.secret_fields, params, self._of(definition))

    def _of(self, definition: Definition) -> Scrubber:
        key = definition.key, definition.version
        known = self._known.get(key)
        if known is None or known[0] is not definition:
            visible = allowed_environment((*self._environment, *definition.visible), os.environ)
            known = self._known[key] = definition, self._policy.declared(definition, visible)
        return known[1]
