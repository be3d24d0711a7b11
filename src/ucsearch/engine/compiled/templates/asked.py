# Kernel text: what a task's rules say. All other text asks these functions alone, so that it may be compiled once for
# all tasks (see ../split.py): they take rows of states, and `p` and `tables` go no further than to them. See core.py for
# what this relies on.


@uc_inline
def uc_allowed(st, i, rows, a, p):
    for r in range(rows):
        if not uc_feasible(uc_load(st, i, r), a, p):
            return False
    return True


@uc_inline
def uc_ended(st, i, rows, p):
    """Whether the last step may lead to node i."""
    for r in range(rows):
        if not uc_end(uc_load(st, i, r), p):
            return False
    return True


@uc_inline
def uc_final(st, i, r, p):
    """The terminal value of a state; 0 where the task has none."""
    return float(uc_terminal(uc_load(st, i, r), p))


@uc_inline
def uc_toward(st, i, r, at, tables, p):
    """What the task's bound says of a state at step `at`."""
    return float(uc_bound(uc_load(st, i, r), at - LATER, uc_table(tables, r), p))


@uc_inline
def uc_moved(st, i, r, a, w, h, j, mean, members, to, c, p):
    """A state one step further, into to[c, r]: whether it is one. In members mode under outcomes of member j."""
    y = uc_member(members, w, j, h) if MEMBERS else uc_outcome(mean, w, h)
    return uc_store(to, c, r, uc_step(uc_load(st, i, r), a, y, p))


@uc_inline
def uc_paid(st, i, r, a, w, h, j, members, p):
    """The reward under outcomes of member j."""
    return float(uc_reward(uc_load(st, i, r), a, uc_member(members, w, j, h), p))


@uc_inline
def uc_valued(st, i, a, w, h, mean, members, cq, c, cst, edge, lane, p):
    """Candidate c: its reward under the mean, its state, and every member's reward in edge[lane]. A fault, or 0."""
    s = uc_load(st, i, 0)
    y = uc_outcome(mean, w, h)
    cq[c] = float(uc_reward(s, a, y, p))
    if SCALAR:
        for j in range(members.shape[1]):
            edge[lane, j] = float(uc_reward(s, a, edge[LANES, j], p))
    else:
        for j in range(members.shape[1]):
            edge[lane, j] = float(uc_reward(s, a, uc_member(members, w, j, h), p))
    if not np.isfinite(cq[c]):
        return Fault.REWARD
    if not uc_store(cst, c, 0, uc_step(s, a, y, p)):
        return Fault.STATE if uc_all_finite(np.nan, edge, lane) else Fault.REWARD
    return Fault.NONE


@uc_inner
def uc_follow(k, st, i, rows, ret, n, d, reach, p, members, w, disc, total):
    """Member returns into total[0] when each follows continuation k from (st, i), and the largest sum of absolute
    rewards that a member met on the way. Second result: a fault, or -1 where the rules forbid it."""
    most = 0.0
    if CONTINUATIONS == 0:
        return most, Fault.CONTINUATION
    for r in range(rows):
        s = uc_load(st, i, r)
        value = ret[n, r]
        own = 0.0
        for h in range(d, reach):
            a = float(uc_continuation(k, s, h, p))
            if not np.isfinite(a):
                return most, Fault.CONTINUATION
            if not uc_feasible(s, a, p):
                return most, -1
            y = uc_member(members, w, r, h)
            reward = float(uc_reward(s, a, y, p))
            if not np.isfinite(reward):
                return most, Fault.REWARD
            value = value + disc[h] * reward
            own += abs(disc[h] * reward)
            new, fine = uc_coerce(uc_step(s, a, y, p))
            if not fine:
                return most, Fault.STATE
            s = new
        if HAS_END and not uc_end(s, p):
            return most, -1
        if HAS_TERMINAL:
            end = float(uc_terminal(s, p))
            if not np.isfinite(end):
                return most, Fault.TERMINAL
            value = value + disc[reach] * end
            own += abs(disc[reach] * end)
        total[0, r] = value
        most = max(most, own)
    return most, 0
