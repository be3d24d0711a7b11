# Kernel text: random, greedy, risk-greedy and delay-aware greedy. See the engine's templates/core.py for what this
# relies on, stream.py for the random numbers and ../plain/myopic.py for the specification.


@uc_inline
def uc_rank(count, variant, pick, own, ci, cq, cu, key, slot, queue, level):
    """queue[level, :count] becomes the scored actions, first in rank last."""
    for x in range(count):
        if variant == 0:
            key[x] = uc_uniform(uc_absorb(own, np.uint64(ci[x] + 1)))
        else:
            key[x] = cq[x] - pick * cu[x]
        at = x
        while at > 0:
            y = slot[at - 1]
            if key[x] > key[y] or (variant != 0 and key[x] == key[y] and cu[x] < cu[y]):
                break
            slot[at] = y
            at -= 1
        slot[at] = x
    for x in range(count):
        queue[level, x] = ci[slot[x]]


@uc_entry
def uc_panel(*UC_PANEL):
    """Windows lo..hi. The last entry of iset is how many belong to this algorithm; see ../policies.py."""
    # <insert settings>
    own_i = iset.shape[0] - iset[iset.shape[0] - 1]
    variant = iset[own_i]
    delay = iset[own_i + 1]
    seed = np.uint64(iset[own_i + 2])
    pick = fset[fset.shape[0] - 1]
    tables = np.zeros((1, 1))
    # <insert candidates>
    key = np.empty(m)
    slot = np.empty(m, np.int64)
    # One node per level of the walk.
    nst = np.empty((d + 1, rows, N))
    nret = np.empty((d + 1, rows if MEMBERS else 1))
    nR = np.empty(d + 1)
    nU = np.empty(d + 1)
    nG = np.empty(d + 1)
    queue = np.empty((d + 1, m), np.int64)
    pending = np.empty(d + 1, np.int64)
    act = np.empty(d, np.int64)
    fpath = np.empty((1, m, d), np.int64)
    cursor = np.empty(d + 1, np.int64)
    for w in range(lo, hi):
        # <insert own>
        uc_blank(w, flags, table)
        stream = uc_absorb(uc_mix(seed), uc_content(w, d, states, mean, q, u))
        # <insert root n=n at=0>
        visits = 0
        # <insert counters>
        cont = -1
        best_first = -1
        best_cont = -1
        best_value = 0.0
        best_credit = 0.0
        best_R = 0.0
        best_U = 0.0
        # `base` is the level the walk starts from and may not leave: 0, or 1 below each first action in turn.
        base = 0
        level = 0
        fresh = True
        steps = 0
        while True:
            if fresh:
                fresh = False
                found, fault, fault_action = uc_score(
                    w, level, nst, level, rows, d, risk, 0.0, 0.0, spread, False, continues, *UC_SCORING, -1,
                )
                # <insert opened at=level>
                pending[level] = found
                if level == 0 and variant == 2:
                    # Delay-aware: every first action of its own effect gets a walk, in ascending order.
                    pending[0] = 0
                    for x in range(found - 1, -1, -1):
                        if flags[w, ci[x]] & First.DUPLICATE == 0:
                            queue[0, pending[0]] = ci[x]
                            pending[0] += 1
                else:
                    own = uc_absorb(stream, np.uint64(visits + 1))
                    uc_rank(found, variant, pick, own, ci, cq, cu, key, slot, queue, level)
                    visits += 1
            # What to do next: step down, step back, or finish a walk.
            x = -1
            if level < d:
                while level >= base and pending[level] == 0:
                    level -= 1
                if level >= base and steps < cap:
                    pending[level] -= 1
                    x = queue[level, pending[level]]
            if x >= 0:
                h = level
                found, fault, fault_action = uc_score(
                    w, h, nst, h, rows, d, risk, 0.0, 0.0, spread, False, continues, *UC_SCORING, x,
                )
                if h > 0 or variant != 2:
                    steps += 1
                if h == 0:
                    flags[w, x] |= First.GENERATED
                reward, uncertainty, gross, cont, dropped, fault = uc_extend(
                    w, h, d, reach, nR[h], nU[h], nG[h], nret, h, 0, rows, risk, spread, p, members, weights, wrow, disc,
                    cq, cu, cst, crew, nret, h + 1, total,
                )
                if fault != 0:
                    fault_step = h
                    fault_action = x
                    break
                if not dropped:
                    act[h] = x
                    level = h + 1
                    nR[level] = reward
                    nU[level] = uncertainty
                    nG[level] = gross
                    for r in range(rows):
                        for f in range(N):
                            nst[level, r, f] = cst[0, r, f]
                    fresh = level < d
                    if h == 0 and variant == 2:
                        base = 1
                        steps = 0
                if level < d:
                    continue
            # The walk is over: at full depth with a path, or without one.
            arrived = level == d
            if arrived:
                first = act[0]
                flags[w, first] |= First.RETAINED
                table[w, first, Col.SCORE] = nR[d] - risk * nU[d]
                table[w, first, Col.REWARD] = nR[d]
                table[w, first, Col.UNCERTAINTY] = nU[d]
                table[w, first, Col.GROSS] = nG[d]
                for t in range(d):
                    fpath[0, first, t] = act[t]
                credited = delay + 1 if variant == 2 else d
                value = nR[credited] - pick * nU[credited]
                if best_first < 0 or value > best_value or (value == best_value and nU[credited] < best_credit):
                    best_first = first
                    best_value = value
                    best_credit = nU[credited]
                    best_R = nR[d]
                    best_U = nU[d]
                    best_cont = cont
            if variant != 2:
                expansions = steps - d if arrived else steps
                break
            expansions += steps
            steps = 0
            base = 0
            level = 0
            if pending[0] == 0:
                break
        # <insert ending st=nst cursor=cursor>
        uc_report(
            w, status, best_first, expansions, scored, 0, best_cont, fault, fault_step, fault_action,
            best_R - risk * best_U, best_R, best_U, np.nan, fpath[0], max(best_first, 0), out_i, out_f, path_out,
        )
        uc_copy_paths(w, flags, fpath, paths)
