// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A report for programs. Ages are in milliseconds, and absent if unknown. Tags are texts, because they have 64 bits.

use core::fmt::Write;
use core::time::Duration;

use super::{DomainReport, EpReport, Kept, Part, Peer, Receive, Source, Wait};
use sync::stats::EpStats;

/// A JSON text in the making.
#[derive(Default)]
struct Json(String);

impl Json {
    fn text(&mut self, text: &str) {
        self.0.push('"');
        for c in text.chars() {
            match c {
                '"' | '\\' => self.0.extend(['\\', c]),
                c if c.is_control() => {
                    // Writing to a text cannot fail.
                    let _ = write!(self.0, "\\u{:04x}", c as u32);
                }
                c => self.0.push(c),
            }
        }
        self.0.push('"');
    }

    /// Writes a comma, unless the next element is the first one here.
    fn comma(&mut self) {
        if !self.0.ends_with(['{', '[']) && !self.0.is_empty() {
            self.0.push(',');
        }
    }

    fn name(&mut self, name: &str) {
        self.comma();
        self.text(name);
        self.0.push(':');
    }

    fn number(&mut self, name: &str, number: impl Into<u64>) {
        self.name(name);
        let _ = write!(self.0, "{}", number.into());
    }

    fn words(&mut self, name: &str, text: &str) {
        self.name(name);
        self.text(text);
    }

    fn truth(&mut self, name: &str, truth: bool) {
        self.name(name);
        let _ = write!(self.0, "{truth}");
    }

    fn tag(&mut self, name: &str, tag: u64) {
        self.name(name);
        let _ = write!(self.0, "\"{tag:#x}\"");
    }

    fn age(&mut self, age: Option<Duration>) {
        if let Some(age) = age {
            self.number("age_ms", age.as_millis() as u64);
        }
    }

    fn object(&mut self, write: impl FnOnce(&mut Json)) {
        self.comma();
        self.0.push('{');
        write(self);
        self.0.push('}');
    }

    fn list<T>(&mut self, name: &str, all: &[T], one: impl Fn(&mut Json, &T)) {
        self.name(name);
        self.0.push('[');
        for item in all {
            one(self, item);
        }
        self.0.push(']');
    }

    fn source(&mut self, source: Option<&Source>) {
        if let Some(Source { fi_addr, address }) = source {
            self.number("peer", *fi_addr);
            if let Some(address) = address {
                self.words("address", address);
            }
        }
    }
}

pub fn write(title: &str, pid: u32, domains: &[DomainReport]) -> String {
    let mut json = Json::default();
    json.object(|json| {
        json.words("title", title);
        json.number("pid", pid);
        json.list("domains", domains, |json, one| {
            json.object(|json| domain(json, one))
        });
    });
    json.0 + "\n"
}

fn domain(json: &mut Json, domain: &DomainReport) {
    json.number("number", domain.number);
    json.words("provider", &domain.provider);
    json.words("name", &domain.name);
    json.truth("busy", domain.endpoints.is_none());
    if let Some(endpoints) = &domain.endpoints {
        json.list("endpoints", endpoints, |json, one| {
            json.object(|json| endpoint(json, one))
        });
    }
}

fn endpoint(json: &mut Json, ep: &EpReport) {
    json.words("address", &ep.address);
    json.words("type", super::type_name(ep.ep_type));
    json.truth("enabled", ep.enabled);
    part(json, ep.part);
    if let Some(stats) = &ep.stats {
        counters(json, stats);
    }
    json.number("transmits", ep.transmits as u64);
    json.number("most_transmits", ep.most_transmits as u64);
    json.number("receives_count", ep.receives.count as u64);
    json.list("receives", &ep.receives.first, |json, one| {
        json.object(|json| receive(json, one))
    });
    json.number("kept_count", ep.kept.count as u64);
    json.number("kept_bytes", ep.kept_bytes as u64);
    json.list("kept", &ep.kept.first, |json, one| {
        json.object(|json| kept(json, one))
    });
    json.list("peers", &ep.peers, |json, one| {
        json.object(|json| peer(json, one))
    });
}

