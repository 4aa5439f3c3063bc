// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `--svg`: two panels, microseconds and megabytes per second over the message size, with logarithmic axes.

use std::fmt::Write;

/// One curve in both panels: size, microseconds per transfer, 10^6 bytes per second.
pub struct Series {
    pub label: String,
    pub points: Vec<(f64, f64, f64)>,
}

/// Returns the SVG document.
pub fn draw(title: &str, series: &[Series]) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    text(&mut out, (WIDTH / 2.0, 22.0), "middle", title);
    let first = |pick: fn(&(f64, f64, f64)) -> f64| move |p: &(f64, f64, f64)| (p.0, pick(p));
    panel(
        &mut out,
        70.0,
        "microseconds per transfer",
        series,
        first(|p| p.1),
    );
    panel(
        &mut out,
        500.0,
        "10^6 bytes per second",
        series,
        first(|p| p.2),
    );
    for (at, one) in series.iter().enumerate() {
        let y = HEIGHT - 18.0 - 18.0 * (series.len() - 1 - at) as f64;
        let color = COLORS[at % COLORS.len()];
        let _ = writeln!(
            out,
            "<line x1=\"70\" y1=\"{0}\" x2=\"94\" y2=\"{0}\" stroke=\"{color}\" stroke-width=\"2\"/>",
            y - 4.0
        );
        text(&mut out, (100.0, y), "start", &one.label);
    }
    out.push_str("</svg>\n");
    out
}

fn panel(
    out: &mut String,
    left: f64,
    name: &str,
    series: &[Series],
    point: impl Fn(&(f64, f64, f64)) -> (f64, f64),
) {
    let all = || series.iter().flat_map(|one| one.points.iter().map(&point));
    let drawn = |(x, y): &(f64, f64)| *x > 0.0 && *y > 0.0;
    let x = Axis::over(
        all().filter(drawn).map(|(x, _)| x),
        2.0,
        (left, left + SIDE),
    );
    let y = Axis::over(all().filter(drawn).map(|(_, y)| y), 10.0, (BOTTOM, TOP));
    text(out, (left + SIDE / 2.0, TOP - 10.0), "middle", name);
    text(out, (left + SIDE / 2.0, BOTTOM + 36.0), "middle", "bytes");
    for (value, at) in x.ticks(7) {
        rule(out, (at, TOP), (at, BOTTOM));
        text(out, (at, BOTTOM + 16.0), "middle", &short(value, 1024.0));
    }
    for (value, at) in y.ticks(8) {
        rule(out, (left, at), (left + SIDE, at));
        text(out, (left - 6.0, at + 4.0), "end", &short(value, 1000.0));
    }
    for (number, one) in series.iter().enumerate() {
        let color = COLORS[number % COLORS.len()];
        let places: Vec<(f64, f64)> = one.points.iter().map(&point).filter(drawn).collect();
        let places: Vec<(f64, f64)> = places.iter().map(|p| (x.at(p.0), y.at(p.1))).collect();
        let words: Vec<String> = places
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let words = words.join(" ");
        let _ = writeln!(
            out,
            "<polyline points=\"{words}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>"
        );
        for (x, y) in places {
            let _ = writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{color}\"/>"
            );
        }
    }
}

/// A logarithmic axis whose ends are powers of its base.
struct Axis {
    base: f64,
    powers: (f64, f64),
    places: (f64, f64),
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, base: f64, places: (f64, f64)) -> Axis {
        let (least, most) = values.fold((f64::MAX, 0.0_f64), |(a, b), v| (a.min(v), b.max(v)));
        let (least, most) = if most > 0.0 {
            (least, most)
        } else {
            (1.0, base)
        };
        let low = least.log(base).floor();
        // Leaves room beside a single value.
        let powers = (low, most.log(base).ceil().max(low + 1.0));
        Axis {
            base,
            powers,
            places,
        }
    }

    fn at(&self, value: f64) -> f64 {
        let part = (value.log(self.base) - self.powers.0) / (self.powers.1 - self.powers.0);
        self.places.0 + part * (self.places.1 - self.places.0)
    }

    /// Returns at most about `most` powers of the base, with their positions.
    fn ticks(&self, most: usize) -> Vec<(f64, f64)> {
        let (low, high) = (self.powers.0 as i32, self.powers.1 as i32);
        let step = ((high - low) as usize).div_ceil(most).max(1);
        let values = (low..=high)
            .step_by(step)
            .map(|power| self.base.powi(power));
        values.map(|value| (value, self.at(value))).collect()
    }
}

fn rule(out: &mut String, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        out,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#ccc\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text(out: &mut String, at: (f64, f64), anchor: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    let (x, y) = at;
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
    );
}

/// Abbreviates a number: 65536 is 64k if `unit` is 1024.
fn short(value: f64, unit: f64) -> String {
    let powers = [("g", 3), ("m", 2), ("k", 1)];
    let found = powers.iter().find(|(_, power)| value >= unit.powi(*power));
    match found {
        Some((letter, power)) => format!("{}{letter}", value / unit.powi(*power)),
        None => format!("{value}"),
    }
}

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 480.0;
const SIDE: f64 = 360.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 380.0;
const COLORS: [&str; 3] = ["#1f77b4", "#d62728", "#2ca02c"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_stand_at_the_ends() {
        let axis = Axis::over([8.0, 64.0].into_iter(), 2.0, (0.0, 30.0));
        assert_eq!(
            (axis.at(8.0), axis.at(16.0), axis.at(64.0)),
            (0.0, 10.0, 30.0)
        );
    }

    #[test]
    fn every_point_is_drawn_and_words_are_escaped() {
        let points = vec![(64.0, 1.0, 64.0), (4096.0, 2.0, 2048.0)];
        let series = [Series {
            label: "a<b".into(),
            points,
        }];
        let text = draw("t", &series);
        assert_eq!(text.matches("<circle").count(), 4);
        assert!(text.contains("a&lt;b") && !text.contains("NaN") && !text.contains("inf"));
    }
}
