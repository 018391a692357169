"""What is measured: which programs run beside which, in which order, and what must come of it.

Between any two runs of another kind stands one of the same program alone on the bare driver: what a
run reached is compared with the native runs before and after it. Promises: where the first and the
last of them differ by more than 2 %, the figures are void; so is a run whose program computed
something else than natively. A program that the host holds up differs by more from process to
process: of it the middle of several runs of each side counts, the figure says how far apart
native's own lie, and is void where the middles of their halves differ by 10 %. Starts nothing.
"""

import dataclasses
import statistics
import typing

from .figures import Figure, spread
from .processes import Failed, Run, Tenant

DRIFT = 0.02
HOST_DRIFT = 0.1
ROUNDS = 3
SLOWER_PERCENT = 0.3
ALONE = "alone"
NO_CAP = "no cap"
HALF = "half"
CAPPED = "capped"
PAIR = "pair"
CAPPED_PAIR = "pair with caps"
GANG_CAP = 40
PROGRAM_CAP = 30
PROGRAM_ROUNDS = 2


@dataclasses.dataclass
class Case:
    """Runs in their order, and what makes figures of them."""

    name: str
    runs: list
    judge: typing.Callable


class Results:
    """The runs of a case that were done, in order, each with what came of it."""

    def __init__(self):
        self.done = []

    def add(self, run, outcome):
        self.done.append((run, outcome))

    def alone(self, program):
        """Where this program ran alone and natively, and its rate."""
        return [(at, self.rates(at)[0]) for at, (run, outcome) in enumerate(self.done)
                if run.role == ALONE and run.tenants[0].program == program
                and "failure" not in outcome]

    def rates(self, at):
        """Steps per second of each program of a run."""
        tenants = self.done[at][1]["tenants"]
        key = "steps_per_s" if len(tenants) == 1 else "within_per_s"
        return [tenant[key] for tenant in tenants]

    def native_beside(self, at, program):
        """Native's rate before and after a run, their mean."""
        before = [rate for place, rate in self.alone(program) if place < at]
        after = [rate for place, rate in self.alone(program) if place > at]
        if not before or not after:
            raise Failed("there is no native run on both sides of it")
        return statistics.fmean([before[-1], after[0]])

    def shares(self, at):
        """Rates of a run in percent of what each program reaches alone."""
        programs = [tenant.program for tenant in self.done[at][0].tenants]
        return [100 * rate / self.native_beside(at, program)
                for rate, program in zip(self.rates(at), programs)]

    def check(self, at):
        """Fails a run that did not compute what the first native one did."""
        run, outcome = self.done[at]
        if "failure" in outcome:
            raise Failed(outcome["failure"])
        for tenant, said in zip(run.tenants, outcome["tenants"]):
            places = self.alone(tenant.program)
            native = self.done[places[0][0]][1]["tenants"][0]["check"] if places else said["check"]
            if not abs(said["check"] - native) <= said["tolerance"] * abs(native):
                raise Failed(f"void: {tenant.program} gave {said['check']}, native {native}")

    def drifted(self, role, ends, most):
        """Why native runs of `role` cannot be compared with: their `ends` differ by `most`; or None."""
        rates = {}
        for at, (run, outcome) in enumerate(self.done):
            if (run.side, run.role) == ("native", role) and "failure" not in outcome:
                programs = " and ".join(tenant.program for tenant in run.tenants)
                rates.setdefault(programs, []).append(sum(self.rates(at)))
        for programs, several in rates.items():
            if len(several) > 1:
                before, after = ends(several)
                if abs(after / before - 1) > most:
                    return f"native {programs} went from {before:.2f} to {after:.2f} steps/s"
        return None

    def fill(self, figure, role, value):
        """Adds `value` of each run of `role`, or why there is none."""
        for at, (run, _) in enumerate(self.done):
            if run.role == role:
                try:
                    self.check(at)
                    figure.add(run.side, value(at))
                    figure.note = figure.note or self.without_turns(at)
                except Failed as failed:
                    figure.fail(run.side, str(failed))

    def without_turns(self, at):
        """Why the daemon did not divide by turns, as it says itself; empty where it did."""
        daemon = self.done[at][1]["daemon"] or {"devices": []}
        why = [f"{device['reason']}: {device['detail']}" for device in daemon["devices"]
               if device["reason"]]
        return f"no turns were taken, {why[0]}" if why else ""

    def first_rate(self, at):
        return self.rates(at)[0]


