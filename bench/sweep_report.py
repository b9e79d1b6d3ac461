#!/usr/bin/env python3
"""What a table of sweep.py says: geometric means by kind, size, dtype, layout and direction, and every row by its ratio.

Usage: sweep_report.py TABLE.tsv... [--limits FOLDER] [--html FILE] [--below 0.8]. FOLDER holds the built program `bench_limits`, which
measures what the machine can do; with it each forward row says which share of that it reached. Without --html only the summary is
printed, with the rows that are below.
"""
import argparse
import html
import math
import pathlib
import re
import signal
import statistics
import subprocess

import operators

FACTORS = ("size", "dtype", "layout", "direction", "kind", "threads")
PRODUCT = re.compile(r"::(addmm|baddbmm|bmm|mm|mv|matmul|linear|inner|linalg_matmul)\(")
LEAST, MOST = 0.25, 16  # of the plots' axis


def read(paths):
    rows = []
    for path in paths:
        lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
        rows += [dict(zip(lines[0], line)) for line in lines[1:] if line[0] != "operator"]
    return rows


def ratios(rows):
    return [float(r["ratio"]) for r in rows if r["ratio"]]


def mean(rows):
    found = ratios(rows)
    return math.exp(statistics.fmean(map(math.log, found))) if found else math.nan


def counts(rows):
    """(rows, geometric mean, least, share that is at least 1, rows below 0.8, rows that Facula does not take)"""
    found = ratios(rows)
    at_least = sum(r >= 1 for r in found) / len(found) if found else math.nan
    return (len(rows), mean(rows), min(found, default=math.nan), at_least, sum(r < 0.8 for r in found), len(rows) - len(found))


def groups(rows):
    """(factor, value) -> rows, all rows first."""
    found = {("all", ""): rows}
    for factor in FACTORS:
        for row in rows:
            found.setdefault((factor, row[factor]), []).append(row)
    return found


# ---- shares of the machine's limits


