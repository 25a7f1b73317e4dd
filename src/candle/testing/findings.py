"""The clauses of the standard that an export is held to, and what was found out about them."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CLAUSES", "Finding", "Report"]

# Clause by clause, what DLPack's header and the Python Array API standard (2024.12) ask for.
CLAUSES = {
    "device": "`__dlpack_device__()` gives two ints: a device type and a number",
    "same device": "the struct names the device that `__dlpack_device__` names",
    "keywords": "`stream`, `max_version`, `dl_device` and `copy` are taken, as keywords",
    "legacy": "without `max_version` comes a capsule named `dltensor`, or a BufferError",
    "versioned": "for `max_version=(1, n)` comes a capsule named `dltensor_versioned`",
    "older consumer": "for `max_version=(0, n)` comes a `dltensor` capsule, or a BufferError",
    "version": "the struct's major version is 1",
    "flags": "no flag is set that the version does not define",
    "read-only": "immutable memory is flagged READ_ONLY; a capsule that cannot say so is refused",
    "copy=True": "a copy is made, and flagged IS_COPIED; or a BufferError",
    "copy=False": "the same memory, not flagged IS_COPIED; or a BufferError",
    "dl_device": "the host is exported to, and a device out of reach is a BufferError",
    "shape": "`shape` is there where there are axes, and no extent is negative",
    "strides": "`strides` is there where there are axes (since 1.2)",
    "data": "`data` is not NULL under elements, and should be NULL where there are none",
    "byte_offset": "`byte_offset` is 0, as several consumers ignore it or refuse another",
    "alignment": "the first element lies at a multiple of its own size",
    "dtype": "code, bits and lanes are a dtype of the standard",
    "fresh": "each call gives a capsule, a struct and extents of its own",
    "deleter": "there is a deleter",
    "unconsumed": "a capsule that nobody takes calls the deleter, once, when it dies",
    "consumed": "a capsule that was taken and renamed leaves the struct to its new owner",
    "keeps alive": "an export holds its memory, and lets it go with the deleter",
    "without the GIL": "the deleter may be called without the GIL, on any thread",
    "exchange table": "the type's C exchange table is a capsule, of major version 1, and complete",
}


class Finding(NamedTuple):
    """What was found out about one clause.

    Attributes
    ----------
    clause : str
        A key of `CLAUSES`.
    verdict : {"kept", "broken", "note", "untried"}
        A note is no breach: something that consumers stumble over.
    fact : str
        What was seen; empty where the clause is kept.
    """

    clause: str
    verdict: str
    fact: str = ""


class Report:
    """What `check` found.

    Attributes
    ----------
    subject : str
        The type that was looked at.
    findings : list of Finding
        One or more for each clause, in the order of `CLAUSES`.
    """

    def __init__(self, subject: str, findings: list[Finding]) -> None:
        order = list(CLAUSES)
        self.subject = subject
        self.findings: list[Finding] = sorted(
            findings, key=lambda finding: order.index(finding.clause)
        )

    @property
    def broken(self) -> list[Finding]:
        """The clauses that are broken."""
        return [finding for finding in self.findings if finding.verdict == "broken"]

    def __bool__(self) -> bool:
        return not self.broken

    def __repr__(self) -> str:
        lines = [
            f"{finding.verdict:8} {finding.clause:16} {finding.fact or CLAUSES[finding.clause]}"
            for finding in self.findings
        ]
        return "\n".join([f"{self.subject}: {len(self.broken)} clauses broken", *lines])
