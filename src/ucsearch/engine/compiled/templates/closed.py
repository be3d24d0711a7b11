# Kernel text: closed-loop search over every policy. See ../../plain/closed.py for the specification (same operations in
# the same order), ../../arrays.py for how the law is packed and core.py for what this relies on. States lie in rows of
# `pool`; the first free row is where a new one is tried, so a known state costs no copy. Arrays grow by doubling, never
# beyond what the budget of transitions allows.


@uc_lean
def uc_value(t, at, n, wrow, weights, discount, risk, tail, trew, tto, score, second, size, work):
    """Score, mean and size of the action whose transitions begin at t; points of its class begin at `at`."""
    total = 0.0
    mean = 0.0
    whole = 0.0
    most = 0.0
    for k in range(n):
        to = tto[t + k]
        if score[to] == -np.inf:
            return -np.inf, -np.inf, 0.0
        value = trew[t + k] + discount * score[to]
        total += weights[wrow, at + k] * value
        if risk > 0.0:
            mean += weights[wrow, at + k] * (trew[t + k] + discount * second[to])
        part = abs(trew[t + k]) + discount * size[to]
        whole += weights[wrow, at + k] * part
        most = max(most, part)
        work[0, k] = value
    if risk > 0.0 and np.isfinite(total):
        total = (1.0 - risk) * total + risk * uc_tail(work, 0, n, weights, wrow, at, tail)
        whole = (1.0 - risk) * whole + risk * most
    return total, mean if risk > 0.0 else total, whole


@uc_lean_call
def uc_reach(
    w, end, last, budget, p, actions, arow, members, q, u, pool, bits, tags, slots, sedge, eact, efirst, trew, tto, at
):
    """Expand states at[4]..end, beginning with action at[5]: 0 done, 1 more room is needed, 2 the budget ends, else
    2 + a fault. Counters (known states, edges, transitions, scored actions) are at[0:4], slots in use at[6]. Arrays are
    never replaced in here, so that the loops count no references."""
    mask = np.uint64(at[6] - 1)
    most = end + at[6] // 2
    known = at[0]
    edges = at[1]
    moves = at[2]
    scored = at[3]
    first = at[5]
    code = 0
    i = at[4]
    x = first
    while i < end and code == 0:
        low = np.int64(u[w, 0, tags[i]])
        n = np.int64(u[w, 0, tags[i] + 1]) - low
        if first == 0:
            sedge[i] = edges
        x = first
        first = 0
        s = uc_load(pool, i, 0)
        while x < actions.shape[1]:
            a = actions[arow, x]
            if a != a or not uc_feasible(s, a, p):
                x += 1
                continue
            if moves + n > budget:
                code = 2
                break
            if edges >= eact.shape[0] or moves + n > tto.shape[0] or known + n > pool.shape[0] or known + n > most:
                code = 1
                break
            scored += 1
            eact[edges] = x
            efirst[edges] = moves
            edges += 1
            for k in range(low, low + n):
                y = uc_member(members, w, k, 0)
                reward = float(uc_reward(s, a, y, p))
                if not np.isfinite(reward):
                    code = 3
                    break
                if not uc_store(pool, known, 0, uc_step(s, a, y, p)):
                    code = 4
                    break
                to = uc_place(slots, mask, bits, tags, -1 if last else np.int64(q[w, 0, k]), known)
                if to == known:
                    known += 1
                trew[moves] = reward
                tto[moves] = to
                moves += 1
            if code != 0:
                break
            x += 1
        if code == 0:
            i += 1
    at[0] = known
    at[1] = edges
    at[2] = moves
    at[3] = scored
    at[4] = i
    at[5] = x
    return code


