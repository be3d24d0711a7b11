# Kernel text: UC-MCTS. See core.py for what this relies on and ../../plain/mcts.py for the specification. Tree nodes
# live in flat arrays sized by the number of simulations; a pending action is scored again when it is expanded.


@uc_inner
def uc_close(node, parent, pending, child, sibling, closed):
    """Close a node when nothing is pending and every child is closed, and so on upwards."""
    while node >= 0:
        if pending[node] != 0:
            return
        at = child[node]
        while at >= 0:
            if closed[at] == 0:
                return
            at = sibling[at]
        closed[node] = 1
        node = parent[node]


@uc_entry
def uc_panel(*UC_PANEL):
    """Windows lo..hi. See ../engine.py for the settings and ../../arrays.py for the columns."""
    # <insert settings>
    # <insert ranking>
    k = iset[ISet.TOP_K]
    simulations = iset[ISet.SIMULATIONS]
    c_uct = fset[FSet.C_UCT]
    # <insert candidates>
    top = np.empty(k, np.int64)
    # A tree cannot outgrow its simulations, nor all paths.
    most = simulations + 1
    nst = np.empty((most, rows, N))
    nret = np.zeros((most, rows if MEMBERS else 1))
    nR = np.empty(most)
    nU = np.empty(most)
    nG = np.empty(most)
    level = np.empty(most, np.int64)
    act = np.empty(most, np.int64)
    ncont = np.empty(most, np.int64)
    parent = np.empty(most, np.int64)
    child = np.empty(most, np.int64)
    newest = np.empty(most, np.int64)
    sibling = np.empty(most, np.int64)
    pending = np.empty(most, np.int64)
    queue = np.empty((most, k), np.int64)
    visits = np.empty(most, np.int64)
    fails = np.empty(most, np.int64)
    sums = np.empty(most)
    closed = np.empty(most, np.int64)
    rst = np.empty((1, rows, N))
    rret = np.zeros((1, rows if MEMBERS else 1))
    prefix = np.empty((1, d), np.int64)
    fpath = np.empty((1, m, d), np.int64)
    bpath = np.empty((1, d), np.int64)
    spot = np.empty(d + 1, np.int64)
    for w in range(lo, hi):
        # <insert own>
        uc_blank(w, flags, table)
        # <insert ready>
        # <insert root n=n at=0>
        level[0] = 0
        parent[0] = -1
        child[0] = -1
        newest[0] = -1
        sibling[0] = -1
        pending[0] = -1
        visits[0] = 0
        fails[0] = 0
        sums[0] = 0.0
        closed[0] = 0
        nodes = 1
        done = 0
        # <insert counters>
        low = np.inf
        high = -np.inf
        best_first = -1
        best_S = 0.0
        best_R = 0.0
        best_U = 0.0
        best_cont = -1
        for _ in range(simulations):
            if closed[0] != 0:
                break
            done += 1
            node = 0
            while True:
                if pending[node] < 0:
                    h = level[node]
                    found, fault, fault_action = uc_score(
                        w, h, nst, node, rows, d, risk, prune, bonus, spread, use_bound, continues, *UC_SCORING, -1,
                    )
                    # <insert opened at=h>
                    chosen = uc_top(found, k, cq, cu, crank, cst, crew, rows, top)
                    pending[node] = chosen
                    for y in range(chosen):
                        queue[node, chosen - 1 - y] = ci[top[y]]
                if pending[node] != 0 or child[node] < 0:
                    break
                best_value = -np.inf
                chosen = node
                span = high - low
                at = child[node]
                while at >= 0:
                    if closed[at] == 0:
                        average = 0.5
                        if span > 0.0:
                            average = ((sums[at] + fails[at] * low) / visits[at] - low) / span
                        upper = average + c_uct * math.sqrt(math.log(visits[node] + 1.0) / visits[at])
                        if upper > best_value:
                            best_value = upper
                            chosen = at
                    at = sibling[at]
                node = chosen
            if fault != 0:
                break
            if pending[node] == 0:
                closed[node] = 1
                uc_close(parent[node], parent, pending, child, sibling, closed)
                continue
            pending[node] -= 1
            x = queue[node, pending[node]]
            h = level[node]
            found, fault, fault_action = uc_score(
                w, h, nst, node, rows, d, risk, prune, bonus, spread, use_bound, continues, *UC_SCORING, x,
            )
            expansions += 1
            if h == 0:
                flags[w, x] |= First.GENERATED
            new = nodes
            reward, uncertainty, gross, cont, dropped, fault = uc_extend(
                w, h, d, reach, nR[node], nU[node], nG[node], nret, node, 0, rows, risk, spread, p, members, weights,
                wrow, disc, cq, cu, cst, crew, nret, new, total,
            )
            if fault != 0:
                fault_step = h
                fault_action = x
                break
            leaf = h + 1 == d
            if dropped or (not leaf and not uc_alive(cst, 0, rows, actions, arow, p)):
                uc_close(node, parent, pending, child, sibling, closed)
                continue
            nodes += 1
            for r in range(rows):
                for f in range(N):
                    nst[new, r, f] = cst[0, r, f]
                    rst[0, r, f] = cst[0, r, f]
                if MEMBERS:
                    rret[0, r] = nret[new, r]
            nR[new] = reward
            nU[new] = uncertainty
            nG[new] = gross
            level[new] = h + 1
            act[new] = x
            ncont[new] = cont
            parent[new] = node
            child[new] = -1
            newest[new] = -1
            sibling[new] = -1
            pending[new] = -1
            visits[new] = 0
            fails[new] = 0
            sums[new] = 0.0
            closed[new] = 1 if leaf else 0
            if child[node] < 0:
                child[node] = new
            else:
                sibling[newest[node]] = new
            newest[node] = new
            at = new
            while parent[at] >= 0:
                prefix[0, level[at] - 1] = act[at]
                at = parent[at]
            # Greedy rollout in q - risk * u; ties: lower u, smaller action.
            failed = False
            for t in range(h + 1, d):
                found, fault, fault_action = uc_score(
                    w, t, rst, 0, rows, d, risk, prune, bonus, spread, use_bound, continues, *UC_SCORING, -1,
                )
                scored += found
                if fault != 0:
                    fault_step = t
                    break
                pick = -1
                pick_g = 0.0
                for c in range(found):
                    g = cq[c] - risk * cu[c]
                    if pick < 0 or g > pick_g or (g == pick_g and cu[c] < cu[pick]):
                        pick = c
                        pick_g = g
                if pick < 0:
                    failed = True
                    break
                expansions += 1
                reward, uncertainty, gross, cont, dropped, fault = uc_extend(
                    w, t, d, reach, reward, uncertainty, gross, rret, 0, pick, rows, risk, spread, p, members, weights,
                    wrow, disc, cq, cu, cst, crew, rret, 0, total,
                )
                if fault != 0:
                    fault_step = t
                    fault_action = ci[pick]
                    break
                if dropped:
                    failed = True
                    break
                prefix[0, t] = ci[pick]
                for r in range(rows):
                    for f in range(N):
                        rst[0, r, f] = cst[pick, r, f]
            if fault != 0:
                break
            score = reward - risk * uncertainty
            if not failed:
                first = prefix[0, 0]
                flags[w, first] |= First.RETAINED
                # <insert better first=first R=reward U=uncertainty G=gross>
                # <insert wins first=first R=reward U=uncertainty>
                if wins:
                    best_cont = cont
                low = min(low, score)
                high = max(high, score)
            at = new
            while at >= 0:
                visits[at] += 1
                if failed:
                    fails[at] += 1
                else:
                    sums[at] += score
                at = parent[at]
            if leaf:
                uc_close(node, parent, pending, child, sibling, closed)
        # <insert ending st=rst cursor=spot>
        uc_report(
            w, status, best_first, expansions, scored, done, best_cont, fault, fault_step, fault_action, best_S,
            best_R, best_U, np.nan, bpath, 0, out_i, out_f, path_out,
        )
        uc_copy_paths(w, flags, fpath, paths)
