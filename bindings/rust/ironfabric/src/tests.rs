// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests over the real library: which buffers exist after each way in which an operation can end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::*;

/// Two endpoints of one domain that have each other in their vector.
struct Pair<T: Threads> {
    a: Endpoint<T>,
    b: Endpoint<T>,
    queue_a: CompletionQueue<T>,
    queue_b: CompletionQueue<T>,
    to_b: Peer,
    domain: Domain<T>,
}

fn info(provider: &str, kind: EndpointType, is_local: bool) -> Info {
    let caps = match kind {
        EndpointType::Msg => Caps::MSG | Caps::RMA,
        _ => Caps::MSG | Caps::TAGGED | Caps::RMA,
    };
    let infos = infos(provider, kind, caps, is_local).expect("an entry");
    infos.first().expect("an entry")
}

fn infos(provider: &str, kind: EndpointType, caps: Caps, is_local: bool) -> Result<InfoList> {
    let mut hints = Hints::new()
        .caps(caps)
        .endpoint_type(kind)
        .provider(provider);
    if is_local {
        hints = hints.local();
    }
    if provider != "shm" {
        hints = hints.source("127.0.0.1", None);
    }
    hints.query()
}

fn pair<T: Threads>(provider: &str) -> Pair<T> {
    let is_local = T::LEVEL != sys::FI_THREAD_SAFE;
    pair_of(provider, info(provider, EndpointType::Rdm, is_local))
}

fn pair_of<T: Threads>(provider: &str, info: Info) -> Pair<T> {
    let domain = Domain::open(&Fabric::open(&info).unwrap(), &info).unwrap();
    // Old libraries have no descriptors for shm.
    let options = QueueOptions {
        wait: if provider == "shm" {
            Wait::None
        } else {
            Wait::Fd
        },
        ..QueueOptions::default()
    };
    let queue_a = CompletionQueue::open(&domain, options).unwrap();
    let queue_b = CompletionQueue::open(&domain, options).unwrap();
    let vector = AddressVector::open(&domain, 0).unwrap();
    let endpoint = |queue: &CompletionQueue<T>| {
        let builder = domain.endpoint(&info).unwrap().queue(queue).unwrap();
        builder.address_vector(&vector).unwrap().enable().unwrap()
    };
    let (a, b) = (endpoint(&queue_a), endpoint(&queue_b));
    vector.insert(&a.address().unwrap()).unwrap();
    let to_b = vector.insert(&b.address().unwrap()).unwrap();
    Pair {
        a,
        b,
        queue_a,
        queue_b,
        to_b,
        domain,
    }
}

impl<T: Threads> Pair<T> {
    fn buffer(&self, bytes: &[u8]) -> Buffer<T> {
        Buffer::from_vec(&self.domain, bytes.to_vec()).unwrap()
    }

    fn buffers(&self) -> usize {
        self.domain.0.buffers.len()
    }

    /// Posts an operation of the first endpoint, and drives progress of both sides until it is accepted.
    fn post(&mut self, buffer: Buffer<T>, call: impl Fn(&Endpoint<T>, Buffer<T>) -> Posted<T>) {
        let (a, queue_a, queue_b) = (&self.a, &mut self.queue_a, &mut self.queue_b);
        post(
            buffer,
            |buffer| call(a, buffer),
            || {
                assert_eq!(
                    queue_a.read().unwrap().count() + queue_b.read().unwrap().count(),
                    0
                );
            },
        );
    }

    /// Injects messages as `call` does, and drives progress of the sender until it is accepted.
    fn inject(&mut self, call: impl Fn(&Endpoint<T>) -> Result) {
        let limit = limit();
        while let Err(error) = call(&self.a) {
            assert!(error.is_again() && Instant::now() < limit);
            assert_eq!(self.queue_a.read().unwrap().count(), 0);
            // Takes no completion, which stays in the queue.
            assert!(self.queue_b.read().is_ok());
        }
    }

    /// Reads both queues until each has given this many completions; returns their buffers.
    fn drive(&mut self, from_a: usize, from_b: usize) -> (Vec<Buffer<T>>, Vec<Buffer<T>>) {
        let (mut a, mut b) = (vec![], vec![]);
        let limit = limit();
        while a.len() < from_a || b.len() < from_b {
            a.extend(
                self.queue_a
                    .read()
                    .unwrap()
                    .filter_map(|done| done.into_buffer()),
            );
            b.extend(
                self.queue_b
                    .read()
                    .unwrap()
                    .filter_map(|done| done.into_buffer()),
            );
            assert!(
                Instant::now() < limit,
                "{} and {} completions",
                a.len(),
                b.len()
            );
        }
        (a, b)
    }
}

