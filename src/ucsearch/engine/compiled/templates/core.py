# Kernel text: scoring and adding up. Not imported: it is pasted below a generated prelude (see ../codegen.py), which
# defines the user's functions, `uc_spread` (from ucsearch/spreads.py), `uc_load`, `uc_store`, `uc_coerce`, `uc_params`,
# `uc_outcome`, `uc_member`, `uc_tables`, `uc_table` and the constants MEMBERS, SCORES, N, BOUNDED, HAS_TERMINAL,
# HAS_END, CONTINUATIONS, LATER, SCALAR. Names of numbers (Fault.STATE) and groups of arguments (*UC_SCORING) are spelled out by
# ../spelled.py. Same operations in the same order as ../../plain/window.py, so that both engines give the same bytes.
# Nothing here allocates per node.


@uc_lean
def uc_squares(values, row, weights, wrow, first, shift, below):
    """Weighted squares of values[row, :] around first + shift; `below`: of those below it."""
    total = 0.0
    for j in range(values.shape[1]):
        off = (values[row, j] - first) - shift
        if not below or off < 0.0:
            total += weights[wrow, j] * off * off
    return total


@uc_lean
def uc_all_finite(mean, values, row):
    """Whether values[row, :] are, given their weighted mean: that is finite only if all of them are."""
    if np.isfinite(mean):
        return True
    for j in range(values.shape[1]):
        if not np.isfinite(values[row, j]):
            return False
    return True


@uc_lean_call
def uc_tail(values, row, n, weights, wrow, at, tail):
    """Mean of the worst `tail` share of values[row, 0:n] under weights[wrow, at:at + n]."""
    high = values[row, 0]
    for k in range(1, n):
        if values[row, k] > high:
            high = values[row, k]
    low = -np.inf
    while True:
        pivot = high
        for k in range(n):
            if values[row, k] > low and values[row, k] < high:
                pivot = values[row, k]
                break
        if not pivot < high:
            break
        mass = 0.0
        for k in range(n):
            if values[row, k] <= pivot:
                mass += weights[wrow, at + k]
        if mass >= tail:
            high = pivot
        else:
            low = pivot
    first = values[row, 0]
    total = 0.0
    below = 0.0
    for k in range(n):
        if values[row, k] < high:
            total += weights[wrow, at + k] * (values[row, k] - first)
            below += weights[wrow, at + k]
    return first + (total + (tail - below) * (high - first)) / tail


@uc_inline
def uc_alive(st, i, rows, actions, arow, p):
    for x in range(actions.shape[1]):
        a = actions[arow, x]
        if a == a and uc_allowed(st, i, rows, a, p):
            return True
    return False


@uc_lean
def uc_same(cq, cu, cst, crew, x, y, rows):
    """Two candidates with the same effect."""
    if cq[x] != cq[y] or cu[x] != cu[y]:
        return False
    for r in range(rows):
        if MEMBERS and crew[x, r] != crew[y, r]:
            return False
        for f in range(N - 1, -1, -1):  # what an action changes tends to lie at the end
            if cst[x, r, f] != cst[y, r, f]:
                return False
    return True


@uc_inner
def uc_ready(
    w, d, reach, risk, spread, use_bound, p, mean, members, weights, wrow, q, u, actions, arow, suffix, own_mean,
    own_members, own_room,
):
    """Once per window: the task's tables (or, for scores, the suffix bound)."""
    if SCORES:
        suffix[d] = 0.0
        for back in range(d):
            h = d - 1 - back
            best = -np.inf
            for x in range(actions.shape[1]):
                if actions[arow, x] == actions[arow, x]:
                    best = max(best, q[w, h, x] - risk * u[w, h, x])
            suffix[h] = suffix[h + 1] + best
    return uc_tables(*UC_TABLED)


