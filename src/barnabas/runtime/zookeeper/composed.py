"""Calls that are made of several: many reads at once, and znodes with their parents.  For all clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.zookeeper.client import Create, Created, ZooKeeperCode, ZooKeeperError

T = TypeVar("T")


def gather(promises: Sequence[Promise[T]]) -> Promise[list[T]]:
    """All values, or the first error, once all promises are settled."""
    gathered: Promise[list[T]] = Promise()
    waiting = len(promises)
    errors: list[BaseException] = []

    def one_settled() -> None:
        nonlocal waiting
        waiting -= 1
        if waiting:
            return
        if errors:
            gathered.fail(errors[0])
        else:
            gathered.set([promise.value for promise in promises])

    def failed(error: BaseException) -> None:
        errors.append(error)
        one_settled()

    if not promises:
        gathered.set([])
    for promise in promises:
        promise.then(lambda _: one_settled(), failed)
    return gathered


def create_with_parents(create: Callable[[Create], Promise[Created]], operation: Create) -> Promise[Created]:
    """Create a znode; if that fails because its parent is missing, the parents and then the znode."""
    created: Promise[Created] = Promise()

    def failed(error: BaseException) -> None:
        parent = operation.path.rpartition("/")[0]
        if not parent or not isinstance(error, ZooKeeperError) or error.code is not ZooKeeperCode.NO_NODE:
            created.fail(error)
            return
        made = make_path(create, parent, operation)
        made.then(lambda _: create(operation).then(created.set, created.fail), created.fail)

    create(operation).then(created.set, failed)
    return created


def make_path(
    create: Callable[[Create], Promise[Created]], path: str, like: Create | None = None
) -> Promise[None]:
    """See that a path exists, creating what is missing of it without data; with the ACL of `like`."""
    made: Promise[None] = Promise()

    def failed(error: BaseException) -> None:
        if isinstance(error, ZooKeeperError) and error.code is ZooKeeperCode.NODE_EXISTS:
            made.set(None)
        else:
            made.fail(error)

    operation = Create(path) if like is None else Create(path, acl=like.acl)
    create_with_parents(create, operation).then(lambda _: made.set(None), failed)
    return made
