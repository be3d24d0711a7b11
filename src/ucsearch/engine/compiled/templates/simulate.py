# Kernel text: the simulator. One step of many windows with realised outcomes, and the mask of what is allowed next.
# See core.py for what this relies on and ../../simulate.py for the specification.


@uc_entry
def uc_panel(states, params, actions, chosen, outcomes, following, rewards, faults, mask, move):
    """`move`: take the chosen actions (index -1: stay) and write states, rewards, faults. Then write the mask of
    `following` (or of `states` without a move)."""
    for w in range(states.shape[0]):
        p = uc_params(params, w if params.shape[0] > 1 else 0)
        arow = w if actions.shape[0] > 1 else 0
        if move:
            faults[w] = 0
            rewards[w] = 0.0
            for f in range(N):
                following[w, 0, f] = states[w, 0, f]
            x = chosen[w]
            if x >= 0:
                s = uc_load(states, w, 0)
                a = actions[arow, x]
                y = uc_outcome(outcomes, w, 0)
                value = float(uc_reward(s, a, y, p))
                rewards[w] = value
                if not np.isfinite(value):
                    faults[w] = 1
                elif not uc_store(following, w, 0, uc_step(s, a, y, p)):
                    faults[w] = 2
        for x in range(actions.shape[1]):
            a = actions[arow, x]
            if move:
                mask[w, x] = a == a and uc_feasible(uc_load(following, w, 0), a, p)
            else:
                mask[w, x] = a == a and uc_feasible(uc_load(states, w, 0), a, p)
