# Kernel text: dynamic programming over distinct states in additive modes. Values go backward; the paths they find are
# summed forward like any other path.


# <additive>
@uc_lean_call
def uc_score_call(w, h, st, i, rows, d, risk, prune, bonus, spread, use_bound, continues, *UC_SCORING, only):
    """One copy of it for the three places below, which are asked less often than branch and bound asks."""
    return uc_score(w, h, st, i, rows, d, risk, prune, bonus, spread, use_bound, continues, *UC_SCORING, only)


@uc_inner
def uc_programme(
    w, d, reach, budget, risk, prune, bonus, spread, use_bound, p, states, actions, arow, mean, members, weights, wrow,
    q, u, disc, tables, suffix, work, edge, total, ci, cq, cu, crank, ctogo, cst, crew, one_st, one_ret, nst, starts,
    prefix, fpath, bpath, flags, table, expansions, scored, best_first, best_S, best_R, best_U,
):
    """Exact value of every first action, or status 2 when the budget of nodes runs out."""
    status = Status.NOT_PROVED
    fault = 0
    fault_step = 0
    fault_action = 0
    # Its own room: arrays that a loop over windows hands on are counted in every window, also in those without this.
    pool, tags, value, second, succ, slots = uc_new_room()
    bits = pool.view(np.uint64)
    spare = uc_probe_start(pool, states, w)
    at = uc_find(slots, pool, bits, tags, 0, spare)
    for f in range(N):
        pool[0, f] = pool[spare, f]
    tags[0] = 0
    slots[at] = 0
    known = 1
    starts[0] = 0
    starts[1] = 1
    stopped = False
    at_work = np.zeros(4, np.int64)
    at_work[0], at_work[1], at_work[2] = known, expansions, scored
    for h in range(d):
        at_work[3] = starts[h]
        while True:
            fault, fault_action, stopped = uc_programme_reach(
                w, h, d, starts[h + 1], budget, risk, prune, bonus, spread, use_bound, *UC_SCORING, one_st, flags, table,
                pool, bits, tags, slots, at_work,
            )
            if fault != 0 or stopped or at_work[3] == starts[h + 1]:
                break
            pool, tags, value, second, succ, slots = uc_grow(pool, tags, value, second, succ, slots, at_work[0])
            bits = pool.view(np.uint64)
        if fault != 0:
            fault_step = h
        if stopped or fault != 0:
            break
        starts[h + 2] = at_work[0]
    expansions, scored = at_work[1], at_work[2]
    if fault == 0 and stopped:
        status = Status.NOT_PROVED
    elif fault == 0:
        for i in range(starts[d], starts[d + 1]):
            value[i] = 0.0
            second[i] = 0.0
            succ[i, 0] = 0
            if HAS_END or HAS_TERMINAL:
                for f in range(N):
                    one_st[0, 0, f] = pool[i, f]
            if HAS_END and not uc_ended(one_st, 0, 1, p):
                succ[i, 0] = -1
            elif HAS_TERMINAL:
                end = uc_final(one_st, 0, 0, p)
                if not np.isfinite(end):
                    fault = Fault.TERMINAL
                    fault_step = d - 1
                    fault_action = 0
                    break
                value[i] = disc[d] * end
        if fault == 0:
            uc_programme_back(
                w, d, risk, prune, bonus, spread, *UC_SCORING, disc, one_st, starts, flags, pool, bits, tags, value,
                second, succ, slots,
            )
        if fault == 0:
            for x in range(actions.shape[1]):
                if flags[w, x] & First.FEASIBLE == 0 or flags[w, x] & First.DUPLICATE != 0:
                    continue
                for f in range(N):
                    nst[0, 0, f] = states[w, f]
                reward = 0.0
                uncertainty = 0.0
                gross = 0.0
                at = 0
                alive = True
                for h in range(d):
                    act = x if h == 0 else succ[at, 1]
                    if h > 0 and succ[at, 0] < 0:
                        alive = False
                        break
                    found, _, _ = uc_score_call(
                        w, h, nst, 0, 1, d, risk, prune, bonus, spread, False, False, *UC_SCORING, -1,
                    )
                    for c in range(found):
                        if ci[c] == act:
                            reward, uncertainty, gross, _, dropped, fault = uc_extend(
                                w, h, d, reach, reward, uncertainty, gross, one_ret, 0, c, 1, risk, spread, p,
                                members, weights, wrow, disc, cq, cu, cst, crew, one_ret, 0, total,
                            )
                            # <insert extended>
                            prefix[0, h] = act
                            spare = uc_probe(pool, cst, c, 0)
                            at = slots[uc_find(slots, pool, bits, tags, h + 1, spare)]
                            for f in range(N):
                                nst[0, 0, f] = cst[c, 0, f]
                            break
                    if fault != 0 or not alive:
                        break
                if fault != 0:
                    break
                if not alive:
                    flags[w, x] = (flags[w, x] | First.DEAD) & (255 - First.GENERATED)
                    continue
                flags[w, x] |= First.RETAINED | First.EXACT
                score = reward - risk * uncertainty
                # <insert better first=x R=reward U=uncertainty G=gross>
                table[w, x, Col.UPPER] = table[w, x, Col.SCORE]
                # <insert wins first=x R=reward U=uncertainty>
            status = Status.DEAD_END if best_first < 0 else Status.PROVED
    return status, expansions, scored, best_first, best_S, best_R, best_U, fault, fault_step, fault_action


