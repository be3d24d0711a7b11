# Kernel text: how a search ends. Whether any path exists, which of two is better, and what is written down. Pasted after
# core.py; same operations in the same order as ../../plain/outcome.py.


@uc_inner
def uc_completable(w, d, st, rows, p, actions, arow, mean, members, walk, cursor, cap):
    """Whether some path of full depth exists from st[0]: 1 yes, 0 no, -1 unknown (cap reached), -2 a fault.

    Depth-first over actions in ascending order with an explicit stack: walk (d + 1, rows, N), cursor (d + 1,).
    """
    for r in range(rows):
        for f in range(N):
            walk[0, r, f] = st[0, r, f]
    budget = cap
    level = 0
    cursor[0] = 0
    while level >= 0:
        if level == d:
            if CONTINUATIONS > 0 or not HAS_END or uc_ended(walk, level, rows, p):
                return 1
            level -= 1
            continue
        x = cursor[level]
        if x >= actions.shape[1]:
            level -= 1
            continue
        cursor[level] += 1
        a = actions[arow, x]
        if a != a:
            continue
        if budget <= 0:
            return -1
        if not uc_allowed(walk, level, rows, a, p):
            continue
        budget -= 1
        for r in range(rows):
            if not uc_moved(walk, level, r, a, w, level, r, mean, members, walk, level + 1, p):
                return -2 - (level * actions.shape[1] + x)
        level += 1
        cursor[level] = 0
    return 0


@uc_lean_call
def uc_smaller(path, x, y, d):
    for t in range(d):
        if path[x, t] != path[y, t]:
            return path[x, t] < path[y, t]
    return False


@uc_lean_call
def uc_improves(score, uncertainty, path, t, held, held_uncertainty, paths, w, first, d):
    """Path t beats what the table holds for its first action (NaN: nothing yet)."""
    if not held == held or score > held:
        return True
    if score < held or uncertainty > held_uncertainty:
        return False
    if uncertainty < held_uncertainty:
        return True
    if paths.shape[0] == 0:
        return False
    for y in range(d):
        if path[t, y] != paths[w, first, y]:
            return path[t, y] < paths[w, first, y]
    return False


@uc_lean_call
def uc_blank(w, flags, table):
    for x in range(flags.shape[1]):
        flags[w, x] = 0
        for f in range(7):
            table[w, x, f] = np.nan


@uc_inner
def uc_lost(w, d, states, st, rows, p, actions, arow, mean, members, walk, cursor, cap):
    """No path was found: status (dead end, exhausted or a fault) and, for a fault, its step and action."""
    for r in range(rows):
        for f in range(N):
            st[0, r, f] = states[w, f]
    found = uc_completable(w, d, st, rows, p, actions, arow, mean, members, walk, cursor, cap)
    if found < -1:
        m = actions.shape[1]
        return Status.TASK_ERROR, (-2 - found) // m, (-2 - found) % m
    return Status.DEAD_END if found == 0 else Status.SEARCH_EXHAUSTED, 0, 0


@uc_lean_call
def uc_report(
    w, status, first, expansions, scored, simulations, cont, fault, step, action, score, reward, uncertainty, upper,
    path, row, out_i, out_f, path_out,
):
    """Write one window's results; a fault or a missing path leaves nothing but its status."""
    if status == Status.TASK_ERROR:
        expansions = 0
        scored = 0
        simulations = 0
        first = -1
    out_i[w, OutI.STATUS] = status
    out_i[w, OutI.FIRST] = first
    out_i[w, OutI.EXPANSIONS] = expansions
    out_i[w, OutI.ACTION_SCORES] = scored
    out_i[w, OutI.SIMULATIONS] = simulations
    out_i[w, OutI.CONTINUATION] = cont if first >= 0 else -1
    out_i[w, OutI.FAULT] = fault
    out_i[w, OutI.FAULT_STEP] = step
    out_i[w, OutI.FAULT_ACTION] = action
    out_f[w, OutF.SCORE] = score if first >= 0 else np.nan
    out_f[w, OutF.REWARD] = reward if first >= 0 else np.nan
    out_f[w, OutF.UNCERTAINTY] = uncertainty if first >= 0 else np.nan
    out_f[w, OutF.UPPER] = upper if first >= 0 else np.nan
    for t in range(path_out.shape[1]):
        path_out[w, t] = path[row, t] if first >= 0 else -1


@uc_lean_call
def uc_copy_paths(w, flags, fpath, paths):
    """The best path of every retained first action, where they are kept."""
    if paths.shape[0] > 0:
        for x in range(flags.shape[1]):
            if flags[w, x] & First.RETAINED != 0:
                for t in range(paths.shape[2]):
                    paths[w, x, t] = fpath[0, x, t]
