# Kernel text: each member's own best reward to go, as if it knew its future. Admissible for every common plan.


# <members>
@uc_inner
def uc_perfect(
    w, d, budget, p, actions, arow, mean, members, states, disc, pool, tags, value, second, succ, slots, starts, one_st, cst,
):
    """Values of every state a member can reach, tagged j * (d + 1) + h, in the pool. Not finished when the budget of
    nodes runs out (`perfect` False)."""
    fault = 0
    fault_step = 0
    fault_action = 0
    pool, tags, value, second, succ, slots = uc_room(pool, tags, value, second, succ, slots)
    bits = pool.view(np.uint64)
    known = 0
    nodes = 0
    perfect = True
    for j in range(members.shape[1]):
        starts[0] = known
        if known + 1 >= pool.shape[0]:
            pool, tags, value, second, succ, slots = uc_grow(pool, tags, value, second, succ, slots, known)
            bits = pool.view(np.uint64)
        spare = uc_probe_start(pool, states, w)
        at = uc_find(slots, pool, bits, tags, j * (d + 1), spare)
        for f in range(N):
            pool[known, f] = pool[spare, f]
        tags[known] = j * (d + 1)
        slots[at] = known
        known += 1
        starts[1] = known
        for h in range(d):
            tag = j * (d + 1) + h + 1
            for i in range(starts[h], starts[h + 1]):
                for f in range(N):
                    one_st[0, 0, f] = pool[i, f]
                for x in range(actions.shape[1]):
                    a = actions[arow, x]
                    if a != a or not uc_allowed(one_st, 0, 1, a, p):
                        continue
                    if not uc_moved(one_st, 0, 0, a, w, h, j, mean, members, cst, 0, p):
                        fault = Fault.STATE
                        fault_step = h
                        fault_action = x
                        break
                    if known + 1 >= pool.shape[0]:
                        pool, tags, value, second, succ, slots = uc_grow(
                            pool, tags, value, second, succ, slots, known
                        )
                        bits = pool.view(np.uint64)
                    spare = uc_probe(pool, cst, 0, 0)
                    at = uc_find(slots, pool, bits, tags, tag, spare)
                    if slots[at] < 0:
                        if nodes >= budget:
                            perfect = False
                            break
                        nodes += 1
                        for f in range(N):
                            pool[known, f] = pool[spare, f]
                        tags[known] = tag
                        slots[at] = known
                        known += 1
                if fault != 0 or not perfect:
                    break
            if fault != 0 or not perfect:
                break
            starts[h + 2] = known
        if fault != 0 or not perfect:
            break
        for i in range(starts[d], starts[d + 1]):
            value[i] = 0.0
            if HAS_END or HAS_TERMINAL:
                for f in range(N):
                    one_st[0, 0, f] = pool[i, f]
            if HAS_END and not uc_ended(one_st, 0, 1, p):
                value[i] = -np.inf
            elif HAS_TERMINAL:
                end = uc_final(one_st, 0, 0, p)
                if not np.isfinite(end):
                    fault = Fault.TERMINAL
                    fault_step = d - 1
                    break
                value[i] = disc[d] * end
        if fault != 0:
            break
        for back in range(d):
            h = d - 1 - back
            tag = j * (d + 1) + h + 1
            for i in range(starts[h], starts[h + 1]):
                for f in range(N):
                    one_st[0, 0, f] = pool[i, f]
                best = -np.inf
                for x in range(actions.shape[1]):
                    a = actions[arow, x]
                    if a != a or not uc_allowed(one_st, 0, 1, a, p):
                        continue
                    uc_moved(one_st, 0, 0, a, w, h, j, mean, members, cst, 0, p)
                    spare = uc_probe(pool, cst, 0, 0)
                    after = value[slots[uc_find(slots, pool, bits, tags, tag, spare)]]
                    reward = uc_paid(one_st, 0, 0, a, w, h, j, members, p)
                    if not np.isfinite(reward):
                        fault = Fault.REWARD
                        fault_step = h
                        fault_action = x
                        break
                    best = max(best, disc[h] * reward + after)
                if fault != 0:
                    break
                value[i] = best
            if fault != 0:
                break
        if fault != 0:
            break
    return pool, tags, value, second, succ, slots, nodes, perfect, fault, fault_step, fault_action
# </members>
