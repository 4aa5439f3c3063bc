// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Misspelt names of variables.

/// Returns the most similar variable, if it is similar enough for a spelling mistake. `name` begins with `FI_`. Layered
/// providers are often named without their `OFI_`.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let far = name.len().saturating_sub("FI_".len()) / 4;
    let name = name.replacen("FI_OFI_", "FI_", 1);
    let near = names.map(|known| {
        let short = known.replacen("FI_OFI_", "FI_", 1);
        (distance(&name, &short), known)
    });
    let (steps, known) = near.min_by_key(|(steps, _)| *steps)?;
    (steps <= far.max(1)).then_some(known)
}

/// Returns the number of letters to insert, remove, replace, or swap with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let (from, to) = (from.as_bytes(), to.as_bytes());
    let mut rows = vec![(0..=to.len()).collect::<Vec<usize>>()];
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(a != b);
            let mut least = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_counted() {
        for (from, to, steps) in [
            ("FI_TCP_IFACE", "FI_TCP_IFACE", 0),
            ("FI_TCP_IFAEC", "FI_TCP_IFACE", 1),
            ("FI_TCP_FACE", "FI_TCP_IFACE", 1),
            ("FI_TCP_IFFACE", "FI_TCP_IFACE", 1),
            ("FI_TXP_IFADE", "FI_TCP_IFACE", 2),
            ("", "abc", 3),
        ] {
            assert_eq!(distance(from, to), steps, "{from} {to}");
            assert_eq!(distance(to, from), steps, "{to} {from}");
        }
    }

    #[test]
    fn a_name_that_is_like_no_other_is_not_misspelt() {
        let names = [
            "FI_TCP_IFACE",
            "FI_LOG_LEVEL",
            "FI_PROVIDER",
            "FI_HOOK",
            "FI_OFI_RXM_TX_SIZE",
        ];
        let near = |name| nearest(name, names.into_iter());
        assert_eq!(near("FI_LOGLEVEL"), Some("FI_LOG_LEVEL"));
        assert_eq!(near("FI_PROVIDERS"), Some("FI_PROVIDER"));
        assert_eq!(near("FI_HOK"), Some("FI_HOOK"));
        assert_eq!(near("FI_RXM_TX_SIZE"), Some("FI_OFI_RXM_TX_SIZE"));
        assert_eq!(near("FI_OFI_RXM_TX_SIZ"), Some("FI_OFI_RXM_TX_SIZE"));
        assert_eq!(near("FI_TCP_INTERFACE"), None);
        assert_eq!(near("FI_EFA_FORK_SAFE"), None);
        assert_eq!(near("FI_"), None);
    }
}