fn limit() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

fn post<T: Threads>(
    mut buffer: Buffer<T>,
    mut call: impl FnMut(Buffer<T>) -> Posted<T>,
    mut progress: impl FnMut(),
) {
    let limit = limit();
    while let Err(rejected) = call(buffer) {
        assert!(rejected.is_again(), "{rejected}");
        assert!(Instant::now() < limit);
        buffer = rejected.buffer;
        progress();
    }
}

macro_rules! on_each_provider {
    ($($name:ident)+) => { $(
        mod $name {
            #[test]
            fn tcp() {
                super::bodies::$name(super::pair("tcp"));
            }
            #[test]
            fn shm() {
                super::bodies::$name(super::pair("shm"));
            }
        }
    )+ };
}

on_each_provider! {
    a_message_arrives_in_the_buffer_of_the_receive
    buffers_of_a_closed_endpoint_are_freed_by_the_read_that_finds_the_queue_empty
    buffers_of_a_closed_endpoint_are_freed_with_the_queue
    an_unread_completion_of_a_closed_endpoint_keeps_its_buffer
    a_cancelled_receive_gives_its_buffer_back
    completions_that_the_iterator_was_not_asked_for_stay
    a_truncated_message_is_an_error_with_its_buffer
    handles_can_be_dropped_in_any_order
    objects_of_another_domain_are_refused
    memory_of_a_peer_is_written_and_read
    tags_select_messages
}

mod bodies {
    use super::*;

    pub fn a_message_arrives_in_the_buffer_of_the_receive(mut pair: Pair<Shared>) {
        let mut receive = pair.buffer(&[0; 64]);
        receive.set_token(7);
        pair.b.recv(receive, Peer::ANY).unwrap();
        let message = pair.buffer(b"hello");
        let to_b = pair.to_b;
        pair.post(message, |a, buffer| a.send(buffer, to_b));
        let (sent, received) = pair.drive(1, 1);
        assert_eq!(&sent[0][..], b"hello");
        assert_eq!(&received[0][..], b"hello");
        assert_eq!((received[0].token(), received[0].capacity()), (7, 64));
        drop((sent, received));
        assert_eq!(pair.buffers(), 0);
    }

    pub fn buffers_of_a_closed_endpoint_are_freed_by_the_read_that_finds_the_queue_empty(
        pair: Pair<Shared>,
    ) {
        for _ in 0..10 {
            pair.b.recv(pair.buffer(&[0; 64]), Peer::ANY).unwrap();
        }
        assert_eq!(pair.buffers(), 10);
        let Pair {
            b,
            mut queue_b,
            domain,
            ..
        } = pair;
        drop(b);
        assert_eq!(domain.0.buffers.len(), 10);
        // Old libraries report receives of a closed endpoint over shm as cancelled.
        while !matches!(queue_b.read().map(Iterator::count), Ok(0)) {}
        assert_eq!(domain.0.buffers.len(), 0);
    }

    pub fn buffers_of_a_closed_endpoint_are_freed_with_the_queue(pair: Pair<Shared>) {
        pair.b.recv(pair.buffer(&[0; 64]), Peer::ANY).unwrap();
        let Pair {
            b, queue_b, domain, ..
        } = pair;
        drop(queue_b);
        assert_eq!(domain.0.buffers.len(), 1);
        drop(b);
        assert_eq!(domain.0.buffers.len(), 0);
    }

    pub fn an_unread_completion_of_a_closed_endpoint_keeps_its_buffer(mut pair: Pair<Shared>) {
        for _ in 0..2 {
            pair.b.recv(pair.buffer(&[0; 64]), Peer::ANY).unwrap();
        }
        let to_b = pair.to_b;
        for _ in 0..2 {
            let message = Buffer::from_vec(&pair.domain, b"late".to_vec()).unwrap();
            pair.post(message, |a, buffer| a.send(buffer, to_b));
        }
        // The first completion is taken from the batch; the second, if it was there, stays behind.
        let limit = limit();
        let first = loop {
            pair.queue_a.read().unwrap().for_each(drop);
            if let Some(done) = pair.queue_b.read().unwrap().next() {
                break done.into_buffer().unwrap();
            }
            assert!(Instant::now() < limit);
        };
        let Pair {
            b,
            mut queue_b,
            domain,
            ..
        } = pair;
        drop(b);
        // fi_endpoint(3): the provider may discard the second completion. Either way its buffer has one owner.
        let rest: Vec<_> = queue_b
            .read()
            .unwrap()
            .map(|done| done.into_buffer().unwrap())
            .collect();
        assert!(rest.iter().all(|buffer| &buffer[..] == b"late"));
        assert_eq!(&first[..], b"late");
        drop(rest);
        assert_eq!(queue_b.read().unwrap().count(), 0);
        drop(first);
        drop((pair.a, pair.queue_a));
        assert_eq!(domain.0.buffers.len(), 0);
    }