def limits(folder):
    fma, triad = 0.0, []
    for line in subprocess.run([folder / "bench_limits"], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines():
        name, *numbers = line.split("\t")
        if name == "fma":
            fma = float(numbers[0])
        else:
            triad.append((float(numbers[0]), float(numbers[1])))
    return fma, triad


def operations(row):
    """Floating-point operations of a product of float32 matrices, 0 for all else."""
    tensors = operators.TENSOR.findall(row["row"]) if PRODUCT.search(row["row"]) and row["dtype"] == "f32" else []
    if len(tensors) < 2:
        return 0
    left = tensors[1] if re.search(r"::(addmm|baddbmm)\(", row["row"]) else tensors[0]
    return 2 * float(row["numel"] or 0) * operators.number(left[1].split(",")[-1])


def share(row, found):
    """Of the limit that is nearer, for a row that went forward on one thread."""
    if not found or not row["facula"] or row["direction"] != "forward" or row["threads"] != "1":
        return None
    fma, triad = found
    seconds, moved = float(row["facula"]) * 1e-6, float(row["bytes"] or 0)
    rate = next((r for size, r in triad if size >= moved), triad[-1][1])
    return max(moved / (rate * 1e9), operations(row) / (fma * 1e9)) / seconds


# ---- text


def print_summary(rows, below):
    print("                                                rows  mean   least  >=1.0  <0.8  refused")
    for (factor, value), members in groups(rows).items():
        n, geometric, least, at_least, low, refused = counts(members)
        print(f"{factor + ' ' + value:46.46} {n:6} {geometric:6.2f} {least:6.2f} {at_least:6.1%} {low:5} {refused:5}")
    slow = sorted((r for r in rows if r["ratio"] and float(r["ratio"]) < below), key=lambda r: float(r["ratio"]))
    for r in slow:
        print(f"{float(r['ratio']):5.2f}  {float(r['facula']):10.1f} us  {r['row']}")
    for r in rows:
        if not r["ratio"]:
            print(f"refused            {r['row']}")


# ---- a page

STYLE = """body{font:14px system-ui,sans-serif;margin:2em auto;max-width:76em;padding:0 1em;color:#222;background:#fff}
table{border-collapse:collapse;width:100%}td,th{padding:.15em .6em;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}code{font-size:12px}.low{background:#fdd}.mid{background:#fff4d6}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}td,th{border-color:#444}.low{background:#5a2020}.mid{background:#4a3c10}}"""


def place(ratio, width):
    at = math.log(min(max(ratio, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return at * width


def histogram(rows, width=360, height=36, bins=60):
    """Ratios on a logarithmic axis, with lines at 0.8 and 1."""
    columns = [0] * bins
    for r in ratios(rows):
        columns[min(bins - 1, int(place(r, bins)))] += 1
    most = max(columns) or 1
    bars = "".join(f'<rect x="{i * width / bins:.1f}" y="{height * (1 - n / most):.1f}" width="{width / bins - 0.5:.1f}" '
                   f'height="{height * n / most:.1f}" fill="#4a7ebb"/>' for i, n in enumerate(columns) if n)
    marks = "".join(f'<line x1="{place(r, width):.1f}" x2="{place(r, width):.1f}" y1="0" y2="{height}" stroke="{color}"/>'
                    for r, color in ((0.8, "#c33"), (1, "#888")))
    return f'<svg width="{width}" height="{height}" role="img" aria-label="distribution of ratios">{bars}{marks}</svg>'


def page(rows, found, title):
    summary = "".join(
        f"<tr><td>{html.escape(f'{factor} {value}')}</td><td>{n}</td><td>{g:.2f}</td><td>{least:.2f}</td><td>{share_:.1%}</td>"
        f"<td>{low}</td><td>{refused}</td><td>{histogram(members)}</td></tr>"
        for (factor, value), members in groups(rows).items() for n, g, least, share_, low, refused in [counts(members)])
    body = []
    for r in sorted(rows, key=lambda r: float(r["ratio"] or 0)):
        ratio, part = float(r["ratio"] or 0), share(r, found)
        mark = ' class="low"' if ratio < 0.8 else ' class="mid"' if ratio < 1 else ""
        body.append(f"<tr{mark}><td><code>{html.escape(r['row'])}</code></td><td>{r['threads']}</td><td>{r['facula']}</td>"
                    f"<td>{r['pytorch']}</td><td>{r['ratio'] or 'refused'}</td><td>{'' if part is None else f'{part:.0%}'}</td></tr>")
    machine = f"<p>Limits of one core: {found[0]:.0f} GFLOP/s of float32, triad " + ", ".join(
        f"{rate:.0f} GB/s to {size / 1024:.0f} KiB" for size, rate in found[1]) + ".</p>" if found else ""
    return (f"<!doctype html><meta charset='utf-8'><title>{html.escape(title)}</title><style>{STYLE}</style><h1>{html.escape(title)}</h1>"
            f"<p>Ratio: PyTorch's time / Facula's; above 1 Facula is faster. The plots' axis goes from {LEAST} to {MOST}, with lines at 0.8 "
            f"and 1.</p>{machine}<table><tr><th>rows with</th><th>n</th><th>mean</th><th>least</th><th>&ge; 1</th><th>&lt; 0.8</th>"
            f"<th>refused</th><th></th></tr>{summary}</table><h2>Rows</h2><table><tr><th>call</th><th>threads</th><th>Facula, us</th>"
            f"<th>PyTorch, us</th><th>ratio</th><th>of the limit</th></tr>{''.join(body)}</table>")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", type=pathlib.Path, nargs="+", help="what sweep.py wrote")
    parser.add_argument("--limits", type=pathlib.Path, help="the folder of the built program bench_limits")
    parser.add_argument("--html", type=pathlib.Path, help="write a page with plots and all rows")
    parser.add_argument("--below", type=float, default=0.8, help="print the rows whose ratio is below")
    options = parser.parse_args()
    rows = read(options.tables)
    print_summary(rows, options.below)
    if options.html:
        head = options.tables[0].read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        options.html.write_text(page(rows, limits(options.limits) if options.limits else None, head), encoding="utf-8")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # to end as other programs do where nobody reads on
    main()
