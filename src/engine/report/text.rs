// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A report for people.

use core::fmt::{self, Write};
use core::time::Duration;

use super::{DomainReport, EpReport, Kept, Listed, Part, Peer, Receive, Source, Wait};
use sync::stats::EpStats;

/// Returns the report, which ends with a line end.
pub fn write(title: &str, domains: &[DomainReport]) -> String {
    let mut out = format!("{title}\n");
    for domain in domains {
        // Writing to a text cannot fail.
        let _ = one_domain(&mut out, domain);
    }
    if domains.is_empty() {
        out += "no domain is open\n";
    }
    out
}

fn one_domain(out: &mut String, domain: &DomainReport) -> fmt::Result {
    writeln!(
        out,
        "\ndomain {} of {}: {}",
        domain.number, domain.provider, domain.name
    )?;
    let Some(endpoints) = &domain.endpoints else {
        return writeln!(
            out,
            "  busy: a thread is inside a call and does not leave it, so nothing can be said of what waits"
        );
    };
    if endpoints.is_empty() {
        writeln!(out, "  no endpoints")?;
    }
    endpoints.iter().try_for_each(|ep| one_endpoint(out, ep))
}

fn one_endpoint(out: &mut String, ep: &EpReport) -> fmt::Result {
    let state = if ep.enabled { "" } else { ", not enabled" };
    let (address, kind) = (&ep.address, super::type_name(ep.ep_type));
    match ep.part {
        Part::Whole => writeln!(out, "  endpoint {address} ({kind}{state})")?,
        Part::Scalable => writeln!(out, "  scalable endpoint {address} ({kind}{state})")?,
        Part::Receive(index) => writeln!(out, "  receive context {index} of {address}{state}")?,
        Part::Transmit(index) => writeln!(out, "  transmit context {index} of {address}{state}")?,
        Part::Closed => writeln!(out, "  closed transmit contexts of {address}")?,
    }
    if let Some(stats) = &ep.stats {
        counters(out, stats)?;
    }
    if matches!(ep.part, Part::Whole | Part::Transmit(_) | Part::Closed) {
        writeln!(
            out,
            "    operations under way: {} of {} at most",
            ep.transmits, ep.most_transmits
        )?;
    }
    if matches!(ep.part, Part::Whole | Part::Receive(_)) {
        writeln!(out, "    receives that wait: {}", ep.receives.count)?;
        list(out, &ep.receives, one_receive)?;
        writeln!(
            out,
            "    messages without a receive: {}, {} bytes",
            ep.kept.count, ep.kept_bytes
        )?;
        list(out, &ep.kept, one_kept)?;
    }
    if matches!(ep.part, Part::Whole | Part::Scalable) {
        writeln!(out, "    peers: {}", ep.peers.len())?;
        ep.peers.iter().try_for_each(|peer| one_peer(out, peer))?;
    }
    Ok(())
}

fn counters(out: &mut String, stats: &EpStats) -> fmt::Result {
    write!(out, "    so far:")?;
    for (name, (operations, bytes)) in stats.tallies() {
        if operations > 0 {
            write!(out, " {name} {operations} ({bytes} bytes)")?;
        }
    }
    for (name, count) in stats.counts() {
        if count > 0 {
            write!(out, " {name} {count}")?;
        }
    }
    writeln!(out)
}

/// Merges equal lines in a row, because a layer posts many receives that are alike.
fn list<T>(
    out: &mut String,
    listed: &Listed<T>,
    one: impl Fn(&mut String, &T) -> fmt::Result,
) -> fmt::Result {
    let mut lines: Vec<(String, usize)> = Vec::new();
    for item in &listed.first {
        let mut line = String::new();
        one(&mut line, item)?;
        match lines.last_mut() {
            Some((last, count)) if *last == line => *count += 1,
            _ => lines.push((line, 1)),
        }
    }
    for (line, count) in lines {
        match count {
            1 => out.write_str(&line)?,
            count => writeln!(out, "{}: {count} of these", line.trim_end())?,
        }
    }
    more(out, "      ", listed.count - listed.first.len())
}

fn more(out: &mut String, margin: &str, more: usize) -> fmt::Result {
    match more {
        0 => Ok(()),
        more => writeln!(out, "{margin}and {more} more"),
    }
}

fn one_receive(out: &mut String, receive: &Receive) -> fmt::Result {
    write!(
        out,
        "      {}",
        if receive.tagged {
            "tagged receive"
        } else {
            "receive"
        }
    )?;
    if receive.tagged {
        write!(out, ", tag {:#x}", receive.tag)?;
        if receive.ignore != 0 {
            write!(out, " (bits ignored: {:#x})", receive.ignore)?;
        }
    }
    write!(out, ", {} bytes, from ", receive.len)?;
    from(out, receive.from.as_ref(), "anybody")?;
    age(out, receive.age)?;
    writeln!(out)
}

fn one_kept(out: &mut String, kept: &Kept) -> fmt::Result {
    write!(out, "      message")?;
    if kept.tagged {
        write!(out, ", tag {:#x}", kept.tag)?;
    }
    write!(out, ", {} bytes, from ", kept.len)?;
    from(out, kept.from.as_ref(), "a peer without an address here")?;
    writeln!(out)
}