    pub fn a_cancelled_receive_gives_its_buffer_back(mut pair: Pair<Shared>) {
        let receive = pair.buffer(&[0; 64]);
        let id = receive.id();
        assert_eq!(pair.b.cancel(id), Err(Error::NOENT));
        pair.b.recv(receive, Peer::ANY).unwrap();
        assert_eq!(pair.a.cancel(id), Err(Error::NOENT));
        pair.b.cancel(id).unwrap();
        let limit = limit();
        let failure = loop {
            match pair.queue_b.read().map(Iterator::count) {
                Ok(count) => assert_eq!(count, 0),
                Err(error) => break error.into_operation().expect("a cancelled receive"),
            }
            assert!(Instant::now() < limit);
        };
        assert_eq!(failure.error, Error::CANCELED);
        assert!(!failure.to_string().is_empty());
        assert_eq!(failure.buffer.unwrap().id(), id);
    }

    pub fn completions_that_the_iterator_was_not_asked_for_stay(mut pair: Pair<Shared>) {
        for token in 0..4 {
            let mut receive = pair.buffer(&[0; 8]);
            receive.set_token(token);
            pair.b.recv(receive, Peer::ANY).unwrap();
        }
        for byte in 0..4 {
            let to_b = pair.to_b;
            pair.inject(|a| a.inject(&[byte], to_b));
        }
        let limit = limit();
        let mut seen = vec![];
        while seen.len() < 4 {
            pair.queue_a.read().unwrap().for_each(drop);
            if let Some(done) = pair.queue_b.read().unwrap().next() {
                let buffer = done.into_buffer().unwrap();
                seen.push((buffer.token(), buffer[0]));
            }
            assert!(Instant::now() < limit);
        }
        assert_eq!(seen, [(0, 0), (1, 1), (2, 2), (3, 3)]);
    }

    pub fn a_truncated_message_is_an_error_with_its_buffer(mut pair: Pair<Shared>) {
        pair.b.recv(pair.buffer(&[0; 4]), Peer::ANY).unwrap();
        let message = pair.buffer(b"too long");
        let to_b = pair.to_b;
        pair.post(message, |a, buffer| a.send(buffer, to_b));
        let limit = limit();
        let failure = loop {
            pair.queue_a.read().unwrap().for_each(drop);
            match pair.queue_b.read().map(Iterator::count) {
                Ok(count) => assert_eq!(count, 0),
                Err(error) => break error.into_operation().expect("a truncated message"),
            }
            assert!(Instant::now() < limit);
        };
        // Old libraries do not return the excess, and FI_EOTHER over shm.
        assert!(matches!(
            (failure.error, failure.excess),
            (Error::TRUNC, 0 | 4) | (Error::OTHER, 0)
        ));
        assert_eq!(failure.buffer.unwrap().capacity(), 4);
    }

    pub fn handles_can_be_dropped_in_any_order(pair: Pair<Shared>) {
        pair.b.recv(pair.buffer(&[0; 64]), Peer::ANY).unwrap();
        let buffer = pair.buffer(b"kept");
        let weak = Arc::downgrade(&pair.domain.0);
        let waker = pair.queue_a.waker();
        let Pair {
            a,
            b,
            queue_a,
            queue_b,
            domain,
            ..
        } = pair;
        drop(domain);
        drop(queue_b);
        drop(queue_a);
        drop(a);
        drop(b);
        assert_eq!(&buffer[..], b"kept");
        drop(buffer);
        assert_eq!(weak.strong_count(), 1);
        drop(waker);
        assert_eq!(weak.strong_count(), 0);
    }

    pub fn objects_of_another_domain_are_refused(one: Pair<Shared>) {
        let other = super::pair::<Shared>("tcp");
        assert_eq!(
            one.a.send(other.buffer(b"x"), one.to_b).unwrap_err().error,
            Error::INVAL
        );
        assert_eq!(
            one.a.send(one.buffer(b"x"), other.to_b).unwrap_err().error,
            Error::INVAL
        );
        assert_eq!(
            one.a
                .send(one.buffer(b"x"), Peer::CONNECTED)
                .unwrap_err()
                .error,
            Error::INVAL
        );
        assert_eq!(one.a.inject(b"x", other.to_b), Err(Error::INVAL));
        let info = super::info("tcp", EndpointType::Rdm, false);
        let builder = other.domain.endpoint(&info).unwrap();
        assert_eq!(builder.queue(&one.queue_a).err(), Some(Error::INVAL));
        let builder = other.domain.endpoint(&info).unwrap();
        assert_eq!(
            builder.queue(&other.queue_a).unwrap().enable().err(),
            Some(Error::NOAV)
        );
        assert_eq!(one.buffers() + other.buffers(), 0);
    }

