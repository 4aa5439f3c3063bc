// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Parses the counters of one process. Any program with that process's rights can write them, so a wrong value must
//! have no worse effect than a wrong number in the output.

use sync::stats::layout::{
    COUNTS, GAUGES, HEAD, MAGIC, RECORD, RECORDS, SHIFT, SIZE, TALLIES, VERSION, head, record,
};

/// A copy of a block.
pub type Words = Vec<u64>;

/// The reason why bytes are not a block of counters.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    Size(usize),
    Magic,
    Version(u64),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Size(size) => write!(f, "{size} bytes where {SIZE} belong"),
            Fault::Magic => f.write_str("no counters of this library"),
            Fault::Version(version) => write!(
                f,
                "counters of version {version}; this program reads {VERSION}"
            ),
        }
    }
}

/// The content of a process's block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its PID in its own namespace, and its start time.
    pub pid: u64,
    pub started: u64,
    pub library: String,
    pub uncounted: u64,
    pub signal: u64,
    /// The number of dumps, and the place of the last one.
    pub dumps: u64,
    pub dump: String,
    pub asked: u64,
    pub endpoints: Vec<Endpoint>,
}

impl Process {
    /// Returns true if all endpoints have answered the last request for gauges.
    pub fn is_answered(&self) -> bool {
        self.endpoints
            .iter()
            .all(|endpoint| endpoint.gauges[0] == self.asked)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Unique among all endpoints that the process ever had.
    pub number: u64,
    pub domain: u64,
    pub ep_type: u64,
    pub provider: String,
    pub address: String,
    /// Values in the order of `TALLIES`.
    pub tallies: [Tally; TALLIES.len()],
    pub counts: [u64; COUNTS.len()],
    pub gauges: [u64; GAUGES.len()],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub operations: u64,
    pub bytes: u64,
}

impl Endpoint {
    pub fn tally(&self, name: &str) -> Tally {
        let at = TALLIES.iter().position(|known| *known == name);
        at.map_or(Tally::default(), |at| self.tallies[at])
    }

    pub fn count(&self, name: &str) -> u64 {
        let at = COUNTS.iter().position(|known| *known == name);
        at.map_or(0, |at| self.counts[at])
    }

    /// Returns `None` if the endpoint has not updated its gauges lately: `asked` is the number of the last request, and
    /// an answer to that or to the one before counts.
    pub fn gauge(&self, name: &str, asked: u64) -> Option<u64> {
        let at = GAUGES.iter().position(|known| *known == name)?;
        let answered = self.gauges[0];
        let is_late = answered == 0 || asked.wrapping_sub(answered) > 1;
        (!is_late).then(|| self.gauges[at])
    }

    pub fn type_name(&self) -> &'static str {
        match self.ep_type {
            1 => "msg",
            2 => "dgram",
            3 => "rdm",
            _ => "?",
        }
    }

    /// Returns the sum of several tallies.
    pub fn sum(&self, names: &[&str]) -> Tally {
        let all = names.iter().map(|name| self.tally(name));
        all.fold(Tally::default(), |sum, one| Tally {
            operations: sum.operations.wrapping_add(one.operations),
            bytes: sum.bytes.wrapping_add(one.bytes),
        })
    }
}

/// Converts the bytes of a block to words.
pub fn words(bytes: &[u8]) -> Result<Words, Fault> {
    if bytes.len() != SIZE {
        return Err(Fault::Size(bytes.len()));
    }
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
    let words: Words = bytes.chunks_exact(8).map(word).collect();
    match (words[head::MAGIC], words[head::VERSION]) {
        (MAGIC, VERSION) => Ok(words),
        (MAGIC, version) => Err(Fault::Version(version)),
        _ => Err(Fault::Magic),
    }
}

/// Reads a process from three consecutive copies of its block. The values are from the second copy. If a sequence
/// number differs between the first and the third copy, a change was in progress, and the endpoint is omitted.
pub fn read(copies: &[Words; 3]) -> Process {
    let [before, words, after] = copies;
    let endpoints = (0..RECORDS).filter_map(|at| {
        let of = |words: &'_ Words| {
            let from = HEAD / 8 + at * (RECORD / 8);
            words[from..from + RECORD / 8].to_vec()
        };
        endpoint(&of(before), &of(words), &of(after))
    });
    Process {
        pid: words[head::PID],
        started: words[head::STARTED],
        library: text(words, head::LIBRARY, head::LIBRARY_WORDS),
        uncounted: words[head::UNCOUNTED],
        signal: words[head::SIGNAL],
        dumps: words[head::DUMPS],
        dump: text(words, head::DUMP, head::DUMP_WORDS),
        asked: words[head::ASKED_GAUGES],
        endpoints: endpoints.collect(),
    }
}

fn endpoint(before: &[u64], words: &[u64], after: &[u64]) -> Option<Endpoint> {
    let number = before[record::STATE];
    if number == 0 || !number.is_multiple_of(2) || after[record::STATE] != number {
        return None;
    }
    let mut tallies = [Tally::default(); TALLIES.len()];
    for (at, tally) in tallies.iter_mut().enumerate() {
        let [sum, operations, bytes, moved] =
            [0, 1, 2, 3].map(|next| record::TALLIES + 4 * at + next);
        if before[moved] != after[moved] || !before[moved].is_multiple_of(2) {
            return None;
        }
        *tally = Tally {
            operations: words[operations].wrapping_add(words[sum] >> SHIFT),
            bytes: words[bytes].wrapping_add(words[sum] & ((1 << SHIFT) - 1)),
        };
    }
    let mut counts = [0; COUNTS.len()];
    counts.copy_from_slice(&words[record::COUNTS..record::COUNTS + COUNTS.len()]);
    let mut gauges = [0; GAUGES.len()];
    gauges.copy_from_slice(&words[record::GAUGES..record::GAUGES + GAUGES.len()]);
    Some(Endpoint {
        number,
        domain: words[record::DOMAIN],
        ep_type: words[record::EP_TYPE],
        provider: text(words, record::PROVIDER, record::PROVIDER_WORDS),
        address: text(words, record::ADDRESS, record::ADDRESS_WORDS),
        tallies,
        counts,
        gauges,
    })
}

