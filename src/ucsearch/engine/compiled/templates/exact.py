# Kernel text: exact search. Branch and bound (or enumeration without a bound); dynamic programming over hashed states
# in additive modes (exact_programme.py), a perfect-information bound in members mode (exact_perfect.py). See core.py for
# what this relies on and ../../plain/exact.py for the specification.


@uc_entry
def uc_panel(*UC_PANEL):
    """Windows lo..hi. See ../engine.py for the settings and ../../arrays.py for the columns."""
    # <insert settings>
    # <insert ranking>
    budget = iset[ISet.NODE_BUDGET]
    every = iset[ISet.EVERY_ACTION] != 0
    enumerate_below = iset[ISet.ENUMERATE_BELOW]
    dp_switch = iset[ISet.DP_SWITCH]
    # <insert candidates>
    one_st = np.empty((1, rows, N))
    one_ret = np.zeros((1, rows if MEMBERS else 1))
    # One row per child of the open node at each level.
    nst = np.empty((d * m + 1, rows, N))
    nret = np.zeros((d * m + 1, rows if MEMBERS else 1))
    nR = np.zeros(d * m + 1)
    nU = np.zeros(d * m + 1)
    nG = np.zeros(d * m + 1)
    nlimit = np.empty(d * m + 1)
    nact = np.empty(d * m + 1, np.int64)
    ncont = np.empty(d * m + 1, np.int64)
    order = np.empty((d, m), np.int64)
    counts = np.empty(d, np.int64)
    cursor = np.empty(d + 1, np.int64)
    prefix = np.empty((1, d), np.int64)
    fpath = np.empty((1, m, d), np.int64)
    fcont = np.empty(m, np.int64)
    bpath = np.empty((1, d), np.int64)
    spot = np.empty(d + 1, np.int64)
    starts = np.empty(d + 2, np.int64)
    # <members>
    # <insert room rows=1 slots=1>
    bits = pool.view(np.uint64)
    # </members>
    for w in range(lo, hi):
        # <insert own>
        uc_blank(w, flags, table)
        # <insert ready>
        available = 0
        for x in range(m):
            if actions[arow, x] == actions[arow, x]:
                available += 1
        leaves = 1.0
        for _ in range(d):
            leaves *= available
        small = leaves <= enumerate_below
        # <insert counters>
        status = Status.SEARCH_EXHAUSTED
        upper = np.nan
        best_first = -1
        best_S = 0.0
        best_R = 0.0
        best_U = 0.0
        best_cont = -1
        perfect = False
        stopped = False
        root = d * m
        # <insert root n=n at=root>

        # <members>
        # ---- members: every member's own best reward to go, as if it knew its future
        if MEMBERS and not use_bound and not small and not continues:
            pool, tags, value, second, succ, slots, nodes, perfect, fault, fault_step, fault_action = uc_perfect(
                w, d, budget, p, actions, arow, mean, members, states, disc, pool, tags, value, second, succ, slots,
                starts, one_st, cst,
            )
            bits = pool.view(np.uint64)
            expansions += nodes
        # </members>

        # ---- branch and bound, or enumeration when nothing bounds what lies below
        bounded = use_bound or perfect
        if fault == 0 and (MEMBERS or use_bound or small):
            limit_nodes = budget
            if not MEMBERS and use_bound and not small:
                limit_nodes = min(budget, dp_switch)
            level = 0
            cursor[0] = -1
            while level >= 0 and fault == 0 and not stopped:
                if cursor[level] < 0:
                    # Open the node: root, or the child chosen one level above.
                    node = root if level == 0 else (level - 1) * m + order[level - 1, cursor[level - 1]]
                    found, fault, fault_action = uc_score(
                        w, level, nst, node, rows, d, risk, prune, bonus, spread, use_bound, continues, *UC_SCORING, -1,
                    )
                    # <insert opened at=level>
                    last = level + 1 == d
                    n = 0
                    for c in range(found):
                        same = False
                        for y in range(c):
                            if uc_same(cq, cu, cst, crew, c, y, rows):
                                same = True
                                break
                        if same:
                            continue
                        if expansions >= limit_nodes:
                            stopped = True
                            break
                        expansions += 1
                        if level == 0:
                            flags[w, ci[c]] |= First.GENERATED
                        slot = level * m + n
                        reward, uncertainty, gross, cont, dropped, fault = uc_extend(
                            w, level, d, reach, nR[node], nU[node], nG[node], nret, node, c, rows, risk, spread, p,
                            members, weights, wrow, disc, cq, cu, cst, crew, nret, slot, total,
                        )
                        if fault != 0:
                            fault_step = level
                            fault_action = ci[c]
                            break
                        if dropped or (not last and not uc_alive(cst, c, rows, actions, arow, p)):
                            continue
                        limit = (reward - risk * uncertainty) + (0.0 if last else ctogo[c])
                        if not last:
                            if perfect:
                                limit = 0.0
                                # <members>
                                for r in range(rows):
                                    spare = uc_probe(pool, cst, c, r)
                                    at = uc_find(slots, pool, bits, tags, r * (d + 1) + level + 1, spare)
                                    limit += weights[wrow, r] * value[slots[at]]
                                # </members>
                                limit = reward + limit
                            elif not bounded:
                                limit = np.inf
                            elif MEMBERS:
                                limit = reward + ctogo[c]
                        for r in range(rows):
                            for f in range(N):
                                nst[slot, r, f] = cst[c, r, f]
                        nR[slot] = reward
                        nU[slot] = uncertainty
                        nG[slot] = gross
                        nlimit[slot] = limit
                        nact[slot] = ci[c]
                        ncont[slot] = cont
                        at = n
                        if bounded:
                            while at > 0:
                                held = level * m + order[level, at - 1]
                                if limit > nlimit[held] or (limit == nlimit[held] and uncertainty < nU[held]):
                                    order[level, at] = order[level, at - 1]
                                    at -= 1
                                else:
                                    break
                        order[level, at] = n
                        n += 1
                    counts[level] = n
                    cursor[level] = 0
                    continue
                if cursor[level] >= counts[level]:
                    level -= 1
                    if level >= 0:
                        cursor[level] += 1
                    continue
                child = level * m + order[level, cursor[level]]
                prefix[0, level] = nact[child]
                first = prefix[0, 0]
                full = level + 1 == d
                limit = nlimit[child]
                score = nR[child] - risk * nU[child]
                rival = table[w, first, Col.SCORE] == table[w, first, Col.SCORE] if every else best_first >= 0
                hopeless = False
                if rival:
                    rival_S = table[w, first, Col.SCORE] if every else best_S
                    rival_U = table[w, first, Col.UNCERTAINTY] if every else best_U
                    least = 0.0 if MEMBERS and not full else nU[child]
                    if limit != rival_S:
                        hopeless = limit < rival_S
                    elif least != rival_U:
                        hopeless = least > rival_U
                    else:
                        # Equal so far: only a smaller path may still win.
                        hopeless = full
                        for t in range(level + 1):
                            held = fpath[0, first, t] if every else bpath[0, t]
                            if prefix[0, t] != held:
                                hopeless = prefix[0, t] > held
                                break
                if hopeless:
                    if not table[w, first, Col.UPPER] >= limit:
                        table[w, first, Col.UPPER] = limit
                    # Limits fall from one child to the next, so below the first step the others raise nothing either.
                    cursor[level] = counts[level] if bounded and level > 0 and limit < rival_S else cursor[level] + 1
                elif full:
                    flags[w, first] |= First.RETAINED
                    if not table[w, first, Col.UPPER] >= score:
                        table[w, first, Col.UPPER] = score
                    # <insert better first=first R=nR[child] U=nU[child] G=nG[child]>
                    if better:
                        fcont[first] = ncont[child]
                    # <insert wins first=first R=nR[child] U=nU[child]>
                    if wins:
                        best_cont = ncont[child]
                    cursor[level] += 1
                else:
                    level += 1
                    cursor[level] = -1
            if fault == 0 and stopped:
                status = Status.NOT_PROVED
                for x in range(m):
                    table[w, x, Col.UPPER] = np.nan
            elif fault == 0 and best_first >= 0:
                status = Status.PROVED
                upper = best_S
                for x in range(m):
                    if flags[w, x] & First.FEASIBLE != 0 and flags[w, x] & First.DUPLICATE == 0:
                        if not table[w, x, Col.UPPER] == table[w, x, Col.UPPER]:
                            flags[w, x] |= First.DEAD
                        elif table[w, x, Col.UPPER] <= table[w, x, Col.SCORE]:
                            flags[w, x] |= First.EXACT
            elif fault == 0:
                status, fault_step, fault_action = uc_lost(
                    w, d, states, one_st, rows, p, actions, arow, mean, members, walk, spot, cap
                )
                if status == Status.TASK_ERROR:
                    fault = Fault.STATE
                for x in range(m):
                    if status == Status.DEAD_END and flags[w, x] & First.FEASIBLE != 0 and flags[w, x] & First.DUPLICATE == 0:
                        flags[w, x] |= First.DEAD

        # <additive>
        # ---- dynamic programming over distinct states, values backward, paths re-scored forward
        whole = not (use_bound or small)
        if not MEMBERS and fault == 0 and (whole or (status == Status.NOT_PROVED and min(budget, dp_switch) < budget and not small)):
            (
                status, expansions, scored, best_first, best_S, best_R, best_U, fault, fault_step, fault_action,
            ) = uc_programme(
                w, d, reach, budget, risk, prune, bonus, spread, use_bound, p, states, actions, arow, mean, members,
                weights, wrow, q, u, disc, tables, suffix, work, edge, total, ci, cq, cu, crank, ctogo, cst, crew,
                one_st, one_ret, nst, starts, prefix, fpath, bpath, flags, table, expansions, scored, best_first, best_S,
                best_R, best_U,
            )
            upper = best_S if status == Status.PROVED else np.nan
        # </additive>
        if fault != 0:
            status = Status.TASK_ERROR
            uc_blank(w, flags, table)
        uc_report(
            w, status, best_first, expansions, scored, 0, best_cont, fault, fault_step, fault_action, best_S, best_R,
            best_U, upper, bpath, 0, out_i, out_f, path_out,
        )
        uc_copy_paths(w, flags, fpath, paths)
