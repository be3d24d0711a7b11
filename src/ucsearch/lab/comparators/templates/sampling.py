# Kernel text: random shooting, CEM and MPPI over categorical distributions. See the engine's templates/core.py for what
# this relies on, stream.py for the random numbers and ../plain/sampling.py for the specification.


@uc_inline
def uc_pick(count, choice, probs, h, i, c, offset):
    """The action of plan i of c by systematic sampling, and the plan's number among those that take it."""
    total = 0.0
    for x in range(count):
        total += probs[h, choice[x]]
    flat = not total > 0.0
    if flat:
        total = float(count)
    below = 0.0
    low = 0
    for x in range(count - 1):
        below += 1.0 if flat else probs[h, choice[x]]
        high = math.ceil(c * (below / total) - offset)
        if i < high:
            return choice[x], i - low, high - low
        low = high
    return choice[count - 1], i - low, c - low


@uc_inline
def uc_blurred(row, x, blur):
    """Entry x when a share `blur` of every action's weight goes to its two neighbours."""
    last = row.shape[0] - 1
    return (1.0 - blur) * row[x] + 0.5 * blur * (row[max(x - 1, 0)] + row[min(x + 1, last)])


@uc_inner
def uc_order(x, y, gain, pU, plan, d):
    """Plan x against plan y by objective, U and path: negative when x comes first, 0 when they are the same plan."""
    if gain[x] != gain[y]:
        return -1 if gain[x] > gain[y] else 1
    if pU[x] != pU[y]:
        return -1 if pU[x] < pU[y] else 1
    for t in range(d):
        if plan[x, t] != plan[y, t]:
            return -1 if plan[x, t] < plan[y, t] else 1
    return 0


@uc_inner
def uc_ranked(size, most, gain, pU, plan, d, order):
    """order[:kept] becomes the best `most` different plans, best first."""
    kept = 0
    for x in range(size):
        at = kept
        sign = -1
        while at > 0:
            sign = uc_order(x, order[at - 1], gain, pU, plan, d)
            if sign >= 0:
                break
            at -= 1
        if at >= most or (at > 0 and sign == 0):
            continue
        if kept < most:
            kept += 1
        for y in range(kept - 1, at, -1):
            order[y] = order[y - 1]
        order[at] = x
    return kept


@uc_inner
def uc_update(
    variant, size, kept, elites, temperature, smoothing, floor, blur, gain, plan, order, d, probs, weight, row
):
    """Move the distributions towards the elites (CEM) or the softmax-weighted plans (MPPI)."""
    count = min(elites, kept) if variant == 1 else size
    scale = 0.0
    best = -np.inf
    if variant != 1:
        average = 0.0
        square = 0.0
        for x in range(size):
            best = max(best, gain[x])
            average += gain[x] / size
        for x in range(size):
            square += (gain[x] - average) * (gain[x] - average) / size
        scale = temperature * math.sqrt(square)
    total = 0.0
    for x in range(count):
        weight[x] = 1.0
        if variant != 1 and 0.0 < scale < np.inf:
            weight[x] = math.exp((gain[x] - best) / scale)
        total += weight[x]
    m = row.shape[0]
    for h in range(d):
        for x in range(m):
            row[x] = 0.0
        for x in range(count):
            row[plan[order[x] if variant == 1 else x, h]] += weight[x] / total
        for x in range(m):
            moved = (1.0 - (1.0 - smoothing)) * probs[h, x] + (1.0 - smoothing) * uc_blurred(row, x, blur)
            probs[h, x] = (1.0 - floor) * moved + floor / m


@uc_inner
def uc_warm(iset, at, rows, keyed, d, content):
    """Where this window's warm plan starts in iset; -1 when it has none. Rows are sorted by content."""
    if keyed == 0:
        return at if rows > 0 else -1
    key = np.int64(content)
    low = 0
    high = rows
    while low < high:
        middle = (low + high) // 2
        if iset[at + middle * (d + 1)] < key:
            low = middle + 1
        else:
            high = middle
    place = at + low * (d + 1)
    return place + 1 if low < rows and iset[place] == key else -1