@uc_lean_call
def uc_back(
    w, d, layers, known, p, u, weights, wrow, discount, risk, tail, pool, tags, sedge, eact, efirst, trew, tto, score,
    second, size, best, work,
):
    """Values of every state from the last layer to the first: fault, its step and action."""
    for i in range(layers[d], known):
        end = 0.0
        if HAS_END and not uc_end(uc_load(pool, i, 0), p):
            score[i] = -np.inf
            second[i] = 0.0
            size[i] = 0.0
            continue
        if HAS_TERMINAL:
            end = float(uc_terminal(uc_load(pool, i, 0), p))
            if not np.isfinite(end):
                return 4, d - 1, 0
        score[i] = end
        second[i] = end
        size[i] = abs(end)
    for back in range(d):
        h = d - 1 - back
        for i in range(layers[h], layers[h + 1]):
            low = np.int64(u[w, 0, tags[i]])
            n = np.int64(u[w, 0, tags[i] + 1]) - low
            score[i] = -np.inf
            second[i] = 0.0
            size[i] = 0.0
            best[i] = -1
            for e in range(sedge[i], sedge[i + 1]):
                value, mean_value, whole = uc_value(
                    efirst[e], low, n, wrow, weights, discount, risk, tail, trew, tto, score, second, size, work
                )
                if value != -np.inf and not (np.isfinite(value) and np.isfinite(mean_value) and np.isfinite(whole)):
                    return 5, h, np.int64(eact[e])
                if value > score[i]:
                    score[i] = value
                    second[i] = mean_value
                    size[i] = whole
                    best[i] = eact[e]
    return 0, 0, 0


@uc_inner
def uc_follow_policy(first, level, d, u, w, weights, wrow, tags, sedge, eact, efirst, tto, best, path, row):
    """Actions of the policy that begins with `first`, when every outcome is the one at this level."""
    i = np.int64(0)
    x = first
    path[0, row, 0] = x
    for t in range(1, d):
        e = sedge[i]
        while eact[e] != x:
            e += 1
        low = np.int64(u[w, 0, tags[i]])
        high = np.int64(u[w, 0, tags[i] + 1])
        k = high - low - 1
        mass = 0.0
        for y in range(high - low):
            mass += weights[wrow, low + y]
            if mass >= level:
                k = y
                break
        i = np.int64(tto[efirst[e] + k])
        x = best[i]
        path[0, row, t] = x


