"""Options of the sources and the sink are read by one class."""

from __future__ import annotations

import pytest

from barnabas.spark.given_options import GivenOptions, OptionError


def test_names_have_no_case() -> None:
    given = GivenOptions({"GroupId": " a ", "kafka.Bootstrap.Servers": "b:9092"})
    assert "groupID" in given
    assert given.text("groupid") == "a"
    assert given.client({}) == {"bootstrap.servers": "b:9092"}
    assert given.names() == ["groupid", "kafka.bootstrap.servers"]


def test_an_unknown_name_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(OptionError, match=r"^sink_id is not an option of this sink; did you mean sinkId\?$"):
        GivenOptions({"sink_id": "a"}).check_names(["topic", "sinkId"], "sink")
    with pytest.raises(OptionError, match=r"^xyz is not an option of this source; known are topic, sinkId$"):
        GivenOptions({"xyz": "a"}).check_names(["topic", "sinkId"], "source")


def test_names_of_others_pass() -> None:
    given = GivenOptions({"queryName": "a", "kafka.acks": "all", "topic": "t"})
    given.check_names(["topic"], "sink", passed=("queryname", "kafka.*"))
    with pytest.raises(OptionError, match="queryname"):
        given.check_names(["topic"], "sink", passed=("kafka.*",))


def test_flags_and_numbers_are_checked() -> None:
    given = GivenOptions({"a": "TRUE", "b": "yes", "c": "3", "d": "0"})
    assert (given.flag("a", False), given.flag("none", True)) == (True, True)
    with pytest.raises(OptionError, match="option b is true or false, not 'yes'"):
        given.flag("b", True)
    assert (given.number("c", 1), given.number("none", 1)) == (3, None)
    assert (given.number("c", 3), given.number("d", 0)) == (3, 0)
    for name in ("b", "d"):
        with pytest.raises(OptionError, match=f"option {name} is a whole number of at least 1"):
            given.number(name, 1)


def test_topics_are_named_by_one_option() -> None:
    assert GivenOptions({"SUBSCRIBE": "a,b"}).selection() == ("subscribe", "a,b")
    with pytest.raises(OptionError, match="none is given"):
        GivenOptions({}).selection()
    with pytest.raises(OptionError, match="not subscribe and assign"):
        GivenOptions({"subscribe": "a", "assign": "{}"}).selection()
    with pytest.raises(OptionError, match="is not a regular expression"):
        GivenOptions({"subscribePattern": "("}).selection()


def test_options_of_the_client_may_be_refused_and_must_be_known() -> None:
    given = GivenOptions({"kafka.acks": "all"})
    with pytest.raises(OptionError, match="not this one"):
        given.client({"acks": "not this one"})
    with pytest.raises(OptionError, match="is not an option of a client"):
        GivenOptions({"kafka.ackz": "all"}).client({})
