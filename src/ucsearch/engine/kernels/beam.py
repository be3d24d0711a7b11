"""UC-Beam, UC-Pareto Beam and Certified Retained Pareto Beam. See engine/plain/beam.py for the specification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Col, Fault, First, ISet, Status
from ucsearch.engine.kernels.common import ending, room, scoring
from ucsearch.engine.kernels.common.rules import Rules
from ucsearch.engine.kernels.common.shapes import Panel, Results, Shape
from ucsearch.policies import Keep

FOUND, PROVED, TASK_ERROR = int(Status.FOUND), int(Status.PROVED), int(Status.TASK_ERROR)
STATE = Fault.STATE
DUPLICATE, GENERATED, RETAINED, DEAD = First.DUPLICATE, First.GENERATED, First.RETAINED, First.DEAD
SCORE, REWARD, UNCERTAINTY = int(Col.SCORE), int(Col.REWARD), int(Col.UNCERTAINTY)
UPPER, GROSS = int(Col.UPPER), int(Col.GROSS)
BY_SCORE, CERTIFIED = Keep.SCORE, Keep.CERTIFIED
DEPTH, USE_BOUND = int(ISet.DEPTH), int(ISet.USE_BOUND)
WIDTH, TOP_K, KEEP = int(ISet.WIDTH), int(ISet.TOP_K), int(ISet.KEEP)


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Layer(NamedTuple):
    """The paths kept so far."""

    st: Floats  # (width, rows, n)
    ret: Floats  # (width, rows) members mode: returns
    R: Floats  # reward
    U: Floats  # uncertainty
    G: Floats  # sum of the absolute rewards
    path: Ints  # (width, d)
    old_path: Ints


class Children(NamedTuple):
    """Their extensions by one step."""

    st: Floats  # (width * top_k, rows, n)
    ret: Floats
    R: Floats
    U: Floats
    G: Floats
    key: Floats
    togo: Floats
    parent: Ints  # its row of the layer
    act: Ints
    cont: Ints  # the continuation that scored it, -1 without one
    place: Ints  # 0 reserved, 1 on the front, 2 other
    heap: Ints  # children in rank order, as far as they are ordered
    top: Ints  # (top_k,) candidates that are expanded
    seen: Ints  # (m,) the best child of every first action


def build(rules: Rules, k: Shape, jit: Any) -> Callable[..., None]:
    """The entry of a kernel: windows lo..hi of a panel."""
    MEMBERS, SCORES, N, BOUNDED = k.members, k.scores, k.n, k.bounded
    tables_of = rules.tables
    heap_of, floats, ints = jit.heap, jit.floats, jit.ints
    rows_of, candidates_of, forecast_of, window_of = room.build(rules, k, jit)
    score, extend, top_of, same, alive, mark_root, suffixes = scoring.build(rules, k, jit)
    lost, smaller, improves, blank, report, _ = ending.build(rules, k, jit)

    @jit.lean
    def before(x, y, ch, path, h):
        """Child x ranks before child y: place, higher key, lower U, lexicographically smaller path."""
        if ch.place[x] != ch.place[y]:
            return ch.place[x] < ch.place[y]
        if ch.key[x] != ch.key[y]:
            return ch.key[x] > ch.key[y]
        if ch.U[x] != ch.U[y]:
            return ch.U[x] < ch.U[y]
        a = ch.parent[x]
        b = ch.parent[y]
        if a != b:
            for t in range(h):
                if path[a, t] != path[b, t]:
                    return path[a, t] < path[b, t]
        return ch.act[x] < ch.act[y]

    @jit.lean_call
    def sink(size, at, ch, path, h):
        """Restore the heap whose root ranks last."""
        heap = ch.heap
        while True:
            child = 2 * at + 1
            if child >= size:
                return
            if child + 1 < size and before(heap[child], heap[child + 1], ch, path, h):
                child += 1
            if not before(heap[at], heap[child], ch, path, h):
                return
            heap[at], heap[child] = heap[child], heap[at]
            at = child

    @jit.lean
    def select(count, width, ch, path, h):
        """heap[:kept] becomes the best `width` of `count` children in rank order; heap[kept:count] the others."""
        heap = ch.heap
        for x in range(count):
            heap[x] = x
        kept = min(count, width)
        if kept <= 32:
            for x in range(1, count):
                item = heap[x]
                at = x if x < kept else kept
                if x >= kept and not before(item, heap[kept - 1], ch, path, h):
                    continue
                if x >= kept:
                    heap[x] = heap[kept - 1]
                    at = kept - 1
                while at > 0 and before(item, heap[at - 1], ch, path, h):
                    heap[at] = heap[at - 1]
                    at -= 1
                heap[at] = item
            return kept
        for x in range(kept // 2 - 1, -1, -1):
            sink(kept, x, ch, path, h)
        for x in range(kept, count):
            if before(heap[x], heap[0], ch, path, h):
                heap[x], heap[0] = heap[0], heap[x]
                sink(kept, 0, ch, path, h)
        for size in range(kept - 1, 0, -1):
            heap[0], heap[size] = heap[size], heap[0]
            sink(size, 0, ch, path, h)
        return kept

    @jit.lean_call
    def front_before(x, y, ch):
        a = ch.R[x] + ch.togo[x]
        b = ch.R[y] + ch.togo[y]
        if a != b:
            return a > b
        return ch.U[x] < ch.U[y]

    @jit.lean_call
    def sink_front(size, at, ch):
        order = ch.heap
        while True:
            child = 2 * at + 1
            if child >= size:
                return
            if child + 1 < size and front_before(order[child], order[child + 1], ch):
                child += 1
            if not front_before(order[at], order[child], ch):
                return
            order[at], order[child] = order[child], order[at]
            at = child

    @jit.lean_call
    def mark_front(count, ch):
        """place = 1 for children that no other beats in optimistic reward and uncertainty (one of them strictly)."""
        order = ch.heap
        for x in range(count):
            order[x] = x
        for start in range(count // 2 - 1, -1, -1):
            sink_front(count, start, ch)
        for size in range(count - 1, 0, -1):
            order[0], order[size] = order[size], order[0]
            sink_front(size, 0, ch)
        last = -1
        for t in range(count):
            x = order[t]
            if (
                last < 0
                or ch.U[x] < ch.U[last]
                or (ch.U[x] == ch.U[last] and ch.R[x] + ch.togo[x] == ch.R[last] + ch.togo[last])
            ):
                ch.place[x] = 1
                last = x

    @jit.lean_call
    def reserve(count, h, ch, path, m):
        """place = 0 for the best child of every first action."""
        for x in range(m):
            ch.seen[x] = -1
        for x in range(count):
            first = path[ch.parent[x], 0] if h > 0 else ch.act[x]
            held = ch.seen[first]
            if held < 0:
                ch.seen[first] = x
            else:
                # Compare as equals in place: the reserved child is the best of its first action.
                px = ch.place[x]
                ph = ch.place[held]
                ch.place[x] = 0
                ch.place[held] = 0
                if before(x, held, ch, path, h):
                    ch.seen[first] = x
                ch.place[x] = px
                ch.place[held] = ph
        for x in range(m):
            if ch.seen[x] >= 0:
                ch.place[ch.seen[x]] = 0

    @jit.lean
    def raise_upper(res, w, first, limit):
        if not res.table[w, first, UPPER] >= limit:
            res.table[w, first, UPPER] = limit

    @jit.lean
    def cut(h, i, count, chosen, win, panel, cand, layer, ch, res):
        """What is not expanded at node i bounds its first action from above."""
        for x in range(count):
            drop = h == 0 and res.flags[win.w, cand.act[x]] & DUPLICATE != 0
            for y in range(chosen):
                if x == ch.top[y] or same(cand, x, ch.top[y], win.rows):
                    drop = True
                    break
            if not drop:
                f = panel.disc[h]
                if MEMBERS:
                    limit = (layer.R[i] + f * cand.q[x]) + cand.togo[x]
                else:
                    limit = ((layer.R[i] + f * cand.q[x]) - win.risk * (layer.U[i] + f * cand.u[x])) + cand.togo[x]
                raise_upper(res, win.w, layer.path[i, 0] if h > 0 else cand.act[x], limit)

    @jit.lean_call
    def one_window(width, most, keep, win, panel, tables, cand, layer, ch, walk, cursor, res):
        """Search one window; nothing here allocates."""
        w, d, rows, risk, use_bound = win.w, win.d, win.rows, win.risk, win.use_bound
        m = panel.actions.shape[1]
        for r in range(rows):
            for f in range(N):
                layer.st[0, r, f] = panel.states[w, f]
            if MEMBERS:
                layer.ret[0, r] = 0.0
        layer.R[0] = 0.0
        layer.U[0] = 0.0
        layer.G[0] = 0.0
        size = 1
        expansions = 0
        scored = 0
        fault = 0
        fault_step = 0
        fault_action = 0
        for h in range(d):
            last = h + 1 == d
            count = 0
            for i in range(size):
                found, fault, fault_action = score(h, layer.st, i, -1, use_bound, win, panel, tables, cand)
                scored += found
                if fault != 0:
                    scored += 1
                    break
                if h == 0:
                    mark_root(found, cand, win, res)
                chosen = top_of(found, most, cand, rows, ch.top)
                if use_bound and chosen < found:
                    cut(h, i, found, chosen, win, panel, cand, layer, ch, res)
                for y in range(chosen):
                    c = ch.top[y]
                    expansions += 1
                    if h == 0:
                        res.flags[w, cand.act[c]] |= GENERATED
                    reward, uncertainty, gross, cont, dropped, fault = extend(
                        h, layer.R[i], layer.U[i], layer.G[i], layer.ret, i, c, win, panel, cand, ch.ret, count
                    )
                    if fault != 0:
                        fault_action = cand.act[c]
                        break
                    if dropped or (not last and not alive(cand.st, c, win, panel)):
                        continue
                    togo = 0.0 if last else cand.togo[c]
                    for r in range(rows):
                        for f in range(N):
                            ch.st[count, r, f] = cand.st[c, r, f]
                    ch.R[count] = reward
                    ch.U[count] = uncertainty
                    ch.G[count] = gross
                    ch.togo[count] = togo
                    ch.key[count] = (reward - risk * uncertainty) + togo
                    ch.parent[count] = i
                    ch.act[count] = cand.act[c]
                    ch.cont[count] = cont
                    ch.place[count] = 2
                    count += 1
                if fault != 0:
                    break
            if fault != 0:
                fault_step = h
                break
            if keep != BY_SCORE:
                mark_front(count, ch)
            if keep == CERTIFIED:
                reserve(count, h, ch, layer.path, m)
            kept = select(count, width, ch, layer.path, h)
            if use_bound:
                for t in range(kept, count):
                    x = ch.heap[t]
                    limit = ch.key[x]
                    if MEMBERS and not last:
                        limit = ch.R[x] + ch.togo[x]
                    raise_upper(res, w, layer.path[ch.parent[x], 0] if h > 0 else ch.act[x], limit)
            for t in range(size):
                for y in range(h):
                    layer.old_path[t, y] = layer.path[t, y]
            for t in range(kept):
                x = ch.heap[t]
                for r in range(rows):
                    for f in range(N):
                        layer.st[t, r, f] = ch.st[x, r, f]
                    if MEMBERS:
                        layer.ret[t, r] = ch.ret[x, r]
                layer.R[t] = ch.R[x]
                layer.U[t] = ch.U[x]
                layer.G[t] = ch.G[x]
                for y in range(h):
                    layer.path[t, y] = layer.old_path[ch.parent[x], y]
                layer.path[t, h] = ch.act[x]
            size = kept
            if size == 0:
                break
        best = -1
        best_first = -1
        table = res.table
        for t in range(size if fault == 0 else 0):
            # At full depth the layer is in rank order within a place, so compare all.
            first = layer.path[t, 0]
            res.flags[w, first] |= RETAINED
            worth = layer.R[t] - risk * layer.U[t]
            if improves(
                worth,
                layer.U[t],
                layer.path,
                t,
                table[w, first, SCORE],
                table[w, first, UNCERTAINTY],
                res.paths,
                w,
                first,
                d,
            ):
                table[w, first, SCORE] = worth
                table[w, first, REWARD] = layer.R[t]
                table[w, first, UNCERTAINTY] = layer.U[t]
                table[w, first, GROSS] = layer.G[t]
                if res.paths.shape[0] > 0:
                    for y in range(d):
                        res.paths[w, first, y] = layer.path[t, y]
            if best < 0:
                best = t
            else:
                kept_score = layer.R[best] - risk * layer.U[best]
                if worth > kept_score or (
                    worth == kept_score
                    and (
                        layer.U[t] < layer.U[best] or (layer.U[t] == layer.U[best] and smaller(layer.path, t, best, d))
                    )
                ):
                    best = t
        status = FOUND
        upper = np.nan
        cont = -1
        if fault != 0:
            status = TASK_ERROR
        elif best < 0:
            status, fault_step, fault_action = lost(ch.st, win, panel, walk, cursor)
            if status == TASK_ERROR:
                fault = STATE
        else:
            best_first = layer.path[best, 0]
            cont = ch.cont[ch.heap[best]]
            if use_bound:
                upper = layer.R[best] - risk * layer.U[best]
                for x in range(m):
                    if table[w, x, SCORE] == table[w, x, SCORE]:
                        raise_upper(res, w, x, table[w, x, SCORE])
                    if table[w, x, UPPER] == table[w, x, UPPER]:
                        upper = max(upper, table[w, x, UPPER])
                    elif res.flags[w, x] & GENERATED != 0:
                        res.flags[w, x] |= DEAD
                if upper <= layer.R[best] - risk * layer.U[best]:
                    status = PROVED
        if status == TASK_ERROR:
            blank(w, res)
        row = max(best, 0)
        report(
            w,
            status,
            best_first,
            expansions,
            scored,
            0,
            cont,
            fault,
            fault_step,
            fault_action,
            layer.R[row] - risk * layer.U[row],
            layer.R[row],
            layer.U[row],
            upper,
            layer.path,
            row,
            res,
        )

    @jit.entry
    def panel_of(
        iset, fset, states, params, actions, mean, members, weights, q, u, disc, out_i, out_f, flags, table, path_out,
        paths, lo, hi,
    ):  # fmt: skip
        """Windows lo..hi. See engine/arrays.py for the settings and the columns."""
        panel = Panel(states, actions, mean, members, weights, q, u, disc)
        res = Results(out_i, out_f, flags, table, path_out, paths)
        d, width, top_k, keep = iset[DEPTH], iset[WIDTH], iset[TOP_K], iset[KEEP]
        use_bound = iset[USE_BOUND] != 0 and BOUNDED
        m, rows, most = actions.shape[1], rows_of(panel), width * top_k
        heap = heap_of()
        cand, forecast = candidates_of(heap, iset, panel), forecast_of(heap, iset, panel, use_bound)
        layer = Layer(
            floats(heap, (width, rows, N)), floats(heap, (width, rows if MEMBERS else 1)), floats(heap, width),
            floats(heap, width), floats(heap, width), ints(heap, (width, d)), ints(heap, (width, d)),
        )  # fmt: skip
        ch = Children(
            floats(heap, (most, rows, N)), floats(heap, (most, rows if MEMBERS else 1)), floats(heap, most),
            floats(heap, most), floats(heap, most), floats(heap, most), floats(heap, most), ints(heap, most),
            ints(heap, most),
            ints(heap, most), ints(heap, most), ints(heap, most), ints(heap, top_k),
            ints(heap, m),
        )  # fmt: skip
        walk, cursor = floats(heap, (d + 1, rows, N)), ints(heap, d + 1)
        for w in range(lo, hi):
            win = window_of(w, iset, fset, params, panel, use_bound)
            blank(w, res)
            if SCORES:
                suffixes(win, panel, cand.suffix)
            tables = tables_of(win, panel, forecast)
            one_window(width, top_k, keep, win, panel, tables, cand, layer, ch, walk, cursor, res)

    entry: Callable[..., None] = panel_of
    return entry