    pub fn memory_of_a_peer_is_written_and_read(mut pair: Pair<Shared>) {
        let window =
            Window::new(&pair.domain, 32, Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
        window.write(0, &[9; 32]);
        let place = window.remote().slice(8, 8).unwrap();
        let to_b = pair.to_b;
        let message = pair.buffer(b"12345678");
        pair.post(message, |a, buffer| a.write(buffer, to_b, place));
        let (mut written, _) = pair.drive(1, 0);
        let buffer = written.pop().unwrap();
        pair.post(buffer, |a, buffer| a.read(buffer, to_b, place));
        let (read, _) = pair.drive(1, 0);
        assert_eq!(&read[0][..], b"12345678");
        let mut found = [0; 10];
        window.read(7, &mut found);
        assert_eq!(&found, b"\x0912345678\x09");
        let beyond = pair.buffer(&[0; 33]);
        assert_eq!(
            pair.a
                .write(beyond, to_b, window.remote())
                .unwrap_err()
                .error,
            Error::INVAL
        );
        assert_eq!(window.into_vec().unwrap().len(), 32);
    }

    pub fn tags_select_messages(mut pair: Pair<Shared>) {
        pair.b.trecv(pair.buffer(&[0; 8]), Peer::ANY, 2, 0).unwrap();
        pair.b
            .trecv(pair.buffer(&[0; 8]), Peer::ANY, 0, !0)
            .unwrap();
        for (tag, text) in [(1, b"one"), (2, b"two")] {
            let to_b = pair.to_b;
            pair.inject(|a| a.tinject_data(text, tag * 10, to_b, tag));
        }
        let limit = limit();
        let mut seen = vec![];
        while seen.len() < 2 {
            pair.queue_a.read().unwrap().for_each(drop);
            for done in pair.queue_b.read().unwrap() {
                assert!(done.is_recv() && done.flags().contains(CompletionFlags::TAGGED));
                seen.push((done.tag(), done.data(), done.buffer().unwrap().to_vec()));
            }
            assert!(Instant::now() < limit);
        }
        seen.sort();
        assert_eq!(
            seen,
            [
                (1, Some(10), b"one".to_vec()),
                (2, Some(20), b"two".to_vec())
            ]
        );
    }
}

#[test]
fn a_local_domain_serves_its_thread() {
    for provider in ["tcp", "shm"] {
        let mut pair = pair::<Local>(provider);
        pair.b.recv(pair.buffer(&[0; 64]), Peer::ANY).unwrap();
        let message = pair.buffer(b"local");
        let to_b = pair.to_b;
        pair.post(message, |a, buffer| a.send(buffer, to_b));
        let (_, received) = pair.drive(1, 1);
        assert_eq!(&received[0][..], b"local");
    }
}

#[test]
fn a_local_entry_is_no_shared_domain() {
    let info = info("tcp", EndpointType::Rdm, true);
    let fabric = Fabric::open(&info).unwrap();
    let level = Domain::<Shared>::open(&fabric, &info).err();
    // SAFETY: a part of the entry.
    let threading = unsafe { (*info.domain_attr().unwrap()).threading };
    let expected = (threading != sys::FI_THREAD_SAFE).then_some(Error::INVAL);
    assert_eq!(level, expected);
}

#[test]
fn entries_of_other_providers_are_refused() {
    let tcp = info("tcp", EndpointType::Rdm, false);
    let shm = info("shm", EndpointType::Rdm, false);
    let fabric = Fabric::open(&tcp).unwrap();
    assert_eq!(
        Domain::<Shared>::open(&fabric, &shm).err(),
        Some(Error::INVAL)
    );
    let domain = Domain::<Shared>::open(&fabric, &tcp).unwrap();
    assert_eq!(domain.endpoint(&shm).err(), Some(Error::INVAL));
}

#[test]
fn another_thread_ends_a_wait() {
    let pair = pair::<Shared>("tcp");
    let mut queue = pair.queue_a;
    let waker = queue.waker();
    let reader = std::thread::spawn(move || queue.sread(None).unwrap().count());
    let limit = limit();
    while !reader.is_finished() {
        waker.wake().unwrap();
        std::thread::yield_now();
        assert!(Instant::now() < limit);
    }
    assert_eq!(reader.join().unwrap(), 0);
}

#[test]
fn vectors_are_not_copied() {
    let pair = pair::<Shared>("shm");
    let bytes = vec![1u8; 100];
    let at = bytes.as_ptr();
    let mut buffer = Buffer::from_vec(&pair.domain, bytes).unwrap();
    assert_eq!(buffer.as_ptr(), at);
    buffer.set_len(10);
    let bytes = buffer.into_vec().unwrap();
    assert_eq!((bytes.as_ptr(), bytes.len()), (at, 10));
    let window = Window::from_vec(&pair.domain, bytes, Access::REMOTE_READ).unwrap();
    let bytes = window.into_vec().unwrap();
    assert_eq!(bytes.as_ptr(), at);
    assert_eq!(pair.buffers(), 0);
}

#[test]
fn windows_copy_any_range() {
    let pair = pair::<Shared>("tcp");
    let window = Window::new(&pair.domain, 40, Access::REMOTE_READ).unwrap();
    let pattern: Vec<u8> = (1..=40).collect();
    for at in 0..=40 {
        for len in 0..=40 - at {
            window.write(0, &[0; 40]);
            window.write(at, &pattern[..len]);
            let mut all = [0; 40];
            window.read(0, &mut all);
            assert_eq!(&all[at..at + len], &pattern[..len]);
            assert!(
                all[..at]
                    .iter()
                    .chain(&all[at + len..])
                    .all(|byte| *byte == 0)
            );
            let mut part = vec![0; len];
            window.read(at, &mut part);
            assert_eq!(part, pattern[..len]);
        }
    }
    assert!(std::panic::catch_unwind(|| window.read(40, &mut [0])).is_err());
}

#[test]
fn memory_of_the_program_is_sent_and_received() {
    let mut pair = pair::<Shared>("shm");
    let mut room = [0u8; 8];
    let into = RawMemory {
        base: room.as_mut_ptr(),
        len: 8,
        desc: std::ptr::null_mut(),
    };
    let mut text = *b"borrowed";
    let from = RawMemory {
        base: text.as_mut_ptr(),
        ..into
    };
    let (context, to_b) = (pair.buffer(&[]), pair.to_b);
    // SAFETY: both arrays exist until the operations are complete, and shm needs no registration.
    unsafe { pair.b.recv_raw(into, Peer::ANY, pair.buffer(&[])) }.unwrap();
    // SAFETY: the same.
    pair.post(context, |a, buffer| unsafe {
        a.send_raw(from, to_b, buffer)
    });
    pair.drive(1, 1);
    assert_eq!(room, text);
}

#[test]
fn counters_count() {
    let info = info("tcp", EndpointType::Rdm, false);
    let domain = Domain::<Shared>::open(&Fabric::open(&info).unwrap(), &info).unwrap();
    let counter = Counter::open(&domain, Wait::Blocking).unwrap();
    let mut queue = CompletionQueue::open(&domain, QueueOptions::default()).unwrap();
    let vector = AddressVector::open(&domain, 0).unwrap();
    let builder = domain.endpoint(&info).unwrap().queue(&queue).unwrap();
    let builder = builder.address_vector(&vector).unwrap();
    let endpoint = builder
        .counter(&counter, Caps::SEND)
        .unwrap()
        .enable()
        .unwrap();
    let itself = vector.insert(&endpoint.address().unwrap()).unwrap();
    let message = Buffer::new(&domain, 8).unwrap();
    endpoint
        .recv(Buffer::new(&domain, 8).unwrap(), Peer::ANY)
        .unwrap();
    post(
        message,
        |buffer| endpoint.send(buffer, itself),
        || queue.read().unwrap().for_each(drop),
    );
    counter.wait(1, Some(Duration::from_secs(20))).unwrap();
    assert_eq!((counter.read(), counter.read_errors()), (Ok(1), Ok(0)));
    counter.set(5).unwrap();
    counter.add(1).unwrap();
    assert_eq!(counter.read(), Ok(6));
}

mod atomics {
    use super::*;

