"""How views become the OpenAPI description of /api: by what they say of themselves [interfaces]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drf_spectacular.openapi import AutoSchema

from recorder.api_operations import Operation


class ApiSchema(AutoSchema):
    """Takes a view's own description; nothing is guessed from code."""

    def get_operation(
        self,
        path: str,
        path_regex: str,
        path_prefix: str,
        method: str,
        registry: Any,  # noqa: ANN401 - the framework's
    ) -> dict[str, Any] | None:
        """The operation object of one method."""
        operations: dict[str, Operation] = getattr(self.view, "operations", {})
        if method in operations:
            return operations[method].render(getattr(self.view, "roles", frozenset()))
        found: dict[str, Any] | None = super().get_operation(
            path, path_regex, path_prefix, method, registry
        )
        return found


def without_aliases(endpoints: Sequence[tuple[Any, ...]], **_: object) -> list[tuple[Any, ...]]:
    """The same routes under /api/v1 are described once, under their plain paths."""
    return [one for one in endpoints if not str(one[0]).startswith("/api/v1/")]