def between(references, runs):
    """`runs`, with the native runs of `references` before, between and after them."""
    alone = [Run("native", ALONE, (tenant,)) for tenant in references]
    out = list(alone)
    for run in runs:
        out += [run, *alone]
    return out


def checked(results, figures):
    """The figures, void where the native runs they rest on have drifted."""
    return voided(figures, results.drifted(ALONE, lambda rates: (rates[0], rates[-1]), DRIFT))


def checked_by_halves(results, figures, role):
    """The same where the host decides how fast a process is."""
    def middles(rates):
        half = len(rates) // 2
        return statistics.median(rates[:half]), statistics.median(rates[-half:])

    for figure in figures:
        natives = figure.samples.get("native", [])
        if len(natives) > 1 and spread(natives) > 100 * DRIFT:
            figure.note = figure.note or f"native's own runs lie {spread(natives):.0f} % apart"
    return voided(figures, results.drifted(role, middles, HOST_DRIFT))


def voided(figures, why):
    for figure in figures if why else []:
        figure.void(why)
    return figures


def slower(results, at):
    return 100 * (1 - results.first_rate(at) / results.native_beside(at, program_at(results, at)))


def program_at(results, at):
    return results.done[at][0].tenants[0].program


def training(name, title, program, peers):
    """Training alone without a cap, with one of 50 %, and two together with 30 and 70 %."""
    tenant = Tenant(program)
    half = (Tenant(program, cap_percent=50),)
    pair = (Tenant(program, cap_percent=30), Tenant(program, cap_percent=70))
    runs = [Run("divvy", NO_CAP, (tenant,))] * ROUNDS
    runs += [Run("divvy", HALF, half, windows=2), Run("divvy", PAIR, pair, windows=2)]
    for peer in peers:
        runs += [Run(peer, NO_CAP, (tenant,)), Run(peer, HALF, half, windows=2),
                 Run(peer, PAIR, pair, windows=2)]

    def judge(results):
        rates = Figure(f"{title}, no cap", "steps/s")
        added = Figure(f"{title}, no cap, slower than native", "%", ("at_most", SLOWER_PERCENT))
        reached = Figure(f"{title}, cap of 50 %, of native", "%", ("within", [50, 1]))
        caps = [Figure(f"{title}, two of 30 and 70 %, {cap} %'s of native", "%",
                       ("within", [cap, 1])) for cap in (30, 70)]
        both = Figure(f"{title}, two of 30 and 70 %, sum", "%", ("at_least", 97))
        results.fill(rates, ALONE, results.first_rate)
        results.fill(rates, NO_CAP, results.first_rate)
        results.fill(added, NO_CAP, lambda at: slower(results, at))
        results.fill(reached, HALF, lambda at: results.shares(at)[0])
        fill_each(results, PAIR, caps)
        results.fill(both, PAIR, lambda at: sum(results.shares(at)))
        natives = rates.samples.get("native", [])
        if len(natives) > 1 and spread(natives) > SLOWER_PERCENT:
            added.note = (f"native's own runs lie {spread(natives):.2f} % apart, more than the "
                          f"goal of {SLOWER_PERCENT} %")
        return checked(results, [rates, added, reached, *caps, both])

    return Case(name, between([tenant], runs), judge)


def small(peers):
    """A program that does not fill the card: alone under a cap above its need, and two of them."""
    title, program = "PyTorch inference, eager, small batch", "infer_small"
    capped = Tenant(program, cap_percent=90)
    alone = [Run(side, CAPPED, (capped,)) for side in ["divvy", *peers] * ROUNDS]
    native_pair = Run("native", PAIR, (Tenant(program),) * 2)
    pairs = [native_pair]
    for side in ["divvy", *peers] * ROUNDS:
        pairs += [Run(side, PAIR, (capped,) * 2), native_pair]

    def judge(results):
        kept = Figure(f"{title}, cap of 90 %", "steps/s", ("kept", 0.98))
        both = Figure(f"{title}, two with caps of 90 %, sum", "steps/s", ("kept", 1.0))
        least = Figure(f"{title}, two with caps of 90 %, the slower", "steps/s", ("kept", 1.0))
        results.fill(kept, ALONE, results.first_rate)
        results.fill(kept, CAPPED, results.first_rate)
        results.fill(both, PAIR, lambda at: sum(results.rates(at)))
        results.fill(least, PAIR, lambda at: min(results.rates(at)))
        return (checked_by_halves(results, [kept], ALONE)
                + checked_by_halves(results, [both, least], PAIR))

    return Case("small", between([Tenant(program)], alone) + pairs, judge)


