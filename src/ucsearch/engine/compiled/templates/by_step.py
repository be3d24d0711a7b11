# Kernel text: a window's members for `prepare`, each step's by itself in ascending order, of tasks that say that order is
# nothing to them (`Task.by_step`). Such a `prepare` sorts by insertion, which takes one pass of what is sorted already.


@uc_inner
def uc_by_step(members, w, reach, weights, wrow):
    """(J, reach); unsorted where few members are sorted as fast by themselves, or weights go with them."""
    J = members.shape[1]
    rows = np.empty((J, reach))
    room = np.empty((2, J))
    block = np.empty(64)
    sorts = J > 16
    for j in range(1, J):
        if weights[wrow, j] != weights[wrow, 0]:
            sorts = False
    for k in range(reach):
        side = 0
        width = 64
        for begin in range(0, J, width):
            count = min(width, J - begin)
            for i in range(count):
                block[i] = members[w, begin + i, k, 0]
                room[0, begin + i] = block[i]
            for i in range(count if sorts else 0):
                # Its place is how many are smaller: more work than sorting, and all of it in lanes.
                place = begin
                value = block[i]
                for x in range(count):
                    place += block[x] < value
                for x in range(i):
                    place += block[x] == value
                room[0, place] = value
        while sorts and width < J:
            other = 1 - side
            begin = 0
            while begin < J:
                middle = min(begin + width, J)
                end = min(begin + 2 * width, J)
                x = begin
                y = middle
                t = begin
                while x < middle and y < end:
                    # Without a branch on the comparison, which nothing can predict.
                    first = room[side, x]
                    second = room[side, y]
                    left = first <= second
                    room[other, t] = first if left else second
                    x += 1 if left else 0
                    y += 0 if left else 1
                    t += 1
                while x < middle:
                    room[other, t] = room[side, x]
                    x += 1
                    t += 1
                while y < end:
                    room[other, t] = room[side, y]
                    y += 1
                    t += 1
                begin = end
            side = other
            width = 2 * width
        for j in range(J):
            rows[j, k] = room[side, j]
    return rows