# Loops over states that hand on no arrays of their own, so that none is counted in them: that took a fifth of the time.
@uc_lean_call
def uc_programme_reach(
    w, h, d, end, budget, risk, prune, bonus, spread, use_bound, *UC_SCORING, one_st, flags, table, pool, bits, tags,
    slots, at_work,
):
    """Expand states at_work[3]..end of step h as far as there is room: a fault, its action, and whether the budget ends.
    Known states, expansions and scored actions are at_work[0:3]."""
    known = at_work[0]
    expansions = at_work[1]
    scored = at_work[2]
    i = at_work[3]
    fault = 0
    fault_action = 0
    stopped = False
    while i < end and known + actions.shape[1] + 1 < pool.shape[0]:
        for f in range(N):
            one_st[0, 0, f] = pool[i, f]
        found, fault, fault_action = uc_score_call(
            w, h, one_st, 0, 1, d, risk, prune, bonus, spread, use_bound, False, *UC_SCORING, -1,
        )
        scored += found
        if fault != 0:
            break
        if h == 0:
            uc_mark_root(found, ci, cq, cu, cst, crew, 1, flags, table, w)
        for c in range(found):
            spare = uc_probe(pool, cst, c, 0)
            at = uc_find(slots, pool, bits, tags, h + 1, spare)
            if slots[at] < 0:
                if expansions >= budget:
                    stopped = True
                    break
                expansions += 1
                for f in range(N):
                    pool[known, f] = pool[spare, f]
                tags[known] = h + 1
                slots[at] = known
                known += 1
        if stopped:
            break
        i += 1
    at_work[0] = known
    at_work[1] = expansions
    at_work[2] = scored
    at_work[3] = i
    return fault, fault_action, stopped


@uc_lean_call
def uc_programme_back(
    w, d, risk, prune, bonus, spread, *UC_SCORING, disc, one_st, starts, flags, pool, bits, tags, value, second, succ,
    slots,
):
    """Values and successors of all states but the last step's. What is scored here has been on the way there, faults
    and bounds included."""
    for back in range(d):
        h = d - 1 - back
        for i in range(starts[h], starts[h + 1]):
            for f in range(N):
                one_st[0, 0, f] = pool[i, f]
            found, _, _ = uc_score_call(
                w, h, one_st, 0, 1, d, risk, prune, bonus, spread, False, False, *UC_SCORING, -1,
            )
            has = False
            succ[i, 0] = -1
            for c in range(found):
                spare = uc_probe(pool, cst, c, 0)
                after = slots[uc_find(slots, pool, bits, tags, h + 1, spare)]
                if succ[after, 0] < 0:
                    continue
                here = disc[h] * (cq[c] - risk * cu[c]) + value[after]
                here_U = disc[h] * cu[c] + second[after]
                if not has or here > value[i] or (here == value[i] and here_U < second[i]):
                    has = True
                    value[i] = here
                    second[i] = here_U
                    succ[i, 0] = after
                    succ[i, 1] = ci[c]
                if h == 0:
                    flags[w, ci[c]] |= First.GENERATED
# </additive>
