"""XXH3, the 64-bit hash of the xxHash family, with its default secret and no seed.

Apache Kafka hashes the topics that a group subscribes to with it and keeps the hash in the group's records
(KIP-1101), so barnabas must compute the same hash.  The input is short and seldom changes, so plain Python
is fast enough.
"""

from __future__ import annotations

from struct import Struct

_MASK = 0xFFFFFFFFFFFFFFFF
_PRIME32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_PRIME64 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_MIX_SHORT = 0x9FB21C651E98DF25
_MIX_LONG = 0x165667919E3779F9
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE = 64
_STRIPES_PER_BLOCK = (len(_SECRET) - _STRIPE) // 8
_BLOCK = _STRIPE * _STRIPES_PER_BLOCK
_WORD = Struct("<Q")
_LANES = Struct("<8Q")


def xxh3_64(data: bytes) -> int:
    """The hash as an unsigned number."""
    length = len(data)
    if length <= 16:
        return _short(data, length)
    if length <= 128:
        return _medium(data, length)
    if length <= 240:
        return _medium_long(data, length)
    return _long(data, length)


def _word(data: bytes, position: int) -> int:
    word: int = _WORD.unpack_from(data, position)[0]
    return word


def _secret(position: int) -> int:
    return _word(_SECRET, position)


def _fold(left: int, right: int) -> int:
    """The two halves of the 128-bit product, folded together."""
    product = (left & _MASK) * (right & _MASK)
    return product & _MASK ^ product >> 64


def _avalanche(hashed: int) -> int:
    hashed &= _MASK
    hashed ^= hashed >> 37
    hashed = hashed * _MIX_LONG & _MASK
    return hashed ^ hashed >> 32


def _avalanche_of_xxh64(hashed: int) -> int:
    hashed &= _MASK
    hashed ^= hashed >> 33
    hashed = hashed * _PRIME64[1] & _MASK
    hashed ^= hashed >> 29
    hashed = hashed * _PRIME64[2] & _MASK
    return hashed ^ hashed >> 32


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 64 - bits) & _MASK


def _short(data: bytes, length: int) -> int:
    if length == 0:
        return _avalanche_of_xxh64(_secret(56) ^ _secret(64))
    if length < 4:
        mixed = data[0] << 16 | data[length >> 1] << 24 | data[-1] | length << 8
        flip = int.from_bytes(_SECRET[:4], "little") ^ int.from_bytes(_SECRET[4:8], "little")
        return _avalanche_of_xxh64(mixed ^ flip)
    if length <= 8:
        first = int.from_bytes(data[:4], "little")
        last = int.from_bytes(data[-4:], "little")
        keyed = (last + (first << 32)) ^ _secret(8) ^ _secret(16)
        keyed ^= _rotated(keyed, 49) ^ _rotated(keyed, 24)
        keyed = keyed * _MIX_SHORT & _MASK
        keyed ^= (keyed >> 35) + length
        keyed = keyed * _MIX_SHORT & _MASK
        return keyed ^ keyed >> 28
    low = _word(data, 0) ^ _secret(24) ^ _secret(32)
    high = _word(data, length - 8) ^ _secret(40) ^ _secret(48)
    swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
    return _avalanche(length + swapped + high + _fold(low, high))


def _mix(data: bytes, position: int, secret: int) -> int:
    return _fold(_word(data, position) ^ _secret(secret), _word(data, position + 8) ^ _secret(secret + 8))


def _medium(data: bytes, length: int) -> int:
    total = length * _PRIME64[0]
    for pair in range((length - 1) // 32 + 1):
        total += _mix(data, 16 * pair, 32 * pair)
        total += _mix(data, length - 16 * (pair + 1), 32 * pair + 16)
    return _avalanche(total)


def _medium_long(data: bytes, length: int) -> int:
    total = length * _PRIME64[0]
    for number in range(8):
        total += _mix(data, 16 * number, 16 * number)
    total = _avalanche(total)
    for number in range(8, length // 16):
        total += _mix(data, 16 * number, 16 * (number - 8) + 3)
    return _avalanche(total + _mix(data, length - 16, 136 - 17))


def _long(data: bytes, length: int) -> int:
    lanes = [_PRIME32[2], *_PRIME64[:4], _PRIME32[1], _PRIME64[4], _PRIME32[0]]
    last_stripe = (length - 1) // _STRIPE
    for stripe in range(last_stripe):
        in_block = stripe % _STRIPES_PER_BLOCK
        _accumulate(lanes, data, stripe * _STRIPE, 8 * in_block)
        if in_block == _STRIPES_PER_BLOCK - 1:
            _scramble(lanes)
    _accumulate(lanes, data, length - _STRIPE, len(_SECRET) - _STRIPE - 7)
    total = length * _PRIME64[0]
    for pair in range(4):
        position = 11 + 16 * pair
        total += _fold(lanes[2 * pair] ^ _secret(position), lanes[2 * pair + 1] ^ _secret(position + 8))
    return _avalanche(total)


def _accumulate(lanes: list[int], data: bytes, position: int, secret: int) -> None:
    words = _LANES.unpack_from(data, position)
    keys = _LANES.unpack_from(_SECRET, secret)
    for number, word in enumerate(words):
        keyed = word ^ keys[number]
        lanes[number ^ 1] += word
        lanes[number] += (keyed & 0xFFFFFFFF) * (keyed >> 32)


def _scramble(lanes: list[int]) -> None:
    keys = _LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE)
    for number, lane in enumerate(lanes):
        lane &= _MASK
        lanes[number] = ((lane ^ lane >> 47) ^ keys[number]) * _PRIME32[0] & _MASK