    /// The providers that offer atomic operations: in this library tcp on request, in others perhaps shm only.
    fn pairs() -> Vec<Pair<Shared>> {
        let caps = Caps::MSG | Caps::RMA | Caps::ATOMIC;
        let offered = ["tcp", "shm"].map(|provider| {
            let list = infos(provider, EndpointType::Rdm, caps, false).ok()?;
            Some(pair_of(provider, list.first()?))
        });
        let pairs: Vec<_> = offered.into_iter().flatten().collect();
        assert!(!pairs.is_empty());
        pairs
    }

    fn window(pair: &Pair<Shared>, elements: &[u64]) -> Window {
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let window = Window::new(&pair.domain, size_of_val(elements), access).unwrap();
        window.write(0, &bytes(elements));
        window
    }

    fn bytes(elements: &[u64]) -> Vec<u8> {
        elements.iter().flat_map(|e| e.to_ne_bytes()).collect()
    }

    fn elements(bytes: &[u8]) -> Vec<u64> {
        let words = bytes.chunks_exact(8);
        words
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
            .collect()
    }

    fn content(window: &Window, len: usize) -> Vec<u64> {
        let mut all = vec![0; len * 8];
        window.read(0, &mut all);
        elements(&all)
    }

    /// Operands behind which there is room for `results` elements.
    fn operands(pair: &Pair<Shared>, elements: &[u64], results: usize) -> Buffer {
        let mut all = bytes(elements);
        all.resize(all.len() + 8 * results, 0);
        pair.buffer(&all)
    }

