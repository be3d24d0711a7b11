# Kernel text: distinct states by hash, in arrays that grow by doubling (never per node). Row `pool.shape[0] - 1` is
# spare: a state is probed there before it is known to be new.


@uc_inner
def uc_hash(tag, pool_bits, i):
    value = np.uint64(tag) * np.uint64(0x9E3779B97F4A7C15)
    for f in range(N):
        value = (value ^ pool_bits[i, f]) * np.uint64(0xBF58476D1CE4E5B9)
        value = value ^ (value >> np.uint64(47))  # whole floats differ in high bits only
    return value


@uc_inner
def uc_find(slots, pool, bits, tags, tag, i):
    """The slot of the state in pool row i under `tag`: slots[s] is its index, or -1 where it would go."""
    mask = np.uint64(slots.shape[0] - 1)
    at = uc_hash(tag, bits, i) & mask
    while True:
        held = slots[np.int64(at)]
        if held < 0:
            return np.int64(at)
        if tags[held] == tag:
            same = True
            for f in range(N):
                if pool[held, f] != pool[i, f]:
                    same = False
                    break
            if same:
                return np.int64(at)
        at = (at + np.uint64(1)) & mask


@uc_inner
def uc_grow(pool, tags, value, second, succ, slots, count):
    """Twice the room (one spare row at the end is the probe)."""
    size = (pool.shape[0] - 1) * 2 + 1
    new_pool = np.empty((size, N))
    new_tags = np.empty(size, np.int64)
    new_value = np.empty(size)
    new_second = np.empty(size)
    new_succ = np.empty((size, 2), np.int64)
    new_slots = np.empty(slots.shape[0] * 2, np.int64)
    for i in range(count):
        for f in range(N):
            new_pool[i, f] = pool[i, f]
        new_tags[i] = tags[i]
        new_value[i] = value[i]
        new_second[i] = second[i]
        new_succ[i, 0] = succ[i, 0]
        new_succ[i, 1] = succ[i, 1]
    for i in range(new_slots.shape[0]):
        new_slots[i] = -1
    bits = new_pool.view(np.uint64)
    mask = np.uint64(new_slots.shape[0] - 1)
    for i in range(count):
        at = uc_hash(new_tags[i], bits, i) & mask
        while new_slots[np.int64(at)] >= 0:
            at = (at + np.uint64(1)) & mask
        new_slots[np.int64(at)] = i
    return new_pool, new_tags, new_value, new_second, new_succ, new_slots


@uc_inner
def uc_probe(pool, source, c, r):
    """Copy a candidate's state into the spare row: equal states have equal bits, because no state holds -0.0."""
    spare = pool.shape[0] - 1
    for f in range(N):
        pool[spare, f] = source[c, r, f]
    return spare


@uc_inner
def uc_probe_start(pool, states, w):
    """The same for the window's starting state."""
    spare = pool.shape[0] - 1
    for f in range(N):
        pool[spare, f] = states[w, f]
    return spare


@uc_inner
def uc_new_room():
    """A first allocation, with empty slots."""
    # <insert room rows=1025 slots=2048>
    for x in range(slots.shape[0]):
        slots[x] = -1
    return pool, tags, value, second, succ, slots


# <members>
@uc_inner
def uc_room(pool, tags, value, second, succ, slots):
    """The room of the window before, if it had one."""
    if pool.shape[0] == 1:
        return uc_new_room()
    for x in range(slots.shape[0]):
        slots[x] = -1
    return pool, tags, value, second, succ, slots
# </members>
