"""A broker that is registered and does nothing else: simulates a cluster whose other broker has failed."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType

from barnabas.base.ids import Uuid
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from tools.raw_broker import BrokerProcess, RawConnection

FAR = 2**62
HIGHEST = 30_000


class Phantom:
    """`with Phantom(broker, 2) as phantom:` it seems to live; afterwards it is fenced."""

    def __init__(self, broker: BrokerProcess, broker_id: int) -> None:
        self.broker_id = broker_id
        (state,) = (broker.folder / "state" / "run").glob("*.pid")
        info = json.loads(Path(state).read_text("utf-8"))
        host, _, port = info["listeners"]["CONTROLLER"].rpartition(":")
        self._connection = RawConnection((host, int(port)))
        answer = self._connection.ask(
            BrokerRegistrationRequest(
                broker_id=broker_id,
                cluster_id=info["cluster_id"],
                incarnation_id=Uuid(bytes(15) + bytes([broker_id])),
                listeners=[
                    BrokerRegistrationRequest.Listener(
                        name="PLAINTEXT", host="127.0.0.1", port=1, security_protocol=0
                    )
                ],
                features=[
                    BrokerRegistrationRequest.Feature(
                        name=name, min_supported_version=0, max_supported_version=HIGHEST
                    )
                    for name in self._features(broker)
                ],
                rack=None,
                log_dirs=[Uuid(bytes([broker_id]) * 16)],
                previous_broker_epoch=-1,
            ),
            4,
            BrokerRegistrationResponse,
        )
        assert answer.error_code == 0, answer
        self._epoch = answer.broker_epoch

    @staticmethod
    def _features(broker: BrokerProcess) -> list[str]:
        from barnabas.client.sync import Admin

        with Admin(bootstrap_servers=f"{broker.address[0]}:{broker.address[1]}") as admin:
            return list(admin.describe_features().finalized)

    def __enter__(self) -> Phantom:
        assert not self._beat(want_fence=False).is_fenced
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._beat(want_fence=True)
        self._connection.socket.close()

    def _beat(self, *, want_fence: bool) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=self.broker_id,
            broker_epoch=self._epoch,
            current_metadata_offset=FAR,
            want_fence=want_fence,
            want_shut_down=False,
        )
        answer = self._connection.ask(request, 1, BrokerHeartbeatResponse)
        assert answer.error_code == 0, answer
        return answer
