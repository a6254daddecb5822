"""What is wrong or odd, and all of it in one refusal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from cuzkops.errors import UsageError, listed

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong or odd.

    Args:
        code: Short stable word for programs.
        severity: An error refuses the deploy, a warning is shown.
        where: Which part of the host or of the artifact.
        message: One sentence.
        hint: What to do about it.
        details: JSON-able facts.
    """

    code: str
    severity: Literal["error", "warning"]
    where: str
    message: str
    hint: str = ""
    details: dict[str, object] = field(default_factory=dict)


def raise_findings(findings: Sequence[Finding]) -> None:
    """Refuse when there is an error among the findings: all of them in one message.

    Raises:
        UsageError: At least one finding is an error. Its details list all findings.
    """
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        return
    rows = [finding_row(finding) for finding in findings]
    if len(errors) == 1:
        raise UsageError(errors[0].code, errors[0].message, errors[0].hint, {"findings": rows})
    message = f"{len(errors)} problems:\n{listed((error.message, error.hint) for error in errors)}"
    raise UsageError("preflight", message, details={"findings": rows})


def finding_row(finding: Finding) -> dict[str, object]:
    """A finding with its details, for the details of an error."""
    row = {key: getattr(finding, key) for key in ("code", "severity", "where", "message", "hint")}
    return {**finding.details, **row}