def capped(name, title, program, peers):
    """A program alone with a cap, of which it has all.

    It may do more than that part of its steps: natively the host holds it up, two processes lose to
    the driver's slices, or the card's clock falls. A cap is of the device's time.
    """
    tenant = Tenant(program)
    with_cap = (Tenant(program, cap_percent=PROGRAM_CAP),)
    runs = [Run(side, CAPPED, with_cap, windows=2) for side in ["divvy", *peers] * PROGRAM_ROUNDS]

    def judge(results):
        rates = Figure(f"{title}, no cap", "steps/s")
        reached = Figure(f"{title}, cap of {PROGRAM_CAP} %, of native", "%",
                         ("at_least", PROGRAM_CAP - 1))
        results.fill(rates, ALONE, results.first_rate)
        results.fill(reached, CAPPED, lambda at: results.shares(at)[0])
        return checked(results, [rates, reached])

    return Case(name, between([tenant], runs), judge)


def gang(name, title, tenants, words, peers, least=None):
    """A job over two cards beside another tenant, on the bare driver and in turns.

    Each should have `least` percent of what it has alone. Where both are of one program there is a pair
    with caps as well, and one alone under a cap.
    """
    runs = [Run(side, PAIR, tenants, windows=2) for side in ["native", "divvy", *peers]]
    references = list(dict.fromkeys(tenants))
    caps = (30, 70) if len(references) == 1 else ()
    if caps:
        job = references[0]
        capped = tuple(dataclasses.replace(job, cap_percent=cap) for cap in caps)
        alone = (dataclasses.replace(job, cap_percent=GANG_CAP),)
        runs += [Run("divvy", CAPPED_PAIR, capped, windows=3),
                 Run("divvy", CAPPED, alone, windows=2)]

    def judge(results):
        equal = Figure(f"{title}, furthest from equal", "points", ("at_most", 5))
        both = Figure(f"{title}, sum", "%")
        each = [Figure(f"{title}, {word}'s of alone", "%", least and ("at_least", least))
                for word in words]
        out = [equal, *each, both]
        results.fill(equal, PAIR, lambda at: uneven(results.shares(at)))
        fill_each(results, PAIR, each)
        results.fill(both, PAIR, lambda at: sum(results.shares(at)))
        if caps:
            each = [Figure(f"{title}, of 30 and 70 %, {cap} %'s of alone", "%", ("within", [cap, 2]))
                    for cap in caps]
            both = Figure(f"{title}, of 30 and 70 %, sum", "%", ("at_least", 93))
            one = Figure(f"{title}, one alone with a cap of {GANG_CAP} %", "%",
                         ("within", [GANG_CAP, 1]))
            fill_each(results, CAPPED_PAIR, each)
            results.fill(both, CAPPED_PAIR, lambda at: sum(results.shares(at)))
            results.fill(one, CAPPED, lambda at: results.shares(at)[0])
            out += [*each, both, one]
        return checked(results, out)

    return Case(name, between(references, runs), judge)


def fill_each(results, role, figures):
    """A figure for each program of the runs of `role`: its part of what it has alone."""
    for place, figure in enumerate(figures):
        results.fill(figure, role, lambda at, place=place: results.shares(at)[place])


def uneven(shares):
    """How far the furthest of them is from their mean."""
    mean = statistics.fmean(shares)
    return max(abs(share - mean) for share in shares)


def cases(peers, cards):
    """All that can be measured with so many cards, what matters most first."""
    out = [
        training("resnet", "PyTorch, ResNet-50-like training", "train_resnet", peers),
        training("gpt", "PyTorch, GPT-2-like training by CUDA graphs", "train_gpt", peers),
        small(peers),
    ]
    if cards > 1:
        job = Tenant("allreduce", cards=2)
        out += [
            gang("gang-two", "two NCCL jobs over two cards", (job, job),
                 ("the first", "the second"), peers, least=45),
            gang("gang-one", "an NCCL job over two cards beside training on one",
                 (job, Tenant("train_gpt")), ("the job", "the training"), peers),
        ]
    return out + [
        capped("server", "PyTorch, a server of graphs as vLLM's", "serve_graphs", peers),
        capped("instances", "PyTorch, eight instances of a model in a process", "serve_instances",
               peers),
        capped("jax", "JAX, jitted products", "steps_jax", peers),
        capped("ranks", "PyTorch, two processes of one tenant, their sum", "two_ranks", peers),
    ]
