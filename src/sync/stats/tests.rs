// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Endpoint statistics as a reader in another process gets them: from the bytes only.

use super::*;

const OWNER: Owner<'static> = Owner {
    domain: 7,
    ep_type: 3,
    provider: "tcp",
};

const SEND: Tally = Tally::begun(0);

fn block() -> Arc<Block> {
    Block::new(42, 1000, "a library").unwrap()
}

/// Returns the words of a block, as another process reads them.
fn words(block: &Block) -> Vec<u64> {
    let words = 0..SIZE / 8;
    let word = |at| {
        let place = block.mapping.at::<AtomicU64>(8 * at).unwrap();
        // SAFETY: within the mapping.
        unsafe { place.as_ref() }.load(Ordering::Relaxed)
    };
    words.map(word).collect()
}

fn first_record(block: &Block) -> Vec<u64> {
    words(block)[HEAD / 8..(HEAD + RECORD) / 8].to_vec()
}

#[test]
fn names_and_kinds_are_in_one_order() {
    assert_eq!(layout::TALLIES[Tally::RECV.0], "recv");
    assert_eq!(layout::TALLIES[Tally::REMOTE_READ.0], "remote_read");
    assert_eq!(layout::TALLIES.len(), Tally::REMOTE_READ.0 + 1);
    assert_eq!(
        layout::COUNTS[Count::ConnectRetries as usize],
        "connect_retries"
    );
    assert_eq!(layout::COUNTS.len(), Count::ReceivesFailed as usize + 1);
}

#[test]
fn a_block_says_what_it_is() {
    let block = block();
    let words = words(&block);
    assert_eq!(words[..4], [layout::MAGIC, layout::VERSION, 42, 1000]);
    assert_eq!(words[head::LIBRARY].to_ne_bytes(), *b"a librar");
    assert_eq!(words[head::LIBRARY + 1].to_ne_bytes(), *b"y\0\0\0\0\0\0\0");
}

#[test]
fn operations_and_bytes_are_never_lost() {
    let block = block();
    let counters = block.record(&OWNER);
    let (mut operations, mut bytes) = (0, 0);
    // Adds more than there is room for in the combined word.
    for _ in 0..(1 << 15) + 5 {
        counters.add(SEND, SHORT - 1);
        operations += 1;
        bytes += SHORT as u64 - 1;
    }
    for len in [0, 1, SHORT - 1, SHORT, 1 << 39, 1 << 50] {
        counters.add(SEND, len);
        operations += 1;
        bytes += len as u64;
    }
    assert_eq!(counters.tally(SEND), (operations, bytes));
    assert_eq!(counters.tally(Tally::RECV), (0, 0));
}

#[test]
fn a_record_is_there_while_its_endpoint_is() {
    let block = block();
    let counters = block.record(&OWNER);
    counters.count(Count::Stalls);
    counters.count(Count::Again);
    counters.set_address("127.0.0.1:5");
    let first = first_record(&block);
    assert_eq!(first[..3], [2, 7, 3]);
    assert_eq!(first[record::PROVIDER].to_ne_bytes(), *b"tcp\0\0\0\0\0");
    assert_eq!(first[record::ADDRESS].to_ne_bytes(), *b"127.0.0.");
    assert_eq!(first[record::COUNTS + Count::Stalls as usize], 1);
    assert_eq!(first[record::COUNTS + Count::Again as usize], 1);
    drop(counters);
    assert_eq!(first_record(&block)[record::STATE], 0);
    let _next = block.record(&OWNER);
    let next = first_record(&block);
    assert_eq!(next[record::STATE], 4);
    assert!(next[record::ADDRESS..].iter().all(|&word| word == 0));
}

#[test]
fn one_record_too_many_is_told_of_and_counts_for_itself() {
    let block = block();
    let mut all: Vec<_> = (0..RECORDS).map(|_| block.record(&OWNER)).collect();
    assert_eq!(words(&block)[head::UNCOUNTED], 0);
    let more = block.record(&OWNER);
    assert_eq!(words(&block)[head::UNCOUNTED], 1);
    let before = words(&block);
    more.add(SEND, 8);
    assert_eq!(more.tally(SEND), (1, 8));
    assert_eq!(words(&block), before);
    all.pop();
    let again = block.record(&OWNER);
    again.add(SEND, 8);
    assert_ne!(words(&block), before);
}

#[test]
fn gauges_carry_the_number_of_their_question() {
    let block = block();
    let counters = block.record(&OWNER);
    let gauges = Gauges {
        transmits: 1,
        oldest_ms: 13,
        ..Gauges::default()
    };
    counters.answer(9, &gauges);
    let gauges = &first_record(&block)[record::GAUGES..];
    let (first, last) = (&gauges[..2], gauges[layout::GAUGES.len() - 1]);
    assert_eq!((first, last), (&[9, 1][..], 13));
}

#[test]
fn a_child_that_leaves_the_block_writes_to_its_own_memory() {
    let block = block();
    let counters = block.record(&OWNER);
    counters.add(SEND, 1);
    let add = || {
        block.abandon_in_child();
        counters.add(SEND, 100);
        // The counts from before the fork belong to the parent.
        i32::from(counters.tally(SEND) != (1, 100))
    };
    // SAFETY: a mapping is replaced, and words are added to.
    assert_eq!(unsafe { sys::fork::run_in_child(&add) }, 0);
    assert_eq!(counters.tally(SEND), (1, 1));
}

#[test]
fn what_a_reader_writes_does_no_more_than_change_numbers() {
    let block = block();
    let counters = block.record(&OWNER);
    for at in 0..SIZE / 8 {
        let place = block.mapping.at::<AtomicU64>(8 * at).unwrap();
        // SAFETY: within the mapping.
        unsafe { place.as_ref() }.store(u64::MAX, Ordering::Relaxed);
    }
    counters.add(SEND, 1);
    counters.add(SEND, 1 << 20);
    counters.count(Count::Failed);
    counters.answer(1, &Gauges::default());
    block.dumped("x");
    drop(counters);
    let _next = block.record(&OWNER);
    assert_eq!(first_record(&block)[record::STATE], 4);
}
