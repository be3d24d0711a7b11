# Kernel text: states of a closed-loop search, each once. They lie in rows of a pool; slots tell by a hash where one may
# lie, and arrays grow by doubling. See closed.py for how they are used.


@uc_lean
def uc_place(slots, mask, bits, tags, tag, known):
    """The index of the state in row `known` of the pool under `tag`; `known` itself when it is new."""
    # Field by field: all at once they would be read as one, which waits until each has been written. Whole numbers have
    # their bits at the top, slots are told by the lowest.
    value = np.uint64(tag + 1) * np.uint64(0x9E3779B97F4A7C15)
    for f in range(N):
        value = (value ^ bits[known, 0, f]) * np.uint64(0xBF58476D1CE4E5B9)
        value = value ^ (value >> np.uint64(32))
    value = value * np.uint64(0x9E3779B97F4A7C15)
    at = (value ^ (value >> np.uint64(29))) & mask
    while True:
        held = slots[np.int64(at)]
        if held < 0:
            slots[np.int64(at)] = known
            tags[known] = tag
            return known
        if tags[held] == tag:
            same = True
            for f in range(N):
                if bits[held, 0, f] != bits[known, 0, f]:
                    same = False
                    break
            if same:
                return np.int64(held)
        at = (at + np.uint64(1)) & mask


@uc_inner
def uc_more_states(pool, tags, first, known, need):
    """Room for `need` rows."""
    size = pool.shape[0]
    while size < need:
        size *= 2
    new_pool = np.empty((size, 1, N))
    new_tags = np.empty(size, np.int64)
    new_first = np.empty(size + 1, np.int64)
    for i in range(known):
        for f in range(N):
            new_pool[i, 0, f] = pool[i, 0, f]
        new_tags[i] = tags[i]
        new_first[i] = first[i]
    return new_pool, new_tags, new_first


@uc_inner
def uc_more_slots(slots, need, bits, tags, begin, known):
    """Empty slots for `need` states, half of them free, and what is known of this layer entered again: the table of
    one layer is small enough to stay in the processor's cache."""
    size = 64
    while size < 2 * need:
        size *= 2
    if size > slots.shape[0]:
        slots = np.empty(size, np.int32)
    for x in range(size):
        slots[x] = -1
    for i in range(begin, known):
        uc_place(slots, np.uint64(size - 1), bits, tags, tags[i], i)
    return slots, size


@uc_inner
def uc_longer(array, need, most):
    """Twice the length, or what is needed, but no more than `most`."""
    size = max(2 * array.shape[0], need)
    if size > most:
        size = most
    new = np.empty(size, array.dtype)
    new[: array.shape[0]] = array
    return new
