# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""One SVG per table: lines over two logarithmic axes, drawn with nothing but text."""
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 400, 70, 120, 40, 50
COLORS = {"ours": "#c0392b", "other": "#2c6fbb", "other 2": "#27864a", "other 3": "#8e5bb5", "limit": "#888888"}


def short(value):
    """1048576 is 1M where the axis counts in powers of two, 0.00002 is 20u."""
    if value >= 1024 and value == int(value) and (int(value) & (int(value) - 1)) == 0:
        for factor, letter in ((1 << 20, "Mi"), (1 << 10, "Ki")):
            if value >= factor:
                return f"{value / factor:g}{letter}"
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1, "")):
        if value >= factor:
            return f"{value / factor:g}{letter}"
    for factor, letter in ((1e-3, "m"), (1e-6, "u"), (1e-9, "n")):
        if value >= factor * 0.999:
            return f"{value / factor:g}{letter}"
    return f"{value:g}"


def decades(low, high):
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    return [10.0 ** n for n in range(first, max(last, first + 1) + 1)]


def svg(title, x_label, unit, series, names):
    """`series`: name of COLORS to [(x, y)]; x 0 stands left of 1. The text of the picture, or nothing to draw."""
    points = [point for line in series.values() for point in line if point[1] > 0]
    if not points:
        return None
    place = lambda x: math.log2(x) if x >= 1 else -1.0
    xs = sorted({x for x, _ in points})
    left, right = place(xs[0]), max(place(xs[-1]), place(xs[0]) + 1)
    marks = decades(min(y for _, y in points), max(y for _, y in points))
    bottom, top = math.log10(marks[0]), math.log10(marks[-1])
    px = lambda x: LEFT + (place(x) - left) / (right - left) * (WIDTH - LEFT - RIGHT)
    py = lambda y: HEIGHT - BOTTOM - (math.log10(y) - bottom) / (top - bottom) * (HEIGHT - TOP - BOTTOM)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="22" font-size="14">{title}</text>',
           f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle">{x_label}</text>',
           f'<text x="14" y="{HEIGHT / 2:.0f}" transform="rotate(-90 14 {HEIGHT / 2:.0f})" text-anchor="middle">{unit}</text>']
    for mark in marks:
        y = py(mark)
        out.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>'
                   f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short(mark)}</text>')
    step = math.ceil(len(xs) / 14)
    for x in xs[::step]:
        out.append(f'<path d="M{px(x):.1f} {HEIGHT - BOTTOM}v4" stroke="black"/>'
                   f'<text x="{px(x):.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{short(x) if x else 0}</text>')
    out.append(f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="black"/>')
    for row, (name, line) in enumerate(series.items()):
        at = [(px(x), py(y)) for x, y in line if y > 0]
        if not at:
            continue
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in at)
        dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{COLORS[name]}"/>' for x, y in at)
        y = TOP + 14 + 18 * row
        out.append(f'<path d="{path}" fill="none" stroke="{COLORS[name]}" stroke-width="1.8"/>{dots}'
                   f'<path d="M{WIDTH - RIGHT + 12} {y - 4}h18" stroke="{COLORS[name]}" stroke-width="2.5"/>'
                   f'<text x="{WIDTH - RIGHT + 36}" y="{y}">{names[name]}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"
