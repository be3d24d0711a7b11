"""mctx (MuZero-style tree search in JAX): batched, jit-compiled, with the true dynamics as its model."""

from __future__ import annotations

import functools
import statistics
from typing import Any, NamedTuple

from common import NONE_FOUND, Instances, load_instances, measure, parser, single_thread, write

single_thread()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import mctx  # noqa: E402
import numpy as np  # noqa: E402

Arr = jax.Array
# Below the value of any path of these instances (the worst is near -155), yet not so far below that
# the min-max scaling of values inside mctx flattens the live actions.
DEAD_VALUE = -200.0


class Node(NamedTuple):
    """Embedding of a tree node, all fields (B,)."""

    on_hand: Arr
    p0: Arr
    p1: Arr
    last: Arr
    h: Arr  # step, int32
    dead: Arr  # an infeasible action or a dead end lies on the path


class Window(NamedTuple):
    """What the search needs of a window; travels as mctx's params. Padded by 3 steps beyond the horizon."""

    members: Arr  # (B, J, H)
    mean: Arr  # (B, H + 3) mean demand
    ideal: Arr  # (B, H + 3) stock with the best edge value
    togo: Arr  # (B, H + 3) sum of the best edge values from the step on


def at(table: Arr, h: Arr) -> Arr:
    return jnp.take_along_axis(table, h[:, None], axis=1)[:, 0]


class Model:
    """Dynamics, priors and leaf values for a batch."""

    def __init__(self, inst: Instances, leaf: str, prior: str) -> None:
        self.p: dict[str, float] = {
            key: inst[key] for key in ("capacity", "ramp", "unit", "holding", "shortage", "price", "lam")
        }
        self.actions = jnp.asarray(inst["actions"], jnp.float32)
        self.depth = int(inst["depth"])
        self.leaf, self.prior = leaf, prior

    def feasible(self, s: Node) -> Arr:
        a = self.actions[None, :]
        position = s.on_hand + s.p0 + s.p1
        fits = position[:, None] + a <= self.p["capacity"]
        return fits & (jnp.abs(a - s.last[:, None]) <= self.p["ramp"])

    def move(self, w: Window, s: Node, a: Arr) -> tuple[Arr, Node]:
        """Edge value g and the next node, feasibility aside."""
        h = jnp.minimum(s.h, self.depth - 1)
        y = jnp.take_along_axis(w.members, h[:, None, None], axis=2)[:, :, 0]  # (B, J)
        avail = s.on_hand + s.p0
        g = self.stock_value(y, avail) - self.p["unit"] * a
        return g, Node(jnp.maximum(avail - at(w.mean, h), 0.0), s.p1, a, a, s.h + 1, s.dead)

    def stock_value(self, y: Arr, avail: Arr) -> Arr:
        """Edge value without the order cost. y: (B, J, ...) demand, avail: (B, ...) stock."""
        p = self.p

        def money(demand: Arr, stock: Arr) -> Arr:
            sold = jnp.minimum(stock, demand)
            return p["price"] * sold - p["holding"] * (stock - sold) - p["shortage"] * (demand - sold)

        return money(y.mean(axis=1), avail) - p["lam"] * money(y, avail[:, None]).std(axis=1)

    def prepare(self, members: Arr) -> Window:
        """Per step the best stock on a whole-unit grid, and the best edge values summed from there on."""
        grid = jnp.arange(0.0, self.p["capacity"] + 1.0)
        table = self.stock_value(members[..., None], jnp.broadcast_to(grid, (members.shape[0], self.depth, len(grid))))
        ideal, best = grid[table.argmax(axis=2)], table.max(axis=2)
        togo = jnp.cumsum(best[:, ::-1], axis=1)[:, ::-1]
        pad = ((0, 0), (0, 3))
        return Window(members, jnp.pad(members.mean(axis=1), pad), jnp.pad(ideal, pad), jnp.pad(togo, pad))

    def order_up_to(self, w: Window, s: Node) -> Arr:
        """The order that meets the ideal stock on arrival; 0 where it would arrive after the horizon."""
        need = at(w.mean, s.h) + at(w.mean, s.h + 1) + at(w.ideal, s.h + 2)
        return jnp.where(s.h + 2 < self.depth, need - (s.on_hand + s.p0 + s.p1), 0.0)

    def value(self, w: Window, s: Node) -> Arr:
        """Value to go: the two steps that the pipeline already decides, then the best stock value of every
        later step (an optimistic bound up to the grid)."""
        total = jnp.zeros_like(s.on_hand)
        if self.leaf == "zero":
            return total
        for _ in range(2):
            g, nxt = self.move(w, s, jnp.zeros_like(total))
            total = total + jnp.where(s.h < self.depth, g, 0.0)
            s = nxt
        return total + at(w.togo, s.h)

    def logits(self, w: Window, s: Node, ok: Arr) -> Arr:
        """Prior: flat, falling with the distance to a base-stock order, or the value one step ahead."""
        if self.prior == "uniform":
            scores = jnp.zeros(ok.shape)
        elif self.prior == "basestock":
            scores = -0.25 * jnp.abs(self.actions[None, :] - self.order_up_to(w, s)[:, None])
        else:

            def ahead(a: Arr) -> Arr:
                g, nxt = self.move(w, s, jnp.broadcast_to(a, s.on_hand.shape))
                return g + jnp.where(nxt.h < self.depth, self.value(w, nxt), 0.0)

            scores = jax.vmap(ahead, out_axes=1)(self.actions)
        # A finite floor: a row of -inf alone would turn the softmax of a dead end into NaN.
        return jnp.where(ok, scores, -1e9)

    def recurrent(self, w: Window, key: Arr, index: Arr, s: Node) -> tuple[mctx.RecurrentFnOutput, Node]:
        del key
        allowed = jnp.take_along_axis(self.feasible(s), index[:, None], axis=1)[:, 0]
        g, nxt = self.move(w, s, self.actions[index])
        ended = nxt.h >= self.depth
        ok = self.feasible(nxt)
        dead = s.dead | ~allowed | (~ended & ~ok.any(axis=1))
        reward = jnp.where(dead, jnp.where(s.dead, 0.0, DEAD_VALUE), g)
        stop = ended | dead
        out = mctx.RecurrentFnOutput(
            reward=reward,
            discount=jnp.where(stop, 0.0, 1.0),
            prior_logits=self.logits(w, nxt, ok),
            value=jnp.where(stop, 0.0, self.value(w, nxt)),
        )
        return out, nxt._replace(dead=dead)

    def act(self, members: Arr, on_hand: Arr, pipeline: Arr, last: Arr, key: Arr, policy: str, sims: int) -> Arr:
        zero = jnp.zeros(on_hand.shape, jnp.int32)
        s = Node(on_hand, pipeline[:, 0], pipeline[:, 1], last, zero, zero > 0)
        ok = self.feasible(s)
        w = self.prepare(members)
        root = mctx.RootFnOutput(prior_logits=self.logits(w, s, ok), value=self.value(w, s), embedding=s)
        shared: dict[str, Any] = {"invalid_actions": (~ok).astype(jnp.float32), "max_depth": self.depth}
        # The model is exact and deterministic: exploration noise at the root would only hurt.
        if policy == "gumbel":
            shared |= {"gumbel_scale": 0.0, "max_num_considered_actions": len(self.actions)}
            out = mctx.gumbel_muzero_policy(w, key, root, self.recurrent, sims, **shared)
        else:
            shared |= {"dirichlet_fraction": 0.0, "temperature": 0.0}
            out = mctx.muzero_policy(w, key, root, self.recurrent, sims, **shared)
        return jnp.where(ok.any(axis=1), out.action, NONE_FOUND)


