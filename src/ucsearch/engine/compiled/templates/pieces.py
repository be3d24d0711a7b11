# Kernel text that stands in several entries, inserted by `# <insert name>` (see ../spelled.py). UC_first_ is what the
# insertion says `first` is.

# <piece settings>
d = iset[ISet.DEPTH]
reach = iset[ISet.REACH]
spread = (iset[ISet.SPREAD], fset[FSet.TAIL])
cap = iset[ISet.CAP]
risk = fset[FSet.RISK]
m = actions.shape[1]
J = members.shape[1]
rows = J if MEMBERS else 1
continues = MEMBERS and CONTINUATIONS > 0
suffix = np.empty(d + 1)
work = np.empty((1, rows))
edge = np.empty((1 if MEMBERS else LANES + 1, max(J, 1)))
total = np.empty((1, rows))
walk = np.empty((d + 1, rows, N))
# </piece>

# What a beam, a tree and an exact search have beyond that: how candidates are ranked, and the forecast as a bound's
# tables are made of it.
# <piece ranking>
use_bound = iset[ISet.USE_BOUND] * BOUNDED != 0
prune = fset[FSet.PRUNE_RISK]
bonus = fset[FSet.INFO_BONUS]
tabled = J if use_bound and not MEMBERS else 1
told = max(reach - LATER, 1)
own_mean = np.empty(told)
own_members = np.empty((tabled, told))
own_room = np.zeros(tabled * ((told + 3) // 4 * 4) + ROOM + ROOM_STEP * told + (ROOM_EACH + ROOM_BOTH * told) * tabled)
# </piece>

# The candidates of one node, scored.
# <piece candidates>
ci = np.empty(m, np.int64)
cq = np.empty(m)
cu = np.empty(m)
crank = np.empty(m)
ctogo = np.empty(m)
cst = np.empty((m, rows, N))
crew = np.empty((m, rows if MEMBERS else 1))
# </piece>

# Window w: its parameters, and which rows of shared arrays are its own.
# <piece own>
p = uc_params(params, w if params.shape[0] > 1 else 0)
arow = w if actions.shape[0] > 1 else 0
wrow = w if weights.shape[0] > 1 else 0
# </piece>

# <piece ready>
tables = uc_ready(
    w, d, reach, risk, spread, use_bound, p, mean, members, weights, wrow, q, u, actions, arow, suffix, own_mean,
    own_members, own_room,
)
# </piece>

# The empty path at node UC_at_ of a tree.
# <piece root>
for r in range(rows):
    for f in range(N):
        UC_n_st[UC_at_, r, f] = states[w, f]
    if MEMBERS:
        UC_n_ret[UC_at_, r] = 0.0
UC_n_R[UC_at_] = 0.0
UC_n_U[UC_at_] = 0.0
UC_n_G[UC_at_] = 0.0
# </piece>

# Room for distinct states, see hashing.py.
# <piece room>
pool = np.empty((UC_rows_, N))
tags = np.empty(UC_rows_, np.int64)
value = np.empty(UC_rows_)
second = np.empty(UC_rows_)
succ = np.empty((UC_rows_, 2), np.int64)
slots = np.empty(UC_slots_, np.int64)
# </piece>

# <piece counters>
expansions = 0
scored = 0
fault = Fault.NONE
fault_step = 0
fault_action = 0
# </piece>

# After the actions of a node at level UC_at_ were scored.
# <piece opened>
scored += found
if fault != 0:
    fault_step = UC_at_
    break
if UC_at_ == 0:
    uc_mark_root(found, ci, cq, cu, cst, crew, rows, flags, table, w)
# </piece>

# After action `act` was added at step h to a path that is walked only once.
# <piece extended>
if fault != 0:
    fault_step = h
    fault_action = act
    break
if dropped:
    alive = False
    break
# </piece>

# A path of full depth in prefix[0]: whether it is the best known of its first action.
# <piece better>
better = uc_improves(
    score, UC_U_, prefix, 0, table[w, UC_first_, Col.SCORE], table[w, UC_first_, Col.UNCERTAINTY], fpath, 0, UC_first_, d
)
if better:
    table[w, UC_first_, Col.SCORE] = score
    table[w, UC_first_, Col.REWARD] = UC_R_
    table[w, UC_first_, Col.UNCERTAINTY] = UC_U_
    table[w, UC_first_, Col.GROSS] = UC_G_
    for t in range(d):
        fpath[0, UC_first_, t] = prefix[0, t]
# </piece>

# The same path: whether it is the best known of all; ties go to the lower uncertainty, then to the smaller path.
# <piece wins>
wins = best_first < 0 or score > best_S
if not wins and score == best_S:
    if UC_U_ != best_U:
        wins = UC_U_ < best_U
    else:
        for t in range(d):
            if prefix[0, t] != bpath[0, t]:
                wins = prefix[0, t] < bpath[0, t]
                break
if wins:
    best_first = UC_first_
    best_S = score
    best_R = UC_R_
    best_U = UC_U_
    for t in range(d):
        bpath[0, t] = prefix[0, t]
# </piece>

# How a search that looks for any path ended.
# <piece ending>
status = Status.FOUND
if fault == Fault.NONE and best_first < 0:
    status, fault_step, fault_action = uc_lost(
        w, d, states, UC_st_, rows, p, actions, arow, mean, members, walk, UC_cursor_, cap
    )
    if status == Status.TASK_ERROR:
        fault = Fault.STATE
if fault != Fault.NONE:
    status = Status.TASK_ERROR
    uc_blank(w, flags, table)
# </piece>
