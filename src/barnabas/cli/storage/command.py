"""`barnabas storage`: format data folders, inspect them, look up feature levels.

The options and messages are those of Apache Kafka's kafka-storage; usage errors exit with 2 instead of 1.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError, Exit, UsageError
from barnabas.cli.framework.numbers import short_number
from barnabas.cli.framework.subcommands import Subcommand, Tool, no_flags
from barnabas.metadata.features import (
    FEATURES,
    FEATURES_BY_NAME,
    LATEST_STABLE_METADATA_VERSION,
    METADATA_VERSION,
    OLDEST_METADATA_VERSION,
    metadata_version_at,
    metadata_version_named,
)

PROGRAM = "barnabas storage"
_RELEASES = f"The minimum is {OLDEST_METADATA_VERSION}; the default is {LATEST_STABLE_METADATA_VERSION}."


def run(arguments: Sequence[str]) -> int:
    description = "Format data folders, inspect them, look up feature levels."
    return Tool(PROGRAM, description, SUBCOMMANDS, make_parser=ArgumentParser).run(arguments)


def _declare_info(parser: ArgumentParser) -> None:
    parser.add_argument("--config", "-c", required=True, metavar="FILE", help="the server.properties to use")


def _declare_format(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--config", "-c", required=True, metavar="FILE", help="the server.properties to use")
    add("--cluster-id", "-t", required=True, metavar="ID", help="the cluster id, see `random-uuid`")
    add(
        "--add-scram",
        "-S",
        action="append",
        default=[],
        metavar="CREDENTIAL",
        help="an initial SCRAM credential, as 'SCRAM-SHA-256=[name=alice,password=alice-secret]' or "
        '\'SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]\'; may be repeated',
    )
    add("--ignore-formatted", "-g", action="store_true", help="skip folders that are already formatted")
    add(
        "--release-version",
        "-r",
        metavar="RELEASE",
        help=f"the release that determines the initial feature levels. {_RELEASES}",
    )
    add(
        "--feature",
        "-f",
        action="append",
        default=[],
        metavar="NAME=LEVEL",
        help="the initial level of a feature, as in `kraft.version=1`; may be repeated",
    )
    quorum = parser.add_mutually_exclusive_group()
    quorum.add_argument(
        "--standalone",
        "-s",
        action="store_true",
        help="this controller is the only voter of a dynamic quorum",
    )
    quorum.add_argument(
        "--no-initial-controllers",
        "-N",
        action="store_true",
        help="do not write the voters of a dynamic quorum: this node learns them or joins later",
    )
    quorum.add_argument(
        "--initial-controllers",
        "-I",
        metavar="VOTERS",
        help="the voters of a dynamic quorum, ID@HOST:PORT:DIRECTORY-ID separated by commas; "
        "the same on every node",
    )


def _declare_version_mapping(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--release-version",
        "-r",
        metavar="RELEASE",
        default=LATEST_STABLE_METADATA_VERSION.name,
        help=f"the release whose feature levels to show. {_RELEASES}",
    )


def _declare_feature_dependencies(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--feature",
        "-f",
        action="append",
        required=True,
        metavar="NAME=LEVEL",
        help="a level of a feature, as in `metadata.version=5`; may be repeated",
    )


def random_uuid_command(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.runtime.random import SystemRandom, random_uuid

    print(random_uuid(SystemRandom()))
    return Exit.OK


def version_mapping_command(parser: ArgumentParser, options: Namespace) -> int:
    try:
        version = metadata_version_named(options.release_version)
    except ValueError as error:
        raise CommandError(
            f"Unknown release version '{options.release_version}'. Supported versions are: "
            f"{OLDEST_METADATA_VERSION} to {LATEST_STABLE_METADATA_VERSION}"
        ) from error
    print(f"{METADATA_VERSION}={version.level} ({options.release_version})")
    for feature in FEATURES:
        print(f"{feature.name}={feature.default_level(version)}")
    return Exit.OK


def feature_dependencies_command(parser: ArgumentParser, options: Namespace) -> int:
    for text in options.feature:
        name, equals, level_text = text.partition("=")
        if not equals:
            raise UsageError(f"{PROGRAM} feature-dependencies: {text} has no level; write NAME=LEVEL")
        level = short_number(level_text)
        if level is None:
            raise CommandError(f"Invalid version format: {level_text} for feature {name}")
        for line in dependency_lines(name, level):
            print(line)
    return Exit.OK


def dependency_lines(name: str, level: int) -> list[str]:
    """The dependencies of a feature level."""
    if name == METADATA_VERSION:
        try:
            return [f"{name}={level} ({metadata_version_at(level)}) has no dependencies."]
        except ValueError as error:
            raise CommandError(f"Unknown {name} {level}") from error
    if name not in FEATURES_BY_NAME:
        raise CommandError(f"Unknown feature: {name}")
    try:
        needed = FEATURES_BY_NAME[name].at(level, unstable=True).dependencies
    except ValueError as error:
        raise CommandError(f"Feature level {level} is not supported for feature {name}") from error
    if not needed:
        return [f"{name}={level} has no dependencies."]
    lines = [f"{name}={level} requires:"]
    for other, other_level in needed.items():
        suffix = f" ({metadata_version_at(other_level)})" if other == METADATA_VERSION else ""
        lines.append(f"    {other}={other_level}{suffix}")
    return lines


def info_command(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.cli.storage.info import show_info

    return show_info(options.config)


def format_command(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.cli.storage.format import format_folders

    return format_folders(options)


SUBCOMMANDS: dict[str, Subcommand] = {
    "info": Subcommand("show the cluster and node of the data folders", _declare_info, info_command),
    "format": Subcommand("format the data folders of this node", _declare_format, format_command),
    "version-mapping": Subcommand(
        "show the feature levels of a release",
        _declare_version_mapping,
        version_mapping_command,
    ),
    "feature-dependencies": Subcommand(
        "show which other levels a feature level requires",
        _declare_feature_dependencies,
        feature_dependencies_command,
    ),
    "random-uuid": Subcommand(
        "print a random id for a cluster or a directory",
        no_flags,
        random_uuid_command,
    ),
}
