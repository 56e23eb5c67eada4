"""The Bloom filter that the official broker gives each registered expression its bits of.

Pure functions of texts. The bits are kept in `consumerFilter.json`, where an official broker checks
them (`BloomFilter`, `BloomFilterData`); Kirsch and Mitzenmacher, "Less Hashing, Same Performance".
"""

import math
from dataclasses import dataclass
from typing import Final

_MASK: Final = (1 << 64) - 1
_INT_BITS: Final = 32
_INT_MASK: Final = (1 << _INT_BITS) - 1
_BYTE_BITS: Final = 8
_BLOCK_BYTES: Final = 16
# MurmurHash3, x64, 128 bits: its two multipliers, and those of its last mixing.
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F
_MIX: Final = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)


@dataclass(frozen=True, slots=True)
class BloomBits:
    """The bits of one text.

    Attributes:
        positions: Where they are; one per hash function.
        count: How many bits the filter has in all.
    """

    positions: tuple[int, ...]
    count: int


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """Sizes of a filter.

    Attributes:
        hashes: Hash functions.
        bits: Bits; a multiple of eight.
    """

    hashes: int
    bits: int

    @classmethod
    def of(cls, error_percent: int, expected: int) -> "BloomFilter":
        """Returns the filter for so many texts with so many false hits in a hundred."""
        error = error_percent / 100.0
        hashes = math.ceil(math.log(error) / math.log(0.5))
        # In the official order of operations: another rounding would be another filter.
        log2 = math.log(2)
        bits = math.ceil(expected * (math.log(1 / error) / log2) * (math.log(math.e) / log2))
        return cls(hashes, _BYTE_BITS * math.ceil(bits / _BYTE_BITS))

    def bits_of(self, text: str) -> BloomBits:
        """Returns the bits of a text."""
        low = murmur3_low64(text.encode("utf-8", "surrogatepass"))
        first, second = low & _INT_MASK, low >> _INT_BITS
        positions = []
        for number in range(1, self.hashes + 1):
            combined = (first + number * second) & _INT_MASK
            if combined >> (_INT_BITS - 1):
                combined ^= _INT_MASK
            positions.append(combined % self.bits)
        return BloomBits(tuple(positions), self.bits)

    def fits(self, bits: BloomBits) -> bool:
        """Returns whether bits are those of a filter of this size."""
        return bits.count == self.bits and len(bits.positions) == self.hashes


def murmur3_low64(data: bytes) -> int:
    """Returns the lower half of MurmurHash3's 128 bits (x64, seed 0), as Guava gives it."""
    one = two = 0
    whole = len(data) - len(data) % _BLOCK_BYTES
    for at in range(0, whole, _BLOCK_BYTES):
        one ^= _mixed_one(int.from_bytes(data[at : at + 8], "little"))
        one = ((_rotated(one, 27) + two) * 5 + 0x52DCE729) & _MASK
        two ^= _mixed_two(int.from_bytes(data[at + 8 : at + _BLOCK_BYTES], "little"))
        two = ((_rotated(two, 31) + one) * 5 + 0x38495AB5) & _MASK
    rest = data[whole:]
    one ^= _mixed_one(int.from_bytes(rest[:8], "little"))
    two ^= _mixed_two(int.from_bytes(rest[8:], "little"))
    one ^= len(data)
    two ^= len(data)
    one = (one + two) & _MASK
    two = (two + one) & _MASK
    return (_finished(one) + _finished(two)) & _MASK


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _MASK


def _mixed_one(word: int) -> int:
    return _rotated(word * _C1 & _MASK, 31) * _C2 & _MASK


def _mixed_two(word: int) -> int:
    return _rotated(word * _C2 & _MASK, 33) * _C1 & _MASK


def _finished(value: int) -> int:
    for multiplier in _MIX:
        value = (value ^ value >> 33) * multiplier & _MASK
    return value ^ value >> 33