    #[test]
    fn elements_are_changed() {
        for mut pair in pairs() {
            let window = window(&pair, &[1, 10]);
            let (to_b, memory) = (pair.to_b, window.remote());
            let buffer = operands(&pair, &[5, 7], 0);
            pair.post(buffer, |a, buffer| {
                a.atomic::<u64>(AtomicOp::Sum, buffer, to_b, memory)
            });
            let (done, _) = pair.drive(1, 0);
            // The completion of a fetch behind it shows that the sum has reached the memory.
            assert_eq!(elements(&done[0]), [5, 7]);
            let buffer = operands(&pair, &[0, 0], 2);
            pair.post(buffer, |a, buffer| {
                a.fetch_atomic::<u64>(AtomicOp::Read, buffer, to_b, memory)
            });
            let (done, _) = pair.drive(1, 0);
            assert_eq!(elements(&done[0])[2..], [6, 17]);
            assert_eq!(content(&window, 2), [6, 17]);
        }
    }

    #[test]
    fn old_values_are_fetched() {
        for mut pair in pairs() {
            let window = window(&pair, &[1, 10]);
            let (to_b, memory) = (pair.to_b, window.remote());
            let buffer = operands(&pair, &[4, 4], 2);
            pair.post(buffer, |a, buffer| {
                a.fetch_atomic::<u64>(AtomicOp::Max, buffer, to_b, memory)
            });
            let (done, _) = pair.drive(1, 0);
            assert_eq!(elements(&done[0]), [4, 4, 1, 10]);
            assert_eq!(content(&window, 2), [4, 10]);
            let buffer = operands(&pair, &[4, 4, 20, 21], 2);
            pair.post(buffer, |a, buffer| {
                a.compare_atomic::<u64>(CompareOp::Equal, buffer, to_b, memory)
            });
            let (done, _) = pair.drive(1, 0);
            assert_eq!(elements(&done[0])[4..], [4, 10]);
            assert_eq!(content(&window, 2), [20, 10]);
        }
    }

    #[test]
    fn injected_ones_have_no_completion() {
        for mut pair in pairs() {
            let window = window(&pair, &[3]);
            let (to_b, memory) = (pair.to_b, window.remote());
            pair.inject(|a| a.inject_atomic(AtomicOp::Bor, &[4u64], to_b, memory));
            let limit = limit();
            while content(&window, 1) != [7] {
                assert!(Instant::now() < limit);
                assert_eq!(pair.queue_a.read().unwrap().count(), 0);
                assert_eq!(pair.queue_b.read().unwrap().count(), 0);
            }
        }
    }

    #[test]
    fn buffers_of_wrong_size_are_refused() {
        for pair in pairs() {
            let window = window(&pair, &[1, 2]);
            let (to_b, memory) = (pair.to_b, window.remote());
            let refused = |posted: Posted<Shared>| posted.unwrap_err().error == Error::INVAL;
            let small = operands(&pair, &[1], 0);
            assert!(refused(pair.a.atomic::<u64>(
                AtomicOp::Sum,
                small,
                to_b,
                memory
            )));
            let small = operands(&pair, &[1, 2], 1);
            assert!(refused(pair.a.fetch_atomic::<u64>(
                AtomicOp::Sum,
                small,
                to_b,
                memory
            )));
            let small = operands(&pair, &[1, 2, 3, 4], 1);
            assert!(refused(pair.a.compare_atomic::<u64>(
                CompareOp::Less,
                small,
                to_b,
                memory
            )));
            let odd = memory.slice(0, 12).unwrap();
            let enough = operands(&pair, &[1, 2], 2);
            assert!(refused(pair.a.atomic::<u64>(
                AtomicOp::Sum,
                enough,
                to_b,
                odd
            )));
            let injected = pair.a.inject_atomic(AtomicOp::Sum, &[1u64], to_b, memory);
            assert_eq!(injected, Err(Error::INVAL));
            assert_eq!(pair.buffers(), 0);
        }
    }