@uc_entry
def uc_panel(*UC_PANEL):
    """Windows lo..hi. See ../engine.py for the settings."""
    d = iset[ISet.DEPTH]
    budget = iset[ISet.NODE_BUDGET]
    risk = fset[FSet.RISK]
    tail = fset[FSet.TAIL]
    discount = disc[1]
    m = actions.shape[1]
    width = max(1, members.shape[1])
    pool = np.empty((64, 1, N))
    tags = np.empty(64, np.int64)
    sedge = np.empty(65, np.int64)
    slots = np.empty(128, np.int32)
    bits = pool.view(np.uint64)
    trew = np.empty(64)
    tto = np.empty(64, np.int32)
    eact = np.empty(64, np.int32)
    efirst = np.empty(64, np.int64)
    score = np.empty(1)
    second = np.empty(1)
    size = np.empty(1)
    best = np.empty(1, np.int32)
    layers = np.empty(d + 2, np.int64)
    at = np.zeros(7, np.int64)
    work = np.empty((1, width))
    fpath = np.empty((1, m + 2, d), np.int64)
    bpath = np.empty((1, d), np.int64)
    for w in range(lo, hi):
        # <insert own>
        uc_blank(w, flags, table)
        fault = 0
        fault_step = 0
        fault_action = 0
        status = Status.NOT_PROVED
        stopped = False
        for f in range(N):
            pool[0, 0, f] = states[w, f]
        tags[0] = 0
        layers[0] = 0

        # ---- forward: what can be reached
        at[0], at[1], at[2], at[3] = 1, 0, 0, 0
        for h in range(d):
            layers[h + 1] = at[0]
            at[4] = layers[h]
            at[5] = 0
            slots, at[6] = uc_more_slots(slots, 2 * (at[0] - layers[h]), bits, tags, at[0], at[0])
            code = 1
            while code == 1:
                code = uc_reach(
                    w, layers[h + 1], h + 1 == d, budget, p, actions, arow, members, q, u, pool, bits, tags, slots,
                    sedge, eact, efirst, trew, tto, at,
                )
                if code == 1:
                    n = np.int64(u[w, 0, tags[at[4]] + 1]) - np.int64(u[w, 0, tags[at[4]]])
                    if at[1] >= eact.shape[0]:
                        eact = uc_longer(eact, at[1] + 1, budget)
                        efirst = uc_longer(efirst, at[1] + 1, budget)
                    if at[2] + n > tto.shape[0]:
                        trew = uc_longer(trew, at[2] + n, budget)
                        tto = uc_longer(tto, at[2] + n, budget)
                    if at[0] + n > pool.shape[0]:
                        pool, tags, sedge = uc_more_states(pool, tags, sedge, at[0], at[0] + n)
                        bits = pool.view(np.uint64)
                    if at[0] + n > layers[h + 1] + at[6] // 2:
                        slots, at[6] = uc_more_slots(
                            slots, max(at[6], at[0] + n - layers[h + 1]), bits, tags, layers[h + 1], at[0]
                        )
            if code == 2:
                stopped = True
                break
            if code > 2:
                fault = code - 2
                fault_step = h
                fault_action = at[5]
                break
        known = at[0]
        edges = at[1]
        moves = at[2]
        scored = at[3]
        layers[d + 1] = known

        # ---- backward: what it is worth
        if fault == 0 and not stopped:
            sedge[layers[d]] = edges
            if score.shape[0] < known:
                score = np.empty(pool.shape[0])
                second = np.empty(pool.shape[0])
                size = np.empty(pool.shape[0])
                best = np.empty(pool.shape[0], np.int32)
            fault, fault_step, fault_action = uc_back(
                w, d, layers, known, p, u, weights, wrow, discount, risk, tail, pool, tags, sedge, eact, efirst, trew,
                tto, score, second, size, best, work,
            )

        # ---- first actions
        best_first = -1
        best_S = 0.0
        best_R = 0.0
        best_U = 0.0
        if fault == 0 and not stopped:
            n = np.int64(u[w, 0, 1])
            for e in range(sedge[0], sedge[1]):
                x = eact[e]
                flags[w, x] |= First.FEASIBLE
                total = 0.0
                for k in range(n):
                    work[0, k] = trew[efirst[e] + k]
                    total += weights[wrow, k] * work[0, k]
                table[w, x, Col.STEP_REWARD] = total
                table[w, x, Col.STEP_UNCERTAINTY] = max(0.0, total - uc_tail(work, 0, n, weights, wrow, 0, tail)) if risk > 0.0 else 0.0
                same = False
                for y in range(sedge[0], e):
                    same = True
                    for k in range(n):
                        t = efirst[e] + k
                        v = efirst[y] + k
                        if trew[t] != trew[v] or tto[t] != tto[v]:
                            same = False
                            break
                    if same:
                        break
                if same:
                    flags[w, x] |= First.DUPLICATE
                    continue
                flags[w, x] |= First.GENERATED
                value, mean_value, whole = uc_value(
                    efirst[e], 0, n, wrow, weights, discount, risk, tail, trew, tto, score, second, size, work
                )
                if value == -np.inf:
                    flags[w, x] |= First.DEAD
                    continue
                spread = max(0.0, (mean_value - value) / risk) if risk > 0.0 else 0.0
                flags[w, x] |= First.RETAINED | First.EXACT
                table[w, x, Col.SCORE] = value
                table[w, x, Col.REWARD] = mean_value
                table[w, x, Col.UNCERTAINTY] = spread
                table[w, x, Col.UPPER] = value
                table[w, x, Col.GROSS] = whole
                uc_follow_policy(
                    x, 0.5, d, u, w, weights, wrow, tags, sedge, eact, efirst, tto, best, fpath, x
                )
                if best_first < 0 or value > best_S or (value == best_S and spread < best_U):
                    best_first = x
                    best_S = value
                    best_R = mean_value
                    best_U = spread
            status = Status.DEAD_END
            if best_first >= 0:
                status = Status.PROVED
                for t in range(d):
                    bpath[0, t] = fpath[0, best_first, t]
                uc_follow_policy(
                    best_first, 0.1, d, u, w, weights, wrow, tags, sedge, eact, efirst, tto, best, fpath, m
                )
                uc_follow_policy(
                    best_first, 0.9, d, u, w, weights, wrow, tags, sedge, eact, efirst, tto, best, fpath, m + 1
                )
        if fault != 0:
            status = Status.TASK_ERROR
            uc_blank(w, flags, table)
        uc_report(
            w, status, best_first, moves, scored, known, -1, fault, fault_step, fault_action, best_S, best_R,
            best_U, best_S if status == Status.PROVED else np.nan, bpath, 0, out_i, out_f, path_out,
        )
        uc_copy_paths(w, flags, fpath, paths)
        if paths.shape[0] > 0 and status == Status.PROVED:
            for t in range(d):
                paths[w, m, t] = fpath[0, m, t]
                paths[w, m + 1, t] = fpath[0, m + 1, t]