def solver(inst: Instances, model: Model, policy: str, sims: int, batch: int, seed: int) -> Any:
    """A function that decides all windows in batches; the last batch is filled up with repeated windows."""
    act = jax.jit(functools.partial(model.act, policy=policy, sims=sims))
    windows, depth = len(inst["on_hand"]), inst["depth"]
    rows = np.resize(np.arange(windows), -(-windows // batch) * batch)
    panel = [
        np.ascontiguousarray(inst[key][rows], dtype=np.float32) for key in ("members", "on_hand", "pipeline", "last")
    ]
    panel[0] = np.ascontiguousarray(panel[0][:, :, :depth])
    key = jax.random.PRNGKey(seed)

    def solve() -> list[int]:
        parts = [np.asarray(act(*(x[i : i + batch] for x in panel), key)) for i in range(0, len(rows), batch)]
        return [int(x) for x in np.concatenate(parts)[:windows]]

    return solve, len(rows)


def main() -> None:
    args = parser(__doc__, limit=None, repeats=5)
    args.add_argument("--policy", choices=("gumbel", "muzero"), default="gumbel")
    args.add_argument("--simulations", type=int, default=16)
    args.add_argument("--batch", type=int, default=1024)
    args.add_argument("--leaf", choices=("zero", "bound"), default="bound")
    args.add_argument("--prior", choices=("uniform", "basestock", "lookahead"), default="lookahead")
    args.add_argument("--singles", type=int, default=64, help="windows decided one at a time, 0 for none")
    opt = args.parse_args()
    inst = load_instances(opt.instances, opt.limit)
    batch = min(opt.batch, len(inst["on_hand"]))
    model = Model(inst, opt.leaf, opt.prior)
    solve, rows = solver(inst, model, opt.policy, opt.simulations, batch, opt.seed)
    timing = measure(solve, rows, opt.repeats)
    extra: dict[str, Any] = {}
    if opt.singles:
        few = load_instances(opt.instances, min(opt.singles, len(inst["on_hand"])))
        one, count = solver(few, model, opt.policy, opt.simulations, 1, opt.seed)
        single = measure(one, count, opt.repeats)
        extra["batch_1"] = {
            "windows": count, "median_us_per_window": statistics.median(single.us_per_window),
            "repeats": single.us_per_window,
            "median_cpu_us_per_window": statistics.median(single.cpu_us_per_window),
            "first_action_index": single.first,
        }  # fmt: skip
        print(f"mctx batch 1: {extra['batch_1']['median_us_per_window']:.1f} us per window, {count} windows")
    settings = {
        "policy": opt.policy, "simulations": opt.simulations, "batch": batch, "leaf": opt.leaf,
        "prior": opt.prior, "dtype": "float32", "threads": 1, "seed": opt.seed, "jax": jax.__version__,
    }  # fmt: skip
    notes = (
        "True dynamics as the model; infeasible actions masked at the root and given a prior of exp(-1e9) "
        "inside; an infeasible action or a dead end ends the path at a fixed bad value. "
        "Host arrays in, host array out."
    )
    write(opt.out, "mctx", settings, timing, notes, **extra)


if __name__ == "__main__":
    main()
