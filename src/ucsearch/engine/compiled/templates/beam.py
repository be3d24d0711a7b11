# Kernel text: UC-Beam, UC-Pareto Beam and Certified Retained Pareto Beam. See core.py for what this relies on and
# ../../plain/beam.py for the specification.


@uc_lean
def uc_before(x, y, place, key, U, parent, act, path, h):
    """Child x ranks before child y: place, higher key, lower U, lexicographically smaller path."""
    if place[x] != place[y]:
        return place[x] < place[y]
    if key[x] != key[y]:
        return key[x] > key[y]
    if U[x] != U[y]:
        return U[x] < U[y]
    a = parent[x]
    b = parent[y]
    if a != b:
        for t in range(h):
            if path[a, t] != path[b, t]:
                return path[a, t] < path[b, t]
    return act[x] < act[y]


@uc_lean_call
def uc_sink(heap, size, at, place, key, U, parent, act, path, h):
    """Restore the heap whose root ranks last."""
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and uc_before(heap[child], heap[child + 1], place, key, U, parent, act, path, h):
            child += 1
        if not uc_before(heap[at], heap[child], place, key, U, parent, act, path, h):
            return
        heap[at], heap[child] = heap[child], heap[at]
        at = child


@uc_lean
def uc_select(heap, count, width, place, key, U, parent, act, path, h):
    """heap[:kept] becomes the best `width` of `count` children in rank order; heap[kept:count] the others."""
    for x in range(count):
        heap[x] = x
    kept = min(count, width)
    if kept <= 32:
        for x in range(1, count):
            item = heap[x]
            at = x if x < kept else kept
            if x >= kept and not uc_before(item, heap[kept - 1], place, key, U, parent, act, path, h):
                continue
            if x >= kept:
                heap[x] = heap[kept - 1]
                at = kept - 1
            while at > 0 and uc_before(item, heap[at - 1], place, key, U, parent, act, path, h):
                heap[at] = heap[at - 1]
                at -= 1
            heap[at] = item
        return kept
    for x in range(kept // 2 - 1, -1, -1):
        uc_sink(heap, kept, x, place, key, U, parent, act, path, h)
    for x in range(kept, count):
        if uc_before(heap[x], heap[0], place, key, U, parent, act, path, h):
            heap[x], heap[0] = heap[0], heap[x]
            uc_sink(heap, kept, 0, place, key, U, parent, act, path, h)
    for size in range(kept - 1, 0, -1):
        heap[0], heap[size] = heap[size], heap[0]
        uc_sink(heap, size, 0, place, key, U, parent, act, path, h)
    return kept


@uc_lean_call
def uc_mark_front(count, R, togo, U, order, place):
    """place = 1 for children that no other beats in optimistic reward and uncertainty (one of them strictly)."""
    for x in range(count):
        order[x] = x
    # Heap sort by reward descending, then uncertainty ascending; ties need no order.
    for start in range(count // 2 - 1, -1, -1):
        uc_sink_front(order, count, start, R, togo, U)
    for size in range(count - 1, 0, -1):
        order[0], order[size] = order[size], order[0]
        uc_sink_front(order, size, 0, R, togo, U)
    last = -1
    for t in range(count):
        x = order[t]
        if last < 0 or U[x] < U[last] or (U[x] == U[last] and R[x] + togo[x] == R[last] + togo[last]):
            place[x] = 1
            last = x


@uc_lean_call
def uc_sink_front(order, size, at, R, togo, U):
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and uc_front_before(order[child], order[child + 1], R, togo, U):
            child += 1
        if not uc_front_before(order[at], order[child], R, togo, U):
            return
        order[at], order[child] = order[child], order[at]
        at = child


@uc_lean_call
def uc_front_before(x, y, R, togo, U):
    a = R[x] + togo[x]
    b = R[y] + togo[y]
    if a != b:
        return a > b
    return U[x] < U[y]


@uc_entry
def uc_panel(*UC_PANEL):
    """Windows lo..hi. See ../engine.py for the settings and ../../arrays.py for the columns."""
    # <insert settings>
    # <insert ranking>
    width = iset[ISet.WIDTH]
    k = iset[ISet.TOP_K]
    keep = iset[ISet.KEEP]
    most = width * k
    # <insert candidates>
    top = np.empty(k, np.int64)
    st = np.empty((width, rows, N))
    ret = np.empty((width, rows if MEMBERS else 1))
    R = np.empty(width)
    U = np.empty(width)
    G = np.empty(width)
    path = np.empty((width, d), np.int64)
    old_path = np.empty((width, d), np.int64)
    chst = np.empty((most, rows, N))
    chret = np.empty((most, rows if MEMBERS else 1))
    chR = np.empty(most)
    chU = np.empty(most)
    chG = np.empty(most)
    chkey = np.empty(most)
    chtogo = np.empty(most)
    chparent = np.empty(most, np.int64)
    chact = np.empty(most, np.int64)
    chcont = np.empty(most, np.int64)
    place = np.empty(most, np.int64)
    heap = np.empty(most, np.int64)
    seen = np.empty(m, np.int64)
    cursor = np.empty(d + 1, np.int64)
    for w in range(lo, hi):
        # <insert own>
        uc_blank(w, flags, table)
        # <insert ready>
        # <insert root n= at=0>
        size = 1
        # <insert counters>
        for h in range(d):
            last = h + 1 == d
            count = 0
            for i in range(size):
                found, fault, fault_action = uc_score(
                    w, h, st, i, rows, d, risk, prune, bonus, spread, use_bound, continues, *UC_SCORING, -1,
                )
                scored += found
                if fault != 0:
                    scored += 1
                    break
                if h == 0:
                    uc_mark_root(found, ci, cq, cu, cst, crew, rows, flags, table, w)
                chosen = uc_top(found, k, cq, cu, crank, cst, crew, rows, top)
                if use_bound and chosen < found:
                    for x in range(found):
                        taken = h == 0 and flags[w, ci[x]] & First.DUPLICATE != 0
                        for y in range(chosen):
                            if x == top[y] or uc_same(cq, cu, cst, crew, x, top[y], rows):
                                taken = True
                                break
                        if not taken:
                            if MEMBERS:
                                limit = (R[i] + disc[h] * cq[x]) + ctogo[x]
                            else:
                                limit = ((R[i] + disc[h] * cq[x]) - risk * (U[i] + disc[h] * cu[x])) + ctogo[x]
                            first = path[i, 0] if h > 0 else ci[x]
                            if not table[w, first, Col.UPPER] >= limit:
                                table[w, first, Col.UPPER] = limit
                for y in range(chosen):
                    c = top[y]
                    expansions += 1
                    if h == 0:
                        flags[w, ci[c]] |= First.GENERATED
                    reward, uncertainty, gross, cont, dropped, fault = uc_extend(
                        w, h, d, reach, R[i], U[i], G[i], ret, i, c, rows, risk, spread, p, members, weights, wrow, disc,
                        cq, cu, cst, crew, chret, count, total,
                    )
                    if fault != 0:
                        fault_action = ci[c]
                        break
                    if dropped or (not last and not uc_alive(cst, c, rows, actions, arow, p)):
                        continue
                    togo = 0.0 if last else ctogo[c]
                    for r in range(rows):
                        for f in range(N):
                            chst[count, r, f] = cst[c, r, f]
                    chR[count] = reward
                    chU[count] = uncertainty
                    chG[count] = gross
                    chtogo[count] = togo
                    chkey[count] = (reward - risk * uncertainty) + togo
                    chparent[count] = i
                    chact[count] = ci[c]
                    chcont[count] = cont
                    place[count] = 2
                    count += 1
                if fault != 0:
                    break
            if fault != 0:
                fault_step = h
                break
            if keep != Keep.SCORE:
                uc_mark_front(count, chR, chtogo, chU, heap, place)
            if keep == Keep.CERTIFIED:
                for x in range(m):
                    seen[x] = -1
                for x in range(count):
                    first = path[chparent[x], 0] if h > 0 else chact[x]
                    held = seen[first]
                    if held < 0:
                        seen[first] = x
                    else:
                        # Compare as equals in place: the reserved child is the best of its first action.
                        px = place[x]
                        ph = place[held]
                        place[x] = 0
                        place[held] = 0
                        if uc_before(x, held, place, chkey, chU, chparent, chact, path, h):
                            seen[first] = x
                        place[x] = px
                        place[held] = ph
                for x in range(m):
                    if seen[x] >= 0:
                        place[seen[x]] = 0
            kept = uc_select(heap, count, width, place, chkey, chU, chparent, chact, path, h)
            if use_bound:
                for t in range(kept, count):
                    x = heap[t]
                    first = path[chparent[x], 0] if h > 0 else chact[x]
                    limit = chkey[x]
                    if MEMBERS and not last:
                        limit = chR[x] + chtogo[x]
                    if not table[w, first, Col.UPPER] >= limit:
                        table[w, first, Col.UPPER] = limit
            for t in range(size):
                for y in range(h):
                    old_path[t, y] = path[t, y]
            for t in range(kept):
                x = heap[t]
                for r in range(rows):
                    for f in range(N):
                        st[t, r, f] = chst[x, r, f]
                    if MEMBERS:
                        ret[t, r] = chret[x, r]
                R[t] = chR[x]
                U[t] = chU[x]
                G[t] = chG[x]
                for y in range(h):
                    path[t, y] = old_path[chparent[x], y]
                path[t, h] = chact[x]
            size = kept
            if size == 0:
                break
        best = -1
        best_first = -1
        if fault == 0:
            for t in range(size):
                # At full depth the layer is in rank order within a place, so compare all.
                first = path[t, 0]
                flags[w, first] |= First.RETAINED
                score = R[t] - risk * U[t]
                if uc_improves(score, U[t], path, t, table[w, first, Col.SCORE], table[w, first, Col.UNCERTAINTY], paths, w, first, d):
                    table[w, first, Col.SCORE] = score
                    table[w, first, Col.REWARD] = R[t]
                    table[w, first, Col.UNCERTAINTY] = U[t]
                    table[w, first, Col.GROSS] = G[t]
                    if paths.shape[0] > 0:
                        for y in range(d):
                            paths[w, first, y] = path[t, y]
                if best < 0:
                    best = t
                else:
                    kept_score = R[best] - risk * U[best]
                    if score > kept_score or (
                        score == kept_score
                        and (U[t] < U[best] or (U[t] == U[best] and uc_smaller(path, t, best, d)))
                    ):
                        best = t
        status = Status.FOUND
        upper = np.nan
        cont = -1
        if fault != 0:
            status = Status.TASK_ERROR
        elif best < 0:
            status, fault_step, fault_action = uc_lost(
                w, d, states, chst, rows, p, actions, arow, mean, members, walk, cursor, cap
            )
            if status == Status.TASK_ERROR:
                fault = Fault.STATE
        else:
            best_first = path[best, 0]
            cont = chcont[heap[best]]
            if use_bound:
                upper = R[best] - risk * U[best]
                for x in range(m):
                    if table[w, x, Col.SCORE] == table[w, x, Col.SCORE] and not table[w, x, Col.UPPER] >= table[w, x, Col.SCORE]:
                        table[w, x, Col.UPPER] = table[w, x, Col.SCORE]
                    if table[w, x, Col.UPPER] == table[w, x, Col.UPPER]:
                        upper = max(upper, table[w, x, Col.UPPER])
                    elif flags[w, x] & First.GENERATED != 0:
                        flags[w, x] |= First.DEAD
                if upper <= R[best] - risk * U[best]:
                    status = Status.PROVED
        if status == Status.TASK_ERROR:
            uc_blank(w, flags, table)
        row = max(best, 0)
        uc_report(
            w, status, best_first, expansions, scored, 0, cont, fault, fault_step, fault_action,
            R[row] - risk * U[row], R[row], U[row], upper, path, row, out_i, out_f, path_out,
        )
