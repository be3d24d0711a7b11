# Kernel text: a window's forecast for `prepare`, in arrays of the kernel's own that every window fills anew. Tasks that
# say that the order of a step's members is nothing to them (`Task.by_step`) get each step's by itself in ascending
# order: such a `prepare` sorts by insertion, which takes one pass of what is sorted already. Searches ask a bound from
# step 1 on: tasks whose bound looks ahead only (`Task.by_rest`) get the forecast `since` that step.


@uc_lean_call
def uc_mean_of(mean, w, since, own_mean):
    for k in range(own_mean.shape[0]):
        own_mean[k] = mean[w, since + k, 0]


@uc_lean_call
def uc_members_of(members, w, since, own_members):
    for j in range(own_members.shape[0]):
        for k in range(own_members.shape[1]):
            own_members[j, k] = members[w, j, since + k, 0]


@uc_lean_call
def uc_by_step(own_members, weights, wrow, room):
    """As they are where few members are sorted as fast by themselves, or weights go with them. Else all steps at once,
    by comparisons whose order does not depend on what is found: Batcher's merging of odd and even places. Members that
    are compared with others equally far apart lie side by side in `room`, as wide as whole vectors."""
    J = own_members.shape[0]
    steps = own_members.shape[1]
    wide = (steps + 3) // 4 * 4
    sorts = J > 16
    for j in range(1, J):
        if weights[wrow, j] != weights[wrow, 0]:
            sorts = False
    if not sorts:
        return
    for j in range(J):
        for k in range(wide):
            room[j * wide + k] = own_members[j, k] if k < steps else 0.0
    size = 1
    double = 1  # 2 * size are 2 ** double
    while size < J:
        apart = size
        while apart > 0:
            begin = apart & (size - 1)
            while begin + apart < J:
                if begin >> double == (begin + apart) >> double:
                    # Unsigned, for an index that may be below 0 is looked at again at every use.
                    low = np.uint64(begin * wide)
                    high = np.uint64((begin + apart) * wide)
                    for k in range(min(apart, J - apart - begin) * wide):
                        x = np.uint64(k)
                        first = room[low + x]
                        second = room[high + x]
                        swap = second < first
                        room[low + x] = second if swap else first
                        room[high + x] = first if swap else second
                begin += 2 * apart
            apart = apart >> 1
        size = 2 * size
        double += 1
    for j in range(J):
        for k in range(steps):
            own_members[j, k] = room[j * wide + k]


@uc_pasted
def uc_own_table(own_room, own_members):
    """Behind the room in which members are sorted: where a bound's table is made, if that needs no room of its own."""
    return own_room[own_members.shape[0] * ((own_members.shape[1] + 3) // 4 * 4) :]
