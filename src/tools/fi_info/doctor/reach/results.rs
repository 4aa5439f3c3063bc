// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The results of trying ports and addresses, and the line that sends them to the other side.

use std::io;
use std::net::IpAddr;

use super::control::is_timeout;

/// The result of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The expected program answered.
    Open,
    /// The connection was refused, although the program listens.
    Refused,
    /// There was no answer.
    Silent,
    /// A different program answered.
    UnknownSender,
    /// A router or this host reported that there is no route.
    NoWay,
    /// The system reported another error.
    Failed,
    /// The address is not in the scope of the side that tries. Such an address is not in the line.
    NotTried,
}

const WORDS: [(Outcome, &str); 6] = [
    (Outcome::Open, "open"),
    (Outcome::Refused, "refused"),
    (Outcome::Silent, "silent"),
    (Outcome::UnknownSender, "stranger"),
    (Outcome::NoWay, "no-way"),
    (Outcome::Failed, "failed"),
];

impl Outcome {
    /// The outcome of a connection that could not be established.
    pub fn of(error: &io::Error) -> Outcome {
        use io::ErrorKind::*;
        match error.kind() {
            ConnectionRefused | ConnectionReset => Outcome::Refused,
            HostUnreachable | NetworkUnreachable | PermissionDenied => Outcome::NoWay,
            _ if is_timeout(error) => Outcome::Silent,
            _ => Outcome::Failed,
        }
    }

    fn word(self) -> &'static str {
        let mut words = WORDS.iter();
        words
            .find(|(one, _)| *one == self)
            .map_or("", |(_, word)| word)
    }
}

/// All results of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    pub tcp: Vec<(u16, Outcome)>,
    pub udp: Vec<(u16, Outcome)>,
    pub addresses: Vec<(IpAddr, Outcome)>,
    /// Whether many bytes arrived after the token.
    pub bulk: Option<Outcome>,
}

impl Results {
    /// `tcp/40000=open udp/40000=silent address/192.0.2.1=open bulk/=open`
    pub fn line(&self) -> String {
        let tcp = self
            .tcp
            .iter()
            .map(|(port, one)| format!(" tcp/{port}={}", one.word()));
        let udp = self
            .udp
            .iter()
            .map(|(port, one)| format!(" udp/{port}={}", one.word()));
        let tried = |(_, one): &&(IpAddr, Outcome)| *one != Outcome::NotTried;
        let addresses = self.addresses.iter().filter(tried);
        let addresses = addresses.map(|(ip, one)| format!(" address/{ip}={}", one.word()));
        let bulk = self.bulk.iter().map(|one| format!(" bulk/={}", one.word()));
        tcp.chain(udp).chain(addresses).chain(bulk).collect()
    }

    /// Reads the line of the other side. It contains no other ports and addresses than these; the addresses that it
    /// lacks were not tried, unless it has none because no port was open.
    pub fn read(
        words: &[String],
        tcp: &[u16],
        udp: &[u16],
        addresses: &[IpAddr],
    ) -> Option<Results> {
        let mut results = Results::default();
        for word in words {
            let (what, outcome) = word.split_once('=')?;
            let (kind, what) = what.split_once('/')?;
            let outcome = WORDS.iter().find(|(_, word)| *word == outcome)?.0;
            match kind {
                "tcp" => results.tcp.push((one_of(what, tcp)?, outcome)),
                "udp" => results.udp.push((one_of(what, udp)?, outcome)),
                "address" => results.addresses.push((one_of(what, addresses)?, outcome)),
                "bulk" => results.bulk = Some(outcome),
                _ => return None,
            }
        }
        if results.bulk.is_some() {
            let outcome = |ip: &IpAddr| {
                let tried = results.addresses.iter().find(|(tried, _)| tried == ip);
                tried.map_or(Outcome::NotTried, |(_, outcome)| *outcome)
            };
            results.addresses = addresses.iter().map(|ip| (*ip, outcome(ip))).collect();
        }
        Some(results)
    }
}

fn one_of<T: std::str::FromStr + PartialEq>(text: &str, known: &[T]) -> Option<T> {
    text.parse().ok().filter(|value| known.contains(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<Results> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let addresses = ["192.0.2.1", "2001:db8::1"].map(|text| text.parse().unwrap());
        Results::read(&words, &[40000, 40001], &[40000], &addresses)
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let results = Results {
            tcp: vec![(40000, Outcome::Open), (40001, Outcome::Silent)],
            udp: vec![(40000, Outcome::Refused)],
            addresses: vec![
                ("192.0.2.1".parse().unwrap(), Outcome::NotTried),
                ("2001:db8::1".parse().unwrap(), Outcome::NoWay),
            ],
            bulk: Some(Outcome::Open),
        };
        assert_eq!(read(&results.line()), Some(results));
        assert_eq!(read(""), Some(Results::default()));
    }

    #[test]
    fn what_was_not_asked_is_not_read() {
        for line in [
            "tcp/40002=open",
            "udp/40001=open",
            "address/192.0.2.9=open",
            "tcp/40000=well",
            "tcp/40000",
            "tcp=open",
            "icmp/0=open",
            "tcp/99999999=open",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
