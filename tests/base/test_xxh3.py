"""XXH3 at every length class it handles differently; the values are the reference implementation's."""

from __future__ import annotations

import pytest

from barnabas.base.xxh3 import xxh3_64

DATA = bytes(number * 7 % 256 for number in range(3000))


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (0, 0x2D06800538D394C2),
        (1, 0xC44BDFF4074EECDB),
        (3, 0xC3489259E968AD9E),
        (4, 0xD3D60C1519014E89),
        (8, 0xB88DEE77F6BF6980),
        (9, 0x03688DCAD730D826),
        (16, 0x9DA23836ADF2BE1E),
        (17, 0xF34C3C9CF5A112D1),
        (33, 0xC077B45492D29CDE),
        (97, 0x077ACB7E5F4FD940),
        (128, 0x65F3C2C00FA93185),
        (129, 0x28065C6EC25F5B25),
        (240, 0x4917A75C0EF8EED7),
        (241, 0x541B19226F0052E8),
        (1024, 0xDC5ACF0B043C445B),
        (1025, 0xE1D9CD946277AE26),
        (3000, 0x6168BB188259CCCF),
    ],
)
def test_every_length_has_the_reference_hash(length: int, expected: int) -> None:
    assert xxh3_64(DATA[:length]) == expected
