# Kernel text: exact search. Branch and bound (or enumeration without a bound), then dynamic programming over hashed
# states; in members mode a perfect-information bound. See core.py for what this relies on and ../../plain/exact.py for
# the specification. Arrays grow by doubling, never per node.


@uc_inner
def uc_hash(tag, pool_bits, i):
    value = np.uint64(tag) * np.uint64(0x9E3779B97F4A7C15)
    for f in range(N):
        value = (value ^ pool_bits[i, f]) * np.uint64(0xBF58476D1CE4E5B9)
        value = value ^ (value >> np.uint64(29))
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
    """Copy a candidate's state into the spare row (-0.0 becomes 0.0, so equal states have equal bits)."""
    spare = pool.shape[0] - 1
    for f in range(N):
        pool[spare, f] = source[c, r, f] + 0.0
    return spare


@uc_entry
def uc_panel(
    iset, fset, states, params, actions, mean, members, weights, q, u, disc, out_i, out_f, flags, table, path_out,
    paths, lo, hi,
):
    """Windows lo..hi. See ../engine.py for the settings and ../../arrays.py for the columns."""
    d = iset[0]
    reach = iset[1]
    spread = iset[5]
    use_bound = iset[6] != 0
    cap = iset[7]
    budget = iset[8]
    every = iset[9] != 0
    enumerate_below = iset[11]
    dp_switch = iset[12]
    risk = fset[0]
    prune = fset[1]
    bonus = fset[2]
    m = actions.shape[1]
    J = members.shape[1]
    rows = J if MEMBERS else 1
    continues = MEMBERS and CONTINUATIONS > 0
    suffix = np.empty(d + 1)
    work = np.empty((1, rows))
    edge = np.empty((1, max(J, 1)))
    total = np.empty((1, rows))
    ci = np.empty(m, np.int64)
    cq = np.empty(m)
    cu = np.empty(m)
    crank = np.empty(m)
    ctogo = np.empty(m)
    cst = np.empty((m, rows, N))
    crew = np.empty((m, rows if MEMBERS else 1))
    one_st = np.empty((1, rows, N))
    one_ret = np.zeros((1, rows if MEMBERS else 1))
    # One row per child of the open node at each level.
    nst = np.empty((d * m + 1, rows, N))
    nret = np.zeros((d * m + 1, rows if MEMBERS else 1))
    nR = np.zeros(d * m + 1)
    nU = np.zeros(d * m + 1)
    nlimit = np.empty(d * m + 1)
    nact = np.empty(d * m + 1, np.int64)
    ncont = np.empty(d * m + 1, np.int64)
    order = np.empty((d, m), np.int64)
    counts = np.empty(d, np.int64)
    cursor = np.empty(d + 1, np.int64)
    prefix = np.empty((1, d), np.int64)
    fpath = np.empty((1, m, d), np.int64)
    fcont = np.empty(m, np.int64)
    bpath = np.empty(d, np.int64)
    walk = np.empty((d + 1, rows, N))
    spot = np.empty(d + 1, np.int64)
    starts = np.empty(d + 2, np.int64)
    pool = np.empty((1, N))
    tags = np.empty(1, np.int64)
    value = np.empty(1)
    second = np.empty(1)
    succ = np.empty((1, 2), np.int64)
    slots = np.empty(1, np.int64)
    bits = pool.view(np.uint64)
    for w in range(lo, hi):
        p = uc_params(params, w if params.shape[0] > 1 else 0)
        arow = w if actions.shape[0] > 1 else 0
        wrow = w if weights.shape[0] > 1 else 0
        uc_blank(w, flags, table)
        tables = uc_ready(
            w, d, reach, risk, spread, use_bound, p, mean, members, weights, wrow, q, u, actions, arow, suffix
        )
        available = 0
        for x in range(m):
            if actions[arow, x] == actions[arow, x]:
                available += 1
        leaves = 1.0
        for _ in range(d):
            leaves *= available
        small = leaves <= enumerate_below
        expansions = 0
        scored = 0
        fault = 0
        fault_step = 0
        fault_action = 0
        status = 4
        upper = np.nan
        best_first = -1
        best_S = 0.0
        best_R = 0.0
        best_U = 0.0
        best_cont = -1
        perfect = False
        stopped = False
        root = d * m
        for r in range(rows):
            for f in range(N):
                nst[root, r, f] = states[w, f]
            if MEMBERS:
                nret[root, r] = 0.0
        nR[root] = 0.0
        nU[root] = 0.0

        # <members>
        # ---- members: every member's own best reward to go, as if it knew its future
        if MEMBERS and not use_bound and not small and not continues:
            if pool.shape[0] == 1:
                pool = np.empty((1025, N))
                tags = np.empty(1025, np.int64)
                value = np.empty(1025)
                second = np.empty(1025)
                succ = np.empty((1025, 2), np.int64)
                slots = np.empty(2048, np.int64)
            for x in range(slots.shape[0]):
                slots[x] = -1
            bits = pool.view(np.uint64)
            known = 0
            nodes = 0
            perfect = True
            for j in range(rows):
                starts[0] = known
                if known + 1 >= pool.shape[0]:
                    pool, tags, value, second, succ, slots = uc_grow(pool, tags, value, second, succ, slots, known)
                    bits = pool.view(np.uint64)
                spare = uc_probe(pool, nst, root, j)
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
                        for x in range(m):
                            a = actions[arow, x]
                            if a != a or not uc_feasible(uc_load(one_st, 0, 0), a, p):
                                continue
                            if not uc_store(
                                cst, 0, 0, uc_step(uc_load(one_st, 0, 0), a, uc_member(members, w, j, h), p)
                            ):
                                fault = 2
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
                    if HAS_TERMINAL:
                        for f in range(N):
                            one_st[0, 0, f] = pool[i, f]
                        end = float(uc_terminal(uc_load(one_st, 0, 0), p))
                        if not np.isfinite(end):
                            fault = 4
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
                        for x in range(m):
                            a = actions[arow, x]
                            if a != a or not uc_feasible(uc_load(one_st, 0, 0), a, p):
                                continue
                            y = uc_member(members, w, j, h)
                            uc_store(cst, 0, 0, uc_step(uc_load(one_st, 0, 0), a, y, p))
                            spare = uc_probe(pool, cst, 0, 0)
                            after = value[slots[uc_find(slots, pool, bits, tags, tag, spare)]]
                            reward = float(uc_reward(uc_load(one_st, 0, 0), a, y, p))
                            best = max(best, disc[h] * reward + after)
                        value[i] = best
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
                        w, level, nst, node, rows, d, risk, prune, bonus, spread, use_bound, continues, p, actions,
                        arow, mean, members, weights, wrow, q, u, tables, suffix, work, edge, ci, cq, cu, crank, ctogo,
                        cst, crew, -1,
                    )
                    scored += found
                    if fault != 0:
                        fault_step = level
                        break
                    if level == 0:
                        uc_mark_root(found, ci, cq, cu, cst, crew, rows, flags, table, w)
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
                            flags[w, ci[c]] |= 2
                        slot = level * m + n
                        reward, uncertainty, cont, dropped, fault = uc_extend(
                            w, level, d, reach, nR[node], nU[node], nret, node, c, rows, risk, spread, p, members,
                            weights, wrow, disc, cq, cu, cst, crew, nret, slot, total,
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
                rival = table[w, first, 0] == table[w, first, 0] if every else best_first >= 0
                hopeless = False
                if rival:
                    rival_S = table[w, first, 0] if every else best_S
                    rival_U = table[w, first, 2] if every else best_U
                    least = 0.0 if MEMBERS and not full else nU[child]
                    if limit != rival_S:
                        hopeless = limit < rival_S
                    elif least != rival_U:
                        hopeless = least > rival_U
                    else:
                        # Equal so far: only a smaller path may still win.
                        hopeless = full
                        for t in range(level + 1):
                            held = fpath[0, first, t] if every else bpath[t]
                            if prefix[0, t] != held:
                                hopeless = prefix[0, t] > held
                                break
                if hopeless:
                    if not table[w, first, 3] >= limit:
                        table[w, first, 3] = limit
                    cursor[level] += 1
                elif full:
                    flags[w, first] |= 4
                    if not table[w, first, 3] >= score:
                        table[w, first, 3] = score
                    if uc_improves(
                        score, nU[child], prefix, 0, table[w, first, 0], table[w, first, 2],
                        fpath, 0, first, d,
                    ):
                        table[w, first, 0] = score
                        table[w, first, 1] = nR[child]
                        table[w, first, 2] = nU[child]
                        fcont[first] = ncont[child]
                        for t in range(d):
                            fpath[0, first, t] = prefix[0, t]
                    wins = best_first < 0 or score > best_S
                    if not wins and score == best_S:
                        if nU[child] != best_U:
                            wins = nU[child] < best_U
                        else:
                            for t in range(d):
                                if prefix[0, t] != bpath[t]:
                                    wins = prefix[0, t] < bpath[t]
                                    break
                    if wins:
                        best_first = first
                        best_S = score
                        best_R = nR[child]
                        best_U = nU[child]
                        best_cont = ncont[child]
                        for t in range(d):
                            bpath[t] = prefix[0, t]
                    cursor[level] += 1
                else:
                    level += 1
                    cursor[level] = -1
            if fault == 0 and stopped:
                status = 2
                for x in range(m):
                    table[w, x, 3] = np.nan
            elif fault == 0 and best_first >= 0:
                status = 1
                upper = best_S
                for x in range(m):
                    if flags[w, x] & 1 != 0 and flags[w, x] & 8 == 0:
                        if not table[w, x, 3] == table[w, x, 3]:
                            flags[w, x] |= 32
                        elif table[w, x, 3] <= table[w, x, 0]:
                            flags[w, x] |= 16
            elif fault == 0:
                for r in range(rows):
                    for f in range(N):
                        one_st[0, r, f] = states[w, f]
                found = uc_completable(w, d, one_st, rows, p, actions, arow, mean, members, walk, spot, cap)
                status = 3 if found == 0 else 4
                for x in range(m):
                    if found == 0 and flags[w, x] & 1 != 0 and flags[w, x] & 8 == 0:
                        flags[w, x] |= 32
                if found < -1:
                    fault = 2
                    fault_step = (-2 - found) // m
                    fault_action = (-2 - found) % m

        # <additive>
        # ---- dynamic programming over distinct states, values backward, paths re-scored forward
        whole = not (use_bound or small)
        if not MEMBERS and fault == 0 and (whole or (status == 2 and min(budget, dp_switch) < budget and not small)):
            if pool.shape[0] == 1:
                pool = np.empty((1025, N))
                tags = np.empty(1025, np.int64)
                value = np.empty(1025)
                second = np.empty(1025)
                succ = np.empty((1025, 2), np.int64)
                slots = np.empty(2048, np.int64)
            for x in range(slots.shape[0]):
                slots[x] = -1
            bits = pool.view(np.uint64)
            spare = uc_probe(pool, nst, root, 0)
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
                        w, h, one_st, 0, rows, d, risk, prune, bonus, spread, use_bound, continues, p, actions, arow,
                        mean, members, weights, wrow, q, u, tables, suffix, work, edge, ci, cq, cu, crank, ctogo, cst,
                        crew, -1,
                    )
                    scored += found
                    if fault != 0:
                        fault_step = h
                        break
                    if h == 0:
                        uc_mark_root(found, ci, cq, cu, cst, crew, rows, flags, table, w)
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
                status = 2
            elif fault == 0:
                for i in range(starts[d], starts[d + 1]):
                    value[i] = 0.0
                    second[i] = 0.0
                    if HAS_TERMINAL:
                        for f in range(N):
                            one_st[0, 0, f] = pool[i, f]
                        end = float(uc_terminal(uc_load(one_st, 0, 0), p))
                        if not np.isfinite(end):
                            fault = 4
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
                            w, h, one_st, 0, rows, d, risk, prune, bonus, spread, use_bound, continues, p, actions,
                            arow, mean, members, weights, wrow, q, u, tables, suffix, work, edge, ci, cq, cu, crank,
                            ctogo, cst, crew, -1,
                        )
                        has = False
                        succ[i, 0] = -1
                        for c in range(found):
                            spare = uc_probe(pool, cst, c, 0)
                            after = slots[uc_find(slots, pool, bits, tags, h + 1, spare)]
                            if h + 1 < d and succ[after, 0] < 0:
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
                                flags[w, ci[c]] |= 2
                if fault == 0:
                    for x in range(m):
                        if flags[w, x] & 1 == 0 or flags[w, x] & 8 != 0:
                            continue
                        for f in range(N):
                            nst[0, 0, f] = states[w, f]
                        reward = 0.0
                        uncertainty = 0.0
                        at = 0
                        alive = True
                        for h in range(d):
                            act = x if h == 0 else succ[at, 1]
                            if h > 0 and succ[at, 0] < 0:
                                alive = False
                                break
                            found, _, _ = uc_score(
                                w, h, nst, 0, rows, d, risk, prune, bonus, spread, use_bound, continues, p, actions,
                                arow, mean, members, weights, wrow, q, u, tables, suffix, work, edge, ci, cq, cu,
                                crank, ctogo, cst, crew, -1,
                            )
                            for c in range(found):
                                if ci[c] == act:
                                    reward, uncertainty, _, _, fault = uc_extend(
                                        w, h, d, reach, reward, uncertainty, one_ret, 0, c, rows, risk, spread, p,
                                        members, weights, wrow, disc, cq, cu, cst, crew, one_ret, 0, total,
                                    )
                                    if fault != 0:
                                        fault_step = h
                                        fault_action = act
                                        break
                                    prefix[0, h] = act
                                    spare = uc_probe(pool, cst, c, 0)
                                    at = slots[uc_find(slots, pool, bits, tags, h + 1, spare)]
                                    for f in range(N):
                                        nst[0, 0, f] = cst[c, 0, f]
                                    break
                            if fault != 0:
                                break
                        if fault != 0:
                            break
                        if not alive:
                            flags[w, x] = (flags[w, x] | 32) & 253
                            continue
                        flags[w, x] |= 4 | 16
                        score = reward - risk * uncertainty
                        if uc_improves(
                            score, uncertainty, prefix, 0, table[w, x, 0], table[w, x, 2], fpath, 0,
                            x, d,
                        ):
                            table[w, x, 0] = score
                            table[w, x, 1] = reward
                            table[w, x, 2] = uncertainty
                            for t in range(d):
                                fpath[0, x, t] = prefix[0, t]
                        table[w, x, 3] = table[w, x, 0]
                        wins = best_first < 0 or score > best_S
                        if not wins and score == best_S:
                            if uncertainty != best_U:
                                wins = uncertainty < best_U
                            else:
                                for t in range(d):
                                    if prefix[0, t] != bpath[t]:
                                        wins = prefix[0, t] < bpath[t]
                                        break
                        if wins:
                            best_first = x
                            best_S = score
                            best_R = reward
                            best_U = uncertainty
                            for t in range(d):
                                bpath[t] = prefix[0, t]
                    status = 3 if best_first < 0 else 1
                    upper = best_S if best_first >= 0 else np.nan
        # </additive>
        if fault != 0:
            status = 5
            expansions = 0
            scored = 0
            best_first = -1
            best_cont = -1
            upper = np.nan
            uc_blank(w, flags, table)
        out_i[w, 0] = status
        out_i[w, 1] = best_first
        out_i[w, 2] = expansions
        out_i[w, 3] = scored
        out_i[w, 4] = 0
        out_i[w, 5] = best_cont
        out_i[w, 6] = fault
        out_i[w, 7] = fault_step
        out_i[w, 8] = fault_action
        found_path = best_first >= 0
        out_f[w, 0] = best_S if found_path else np.nan
        out_f[w, 1] = best_R if found_path else np.nan
        out_f[w, 2] = best_U if found_path else np.nan
        out_f[w, 3] = upper
        for t in range(d):
            path_out[w, t] = bpath[t] if found_path else -1
        if paths.shape[0] > 0:
            for x in range(m):
                if flags[w, x] & 4 != 0:
                    for t in range(d):
                        paths[w, x, t] = fpath[0, x, t]
