"""SCRAM credentials (KIP-554): only the salted password is sent, never the password."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from barnabas.base.errors import KafkaError
from barnabas.client.admin.calls import AdminCalls, outcome
from barnabas.client.errors.base import check
from barnabas.client.outcomes import Outcomes
from barnabas.metadata.scram import DEFAULT_ITERATIONS, SALT_BYTES, ScramMechanism, salted_password
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from barnabas.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from barnabas.runtime.random import Random


@dataclass(frozen=True, slots=True)
class ScramCredentialInfo:
    """A mechanism for which a user has a credential."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True, repr=False)
class ScramUpsertion:
    """A password to set; a random salt is drawn if none is given."""

    user: str
    mechanism: ScramMechanism
    password: str
    iterations: int = DEFAULT_ITERATIONS
    salt: bytes | None = None


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """A credential to delete."""

    user: str
    mechanism: ScramMechanism


class ScramCalls(AdminCalls):
    async def describe_user_scram_credentials(
        self, users: Sequence[str] | None = None, *, timeout_ms: int | None = None
    ) -> Outcomes[str, tuple[ScramCredentialInfo, ...]]:
        """Return the mechanisms that users have credentials for; of all users by default."""
        names = None
        if users is not None:
            names = [DescribeUserScramCredentialsRequest.UserName(name=user) for user in users]
        request = DescribeUserScramCredentialsRequest(users=names)
        response = await self._send_to_any(request, DescribeUserScramCredentialsResponse, timeout_ms)
        check(response.error_code, response.error_message)
        return Outcomes(
            {
                result.user: outcome(
                    result.error_code,
                    result.error_message,
                    tuple(
                        ScramCredentialInfo(ScramMechanism(info.mechanism), info.iterations)
                        for info in result.credential_infos
                    ),
                )
                for result in response.results
            }
        )

    async def alter_user_scram_credentials(
        self, alterations: Iterable[ScramUpsertion | ScramDeletion], *, timeout_ms: int | None = None
    ) -> Outcomes[str, None]:
        """Set and delete credentials; returns one outcome per user."""
        wanted: dict[str, list[ScramUpsertion | ScramDeletion]] = {}
        for alteration in alterations:
            wanted.setdefault(alteration.user, []).append(alteration)

        def request(users: list[str]) -> AlterUserScramCredentialsRequest:
            changes = [change for user in users for change in wanted[user]]
            return AlterUserScramCredentialsRequest(
                deletions=[
                    AlterUserScramCredentialsRequest.ScramCredentialDeletion(
                        name=alteration.user, mechanism=alteration.mechanism
                    )
                    for alteration in changes
                    if isinstance(alteration, ScramDeletion)
                ],
                upsertions=[
                    _upsertion(alteration, self.cluster.random)
                    for alteration in changes
                    if isinstance(alteration, ScramUpsertion)
                ],
            )

        def read(response: AlterUserScramCredentialsResponse, _: list[str]) -> dict[str, KafkaError | None]:
            return {
                result.user: outcome(result.error_code, result.error_message, None)
                for result in response.results
            }

        return await self._through_controller(
            wanted, request, AlterUserScramCredentialsResponse, read, timeout_ms
        )


def _upsertion(
    scram_upsertion: ScramUpsertion, random: Random
) -> AlterUserScramCredentialsRequest.ScramCredentialUpsertion:
    salt = scram_upsertion.salt if scram_upsertion.salt is not None else random.bytes(SALT_BYTES)
    return AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=scram_upsertion.user,
        mechanism=scram_upsertion.mechanism,
        iterations=scram_upsertion.iterations,
        salt=salt,
        salted_password=salted_password(
            scram_upsertion.mechanism, scram_upsertion.password, salt, scram_upsertion.iterations
        ),
    )