@uc_inline
def uc_togo(st, i, rows, at, d, continues, tables, suffix, p, weights, wrow, work):
    """Optimistic value to go from step `at`; at the end it is the terminal value itself. Second result: a fault."""
    if SCORES:
        return suffix[at], 0
    ends = at == d and not continues
    if ends and not HAS_TERMINAL:
        return 0.0, 0
    for r in range(rows):
        if ends:
            value = uc_final(st, i, r, p)
            if not np.isfinite(value):
                return 0.0, Fault.TERMINAL
        else:
            value = uc_toward(st, i, r, at, tables, p)
            if value != value:
                return 0.0, Fault.BOUND
        work[0, r] = value
    if MEMBERS:
        value, _ = uc_spread(work, 0, weights, wrow, (0, 0.0))
        return value, 0
    return work[0, 0], 0


@uc_inline
def uc_score(
    w, h, st, i, rows, d, risk, prune, bonus, spread, use_bound, continues, *UC_SCORING, only,
):
    """Score every feasible action of node i (or `only` one) into the candidate arrays: count, fault kind, action.

    Of a few candidates first what the rules say of each, then their spreads at once: sums in a given order wait for one
    another, those of different candidates do not. A fault ends the count at its candidate; one that is found later but
    lies further ahead takes its place, as if candidates had been done one by one."""
    count = 0
    fault = 0
    fault_action = 0
    x = 0
    if not SCORES and not MEMBERS and SCALAR:
        # Side by side, so that rules are asked about several at once: in a trace they lie as far apart as it has steps.
        for j in range(members.shape[1]):
            edge[LANES, j] = members[w, j, h, 0]
    while x < actions.shape[1] and fault == 0:
        begin = count
        while x < actions.shape[1] and count - begin < (1 if MEMBERS else LANES):
            a = actions[arow, x]
            if (only >= 0 and x != only) or a != a or not uc_allowed(st, i, rows, a, p):
                x += 1
                continue
            if SCORES:
                cq[count] = q[w, h, x]
                cu[count] = u[w, h, x]
                if not uc_moved(st, i, 0, a, w, h, 0, mean, members, cst, count, p):
                    fault = Fault.STATE
            elif MEMBERS:
                for r in range(rows):
                    crew[count, r] = uc_paid(st, i, r, a, w, h, r, members, p)
                cq[count], cu[count] = uc_spread(crew, count, weights, wrow, spread)
                if not uc_all_finite(cq[count], crew, count):
                    fault = Fault.REWARD
                for r in range(rows if fault == 0 else 0):
                    if not uc_moved(st, i, r, a, w, h, r, mean, members, cst, count, p):
                        fault = Fault.STATE
                        break
            else:
                fault = uc_valued(st, i, a, w, h, mean, members, cq, count, cst, edge, count - begin, p)
            if fault != 0:
                fault_action = x
                break
            ci[count] = x
            count += 1
            x += 1
        if not SCORES and not MEMBERS and count > begin:
            uc_spreads(edge, begin, count, weights, wrow, spread, crank, cu)
            for c in range(begin, count):
                if not uc_all_finite(crank[c], edge, c - begin):
                    count = c
                    fault = Fault.REWARD
                    fault_action = ci[c]
                    break
    for c in range(count):
        if not (np.isfinite(cq[c]) and np.isfinite(cu[c])):
            return c, Fault.VALUE, ci[c]
        rank = cq[c] - prune * cu[c] + bonus * cu[c]
        togo = 0.0
        if use_bound:
            togo, code = uc_togo(cst, c, rows, h + 1, d, continues, tables, suffix, p, weights, wrow, work)
            if code != 0:
                return c, code, ci[c]
            rank = rank + togo
        crank[c] = rank
        ctogo[c] = togo
    return count, fault, fault_action


