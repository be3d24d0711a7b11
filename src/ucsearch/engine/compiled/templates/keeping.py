# Kernel text: for how many members does a path keep every rule. See core.py for what this relies on and
# ../../../certificate/keeping.py for the specification.


@uc_entry
def uc_panel(states, params, actions, members, weights, paths, out):
    """`states` (W, 1, N) and `paths` (W, d), -1 where there is none, into `out` (W,)."""
    d = paths.shape[1]
    st = np.empty((1, 1, N))
    for w in range(states.shape[0]):
        out[w] = np.nan
        if paths[w, 0] < 0:
            continue
        # <insert own>
        total = 0.0
        every = True
        for j in range(members.shape[1]):
            for f in range(N):
                st[0, 0, f] = states[w, 0, f]
            kept = True
            for h in range(d):
                s = uc_load(st, 0, 0)
                a = actions[arow, paths[w, h]]
                if not uc_feasible(s, a, p):
                    kept = False
                    break
                if h + 1 < d and not uc_store(st, 0, 0, uc_step(s, a, uc_member(members, w, j, h), p)):
                    kept = False
                    break
            if kept:
                total += weights[wrow, j]
            else:
                every = False
        out[w] = 1.0 if every else total
