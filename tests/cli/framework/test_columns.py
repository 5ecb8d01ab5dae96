"""Tables as Apache Kafka's tools print them."""

from __future__ import annotations

from barnabas.cli.framework.columns import padded_row, tabbed_table


def test_columns_are_as_wide_as_their_widest_value_and_end_with_a_tab() -> None:
    assert tabbed_table(["A", "Long"], [[1, "x"], ["seven77", ""]]) == (
        "A      \tLong\t\n1      \tx   \t\nseven77\t    \t\n"
    )


def test_a_table_without_rows_has_its_headers() -> None:
    assert tabbed_table(["A", "B"], []) == "A\tB\t\n"


def test_a_row_is_padded_and_wide_values_move_the_following_ones() -> None:
    assert padded_row(["a", 12, "c"], [3, 4, 0]) == "a   12   c"
    assert padded_row(["abcde", "x"], [3, 2]) == "abcde x "
