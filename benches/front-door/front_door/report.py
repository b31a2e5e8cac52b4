"""The figures as tables."""

from statistics import median

ALL = {
    "nightwatt": "nightwatt",
    "nginx": "nginx",
    "nginx-best": "nginx at its best",
    "varnish": "Varnish",
    "floor": "floor",
}
BEGIN = "<!-- front-door:begin (written by benches/front-door/run --write-docs) -->"
END = "<!-- front-door:end -->"


def spread(values, form="{:.2f}"):
    """The median, and how far the rounds were apart."""
    values = list(values)
    middle = form.format(median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({form.format(min(values))}..{form.format(max(values))})"


def figures(row, server, key):
    return [one[server][key] for one in row["rounds"] if server in one]


def ratios(row, peer, key="requests_per_cpu_s"):
    """nightwatt's requests per CPU second by the peer's of the same round. For the floor: the CPU
    time of a request by that of the floor."""
    pairs = [(one["nightwatt"]["requests_per_cpu_s"], one[peer][key])
             for one in row["rounds"] if peer in one]  # fmt: skip
    if peer == "floor":
        return [theirs / ours for ours, theirs in pairs]
    return [ours / theirs for ours, theirs in pairs]


def shown(rows):
    """The servers of a table, and how each is called there: those of every run, and earlier nightwatts."""
    found = {name for row in rows for one in row["rounds"] for name in one}
    return ALL | {name: name for name in sorted(found - set(ALL))}


def goal_for(row, peer):
    return row["goals"].get("before" if peer.startswith("before-") else peer)


def reached(row, peer):
    """Is the goal for this peer reached, by the median? None without a goal."""
    goal, found = goal_for(row, peer), ratios(row, peer)
    if goal is None or not found:
        return None
    return median(found) <= goal if peer == "floor" else median(found) >= goal


def verdict(row, peer):
    found = ratios(row, peer)
    if not found:
        return "-"
    text = spread(found)
    goal = goal_for(row, peer)
    if goal is None:
        return text
    sign = "<=" if peer == "floor" else ">="
    return f"{text} {'ok' if reached(row, peer) else 'MISSED'}: {sign} {goal:g}"


def table(header, rows):
    """A Markdown table whose columns line up, so that it can be read on a terminal too."""
    cells = [header, *rows]
    widths = [max(len(row[place]) for row in cells) for place in range(len(header))]

    def line(row):
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |"

    return "\n".join([line(header), line(["-" * width for width in widths]), *map(line, rows)])


def speed_table(rows):
    names = shown(rows)
    before = [name for name in names if name not in ALL]
    header = ["requests per CPU second, in thousands", *names.values(), "nightwatt / nginx"]
    header += ["/ nginx at its best", "/ Varnish", "/ varnishd alone", "CPU / floor"]
    header += [f"/ {name}" for name in before]
    lines = []
    for row in rows:
        line = [row["row"]]
        for server in names:
            found = [figure / 1e3 for figure in figures(row, server, "requests_per_cpu_s")]
            line.append(spread(found, "{:.1f}") if found else "-")
        alone = ratios(row, "varnish", "requests_per_cpu_s_without_helper")
        line += [verdict(row, peer) for peer in ("nginx", "nginx-best", "varnish")]
        line += [spread(alone) if alone else "-", verdict(row, "floor")]
        line += [verdict(row, name) for name in before]
        lines.append(line)
    return table(header, lines)


def rate_table(rows):
    header = ["requests/s in thousands, at what share of its core; CPU us a request (user + system)"]
    names = shown(rows)
    header += names.values()
    lines = []
    for row in rows:
        line = [row["row"]]
        for server in names:
            did = [one[server] for one in row["rounds"] if server in one]
            if not did:
                line.append("-")
                continue
            rate = median(one["requests_per_s"] for one in did) / 1e3
            user = median(one["user_s"] / one["requests"] for one in did) * 1e6
            system = median(one["system_s"] / one["requests"] for one in did) * 1e6
            share = median(one["cpu_share"] for one in did)
            spent = f"{user + system:.1f} ({user:.1f} + {system:.1f})"
            line.append(f"{rate:.1f} at {share:.0%}; {spent}")
        lines.append(line)
    return table(header, lines)


def latency_table(rows):
    asked = [name for name in ALL if any(figures(row, name, "p50_ms") for row in rows)]
    header = ["p50 / p99 in ms at a fixed rate", *(ALL[name] for name in asked)]
    lines = []
    for row in rows:
        line = [f"{row['path']}, {row['rate']} a second, {row['connections']} connections"]
        for server in asked:
            half = figures(row, server, "p50_ms")
            tail = figures(row, server, "p99_ms")
            line.append(f"{spread(half)} / {spread(tail)}" if half else "-")
        lines.append(line)
    return table(header, lines)


def quiet_table(rows):
    header = ["no traffic", "context switches/s", "CPU ms/s", "RSS MB", "PSS MB", "processes"]
    lines = []
    for row in rows:
        switches = f"{row['switches_per_s']:.2f}"
        if row["helper_switches_per_s"]:
            switches += f" (of these its log's {row['helper_switches_per_s']:.2f})"
        lines.append([
            row["server"],
            switches,
            f"{row['cpu_ms_per_s']:.2f}",
            f"{row['rss_kib'] * 1024 / 1e6:.1f}",
            f"{row['pss_kib'] * 1024 / 1e6:.1f}",
            str(row["processes"]),
        ])
    return table(header, lines)


def idle_table(rows):
    header = ["idle connections", "count", "PSS MB without", "PSS MB with", "MB per 10,000"]
    lines = [
        [
            row["server"],
            str(row["connections"]),
            f"{row['before']['pss_kib'] * 1024 / 1e6:.1f}",
            f"{row['after']['pss_kib'] * 1024 / 1e6:.1f}",
            f"{row['pss_kib_per_10000'] * 1024 / 1e6:.1f}",
        ]
        for row in rows
    ]
    return table(header, lines)


def calls_table(rows):
    header = ["system calls per request", "all", "which"]
    lines = []
    for row in rows:
        ranked = sorted(row["calls"].items(), key=lambda pair: -pair[1])
        which = ", ".join(f"{name} {count:.2f}" for name, count in ranked if count >= 0.01)
        lines.append([f"{row['server']}, {row['path']}", f"{sum(row['calls'].values()):.2f}", which])
    return table(header, lines)


SECTIONS = [
    ("speed", speed_table),
    ("speed", rate_table),
    ("latency", latency_table),
    ("idle", idle_table),
    ("quiet", quiet_table),
    ("calls", calls_table),
]


def conditions(found):
    machine, versions = found["machine"], found["versions"]
    named = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    plan = found["plan"]
    return (
        f"`{found['command']}` on {found['date']}; {machine['cores']} cores of {machine['cpu']}, "
        f"{machine['memory_gib']} GiB, {machine['kernel']}; {named}. Medians of "
        f"{plan['rounds']} rounds of {plan['seconds']} s (fixed rate: {plan['latency_rounds']} of "
        f"{plan['latency_seconds']} s) with least and most. Load average {found['load_before']} "
        f"before, {found['load_after']} after; the host took {found['steal_percent']:.1f} % of "
        f"the time."
    )


def markdown(found):
    parts = [conditions(found)]
    parts += [make(found[section]) for section, make in SECTIONS if found.get(section)]
    return "\n\n".join(parts)


def write_docs(page, found):
    """Puts the tables between the markers of that page."""
    text = page.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, finish, after = rest.partition(END)
    if not begin or not finish:
        raise ValueError(f"{page} has no place for the tables: `{BEGIN}` and `{END}`")
    page.write_text(f"{before}{BEGIN}\n\n{markdown(found)}\n\n{END}{after}")
