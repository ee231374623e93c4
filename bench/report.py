"""The rounds as one table: ratios first, what they are of beside them, and the machine."""

import os
import platform
from statistics import median

Rounds = list[dict]


def table(rounds: Rounds) -> str:
    lines = [
        f"Medians of {len(rounds)} round{'s' if len(rounds) > 1 else ''}, least and most in brackets. {machine()}",
        "",
        "| what | ratio | goal | of |",
        "| --- | --- | --- | --- |",
        *(row(rounds, *each) for each in RATIOS),
        "",
        "| a Run with one question | statements | commits that write | WAL | CPU of driver and worker |",
        "| --- | --- | --- | --- | --- |",
        *(cost(rounds, *each) for each in NAMES.items()),
        "",
        idle(rounds),
        "",
        stalls(rounds),
    ]
    return "\n".join(lines)


NAMES = {
    "plain": "Sayso, scripted loop",
    "conversing": "Sayso, pydantic-ai",
    "floor_django": "floor in Django",
    "floor_psycopg": "floor in psycopg",
}


def settled(name: str, part: str = "p50"):
    return lambda found: found[name]["settled"][part]


def rate(name: str, drivers: int):
    return lambda found: found[name][f"loop{drivers}"]


def last(which: str, count: int):
    return lambda found: found[which, count]["p50"]


MS, RATE = "{:.1f} ms", "{:.0f}/s"
REST, LOOP = "answer → resumed at rest", "Runs/s, 16 drivers"
# what, ours, the floor, how both are written, the goal
RATIOS = [
    (f"{REST}, p50 ÷ floor in Django", settled("plain"), settled("floor_django"), MS, "≤ 1.25"),
    (f"{REST}, p50 ÷ floor in psycopg", settled("plain"), settled("floor_psycopg"), MS, ""),
    (f"{REST}, p95 ÷ its own p50", settled("plain", "p95"), settled("plain"), MS, "≤ 2"),
    (f"{REST}, pydantic-ai, p50 ÷ floor in Django", settled("conversing"), settled("floor_django"), MS, ""),
    ("Runs/s, 1 driver ÷ floor in Django", rate("plain", 1), rate("floor_django", 1), RATE, ""),
    (f"{LOOP} ÷ floor in Django", rate("plain", 16), rate("floor_django", 16), RATE, "≥ 0.8"),
    (f"{LOOP}, pydantic-ai ÷ floor in Django", rate("conversing", 16), rate("floor_django", 16), RATE, ""),
    (f"{LOOP} ÷ floor in psycopg", rate("plain", 16), rate("floor_psycopg", 16), RATE, ""),
    (f"{LOOP} ÷ pgbench", rate("plain", 16), lambda found: found["limit"], RATE, "≥ 0.06"),
    (
        "AAP calls/s, 1 at once ÷ Runs/s of floor in Django",
        rate("elsewhere", 1),
        rate("floor_django", 1),
        RATE,
        "",
    ),
    ("AAP calls/s, 16 at once ÷ Runs/s of floor in Django", rate("elsewhere", 16), rate("floor_django", 16), RATE, ""),
    ("commit → 1 socket, p50 ÷ bare ASGI", last("ours", 1), last("raw", 1), MS, "≤ 1.5"),
    ("commit → last of 100 sockets, p50 ÷ bare ASGI", last("ours", 100), last("raw", 100), MS, "≤ 1.5"),
]


def row(rounds: Rounds, what: str, ours, floor, form: str, goal: str) -> str:
    ratios = [ours(found) / floor(found) for found in rounds]
    of = " ÷ ".join(form.format(median(each(found) for found in rounds)) for each in (ours, floor))
    return f"| {what} | **{median(ratios):.2f}** ({min(ratios):.2f}-{max(ratios):.2f}) | {goal} | {of} |"


def cost(rounds: Rounds, name: str, title: str) -> str:
    each = {kind: median(found[name]["cost"][kind] for found in rounds) for kind in rounds[0][name]["cost"]}
    return (
        f"| {title} | {each['statements']:.1f} | {each['written']:.1f} | {each['wal'] / 1024:.1f} KB "
        f"| {each['cpu']:.1f} ms |"
    )


def idle(rounds: Rounds) -> str:
    """What open long polls cost the server while nothing happens."""
    each = [found["idle"] for found in rounds]
    parts = ("threads", "{:.0f}"), ("connections", "{:.0f}"), ("memory", "{:.0f} MB")
    told = [
        f"{name} {form.format(median(at['before'][name] for at in each))} → "
        f"{form.format(median(at['during'][name] for at in each))}"
        for name, form in parts
    ]
    return f"{min(at['open'] for at in each):,} open long polls: {', '.join(told)}."


def stalls(rounds: Rounds) -> str:
    ours = [found[name] for found in rounds for name in ("plain", "conversing")]
    slow, runs = (sum(each[name] for each in ours) for name in ("stalls", "runs"))
    lost = sum(found["ours", count]["lost"] for found in rounds for count in (1, 100))
    return (
        f"Runs of Sayso that took over 5 s: {slow} of {runs} (a worker looks by itself every 30 s: a lost wake-up "
        f"would show). News that did not reach every socket within 5 s: {lost}."
    )


def machine() -> str:
    with open("/proc/cpuinfo") as file:
        model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "unknown CPU")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores ({model}), {memory:.0f} GB, Python {platform.python_version()}, PostgreSQL 18 with "
        "default durability; drivers, worker, server and PostgreSQL share the cores."
    )
