"""`barnabas features`: describe, upgrade, downgrade and disable the features of a cluster.

The commands, flags and lines are those of Apache Kafka's kafka-features.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.connecting import add_connection_flags, open_admin
from barnabas.cli.framework.exits import CommandError, Exit, UsageError
from barnabas.cli.framework.numbers import short_number
from barnabas.cli.framework.subcommands import Subcommand, Tool, no_flags
from barnabas.cli.storage.command import dependency_lines, version_mapping_command
from barnabas.metadata.features import (
    FEATURES,
    FEATURES_BY_NAME,
    LATEST_STABLE_METADATA_VERSION,
    METADATA_VERSION,
    METADATA_VERSIONS,
    OLDEST_METADATA_VERSION,
    MetadataVersion,
    metadata_version_at,
    metadata_version_named,
)

if TYPE_CHECKING:
    from barnabas.client.admin.cluster_calls import FeatureUpdate, UpgradeType

PROGRAM = "barnabas features"
DEPRECATED = " `metadata` flag is deprecated and may be removed in a future release."


def _declare(parser: ArgumentParser) -> None:
    add_connection_flags(parser, controllers=True)


def _declare_change(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--metadata", metavar="RELEASE", help="the new metadata.version (deprecated)")
    add("--release-version", metavar="RELEASE", help="set all features to the levels of this release")
    add("--feature", action="append", metavar="NAME=LEVEL", help="a feature's new level; may be repeated")
    add("--dry-run", action="store_true", help="only check whether the change is possible")


def _declare_downgrade(parser: ArgumentParser) -> None:
    _declare_change(parser)
    parser.add_argument("--unsafe", action="store_true", help="allow the change even if metadata may be lost")


def _declare_disable(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--feature", action="append", metavar="NAME", help="the feature to disable; may be repeated")
    add("--unsafe", action="store_true", help="allow the change even if metadata may be lost")
    add("--dry-run", action="store_true", help="only check whether the change is possible")


def _declare_version_mapping(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--release-version",
        metavar="RELEASE",
        default=LATEST_STABLE_METADATA_VERSION.name,
        help="the release whose feature levels are shown",
    )


def _declare_feature_dependencies(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--feature",
        action="append",
        required=True,
        metavar="NAME=LEVEL",
        help="a level of a feature, as in `metadata.version=5`; may be repeated",
    )


# Describing -------------------------------------------------------------------------------------------------


def describe_command(parser: ArgumentParser, options: Namespace) -> int:
    with open_admin(parser, options) as admin:
        features = admin.describe_features()
    epoch = str(features.finalized_epoch) if features.finalized_epoch >= 0 else "-"
    for name, (lowest, highest) in sorted(features.supported.items()):
        level = features.finalized.get(name, (0, 0))[1]
        print(
            f"Feature: {name}\tSupportedMinVersion: {level_text(name, lowest)}"
            f"\tSupportedMaxVersion: {level_text(name, highest)}"
            f"\tFinalizedVersionLevel: {level_text(name, level)}\tEpoch: {epoch}"
        )
    return Exit.OK


def level_text(name: str, level: int) -> str:
    if name != METADATA_VERSION:
        return str(level)
    try:
        return metadata_version_at(level).name
    except ValueError:
        return f"UNKNOWN {level}"


def show_dependencies_command(parser: ArgumentParser, options: Namespace) -> int:
    for given in options.feature:
        name, level = _name_and_level(given)
        if name in FEATURES_BY_NAME:
            try:
                FEATURES_BY_NAME[name].at(level, unstable=True)
            except ValueError as error:
                raise UsageError(str(error)) from error
        for line in dependency_lines(name, level):
            print(line)
    return Exit.OK


# Changing ---------------------------------------------------------------------------------------------------


def upgrade_command(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.client.admin.cluster_calls import UpgradeType

    return _change(parser, options, "upgrade", levels_of(options, UpgradeType.UPGRADE))


def downgrade_command(parser: ArgumentParser, options: Namespace) -> int:
    return _change(parser, options, "downgrade", levels_of(options, _downgrade_type(options)))


def disable_command(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.client.admin.cluster_calls import FeatureUpdate

    updates: dict[str, FeatureUpdate] = {}
    for name in options.feature or ():
        _put_once(updates, name, FeatureUpdate(0, _downgrade_type(options)))
    return _change(parser, options, "disable", updates)


def _downgrade_type(options: Namespace) -> UpgradeType:
    from barnabas.client.admin.cluster_calls import UpgradeType

    return UpgradeType.UNSAFE_DOWNGRADE if options.unsafe else UpgradeType.SAFE_DOWNGRADE


def levels_of(options: Namespace, kind: UpgradeType) -> dict[str, FeatureUpdate]:
    """The requested levels, given one by one or by a release."""
    from barnabas.client.admin.cluster_calls import FeatureUpdate, UpgradeType

    updates: dict[str, FeatureUpdate] = {}
    if options.release_version is not None:
        if options.metadata is not None or options.feature:
            raise UsageError("Can not specify `release-version` with other feature flags.")
        version = _version(options.release_version)
        updates[METADATA_VERSION] = FeatureUpdate(version.level, kind)
        for feature in FEATURES:
            level = feature.default_level(version)
            # An upgrade never sets level 0.
            if level > 0 or kind is not UpgradeType.UPGRADE:
                updates[feature.name] = FeatureUpdate(level, kind)
        return updates
    if options.metadata is not None:
        print(DEPRECATED)
        updates[METADATA_VERSION] = FeatureUpdate(_version(options.metadata).level, kind)
    for given in options.feature or ():
        name, level = _name_and_level(given)
        _put_once(updates, name, FeatureUpdate(level, kind))
    return updates


def _version(name: str) -> MetadataVersion:
    try:
        return metadata_version_named(name)
    except ValueError as error:
        known = [
            version.name
            for version in METADATA_VERSIONS
            if version.stable and OLDEST_METADATA_VERSION.level <= version.level
        ]
        raise UsageError(
            f"Unknown metadata.version {name}. Supported metadata.version are {', '.join(known)}"
        ) from error


def _name_and_level(given: str) -> tuple[str, int]:
    name, equals, text = (part.strip() for part in given.partition("="))
    if not equals:
        raise UsageError(f"Can't parse feature=level string {given}: equals sign not found.")
    level = short_number(text)
    if level is None:
        raise UsageError(f"Can't parse feature=level string {given}: unable to parse {text} as a short.")
    return name, level


def _put_once(updates: dict[str, FeatureUpdate], name: str, update: FeatureUpdate) -> None:
    if name in updates:
        raise UsageError(f"Feature {name} was specified more than once.")
    updates[name] = update


def _change(
    parser: ArgumentParser, options: Namespace, verb: str, updates: Mapping[str, FeatureUpdate]
) -> int:
    """Requests all updates at once; the controller applies all or none."""
    if not updates:
        raise UsageError(f"You must specify at least one feature to {verb}")
    from barnabas.base.errors import KafkaError
    from barnabas.cli.framework.kafka_errors import exit_code

    with open_admin(parser, options) as admin:
        try:
            admin.update_features(updates, validate_only=options.dry_run)
        except KafkaError as error:
            if exit_code(error) is not Exit.FAILED:
                raise
            _print_failure(verb, updates, options.dry_run, error.message)
            raise CommandError(f"{len(updates)} out of {len(updates)} operation(s) failed.") from error
    for name, update in sorted(updates.items()):
        result = "disabled" if verb == "disable" else f"{verb}d to {update.max_version_level}"
        print(f"{name} {'can be' if options.dry_run else 'was'} {result}.")
    return Exit.OK


def _print_failure(verb: str, updates: Mapping[str, FeatureUpdate], dry_run: bool, reason: str) -> None:
    import sys

    for name, update in sorted(updates.items()):
        action = f"disable {name}" if verb == "disable" else f"{verb} {name} to {update.max_version_level}"
        print(f"{'Can' if dry_run else 'Could'} not {action}. {reason}", file=sys.stderr)


SUBCOMMANDS = {
    "describe": Subcommand("show the levels in effect, and those supported", no_flags, describe_command),
    "upgrade": Subcommand("raise levels", _declare_change, upgrade_command),
    "downgrade": Subcommand("lower levels", _declare_downgrade, downgrade_command),
    "disable": Subcommand("set levels to 0", _declare_disable, disable_command),
    "version-mapping": Subcommand(
        "show the feature levels of a release", _declare_version_mapping, version_mapping_command
    ),
    "feature-dependencies": Subcommand(
        "show which other levels a feature level requires",
        _declare_feature_dependencies,
        show_dependencies_command,
    ),
}


def run(arguments: Sequence[str]) -> int:
    description = "Describe and change feature levels."
    return Tool(PROGRAM, description, SUBCOMMANDS, _declare).run(arguments)