/// Replaces everything but printable ASCII by question marks, because a terminal could obey the text.
fn text(words: &[u64], from: usize, len: usize) -> String {
    let bytes = words[from..from + len]
        .iter()
        .flat_map(|word| word.to_ne_bytes());
    let bytes = bytes.take_while(|&byte| byte != 0);
    let printed = |byte: u8| match byte {
        b' '..=b'~' => char::from(byte),
        _ => '?',
    };
    bytes.map(printed).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A block with one endpoint, as the library writes it.
    pub fn sample() -> Words {
        let mut words = vec![0; SIZE / 8];
        words[head::MAGIC] = MAGIC;
        words[head::VERSION] = VERSION;
        words[head::PID] = 42;
        words[head::STARTED] = 1000;
        words[head::ASKED_GAUGES] = 5;
        let first = HEAD / 8;
        words[first + record::STATE] = 2;
        words[first + record::EP_TYPE] = 3;
        words[first + record::PROVIDER] = u64::from_ne_bytes(*b"tcp\0\0\0\0\0");
        words[first + record::ADDRESS] = u64::from_ne_bytes(*b"1.2.3.4\0");
        // Two operations of ten bytes that were moved to the sums, and one of five bytes that was not.
        let tally = first + record::TALLIES;
        words[tally..tally + 4].copy_from_slice(&[(1 << SHIFT) + 5, 2, 10, 2]);
        words[first + record::COUNTS] = 7;
        words[first + record::GAUGES] = 5;
        words[first + record::GAUGES + 1] = 9;
        words
    }

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn read_one(words: &Words) -> Process {
        read(&[words.clone(), words.clone(), words.clone()])
    }

    #[test]
    fn a_block_is_read() {
        let words = words(&bytes(&sample())).unwrap();
        let process = read_one(&words);
        assert_eq!(
            (process.pid, process.started, process.endpoints.len()),
            (42, 1000, 1)
        );
        let endpoint = &process.endpoints[0];
        assert_eq!(
            (endpoint.provider.as_str(), endpoint.address.as_str()),
            ("tcp", "1.2.3.4")
        );
        let expected = Tally {
            operations: 3,
            bytes: 15,
        };
        assert_eq!(endpoint.tally("send"), expected);
        assert_eq!(endpoint.sum(&["send", "tsend"]), expected);
        assert_eq!(endpoint.count("failed"), 7);
        assert_eq!(endpoint.gauge("transmits", 5), Some(9));
        assert_eq!(endpoint.gauge("transmits", 7), None);
        assert!(process.is_answered());
    }

    #[test]
    fn what_is_no_block_is_refused() {
        let whole = bytes(&sample());
        assert_eq!(words(&whole[..SIZE - 1]).err(), Some(Fault::Size(SIZE - 1)));
        assert_eq!(words(&[]).err(), Some(Fault::Size(0)));
        assert_eq!(words(&vec![0; SIZE]).err(), Some(Fault::Magic));
        let mut other = sample();
        other[head::VERSION] = 2;
        assert_eq!(words(&bytes(&other)).err(), Some(Fault::Version(2)));
    }

    #[test]
    fn what_changes_while_it_is_read_is_left_out() {
        let sample = sample();
        let first = HEAD / 8;
        for (word, value) in [
            (record::STATE, 4),
            (record::STATE, 0),
            (record::TALLIES + 3, 4),
            (record::TALLIES + 7, 1),
        ] {
            let mut later = sample.clone();
            later[first + word] = value;
            let process = read(&[sample.clone(), later.clone(), later]);
            assert_eq!(process.endpoints, [], "{word}");
        }
        let mut odd = sample.clone();
        odd[first + record::STATE] = 3;
        assert_eq!(read_one(&odd).endpoints, []);
    }

    /// Any words are read without a panic, and the texts are harmless.
    #[test]
    fn hostile_words_are_numbers() {
        for fill in [u64::MAX, 0x1b1b_1b1b_1b1b_1b1b, 0x8000_0000_0000_0000, 2] {
            let mut hostile = vec![fill; SIZE / 8];
            hostile[head::MAGIC] = MAGIC;
            hostile[head::VERSION] = VERSION;
            for record in 0..RECORDS {
                let from = HEAD / 8 + record * (RECORD / 8);
                hostile[from] = 2;
                for tally in 0..TALLIES.len() {
                    hostile[from + record::TALLIES + 4 * tally + 3] = 2;
                }
            }
            let process = read_one(&hostile);
            assert_eq!(process.endpoints.len(), RECORDS);
            let texts = [
                &process.library,
                &process.dump,
                &process.endpoints[0].address,
            ];
            assert!(
                texts
                    .iter()
                    .all(|text| text.bytes().all(|byte| (b' '..=b'~').contains(&byte)))
            );
            let endpoint = &process.endpoints[0];
            let _ = (
                endpoint.sum(&TALLIES),
                endpoint.type_name(),
                process.is_answered(),
            );
        }
    }
}
