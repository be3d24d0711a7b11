# Kernel text: the random numbers of ../streams.py in uint64, pasted before the comparators' templates.

UC_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
UC_MUL_1 = np.uint64(0xBF58476D1CE4E5B9)
UC_MUL_2 = np.uint64(0x94D049BB133111EB)
UC_NAN = np.uint64(0x7FF8000000000000)
UC_12 = np.uint64(12)
UC_27 = np.uint64(27)
UC_30 = np.uint64(30)
UC_31 = np.uint64(31)


@uc_inline
def uc_mix(z):
    z = (z ^ (z >> UC_30)) * UC_MUL_1
    z = (z ^ (z >> UC_27)) * UC_MUL_2
    return z ^ (z >> UC_31)


@uc_inline
def uc_absorb(stream, word):
    return uc_mix((stream + UC_GOLDEN) ^ word)


@uc_inline
def uc_uniform(stream):
    return (np.float64(uc_mix(stream + UC_GOLDEN) >> UC_12) + 0.5) * 2.220446049250313e-16


@uc_inner
def uc_content(w, d, states, mean, q, u):
    """A hash of the window's own numbers: state, then mean outcomes and action scores of the searched steps."""
    value = np.empty(1)
    bits = value.view(np.uint64)
    out = np.uint64(0)
    for f in range(N):
        value[0] = states[w, f] + 0.0
        out = uc_absorb(out, bits[0])
    for h in range(d):
        for f in range(mean.shape[2]):
            value[0] = mean[w, h, f] + 0.0
            out = uc_absorb(out, bits[0] if value[0] == value[0] else UC_NAN)
    for h in range(d):
        for x in range(q.shape[2]):
            value[0] = q[w, h, x] + 0.0
            out = uc_absorb(out, bits[0])
        for x in range(q.shape[2]):
            value[0] = u[w, h, x] + 0.0
            out = uc_absorb(out, bits[0])
    return out
