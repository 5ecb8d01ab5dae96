"""SCRAM credentials (KIP-554): never a password on the wire, only what it becomes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from barnabas.base.errors import KafkaError
from barnabas.client.admin.calls import AdminCalls, outcome
from barnabas.client.errors.kinds import check
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
    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True, repr=False)
class ScramUpsertion:
    """A password to set; without a salt one is drawn."""

    user: str
    mechanism: ScramMechanism
    password: str
    iterations: int = DEFAULT_ITERATIONS
    salt: bytes | None = None


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    user: str
    mechanism: ScramMechanism


class ScramCalls(AdminCalls):
    async def describe_user_scram_credentials(
        self, users: Sequence[str] | None = None, *, timeout_ms: int | None = None
    ) -> Outcomes[str, tuple[ScramCredentialInfo, ...]]:
        """Which mechanisms users have credentials for; all users unless some are named."""
        names = None
        if users is not None:
            names = [DescribeUserScramCredentialsRequest.UserName(name=user) for user in users]
        request = DescribeUserScramCredentialsRequest(users=names)
        answer = await self._ask_any(request, DescribeUserScramCredentialsResponse, timeout_ms)
        check(answer.error_code, answer.error_message)
        return Outcomes(
            {
                one.user: outcome(
                    one.error_code,
                    one.error_message,
                    tuple(
                        ScramCredentialInfo(ScramMechanism(info.mechanism), info.iterations)
                        for info in one.credential_infos
                    ),
                )
                for one in answer.results
            }
        )

    async def alter_user_scram_credentials(
        self, alterations: Iterable[ScramUpsertion | ScramDeletion], *, timeout_ms: int | None = None
    ) -> Outcomes[str, None]:
        """Set and delete credentials; the outcome of each user."""
        wanted: dict[str, list[ScramUpsertion | ScramDeletion]] = {}
        for one in alterations:
            wanted.setdefault(one.user, []).append(one)

        def request(users: list[str]) -> AlterUserScramCredentialsRequest:
            changes = [change for user in users for change in wanted[user]]
            return AlterUserScramCredentialsRequest(
                deletions=[
                    AlterUserScramCredentialsRequest.ScramCredentialDeletion(
                        name=one.user, mechanism=one.mechanism
                    )
                    for one in changes
                    if isinstance(one, ScramDeletion)
                ],
                upsertions=[
                    _upsertion(one, self.cluster.random) for one in changes if isinstance(one, ScramUpsertion)
                ],
            )

        def read(answer: AlterUserScramCredentialsResponse, _: list[str]) -> dict[str, KafkaError | None]:
            return {one.user: outcome(one.error_code, one.error_message, None) for one in answer.results}

        return await self._through_controller(
            wanted, request, AlterUserScramCredentialsResponse, read, timeout_ms
        )


def _upsertion(
    one: ScramUpsertion, random: Random
) -> AlterUserScramCredentialsRequest.ScramCredentialUpsertion:
    salt = one.salt if one.salt is not None else random.bytes(SALT_BYTES)
    return AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=one.user,
        mechanism=one.mechanism,
        iterations=one.iterations,
        salt=salt,
        salted_password=salted_password(one.mechanism, one.password, salt, one.iterations),
    )
