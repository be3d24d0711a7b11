# Kernel text: the states each member can reach on its own, layer by layer. See core.py of the engine for what this
# relies on and ../members_graph.py for the specification and the layout of what is returned. One window per call.


@uc_inner
def uc_hash(bits, i):
    value = np.uint64(0x9E3779B97F4A7C15)
    for f in range(N):
        value = (value ^ bits[i, f]) * np.uint64(0xBF58476D1CE4E5B9)
        value = value ^ (value >> np.uint64(29))
    return value


@uc_inner
def uc_find(slots, pool, bits, begin, i):
    """The slot of pool row i in the layer that begins at node `begin`; what older layers left there is free."""
    mask = np.uint64(slots.shape[0] - 1)
    at = uc_hash(bits, i) & mask
    while True:
        held = slots[np.int64(at)]
        if held < begin:
            return np.int64(at)
        for f in range(N):
            if pool[held, f] != pool[i, f]:
                break
        else:
            return np.int64(at)
        at = (at + np.uint64(1)) & mask


@uc_inner
def uc_more_nodes(pool, first, end, slots, begin, count):
    """Twice the room for states; only the layer being filled is hashed again."""
    size = 2 * pool.shape[0]
    new_pool = np.empty((size, N))
    new_first = np.empty(size + 1, np.int64)
    new_end = np.zeros(size)
    new_slots = np.empty(2 * slots.shape[0], np.int64)
    for i in range(count):
        for f in range(N):
            new_pool[i, f] = pool[i, f]
        new_first[i] = first[i]
        new_end[i] = end[i]
    for i in range(new_slots.shape[0]):
        new_slots[i] = -1
    bits = new_pool.view(np.uint64)
    for i in range(begin, count):
        new_slots[uc_find(new_slots, new_pool, bits, begin, i)] = i
    return new_pool, new_first, new_end, new_slots


@uc_inner
def uc_more_edges(act, child, gain, count):
    size = 2 * act.shape[0]
    new_act = np.empty(size, np.int32)
    new_child = np.empty(size, np.int32)
    new_gain = np.empty(size)
    for e in range(count):
        new_act[e] = act[e]
        new_child[e] = child[e]
        new_gain[e] = gain[e]
    return new_act, new_child, new_gain


@uc_entry
def uc_panel(
    iset, fset, states, params, actions, mean, members, weights, q, u, disc, out_i, out_f, flags, table, path_out,
    paths, lo, hi,
):
    """Window lo (none if hi is not above it): starts, first, act, child, gain, end. Row 0 of out_i tells the rest."""
    d = iset[0]
    budget = iset[8]
    m = actions.shape[1]
    J = members.shape[1]
    starts = np.zeros(J * (d + 1) + 1, np.int64)
    pool = np.empty((256, N))
    first = np.zeros(257, np.int64)
    end = np.zeros(256)
    slots = np.empty(512, np.int64)
    for i in range(512):
        slots[i] = -1
    act = np.empty(1024, np.int32)
    child = np.empty(1024, np.int32)
    gain = np.empty(1024)
    here = np.empty((1, 1, N))
    new = np.empty((1, 1, N))
    bits = pool.view(np.uint64)
    known = 0
    edges = 0
    nodes = 0
    status = 1
    fault = 0
    fault_step = 0
    fault_action = 0
    if lo < hi:
        w = lo
        p = uc_params(params, w if params.shape[0] > 1 else 0)
        arow = w if actions.shape[0] > 1 else 0
        for j in range(J):
            if status != 1:
                break
            if known + 1 >= pool.shape[0]:
                pool, first, end, slots = uc_more_nodes(pool, first, end, slots, known, known)
                bits = pool.view(np.uint64)
            for f in range(N):
                pool[known, f] = states[w, f]
            known += 1
            starts[j * (d + 1) + 1] = known
            for h in range(d):
                layer = j * (d + 1) + h
                begin = starts[layer + 1]
                for i in range(starts[layer], begin):
                    if status != 1:
                        break
                    first[i] = edges
                    for f in range(N):
                        here[0, 0, f] = pool[i, f]
                    for x in range(m):
                        a = actions[arow, x]
                        if a != a or not uc_feasible(uc_load(here, 0, 0), a, p):
                            continue
                        y = uc_member(members, w, j, h)
                        value = float(uc_reward(uc_load(here, 0, 0), a, y, p))
                        if not np.isfinite(value):
                            fault = 1
                        elif not uc_store(new, 0, 0, uc_step(uc_load(here, 0, 0), a, y, p)):
                            fault = 2
                        if fault != 0:
                            status = 5
                            fault_step = h
                            fault_action = x
                            break
                        if HAS_END and h + 1 == d and not uc_end(uc_load(new, 0, 0), p):
                            continue
                        if known + 1 >= pool.shape[0]:
                            pool, first, end, slots = uc_more_nodes(pool, first, end, slots, begin, known)
                            bits = pool.view(np.uint64)
                        if edges >= act.shape[0]:
                            act, child, gain = uc_more_edges(act, child, gain, edges)
                        for f in range(N):  # the row after the last is the probe
                            pool[known, f] = new[0, 0, f]
                        at = uc_find(slots, pool, bits, begin, known)
                        if slots[at] < begin:
                            if nodes >= budget:
                                status = 2
                                break
                            nodes += 1
                            slots[at] = known
                            known += 1
                        act[edges] = x
                        child[edges] = slots[at]
                        gain[edges] = disc[h] * value
                        edges += 1
                if status != 1:
                    break
                starts[layer + 2] = known
            if status != 1:
                break
            for i in range(starts[j * (d + 1) + d], known):
                first[i] = edges
                if HAS_TERMINAL:
                    for f in range(N):
                        here[0, 0, f] = pool[i, f]
                    value = float(uc_terminal(uc_load(here, 0, 0), p))
                    if not np.isfinite(value):
                        status = 5
                        fault = 4
                        fault_step = d - 1
                        break
                    end[i] = disc[d] * value
        out_i[0, 0] = status
        out_i[0, 2] = nodes
        out_i[0, 6] = fault
        out_i[0, 7] = fault_step
        out_i[0, 8] = fault_action
    first[known] = edges
    return starts, first[: known + 1], act[:edges], child[:edges], gain[:edges], end[:known]