@uc_entry
def uc_panel(*UC_PANEL):
    """Windows lo..hi. The last entry of iset is how many belong to this algorithm; see ../policies.py."""
    # <insert settings>
    own_i = iset.shape[0] - iset[iset.shape[0] - 1]
    variant = iset[own_i]
    samples = iset[own_i + 1]
    iterations = iset[own_i + 2]
    elites = iset[own_i + 3]
    memory = iset[own_i + 4]
    stratified = iset[own_i + 5] != 0
    seed = np.uint64(iset[own_i + 6])
    keyed = iset[own_i + 7]
    warm_rows = iset[own_i + 8]
    own_f = fset.shape[0] - 6
    pick = fset[own_f]
    smoothing = fset[own_f + 1]
    floor = fset[own_f + 2]
    temperature = fset[own_f + 3]
    blur = fset[own_f + 4]
    warm_weight = fset[own_f + 5]
    tables = np.zeros((1, 1))
    fi = np.empty(m, np.int64)
    fq = np.empty(m)
    fu = np.empty(m)
    fst = np.empty((m, rows, N))
    frew = np.empty((m, rows if MEMBERS else 1))
    crank = np.empty(m)
    ctogo = np.empty(m)
    ci = np.empty(1, np.int64)
    cq = np.empty(1)
    cu = np.empty(1)
    cst = np.empty((1, rows, N))
    crew = np.empty((1, rows if MEMBERS else 1))
    st = np.empty((1, rows, N))
    ret = np.empty((1, rows if MEMBERS else 1))
    choice = np.empty(m, np.int64)
    probs = np.empty((d, m))
    row = np.empty(m)
    # Plans of an iteration after those remembered; random shooting needs only the one at hand.
    most = 1 if iterations == 1 else memory + (samples + iterations - 1) // iterations
    plan = np.empty((most, d), np.int64)
    gain = np.empty(most)
    pU = np.empty(most)
    weight = np.empty(most)
    order = np.empty(max(elites, memory, 1), np.int64)
    held = np.empty((max(memory, 1), d), np.int64)
    held_gain = np.empty(max(memory, 1))
    held_U = np.empty(max(memory, 1))
    fpath = np.empty((1, m, d), np.int64)
    cursor = np.empty(d + 1, np.int64)
    for w in range(lo, hi):
        # <insert own>
        uc_blank(w, flags, table)
        for r in range(rows):
            for f in range(N):
                st[0, r, f] = states[w, f]
        expansions = 0
        completed = 0
        best_first = -1
        best_gain = 0.0
        best_R = 0.0
        best_U = 0.0
        best_cont = -1
        fault_step = 0
        firsts, fault, fault_action = uc_score(
            w, 0, st, 0, rows, d, risk, 0.0, 0.0, spread, False, continues, p, actions, arow, mean, members, weights,
            wrow, q, u, tables, suffix, work, edge, fi, fq, fu, crank, ctogo, fst, frew, -1,
        )
        scored = firsts
        if fault == 0:
            uc_mark_root(firsts, fi, fq, fu, fst, frew, rows, flags, table, w)
        content = uc_content(w, d, states, mean, q, u)
        stream = uc_absorb(uc_mix(seed), content)
        warm = uc_warm(iset, own_i + 9, warm_rows, keyed, d, content)
        for h in range(d):
            for x in range(m):
                probs[h, x] = 1.0 / m
            if warm >= 0 and iset[warm + h] >= 0:
                for x in range(m):
                    row[x] = 0.0
                row[iset[warm + h]] = 1.0
                for x in range(m):
                    probs[h, x] = (1.0 - warm_weight) * probs[h, x] + warm_weight * uc_blurred(row, x, blur)
        kept = 0  # plans remembered
        for t in range(iterations if fault == 0 and firsts > 0 else 0):
            count = samples // iterations + (1 if t < samples % iterations else 0)
            led = 1 if t == 0 and warm >= 0 else 0
            start = uc_absorb(stream, np.uint64(t + 1))
            size = kept
            for n in range(count):
                leading = n < led
                own = start
                i = n - led
                c = count - led
                if leading or not stratified:
                    own = uc_absorb(start, np.uint64(n + 1))
                    i = 0
                    c = 1
                R = 0.0
                U = 0.0
                G = 0.0
                cont = -1
                alive = True
                for h in range(d):
                    found = 0
                    if h == 0:
                        for x in range(firsts):
                            choice[x] = fi[x]
                        found = firsts
                    else:
                        for x in range(m):
                            a = actions[arow, x]
                            if a == a and uc_allowed(st, 0, rows, a, p):
                                choice[found] = x
                                found += 1
                    if found == 0:
                        alive = False
                        break
                    act = -1
                    if leading:
                        for x in range(found):
                            if choice[x] == iset[warm + h]:
                                act = choice[x]
                    if act < 0:
                        act, i, c = uc_pick(found, choice, probs, h, i, c, uc_uniform(own))
                    own = uc_absorb(own, np.uint64(act + 1))
                    if h == 0:
                        flags[w, act] |= First.GENERATED
                        at = 0
                        while fi[at] != act:
                            at += 1
                        cq[0] = fq[at]
                        cu[0] = fu[at]
                        for r in range(rows):
                            for f in range(N):
                                cst[0, r, f] = fst[at, r, f]
                            if MEMBERS:
                                crew[0, r] = frew[at, r]
                                ret[0, r] = 0.0
                    else:
                        found, fault, fault_action = uc_score(
                            w, h, st, 0, rows, d, risk, 0.0, 0.0, spread, False, continues, *UC_SCORING, act,
                        )
                        scored += 1
                        if fault != 0:
                            fault_step = h
                            break
                    expansions += 1
                    R, U, G, cont, dropped, fault = uc_extend(
                        w, h, d, reach, R, U, G, ret, 0, 0, rows, risk, spread, p, members, weights, wrow, disc, cq, cu,
                        cst, crew, ret, 0, total,
                    )
                    # <insert extended>
                    plan[size, h] = act
                    for r in range(rows):
                        for f in range(N):
                            st[0, r, f] = cst[0, r, f]
                if fault != 0:
                    break
                if not alive:
                    continue
                completed += 1
                value = R - pick * U
                first = plan[size, 0]
                flags[w, first] |= First.RETAINED
                held_value = np.nan
                if table[w, first, Col.SCORE] == table[w, first, Col.SCORE]:
                    held_value = table[w, first, Col.REWARD] - pick * table[w, first, Col.UNCERTAINTY]
                if uc_improves(value, U, plan, size, held_value, table[w, first, Col.UNCERTAINTY], fpath, 0, first, d):
                    table[w, first, Col.SCORE] = R - risk * U
                    table[w, first, Col.REWARD] = R
                    table[w, first, Col.UNCERTAINTY] = U
                    table[w, first, Col.GROSS] = G
                    for y in range(d):
                        fpath[0, first, y] = plan[size, y]
                    # What beats the incumbent beats the best of its own first action too.
                    wins = best_first < 0 or value > best_gain
                    if not wins and value == best_gain:
                        if U != best_U:
                            wins = U < best_U
                        elif first != best_first:
                            wins = first < best_first
                        else:
                            wins = True
                    if wins:
                        best_first = first
                        best_gain = value
                        best_R = R
                        best_U = U
                        best_cont = cont
                if iterations > 1:
                    gain[size] = value
                    pU[size] = U
                    size += 1
            if fault != 0:
                break
            if size > 0 and t + 1 < iterations:
                ranked = uc_ranked(size, max(elites, memory), gain, pU, plan, d, order)
                uc_update(
                    variant, size, ranked, elites, temperature, smoothing, floor, blur, gain, plan, order, d, probs,
                    weight, row,
                )
                kept = min(memory, ranked)
                for x in range(kept):
                    held_gain[x] = gain[order[x]]
                    held_U[x] = pU[order[x]]
                    for y in range(d):
                        held[x, y] = plan[order[x], y]
                for x in range(kept):
                    gain[x] = held_gain[x]
                    pU[x] = held_U[x]
                    for y in range(d):
                        plan[x, y] = held[x, y]
        # <insert ending st=st cursor=cursor>
        uc_report(
            w, status, best_first, expansions, scored, completed, best_cont, fault, fault_step, fault_action,
            best_R - risk * best_U, best_R, best_U, np.nan, fpath[0], max(best_first, 0), out_i, out_f, path_out,
        )
        uc_copy_paths(w, flags, fpath, paths)
