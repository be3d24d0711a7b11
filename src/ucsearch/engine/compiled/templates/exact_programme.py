# Kernel text: dynamic programming over distinct states in additive modes. Values go backward; the paths they find are
# summed forward like any other path.


# <additive>
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
    for h in range(d):
        for i in range(starts[h], starts[h + 1]):
            for f in range(N):
                one_st[0, 0, f] = pool[i, f]
            found, fault, fault_action = uc_score(
                w, h, one_st, 0, 1, d, risk, prune, bonus, spread, use_bound, False, *UC_SCORING, -1,
            )
            scored += found
            if fault != 0:
                fault_step = h
                break
            if h == 0:
                uc_mark_root(found, ci, cq, cu, cst, crew, 1, flags, table, w)
            for c in range(found):
                if known + 1 >= pool.shape[0]:
                    pool, tags, value, second, succ, slots = uc_grow(
                        pool, tags, value, second, succ, slots, known
                    )
                    bits = pool.view(np.uint64)
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
        if stopped or fault != 0:
            break
        starts[h + 2] = known
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
        for back in range(d if fault == 0 else 0):
            h = d - 1 - back
            for i in range(starts[h], starts[h + 1]):
                for f in range(N):
                    one_st[0, 0, f] = pool[i, f]
                found, _, _ = uc_score(
                    w, h, one_st, 0, 1, d, risk, prune, bonus, spread, use_bound, False, *UC_SCORING, -1,
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
                    found, _, _ = uc_score(
                        w, h, nst, 0, 1, d, risk, prune, bonus, spread, use_bound, False, *UC_SCORING, -1,
                    )
                    for c in range(found):
                        if ci[c] == act:
                            reward, uncertainty, gross, _, dropped, fault = uc_extend(
                                w, h, d, reach, reward, uncertainty, gross, one_ret, 0, c, 1, risk, spread, p,
                                members, weights, wrow, disc, cq, cu, cst, crew, one_ret, 0, total,
                            )
                            if fault != 0:
                                fault_step = h
                                fault_action = act
                                break
                            if dropped:
                                alive = False
                                break
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
# </additive>
