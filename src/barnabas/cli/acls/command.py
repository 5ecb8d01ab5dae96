"""`barnabas acls`: list, add and remove ACLs, as kafka-acls does."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.connecting import add_connection_flags, open_admin
from barnabas.cli.framework.exits import Exit, UsageError
from barnabas.cli.framework.flag_rules import FlagRules

if TYPE_CHECKING:
    from barnabas.cli.acls.acl_rules import Resource, Rules
    from barnabas.client.admin.security.acls import AclBinding
    from barnabas.client.sync import Admin

PROGRAM = "barnabas acls"
FAILED = "Error while executing ACL command: "
ACTIONS = ("--list", "--add", "--remove")
PATTERN_TYPES = ("ANY", "MATCH", "LITERAL", "PREFIXED")


def make_parser() -> KafkaParser:
    parser = KafkaParser(
        PROGRAM, "List, add or remove ACLs.", "Give exactly one of --list, --add and --remove."
    )
    add = parser.add_argument
    add_connection_flags(parser, controllers=True, old_zookeeper=True)
    add("--list", action="store_true", help="print the ACLs of the given resources, or all ACLs")
    add("--add", action="store_true", help="add ACLs")
    add("--remove", action="store_true", help="remove ACLs; without a principal, all ACLs of the resource")
    add("--force", action="store_true", help="remove without asking for confirmation")
    for flag, resource in (
        ("--topic", "a topic"),
        ("--group", "a group"),
        ("--transactional-id", "a transactional id"),
        ("--delegation-token", "a delegation token"),
        ("--user-principal", "a user as a resource"),
    ):
        add(flag, action="append", metavar="NAME", help=f"{resource}, * for all; may be repeated")
    add("--cluster", action="store_true", help="the cluster")
    add(
        "--resource-pattern-type",
        default="literal",
        metavar="TYPE",
        help="literal or prefixed; --list and --remove also take any, and match for all ACLs that apply",
    )
    add("--operation", action="append", metavar="NAME", help="the operation to allow or deny (default All)")
    add("--allow-principal", action="append", metavar="User:NAME", help="principal to allow; may be repeated")
    add("--deny-principal", action="append", metavar="User:NAME", help="principal to deny; may be repeated")
    add("--allow-host", action="append", metavar="HOST", help="host to allow access from (default *)")
    add("--deny-host", action="append", metavar="HOST", help="host to deny access from (default *)")
    add("--principal", action="append", metavar="User:NAME", help="with --list: only ACLs of this principal")
    add("--producer", action="store_true", help="add or remove all ACLs that a producer needs")
    add("--consumer", action="store_true", help="add or remove all ACLs that a consumer needs")
    add(
        "--idempotent",
        action="store_true",
        help="with --producer: also the ACL that an idempotent producer needs",
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    action = check_flags(FlagRules(parser, options), options)
    from barnabas.cli.acls.acl_rules import principals_of, resources_of, rules_of
    from barnabas.cli.framework.kafka_errors import java_error_prefix

    rules = rules_of(FlagRules(parser, options), options) if action != "--list" else {}
    resources = resources_of(options)
    principals = principals_of(options.principal)
    with java_error_prefix(FAILED), open_admin(parser, options) as admin:
        if action == "--list":
            show(list_rules(admin, resources), principals)
        elif action == "--add":
            add_rules(admin, rules)
        else:
            remove_rules(admin, rules, ask=not options.force)
    return Exit.OK


def check_flags(rules: FlagRules, options: Namespace) -> str:
    if options.bootstrap_server and options.bootstrap_controller:
        rules.refuse("Only one of --bootstrap-server or --bootstrap-controller must be specified")
    if not (options.bootstrap_server or options.bootstrap_controller or options.old_zookeeper):
        rules.refuse("One of --bootstrap-server or --bootstrap-controller must be specified")
    action = rules.exactly_one(ACTIONS, "Command must include exactly one action: --list, --add, --remove. ")
    roles = ("--producer", "--consumer")
    rules.forbid("--list", (*roles, "--allow-host", "--allow-principal", "--deny-host", "--deny-principal"))
    for role in roles:
        rules.forbid(role, ("--operation", "--deny-principal", "--deny-host"))
    if options.principal and action != "--list":
        rules.refuse("The --principal option is only available if --list is set")
    if options.producer and not options.topic:
        rules.refuse("With --producer you must specify a --topic")
    if options.idempotent and not options.producer:
        rules.refuse("The --idempotent option is only available if --producer is set")
    elsewhere = not options.producer and (options.cluster or options.transactional_id)
    if options.consumer and (not options.topic or not options.group or elsewhere):
        rules.refuse(
            "With --consumer you must specify a --topic and a --group and no --cluster or "
            "--transactional-id option should be specified."
        )
    kind = options.resource_pattern_type.upper()
    if kind not in PATTERN_TYPES:
        wrong = options.resource_pattern_type
        raise UsageError(f"{FAILED}Cannot parse argument '{wrong}' of option resource-pattern-type")
    if action == "--add" and kind in ("ANY", "MATCH"):
        rules.refuse(f"A '--resource-pattern-type' value of '{kind}' is not valid when adding acls.")
    return action


def list_rules(admin: Admin, resources: Sequence[Resource]) -> list[AclBinding]:
    if not resources:
        return admin.describe_acls()
    rules = [binding for resource in resources for binding in admin.describe_acls(resource.filter())]
    return list(dict.fromkeys(rules))


def show(bindings: list[AclBinding], principals: list[str]) -> None:
    if not principals:
        print_rules(bindings)
    for principal in principals:
        print(f"ACLs for principal `{principal}`")
        print_rules([binding for binding in bindings if binding.principal == principal])


def print_rules(bindings: list[AclBinding]) -> None:
    from barnabas.cli.acls.acl_rules import Resource, entry_text

    by_resource: dict[Resource, list[str]] = {}
    for binding in bindings:
        resource = Resource(binding.resource_type, binding.resource_name, binding.pattern_type)
        by_resource.setdefault(resource, []).append(entry_text(binding))
    for resource, entries in by_resource.items():
        lines = "\n".join(f"\t{entry}" for entry in entries)
        print(f"Current ACLs for resource `{resource}`:\n{lines}\n")


def add_rules(admin: Admin, rules: Rules) -> None:
    from barnabas.cli.acls.acl_rules import binding, entry_text

    for resource, entries in rules.items():
        bindings = [binding(resource, entry) for entry in entries]
        lines = "\n".join(f"\t{entry_text(entry)}" for entry in bindings)
        print(f"Adding ACLs for resource `{resource}`: \n {lines}\n")
        admin.create_acls(bindings).raise_first()


def remove_rules(admin: Admin, rules: Rules, *, ask: bool) -> None:
    from barnabas.cli.acls.acl_rules import binding, entry_text

    for resource, entries in rules.items():
        if not entries:
            question = f"Are you sure you want to delete all ACLs for resource filter `{resource}`? (y/n)"
        else:
            lines = "\n".join(f"\t{entry_text(binding(resource, entry))}" for entry in entries)
            question = f"Are you sure you want to remove ACLs: \n {lines} \n "
            question += f"from resource filter `{resource}`? (y/n)"
        if ask and not confirmed(question):
            continue
        filters = [resource.filter(entry) for entry in entries] or [resource.filter()]
        admin.delete_acls(filters).raise_first()


def confirmed(question: str) -> bool:
    """Whether the user agrees; raises UsageError if the standard input has ended."""
    print(question, file=sys.stderr)
    answer = sys.stdin.readline()
    if not answer:
        raise UsageError(
            f"{PROGRAM}: not confirmed, nothing is removed; --force removes without confirmation"
        )
    return answer.strip().lower() == "y"
