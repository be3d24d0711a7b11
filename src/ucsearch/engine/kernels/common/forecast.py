"""A window's forecast for `prepare`, and the bound's tables that come of it.

Searches ask a bound from step 1 on: tasks whose bound looks ahead only (`Task.by_rest`) get the forecast since that
step. Tasks that say that the order of a step's members is nothing to them (`Task.by_step`) get each step's by itself in
ascending order: such a `prepare` sorts by insertion, which takes one pass of what is sorted already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ucsearch.engine.kernels.common.shapes import Shape
from ucsearch.task import Task, View

__all__ = ["build"]

Function = Callable[..., Any]


def build(task: Task, prepare: Function, fill: Function | None, shape: Shape, jit: Any) -> Function:
    """`tables(win, panel, forecast)`: one table, or one for each member. `fill` writes it into room that is there."""
    if shape.members:
        return _of_members(task, prepare, shape, jit)
    if not shape.scalar:
        return _of_records(task, prepare, shape, jit)
    return _of_numbers(task, prepare, fill, shape, jit)


def _of_members(task: Task, prepare: Function, shape: Shape, jit: Any) -> Function:
    SCALAR, LATER = shape.scalar, shape.later
    if task.risk_aware_bound:

        @jit.inner
        def table_of(win, panel, j, since):
            if SCALAR:
                own = np.ascontiguousarray(panel.members[win.w, j, since : win.reach, 0])
                alone = np.ascontiguousarray(panel.members[win.w, j : j + 1, since : win.reach, 0])
            else:
                own = np.ascontiguousarray(panel.members[win.w, j, since : win.reach])
                alone = np.ascontiguousarray(panel.members[win.w, j : j + 1, since : win.reach])
            return prepare(own, win.p, View(alone, np.ones(1), 0.0, win.spread[0]))
    else:

        @jit.inner
        def table_of(win, panel, j, since):
            if SCALAR:
                return prepare(np.ascontiguousarray(panel.members[win.w, j, since : win.reach, 0]), win.p)
            return prepare(np.ascontiguousarray(panel.members[win.w, j, since : win.reach]), win.p)

    @jit.inner
    def tables(win, panel, forecast):
        since = min(LATER, win.reach - 1)  # a single step is not asked about
        sample = table_of(win, panel, 0, since)
        stacked = np.empty((panel.members.shape[1] if win.use_bound else 1,) + sample.shape)
        stacked[0] = sample
        for j in range(1, stacked.shape[0]):
            stacked[j] = table_of(win, panel, j, since)
        return (stacked,)

    found: Function = tables
    return found


def _of_records(task: Task, prepare: Function, shape: Shape, jit: Any) -> Function:
    LATER = shape.later
    if task.risk_aware_bound:

        @jit.inner
        def tables(win, panel, forecast):
            since = min(LATER, win.reach - 1)
            mean = np.ascontiguousarray(panel.mean[win.w, since : win.reach])
            members = np.ascontiguousarray(panel.members[win.w, :, since : win.reach])
            return (prepare(mean, win.p, View(members, panel.weights[win.wrow], win.risk, win.spread[0])),)
    else:

        @jit.inner
        def tables(win, panel, forecast):
            since = min(LATER, win.reach - 1)
            return (prepare(np.ascontiguousarray(panel.mean[win.w, since : win.reach]), win.p),)

    found: Function = tables
    return found


def _of_numbers(task: Task, prepare: Function, fill: Function | None, shape: Shape, jit: Any) -> Function:
    """In arrays of the kernel's own, which every window fills anew."""
    LATER, SEES, BY_STEP = shape.later, task.risk_aware_bound, task.by_step

    @jit.lean_call
    def forecast_of(win, panel, forecast):
        since = min(LATER, win.reach - 1)
        for k in range(forecast.mean.shape[0]):
            forecast.mean[k] = panel.mean[win.w, since + k, 0]
        if SEES:
            for j in range(forecast.members.shape[0]):
                for k in range(forecast.members.shape[1]):
                    forecast.members[j, k] = panel.members[win.w, j, since + k, 0]

    @jit.lean_call
    def sorted_steps(forecast, weights, wrow):
        """As they are where few members are sorted as fast by themselves, or weights go with them. Else all steps at
        once, by comparisons whose order does not depend on what is found: Batcher's merging of odd and even places.
        Members that are compared with others equally far apart lie side by side, as wide as whole vectors."""
        J = forecast.members.shape[0]
        steps = forecast.members.shape[1]
        room = forecast.room
        wide = (steps + 3) // 4 * 4
        sorts = J > 16
        for j in range(1, J):
            if weights[wrow, j] != weights[wrow, 0]:
                sorts = False
        if not sorts:
            return
        for j in range(J):
            for k in range(wide):
                room[j * wide + k] = forecast.members[j, k] if k < steps else 0.0
        size = 1
        double = 1  # 2 * size are 2 ** double
        while size < J:
            apart = size
            while apart > 0:
                begin = apart & (size - 1)
                while begin + apart < J:
                    if begin >> double == (begin + apart) >> double:
                        low, high = begin * wide, (begin + apart) * wide
                        for x in range(min(apart, J - apart - begin) * wide):
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
                forecast.members[j, k] = room[j * wide + k]

    if fill is not None:
        into = fill

        @jit.lean_call
        def emptied(room, begin):
            for x in range(begin, room.shape[0]):
                room[x] = 0.0

        @jit.lean_call
        def filled(table, win, panel, forecast):
            """Borrows only: nothing is counted while the table is made."""
            into(table, forecast.mean, win.p, View(forecast.members, panel.weights[win.wrow], win.risk, win.spread[0]))

        @jit.inner
        def tables(win, panel, forecast):
            forecast_of(win, panel, forecast)
            if BY_STEP:
                sorted_steps(forecast, panel.weights, win.wrow)
            begin = forecast.members.shape[0] * ((forecast.members.shape[1] + 3) // 4 * 4)
            emptied(forecast.room, begin)
            table = forecast.room[begin:]
            filled(table, win, panel, forecast)
            return (table,)

        found: Function = tables
        return found
    if SEES:

        @jit.inner
        def tables(win, panel, forecast):
            forecast_of(win, panel, forecast)
            if BY_STEP:
                sorted_steps(forecast, panel.weights, win.wrow)
            return (
                prepare(forecast.mean, win.p, View(forecast.members, panel.weights[win.wrow], win.risk, win.spread[0])),
            )
    else:

        @jit.inner
        def tables(win, panel, forecast):
            forecast_of(win, panel, forecast)
            return (prepare(forecast.mean, win.p),)

    found = tables
    return found
