"""A server.  `RaftNode` decides everything and does nothing: it is fed events, and returns effects.

The `Executor` carries them out in order, and nothing leaves before what it depends on is on disk.
"""

import asyncio
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

from barnabas.base.effects import Received, Requested
from barnabas.base.errors import ErrorCode
from barnabas.raft import QuorumOptions, RaftNode, Voter, VoterEndpoint, VoterHistory, Voters, messages, rpc
from barnabas.runtime.loop.reactor import Reactor
from barnabas.runtime.loop.reactor_executor import executor_on
from barnabas.runtime.random import SystemRandom
from examples.raft_kv.journal import FORM, Journal
from examples.raft_kv.state_machine import EMPTY, Store

Members = dict[int, tuple[str, int]]
BATCHES_PER_FETCH, CHUNK_BYTES, MAX_LINE_BYTES = 10, 1 << 16, 1 << 26


class Server:
    """All servers replicate the log; the leader answers the clients."""

    def __init__(self, me: int, members: Members, folder: str, snapshot_every: int, reactor: Reactor) -> None:
        self.me, self.members, self.snapshot_every, self.clock = me, members, snapshot_every, reactor.clock
        voters = {id: Voter(id, endpoints=(VoterEndpoint("", *members[id]),)) for id in members}
        self.journal, self.store = Journal(folder, VoterHistory(Voters(voters.values()), 0)), Store(EMPTY)
        self.clients: dict[int, asyncio.StreamWriter] = {}  # By the offset of the command that they wait for.
        self.tasks = asyncio.TaskGroup()
        self.raft = RaftNode(voters[me], self.journal.load(), QuorumOptions(), SystemRandom())
        self.executor = executor_on(reactor, self.raft, store=self.journal, exits=self)

    async def run(self) -> None:
        server = await asyncio.start_server(self.serve, *self.members[self.me], limit=MAX_LINE_BYTES)
        async with self.tasks:
            print(f"server {self.me} listens on {':'.join(map(str, self.members[self.me]))}", flush=True)
            self.executor.step(Requested(None, messages.Start()))
            await server.serve_forever()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Events: lines of another server or of a client.  The answers to them are effects."""
        with suppress(OSError, ValueError), closing(writer):
            async for line in reader:
                match FORM.decode(line):
                    case rpc.OutboundRequest(correlation_id, request):
                        self.executor.step(Requested((writer, correlation_id), request))
                    case {"id": str(), "key": str()} as command if isinstance(command.get("value", ""), str):
                        self.append(writer, command)

    def append(self, client: asyncio.StreamWriter, command: dict[str, str]) -> None:
        """A get is appended too: when it is committed, no newer leader can have changed the value."""
        if self.raft.leader_epoch is None:
            client.write(FORM.encode({"leader": self.raft.leader_id}) + b"\n")
            return
        self.clients[self.raft.end_offset] = client
        records = messages.DataRecords((FORM.encode(command),), self.clock.wall_ms())
        self.executor.step(Requested(None, messages.Append(self.raft.leader_epoch, records)))

    def send(self, to: int, message: Any) -> None:
        self.tasks.create_task(self.request(to, message))

    async def request(self, to: int, message: rpc.OutboundRequest) -> None:
        """An effect and its event: the response, or None.  The node decides when to try again."""
        response = rpc.InboundResponse(message.correlation_id)
        with suppress(OSError, ValueError):
            async with asyncio.timeout(2):
                reader, writer = await asyncio.open_connection(*self.members[to], limit=MAX_LINE_BYTES)
                with closing(writer):
                    writer.write(FORM.encode(message) + b"\n")
                    response = FORM.decode(await reader.readline())
        self.executor.step(Received(to, response))

    def reply(self, to: Any, message: Any) -> None:
        """The node's response to another server, with the content that only the journal has."""
        match message:
            case rpc.FetchResponse(read_from=int(offset)) if message.leader.epoch == self.raft.leader_epoch:
                message = replace(message, batches=tuple(self.journal.read(offset)[:BATCHES_PER_FETCH]))
            case rpc.FetchSnapshotResponse(snapshot=self.journal.snapshot_id, position=start):
                content = self.journal.snapshot
                message = replace(message, size=len(content), data=content[start : start + CHUNK_BYTES])
            case rpc.FetchSnapshotResponse():
                message = replace(message, error=ErrorCode.SNAPSHOT_NOT_FOUND)
        writer, correlation_id = to
        writer.write(FORM.encode(rpc.InboundResponse(correlation_id, message)) + b"\n")

    def apply(self, decided: object) -> None:
        match decided:
            case messages.LeaderChanged(epoch, leader_id):
                if leader_id >= 0:
                    print(f"epoch {epoch}: the leader is {leader_id}", flush=True)
                while self.clients:  # They send their commands, committed or not, again with the same ids.
                    self.clients.popitem()[1].write(FORM.encode({"leader": leader_id}) + b"\n")
            case messages.HighWatermark(offset):
                self.commit(offset)

    def commit(self, high_watermark: int) -> None:
        """A majority has everything below the high watermark on disk."""
        if self.store.offset < self.journal.snapshot_id.offset:
            self.store = Store(self.journal.snapshot)
        for batch in self.journal.read(self.store.offset, high_watermark):
            self.store.offset, self.store.epoch = batch.end_offset, batch.epoch
            for command in batch.data:  # type: ignore[attr-defined]
                value = self.store.apply(FORM.decode(command))
                if batch.base_offset in self.clients:
                    self.clients.pop(batch.base_offset).write(FORM.encode({"value": value}) + b"\n")
        if self.store.offset - self.journal.snapshot_id.offset >= self.snapshot_every:
            self.journal.compact(self.store.snapshot(), self.journal.batches)
            taken = messages.SnapshotTaken(self.journal.snapshot_id, self.store.offset)
            self.executor.step(Requested(None, taken))