fn from(out: &mut String, source: Option<&Source>, nobody: &str) -> fmt::Result {
    match source {
        None => out.write_str(nobody),
        Some(Source { fi_addr, address }) => {
            let address = address.as_deref().unwrap_or("no address");
            write!(out, "peer {fi_addr} ({address})")
        }
    }
}

fn age(out: &mut String, age: Option<Duration>) -> fmt::Result {
    match age {
        Some(age) if age >= Duration::from_millis(100) => {
            write!(out, ", for more than {:.1} s", age.as_secs_f64())
        }
        _ => Ok(()),
    }
}

fn one_peer(out: &mut String, peer: &Peer) -> fmt::Result {
    write!(out, "      ")?;
    if let Some(fi_addr) = peer.fi_addr {
        write!(out, "peer {fi_addr} ")?;
    }
    write!(out, "{}: {}", peer.address, peer.state)?;
    if peer.is_up {
        write!(out, ", over {}", peer.link)?;
    }
    if let (Some(sent), Some(received)) = (peer.sent, peer.received) {
        write!(out, ", {sent} bytes out, {received} in")?;
    }
    if peer.attempts > 0 {
        write!(out, ", attempts that failed: {}", peer.attempts)?;
        if let Some(error) = peer.last_error {
            write!(out, ", the last with error {error}")?;
        }
    }
    for note in &peer.notes {
        write!(out, ", {note}")?;
    }
    writeln!(out, ", operations that wait: {}", peer.waits_count)?;
    for Wait {
        what,
        len,
        tag,
        stage,
        age: waited,
    } in &peer.waits
    {
        write!(out, "        {what}, {len} bytes")?;
        if let Some(tag) = tag {
            write!(out, ", tag {tag:#x}")?;
        }
        write!(out, ": {stage}")?;
        age(out, *waited)?;
        writeln!(out)?;
    }
    more(out, "        ", peer.waits_count - peer.waits.len())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use abi::FI_EP_RDM;
    use sync::stats::{EpStats, Tally};

    /// One domain with an endpoint, and one that is busy.
    pub fn sample() -> Vec<DomainReport> {
        let stats = EpStats::hidden();
        stats.add(Tally::RECV, 5);
        let mut peer = Peer {
            address: "1.2.3.4:5".to_owned(),
            fi_addr: Some(1),
            state: "connecting",
            attempts: 2,
            last_error: Some(111),
            ..Peer::default()
        };
        for tag in 0..65 {
            peer.add(Wait {
                what: "tagged send".to_owned(),
                len: 7,
                tag: Some(tag),
                stage: "waits",
                age: Some(Duration::from_secs(tag)),
            });
        }
        let receive = Receive {
            tagged: true,
            tag: 0x4d,
            ignore: 0,
            len: 80,
            from: Some(Source {
                fi_addr: 1,
                address: Some("1.2.3.4:5".to_owned()),
            }),
            age: Some(Duration::from_millis(2500)),
        };
        let ep = EpReport {
            address: "1.2.3.4:4".to_owned(),
            ep_type: FI_EP_RDM.0,
            enabled: true,
            part: Part::Whole,
            transmits: 65,
            most_transmits: 256,
            stats: Some(stats),
            receives: Listed::of([receive].into_iter()),
            kept: Listed::of(core::iter::empty()),
            kept_bytes: 0,
            peers: vec![peer],
        };
        let domain = |number, endpoints| DomainReport {
            number,
            provider: "tcp".to_owned(),
            name: "lo".to_owned(),
            endpoints,
        };
        vec![domain(0, Some(vec![ep])), domain(1, None)]
    }

    #[test]
    fn what_waits_is_told_with_its_peer_its_tag_and_its_age() {
        let text = write("title", &sample());
        for line in [
            "  endpoint 1.2.3.4:4 (rdm)",
            "    so far: recv 1 (5 bytes)",
            "      tagged receive, tag 0x4d, 80 bytes, from peer 1 (1.2.3.4:5), for more than 2.5 s",
            "      peer 1 1.2.3.4:5: connecting, attempts that failed: 2, the last with error 111, \
             operations that wait: 65",
            "        tagged send, 7 bytes, tag 0x1: waits, for more than 1.0 s",
            "        and 1 more",
            "domain 1 of tcp: lo",
        ] {
            assert!(text.lines().any(|told| told == line), "{line}\n{text}");
        }
        assert!(text.contains("  busy: a thread is inside a call"), "{text}");
        assert_eq!(write("title", &[]), "title\nno domain is open\n");
    }

    #[test]
    fn contexts_have_an_index_and_no_counters() {
        let mut all = sample();
        let ep = &mut all[0].endpoints.as_mut().unwrap()[0];
        (ep.part, ep.stats, ep.peers) = (Part::Receive(3), None, Vec::new());
        let text = write("title", &all);
        assert!(
            text.contains("  receive context 3 of 1.2.3.4:4\n"),
            "{text}"
        );
        assert!(text.contains("tag 0x4d, 80 bytes"), "{text}");
        for words in ["so far", "peers", "under way"] {
            assert!(!text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn equal_lines_in_a_row_are_one() {
        let mut out = String::new();
        let all = Listed::of([1, 1, 1, 2, 1].into_iter());
        list(&mut out, &all, |out, number| writeln!(out, "a {number}")).unwrap();
        assert_eq!(out, "a 1: 3 of these\na 2\na 1\n");
    }
}
