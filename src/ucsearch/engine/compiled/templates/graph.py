# Kernel text: what a closed-loop search reaches, kept as flat arrays instead of valued. Stands behind closed.py, whose
# forward pass it calls; see ../../graph.py for the arrays. Their sizes are known from the search, so nothing grows here
# but the table of one layer.


@uc_entry
def uc_panel(
    depth, budget, states, params, actions, members, weights, q, u, first, classes, sedge, eact, efirst, emean, euse, tto,
    ends, layers, faults, lo, hi,
):
    """Windows lo..hi: states, edges and transitions of window w begin at first[w]."""
    most_states = 1
    most_moves = 1
    for w in range(lo, hi):
        most_states = max(most_states, first[w + 1, 0] - first[w, 0])
        most_moves = max(most_moves, first[w + 1, 2] - first[w, 2])
    width = max(1, members.shape[1])
    pool = np.empty((most_states + width, 1, N))
    bits = pool.view(np.uint64)
    tags = np.empty(most_states + width, np.int64)
    slots = np.empty(128, np.int32)
    trew = np.empty(most_moves)
    at = np.zeros(7, np.int64)
    for w in range(lo, hi):
        # <insert own>
        s0, e0, t0 = first[w, 0], first[w, 1], first[w, 2]
        s1, e1, t1 = first[w + 1, 0], first[w + 1, 1], first[w + 1, 2]
        own_edge = sedge[s0 + w : s1 + w + 1]
        own_act = eact[e0:e1]
        own_first = efirst[e0:e1]
        own_to = tto[t0:t1]
        for f in range(N):
            pool[0, 0, f] = states[w, f]
        tags[0] = 0
        layers[w, 0] = 0
        at[0], at[1], at[2], at[3] = 1, 0, 0, 0
        faults[w] = 0
        for h in range(depth):
            layers[w, h + 1] = at[0]
            at[4] = layers[w, h]
            at[5] = 0
            slots, at[6] = uc_more_slots(slots, 2 * (at[0] - layers[w, h]), bits, tags, at[0], at[0])
            code = 1
            while code == 1:
                code = uc_reach(
                    w, layers[w, h + 1], h + 1 == depth, budget, p, actions, arow, members, q, u, pool, bits, tags,
                    slots, own_edge, own_act, own_first, trew[: t1 - t0], own_to, at,
                )
                if code == 1:
                    n = np.int64(u[w, 0, tags[at[4]] + 1]) - np.int64(u[w, 0, tags[at[4]]])
                    if at[0] + n <= layers[w, h + 1] + at[6] // 2:  # the sizes given are too small
                        code = 3
                        break
                    slots, at[6] = uc_more_slots(
                        slots, max(at[6], at[0] + n - layers[w, h + 1]), bits, tags, layers[w, h + 1], at[0]
                    )
            if code != 0:
                faults[w] = code
                break
        if faults[w] == 0 and (at[0] != s1 - s0 or at[1] != e1 - e0 or at[2] != t1 - t0):
            faults[w] = 3
        if faults[w] != 0:
            continue
        layers[w, depth + 1] = at[0]
        own_edge[layers[w, depth] : s1 - s0 + 1] = at[1]
        for i in range(s1 - s0):
            classes[s0 + i] = tags[i]
            s = uc_load(pool, i, 0)
            ends[s0 + i] = 0.0
            if i >= layers[w, depth]:
                if HAS_END and not uc_end(s, p):
                    ends[s0 + i] = -np.inf
                elif HAS_TERMINAL:
                    ends[s0 + i] = float(uc_terminal(s, p))
                    if not np.isfinite(ends[s0 + i]):
                        faults[w] = 4
                continue
            low = np.int64(u[w, 0, tags[i]])
            n = np.int64(u[w, 0, tags[i] + 1]) - low
            for e in range(own_edge[i], own_edge[i + 1]):
                total = 0.0
                for k in range(n):
                    total += weights[wrow, low + k] * trew[own_first[e] + k]
                emean[e0 + e] = total
                for j in range(euse.shape[0]):
                    amount = float(uc_use(j, s, actions[arow, own_act[e]], p))
                    if not (amount >= 0.0 and amount < np.inf):
                        faults[w] = 5
                    euse[j, e0 + e] = amount
