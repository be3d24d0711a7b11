import numpy as np

from ucsearch.forecast.streams import (
    derive_stream,
    draw_key,
    index_below,
    mix64,
    normal,
    series_stream,
    uniform,
)

MASK = (1 << 64) - 1


def plain_mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def test_mix_equals_plain_integers() -> None:
    for z in (0, 1, 12345678901234567890, MASK):
        assert int(mix64(np.uint64(z))) == plain_mix(z)


def test_uniform_is_splitmix64() -> None:
    # The published generator with state 1234567: state grows by the golden ratio, output is the mix.
    state = 1234567
    for draw in range(5):
        expected = plain_mix((state + (draw + 1) * 0x9E3779B97F4A7C15) & MASK)
        assert uniform(np.uint64(state), draw) == ((expected >> 12) + 0.5) / 2**52


def test_reference_values_of_splitmix64() -> None:
    # First outputs for seed 0, as listed with the reference implementation.
    for draw, expected in enumerate((0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F)):
        assert plain_mix(((draw + 1) * 0x9E3779B97F4A7C15) & MASK) == expected
        assert uniform(np.uint64(0), draw) == ((expected >> 12) + 0.5) / 2**52


def test_the_largest_draw_stays_below_one() -> None:
    # With all bits set the half must not round up to 1.
    assert ((MASK >> 12) + 0.5) / 2**52 < 1.0


def test_index_is_in_range_and_even() -> None:
    stream = np.uint64(99)
    draws = np.array([index_below(stream, i, 7) for i in range(14000)])
    assert set(draws.tolist()) == set(range(7))
    counts = np.bincount(draws, minlength=7)
    # Chi-square with 6 degrees of freedom: 22.5 is its 0.1 % point; the stream is fixed.
    assert ((counts - 2000.0) ** 2 / 2000.0).sum() < 22.5


def test_uniform_and_normal_moments() -> None:
    stream = np.uint64(5)
    u = np.array([uniform(stream, i) for i in range(20000)])
    z = np.array([normal(stream, i) for i in range(20000)])
    assert 0.0 < u.min() < u.max() < 1.0
    assert abs(u.mean() - 0.5) < 0.01
    assert abs(z.mean()) < 0.03
    assert abs(z.var() - 1.0) < 0.05


def test_streams_differ_by_key_id_and_number() -> None:
    streams = {int(series_stream(key, name)) for key in (1, 2) for name in ("a", "b", "ab")}
    assert len(streams) == 6
    base = series_stream(1, "a")
    assert len({int(derive_stream(base, n)) for n in range(1000)}) == 1000
    assert uniform(derive_stream(base, 0), 1) != uniform(derive_stream(base, 1), 0)


def test_key_takes_one_draw_of_the_generator() -> None:
    assert draw_key(np.random.default_rng(4)) == draw_key(np.random.default_rng(4))
    rng = np.random.default_rng(4)
    assert draw_key(rng) != draw_key(rng)