    #[test]
    fn providers_report_what_they_support() {
        for pair in pairs() {
            assert!(pair.a.atomic_limit::<u64>(AtomicOp::Sum).unwrap() > 0);
            assert!(pair.a.fetch_atomic_limit::<u64>(AtomicOp::Sum).unwrap() > 0);
            assert!(
                pair.a
                    .compare_atomic_limit::<u64>(CompareOp::Equal)
                    .unwrap()
                    > 0
            );
            // There is no bitwise operation on floating-point numbers.
            assert!(pair.a.atomic_limit::<f64>(AtomicOp::Band).is_err());
        }
    }
}

mod connections {
    use super::*;

    /// The queues of both sides. Some providers need calls of both for progress.
    struct Queues([EventQueue; 2], [Vec<Event>; 2]);

    const SERVER: usize = 0;
    const CLIENT: usize = 1;

    impl Queues {
        fn next(&mut self, side: usize) -> Event {
            let limit = limit();
            while self.1[side].is_empty() {
                for (queue, events) in self.0.iter().zip(&mut self.1) {
                    events.extend(queue.read().unwrap());
                }
                assert!(Instant::now() < limit);
            }
            self.1[side].remove(0)
        }
    }

    struct Side {
        endpoint: Endpoint,
        queue: CompletionQueue,
        domain: Domain,
    }

    fn side(domain: Domain, open: impl FnOnce(&Domain) -> Result<EndpointBuilder>) -> Side {
        let queue = CompletionQueue::open(&domain, QueueOptions::default()).unwrap();
        let endpoint = open(&domain)
            .unwrap()
            .queue(&queue)
            .unwrap()
            .enable()
            .unwrap();
        Side {
            endpoint,
            queue,
            domain,
        }
    }