@uc_inline
def uc_extend(
    w, h, d, reach, R, U, G, ret, i, c, rows, risk, spread, p, members, weights, wrow, disc, cq, cu, cst, crew, chret,
    n, total,
):
    """The path of node i one candidate longer: R, U, gross, continuation, dropped, fault. Member returns go to
    chret[n]. Gross is the sum of the absolute rewards (members: of the largest member's at every step)."""
    factor = disc[h]
    last = h + 1 == d
    if HAS_END and last and CONTINUATIONS == 0 and not uc_ended(cst, c, rows, p):
        return 0.0, 0.0, 0.0, -1, True, 0
    if not MEMBERS:
        reward = R + factor * cq[c]
        uncertainty = U + factor * cu[c]
        gross = G + abs(factor * cq[c])
        if last and HAS_TERMINAL:
            end = uc_final(cst, c, 0, p)
            if not np.isfinite(end):
                return 0.0, 0.0, 0.0, -1, False, Fault.TERMINAL
            reward = reward + disc[d] * end
            gross = gross + abs(disc[d] * end)
        if not np.isfinite(reward - risk * uncertainty):  # nor is it where one of the two is not
            return 0.0, 0.0, 0.0, -1, False, Fault.VALUE
        return reward, uncertainty, gross, -1, False, 0
    most = 0.0
    for r in range(rows):
        chret[n, r] = ret[i, r] + factor * crew[c, r]
        most = max(most, abs(factor * crew[c, r]))
    gross = G + most
    if last and CONTINUATIONS > 0:
        best = -1
        best_reward = 0.0
        best_uncertainty = 0.0
        best_score = 0.0
        best_gross = 0.0
        for k in range(CONTINUATIONS):
            most, code = uc_follow(k, cst, c, rows, chret, n, d, reach, p, members, w, disc, total)
            if code < 0:
                continue
            if code != Fault.NONE:
                return 0.0, 0.0, 0.0, -1, False, code
            reward, uncertainty = uc_spread(total, 0, weights, wrow, spread)
            score = reward - risk * uncertainty
            if not (np.isfinite(reward) and np.isfinite(uncertainty) and np.isfinite(score)):
                return 0.0, 0.0, 0.0, -1, False, Fault.VALUE
            if best < 0 or score > best_score or (score == best_score and uncertainty < best_uncertainty):
                best = k
                best_reward = reward
                best_uncertainty = uncertainty
                best_score = score
                best_gross = gross + most
        return best_reward, best_uncertainty, best_gross, best, best < 0, 0
    if last and HAS_TERMINAL:
        most = 0.0
        for r in range(rows):
            end = uc_final(cst, c, r, p)
            if not np.isfinite(end):
                return 0.0, 0.0, 0.0, -1, False, Fault.TERMINAL
            chret[n, r] = chret[n, r] + disc[d] * end
            most = max(most, abs(disc[d] * end))
        gross = gross + most
    reward, uncertainty = uc_spread(chret, n, weights, wrow, spread)
    if not (np.isfinite(reward) and np.isfinite(uncertainty) and np.isfinite(reward - risk * uncertainty)):
        return 0.0, 0.0, 0.0, -1, False, Fault.VALUE
    return reward, uncertainty, gross, -1, False, 0


@uc_lean_call
def uc_mark_root(count, ci, cq, cu, cst, crew, rows, flags, table, w):
    """Mark what is feasible at the root, with its first step's q and u, and what a smaller action stands for."""
    for x in range(count):
        flags[w, ci[x]] |= First.FEASIBLE
        table[w, ci[x], Col.STEP_REWARD] = cq[x]
        table[w, ci[x], Col.STEP_UNCERTAINTY] = cu[x]
        for y in range(x):
            if uc_same(cq, cu, cst, crew, x, y, rows):
                flags[w, ci[x]] |= First.DUPLICATE
                break


@uc_lean
def uc_top(count, k, cq, cu, crank, cst, crew, rows, top):
    """The best k candidates of different effect into `top`: higher rank, lower u, smaller action. Returns how many."""
    chosen = 0
    for x in range(count):
        at = chosen
        while at > 0 and (
            crank[x] > crank[top[at - 1]] or (crank[x] == crank[top[at - 1]] and cu[x] < cu[top[at - 1]])
        ):
            at -= 1
        if at >= k:
            continue
        same = False
        for y in range(chosen):
            if uc_same(cq, cu, cst, crew, x, top[y], rows):
                same = True
                break
        if same:
            continue
        if chosen < k:
            chosen += 1
        for y in range(chosen - 1, at, -1):
            top[y] = top[y - 1]
        top[at] = x
    return chosen
