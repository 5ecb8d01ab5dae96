"""Changes of SCRAM credentials (KIP-554)."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from tests.controller.lab import Lab


def test_a_user_that_is_rejected_does_not_keep_the_others_from_it() -> None:
    lab = Lab()
    parts = AlterUserScramCredentialsRequest

    def send(deleted: str, upserted: str) -> dict[str, int]:
        request = parts(
            deletions=[parts.ScramCredentialDeletion(name=name, mechanism=1) for name in deleted],
            upsertions=[
                parts.ScramCredentialUpsertion(
                    name=name, mechanism=1, iterations=4096, salt=b"salt", salted_password=b"p" * 32
                )
                for name in upserted
            ],
        )
        results = lab.send(request, AlterUserScramCredentialsResponse).results
        return {result.user: result.error_code for result in results}

    duplicate, missing = ErrorCode.DUPLICATE_RESOURCE, ErrorCode.RESOURCE_NOT_FOUND
    assert send("", "abbbcd") == {"a": 0, "b": duplicate, "c": 0, "d": 0}
    assert {name for _, name in lab.image.scram} == {"a", "c", "d"}
    assert send("xaaac", "dde") == {"x": missing, "a": duplicate, "c": 0, "d": duplicate, "e": 0}
    assert {name for _, name in lab.image.scram} == {"a", "d", "e"}
    assert send("aa", "ae") == {"a": duplicate, "e": 0}
    assert send("xx", "xe") == {"x": missing, "e": 0}