    #[test]
    fn requests_are_accepted_refused_and_dropped() {
        let info = info("tcp", EndpointType::Msg, false);
        let fabric = Fabric::open(&info).unwrap();
        let queue = || EventQueue::<Shared>::open(&fabric, Wait::Fd).unwrap();
        let mut queues = Queues([queue(), queue()], Default::default());
        let [servers, clients] = queues.0.clone();
        let listener = PassiveEndpoint::listen(&servers, &info).unwrap();
        let address = listener.address().unwrap();
        assert!(address.to_socket_addr().unwrap().ip().is_loopback());
        let client = |queues: &mut Queues| {
            let domain = Domain::open(&fabric, &info).unwrap();
            let client = side(domain, |domain| {
                domain.endpoint(&info)?.event_queue(&clients)
            });
            client.endpoint.connect(&address, b"please").unwrap();
            let Event::Request(request) = queues.next(SERVER) else {
                panic!("no request");
            };
            assert!(request.data().starts_with(b"please"));
            (client, request)
        };

        let (refused, request) = client(&mut queues);
        request.reject(b"no").unwrap();
        let Event::Failed(failure) = queues.next(CLIENT) else {
            panic!("no failure");
        };
        assert_eq!(
            (failure.error, failure.endpoint),
            (Error::CONNREFUSED, refused.endpoint.id())
        );
        assert!(failure.data.starts_with(b"no"));

        let (_dropped, request) = client(&mut queues);
        drop(request);
        assert!(
            matches!(queues.next(CLIENT), Event::Failed(failure) if failure.error == Error::CONNREFUSED)
        );

        let (mut client, request) = client(&mut queues);
        let domain = Domain::open(&fabric, request.info()).unwrap();
        let mut server = side(domain, |domain| request.endpoint(domain));
        server.endpoint.accept(b"welcome").unwrap();
        let Event::Connected { endpoint, data } = queues.next(CLIENT) else {
            panic!("not connected");
        };
        assert_eq!(endpoint, client.endpoint.id());
        assert!(data.starts_with(b"welcome"));
        assert!(
            matches!(queues.next(SERVER), Event::Connected { endpoint, .. } if endpoint == server.endpoint.id())
        );

        server
            .endpoint
            .recv(Buffer::new(&server.domain, 16).unwrap(), Peer::ANY)
            .unwrap();
        let message =
            Buffer::from_vec(&client.domain, b"over a connection"[..16].to_vec()).unwrap();
        client.endpoint.send(message, Peer::CONNECTED).unwrap();
        let limit = limit();
        let (mut sent, mut received) = (None, None);
        while sent.is_none() || received.is_none() {
            sent = sent.or(client
                .queue
                .read()
                .unwrap()
                .next()
                .and_then(|done| done.into_buffer()));
            received = received.or(server
                .queue
                .read()
                .unwrap()
                .next()
                .and_then(|done| done.into_buffer()));
            assert!(Instant::now() < limit);
        }
        assert_eq!(&sent.unwrap()[..], &received.unwrap()[..]);

        client.endpoint.shutdown().unwrap();
        let limit = super::limit();
        loop {
            // Old libraries find the end of the connection when its completion queue is read.
            server.queue.read().unwrap().for_each(drop);
            match servers.read().unwrap() {
                Some(Event::Shutdown { endpoint }) => {
                    break assert_eq!(endpoint, server.endpoint.id());
                }
                event => assert!(event.is_none() && Instant::now() < limit),
            }
        }
    }
}

/// Random operations, reads and closings. At the end every buffer was freed once.
mod lifecycle {
    use super::*;

    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % limit
        }
    }

    struct Node {
        endpoint: Option<Endpoint>,
        queue: CompletionQueue,
        peer: Option<Peer>,
    }

    struct World {
        info: Info,
        domain: Domain,
        vector: AddressVector,
        nodes: Vec<Node>,
    }

    impl World {
        fn queue(&self) -> CompletionQueue {
            CompletionQueue::open(&self.domain, QueueOptions::default()).unwrap()
        }

        fn open(&mut self, at: usize) {
            let builder = self
                .domain
                .endpoint(&self.info)
                .unwrap()
                .queue(&self.nodes[at].queue)
                .unwrap();
            let endpoint = builder
                .address_vector(&self.vector)
                .unwrap()
                .enable()
                .unwrap();
            self.nodes[at].peer = Some(self.vector.insert(&endpoint.address().unwrap()).unwrap());
            self.nodes[at].endpoint = Some(endpoint);
        }

        /// Checks and drops a buffer, or keeps it.
        fn take(buffer: Buffer, free: &mut Vec<Buffer>) {
            // Every byte of a message is its first one.
            assert!(buffer.iter().all(|byte| *byte == buffer[0]));
            if free.len() < 8 {
                free.push(buffer);
            }
        }

        fn read(&mut self, at: usize, count: usize, free: &mut Vec<Buffer>) {
            match self.nodes[at].queue.read() {
                Ok(done) => done
                    .take(count)
                    .filter_map(Completion::into_buffer)
                    .for_each(|buffer| World::take(buffer, free)),
                Err(error) => drop(error.into_operation().expect("a queue that can be read")),
            }
        }
    }

    fn run(provider: &str, seed: u64) {
        let info = info(provider, EndpointType::Rdm, false);
        let domain = Domain::open(&Fabric::open(&info).unwrap(), &info).unwrap();
        let vector = AddressVector::open(&domain, 0).unwrap();
        let weak = Arc::downgrade(&domain.0);
        let mut world = World {
            info,
            domain,
            vector,
            nodes: vec![],
        };
        for at in 0..3 {
            let queue = world.queue();
            world.nodes.push(Node {
                endpoint: None,
                queue,
                peer: None,
            });
            world.open(at);
        }
        let mut random = Random(seed);
        let mut free = vec![];
        for _ in 0..400 {
            let at = random.below(3) as usize;
            let mut buffer = free
                .pop()
                .unwrap_or_else(|| Buffer::new(&world.domain, 32).unwrap());
            buffer.set_len(32);
            let byte = random.below(256) as u8;
            buffer.fill(byte);
            match (random.below(12), &world.nodes[at].endpoint) {
                (0..4, Some(endpoint)) => drop(endpoint.recv(buffer, Peer::ANY)),
                (4..7, Some(endpoint)) => {
                    let to = world.nodes[random.below(3) as usize].peer.unwrap();
                    drop(endpoint.send(buffer, to));
                }
                (7, Some(endpoint)) => {
                    let id = buffer.id();
                    if endpoint.recv(buffer, Peer::ANY).is_ok() {
                        // Ignores that the receive may have matched a message already.
                        let _ = endpoint.cancel(id);
                    }
                }
                (8 | 9, _) => world.read(at, 100, &mut free),
                (10, _) => world.read(at, 1, &mut free),
                (_, Some(_)) => world.nodes[at].endpoint = None,
                (_, None) => {
                    if random.below(2) == 0 {
                        world.nodes[at].queue = world.queue();
                    }
                    world.open(at);
                }
            }
        }
        let World {
            domain,
            vector,
            nodes,
            info: _,
        } = world;
        drop((domain, vector, free));
        drop(nodes);
        assert_eq!(weak.strong_count(), 0, "seed {seed}: a buffer is left");
    }

    #[test]
    fn tcp() {
        (1..20).for_each(|seed| run("tcp", seed * 0x9e37_79b9));
    }

    #[test]
    fn shm() {
        (1..20).for_each(|seed| run("shm", seed * 0x9e37_79b9));
    }
}
