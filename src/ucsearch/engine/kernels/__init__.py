"""The searches as they run compiled: ordinary functions over arrays, built around one task's rules.

    rules, shape = rules.build(task, layout, mode, use_bound, jit)
    panel = beam.build(rules, shape, jit)
    panel(iset, fset, states, params, ..., lo, hi)

Every module here has `build(rules, shape, jit)`. `jit` says what the functions become: Python as it stands
(`jit.Plain`, for debuggers and coverage), machine code (`jit.Numba`), or a GPU's (`engine/cuda/jit.py`). The same
statements run in all three, in the same order as in `engine/plain`, the specification; so all of them give the same
bytes.
"""
