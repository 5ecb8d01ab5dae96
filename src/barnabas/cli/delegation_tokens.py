"""`barnabas delegation-tokens`: create, renew, expire and describe tokens, as kafka-delegation-tokens."""

from __future__ import annotations

import base64
import binascii
from argparse import Namespace
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.connecting import add_connection_flags, open_admin
from barnabas.cli.framework.exits import Exit, UsageError
from barnabas.cli.framework.flag_rules import FlagRules
from barnabas.cli.framework.numbers import long_integer

if TYPE_CHECKING:
    from barnabas.client.admin.security.tokens import DelegationToken, Principal
    from barnabas.client.sync import Admin

PROGRAM = "barnabas delegation-tokens"
ACTIONS = ("--create", "--renew", "--expire", "--describe")
_ROW = "\n%-15s %-30s %-15s %-15s %-25s %-15s %-15s %-15s\n"
_HEADINGS = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")


def make_parser() -> KafkaParser:
    parser = KafkaParser(
        PROGRAM,
        "Create, renew, expire and describe delegation tokens.",
        "A client logs in with a token by SCRAM: its id is the user name, its HMAC the password, and the "
        "login module has the option tokenauth=true.",
    )
    add = parser.add_argument
    add_connection_flags(parser)
    add("--create", action="store_true", help="create a token; needs --max-life-time-period")
    add("--renew", action="store_true", help="extend a token; needs --hmac and --renew-time-period")
    add("--expire", action="store_true", help="end a token; needs --hmac and --expiry-time-period")
    add("--describe", action="store_true", help="show the tokens of the caller, or of owners")
    add("--owner-principal", action="append", metavar="USER", help="the owner, as User:NAME; may be repeated")
    add("--renewer-principal", action="append", metavar="USER", help="who may renew it; may be repeated")
    add("--max-life-time-period", type=long_integer, metavar="MS", help="-1: as the brokers are configured")
    add("--renew-time-period", type=long_integer, metavar="MS", help="-1: as the brokers are configured")
    add("--expiry-time-period", type=long_integer, metavar="MS", help="-1: the token ends now")
    add("--hmac", metavar="HMAC", help="the token, in base64")
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    check(FlagRules(parser, options))
    with open_admin(parser, options) as admin:
        if options.create:
            create(admin, options)
        elif options.renew:
            renew(admin, options)
        elif options.expire:
            expire(admin, options)
        else:
            describe(admin, options)
    return Exit.OK


def check(rules: FlagRules) -> None:
    rules.require("--bootstrap-server", "--command-config")
    action = rules.exactly_one(
        ACTIONS, "Command must include exactly one action: --create, --renew, --expire or --describe"
    )
    needed = {
        "--create": ["--max-life-time-period"],
        "--renew": ["--hmac", "--renew-time-period"],
        "--expire": ["--hmac", "--expiry-time-period"],
        "--describe": [],
    }
    rules.require(*needed[action])
    apart = {
        "--create": ["--hmac", "--renew-time-period", "--expiry-time-period"],
        "--renew": [
            "--renewer-principal",
            "--max-life-time-period",
            "--expiry-time-period",
            "--owner-principal",
        ],
        "--expire": [
            "--renewer-principal",
            "--max-life-time-period",
            "--renew-time-period",
            "--owner-principal",
        ],
        "--describe": [
            "--renewer-principal",
            "--max-life-time-period",
            "--renew-time-period",
            "--expiry-time-period",
            "--hmac",
        ],
    }
    rules.forbid(action, apart[action])


def create(admin: Admin, options: Namespace) -> None:
    renewers, owners = principals(options.renewer_principal), principals(options.owner_principal)
    lifetime_ms = options.max_life_time_period
    print(
        f"Calling create token operation with renewers :{_list(renewers)} , "
        f"max-life-time-period :{lifetime_ms}"
    )
    token = admin.create_delegation_token(
        owner=owners[0] if owners else None, renewers=renewers, max_lifetime_ms=lifetime_ms
    )
    print(f"Created delegation token with tokenId : {token.token_id}")
    show([token])


def renew(admin: Admin, options: Namespace) -> None:
    period_ms = options.renew_time_period
    print(f"Calling renew token operation with hmac :{options.hmac} , renew-time-period :{period_ms}")
    expiry_ms = admin.renew_delegation_token(decoded(options.hmac), period_ms=period_ms)
    print(f"Completed renew operation. New expiry date : {shown_time(expiry_ms)}")


def expire(admin: Admin, options: Namespace) -> None:
    period_ms = options.expiry_time_period
    print(f"Calling expire token operation with hmac :{options.hmac} , expire-time-period :{period_ms}")
    expiry_ms = admin.expire_delegation_token(decoded(options.hmac), period_ms=period_ms)
    print(f"Completed expire operation. New expiry date : {shown_time(expiry_ms)}")


def describe(admin: Admin, options: Namespace) -> None:
    owners = principals(options.owner_principal)
    if owners:
        print(f"Calling describe token operation for owners: {_list(owners)}")
    else:
        print("Calling describe token operation for current user.")
    tokens = admin.describe_delegation_token(owners or None)
    print(f"Total number of tokens : {len(tokens)}", end="")
    show(tokens)


def show(tokens: Iterable[DelegationToken]) -> None:
    lines = [_ROW % _HEADINGS]
    for token in tokens:
        lines.append(
            _ROW
            % (
                token.token_id,
                base64.b64encode(token.hmac).decode("ascii"),
                token.owner,
                token.requester,
                _list(token.renewers),
                shown_time(token.issue_timestamp),
                shown_time(token.expiry_timestamp),
                shown_time(token.max_timestamp),
            )
        )
    print("".join(lines), end="")


def principals(texts: Sequence[str] | None) -> list[Principal]:
    """`User:NAME` each."""
    from barnabas.client.admin.security.tokens import Principal

    found = []
    for text in texts or ():
        kind, colon, name = text.strip().partition(":")
        if not colon or not kind:
            raise UsageError(
                f"expected a string in format principalType:principalName but got {text.strip()}"
            )
        found.append(Principal(kind, name))
    return found


def decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise UsageError("the HMAC must be in base64, as --describe shows it") from error


def shown_time(timestamp_ms: int) -> str:
    """In the time zone of this machine, to the minute."""
    return datetime.fromtimestamp(timestamp_ms / 1000).strftime("%Y-%m-%dT%H:%M")


def _list(principals: Iterable[Principal]) -> str:
    return f"[{', '.join(map(str, principals))}]"