/// Writes nothing for an endpoint without contexts.
fn part(json: &mut Json, part: Part) {
    let (name, index) = match part {
        Part::Whole => return,
        Part::Scalable => return json.truth("scalable", true),
        Part::Receive(index) => ("receive", Some(index)),
        Part::Transmit(index) => ("transmit", Some(index)),
        Part::Closed => ("closed", None),
    };
    json.words("context", name);
    if let Some(index) = index {
        json.number("index", index as u64);
    }
}

fn counters(json: &mut Json, stats: &EpStats) {
    for (name, (operations, bytes)) in stats.tallies() {
        json.number(name, operations);
        json.number(&format!("{name}_bytes"), bytes);
    }
    for (name, count) in stats.counts() {
        json.number(name, count);
    }
}

fn receive(json: &mut Json, receive: &Receive) {
    json.truth("tagged", receive.tagged);
    if receive.tagged {
        json.tag("tag", receive.tag);
        json.tag("ignore", receive.ignore);
    }
    json.number("bytes", receive.len as u64);
    json.source(receive.from.as_ref());
    json.age(receive.age);
}

fn kept(json: &mut Json, kept: &Kept) {
    json.truth("tagged", kept.tagged);
    if kept.tagged {
        json.tag("tag", kept.tag);
    }
    json.number("bytes", kept.len);
    json.source(kept.from.as_ref());
}

fn peer(json: &mut Json, peer: &Peer) {
    json.words("address", &peer.address);
    if let Some(fi_addr) = peer.fi_addr {
        json.number("peer", fi_addr);
    }
    json.words("state", peer.state);
    json.truth("connected", peer.is_up);
    json.words("link", peer.link);
    if let (Some(sent), Some(received)) = (peer.sent, peer.received) {
        json.number("bytes_out", sent);
        json.number("bytes_in", received);
    }
    json.number("attempts", peer.attempts);
    if let Some(error) = peer.last_error {
        json.number("last_error", error.unsigned_abs());
    }
    json.list("notes", &peer.notes, |json, note| {
        json.comma();
        json.text(note);
    });
    json.number("waits_count", peer.waits_count as u64);
    json.list("waits", &peer.waits, |json, one| {
        json.object(|json| wait(json, one))
    });
}

fn wait(json: &mut Json, wait: &Wait) {
    json.words("what", &wait.what);
    json.number("bytes", wait.len);
    if let Some(tag) = wait.tag {
        json.tag("tag", tag);
    }
    json.words("stage", wait.stage);
    json.age(wait.age);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_items_are_apart() {
        let mut json = Json::default();
        json.object(|json| {
            json.words("a", "\"\\\n\u{1}é");
            json.list("b", &[1u64, 2], |json, n| {
                json.object(|json| json.number("n", *n))
            });
            json.list("c", &[] as &[u64], |_, _| {});
            json.truth("d", false);
        });
        let expected = r#"{"a":"\"\\\u000a\u0001é","b":[{"n":1},{"n":2}],"c":[],"d":false}"#;
        assert_eq!(json.0, expected);
    }

    #[test]
    fn the_json_has_what_the_text_has() {
        let text = write("title", 7, &super::super::text::tests::sample());
        for part in [
            r#"{"title":"title","pid":7,"domains":[{"number":0,"provider":"tcp","name":"lo","busy":false"#,
            r#""recv":1,"recv_bytes":5"#,
            r#"{"tagged":true,"tag":"0x4d","ignore":"0x0","bytes":80,"peer":1,"address":"1.2.3.4:5","age_ms":2500}"#,
            r#""state":"connecting","connected":false"#,
            r#""waits_count":65"#,
            r#""number":1,"provider":"tcp","name":"lo","busy":true}]}"#,
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert_eq!(text.matches("\"what\"").count(), 64);
    }
}
