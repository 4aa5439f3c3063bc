// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! tokio: a task waits for completions while others run. The queue's descriptor is registered with tokio's reactor.

use ironfabric::*;
use tokio::io::unix::AsyncFd;

/// A completion queue whose completions can be awaited.
struct AsyncQueue {
    queue: CompletionQueue,
    ready: AsyncFd<WaitFd>,
}

impl AsyncQueue {
    fn open(domain: &Domain) -> std::io::Result<AsyncQueue> {
        let queue = CompletionQueue::open(
            domain,
            QueueOptions {
                wait: Wait::Fd,
                ..Default::default()
            },
        )?;
        let fd = queue.wait_fd().ok_or(Error::NOSYS)?;
        // SAFETY: the descriptor is open and the same as long as the `WaitFd`, which the `AsyncFd` owns.
        let ready = unsafe { AsyncFd::register(fd) }.map_err(std::io::Error::from)?;
        Ok(AsyncQueue { queue, ready })
    }

    /// Returns the buffer of the next operation that ends. Dropping the future loses nothing: what is in flight stays
    /// in flight, and its completion stays in the queue.
    async fn next(&mut self) -> std::io::Result<Buffer> {
        loop {
            let next = self.queue.read().map_err(Error::from)?.next();
            if let Some(buffer) = next.and_then(Completion::into_buffer) {
                return Ok(buffer);
            }
            // fi_poll(3): only a queue that allows it may be slept on.
            if self.queue.try_wait()? {
                self.ready.readable().await?.clear_ready();
            }
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let hints = Hints::new()
        .caps(Caps::MSG)
        .endpoint_type(EndpointType::Rdm)
        .provider("tcp");
    let info = hints
        .source("127.0.0.1", None)
        .query()?
        .first()
        .ok_or(Error::NODATA)?;
    let domain = Domain::open(&Fabric::open(&info)?, &info)?;
    let vector = AddressVector::open(&domain, 2)?;
    let (mut senders, mut receivers) = (AsyncQueue::open(&domain)?, AsyncQueue::open(&domain)?);
    let open = |queue: &AsyncQueue| -> Result<Endpoint> {
        domain
            .endpoint(&info)?
            .queue(&queue.queue)?
            .address_vector(&vector)?
            .enable()
    };
    let (sender, receiver) = (open(&senders)?, open(&receivers)?);
    let to_receiver = vector.insert(&receiver.address()?)?;

    receiver
        .recv(Buffer::new(&domain, 64)?, Peer::ANY)
        .map_err(Error::from)?;
    let received = tokio::spawn(async move {
        let buffer = receivers.next().await?;
        drop(receiver);
        Ok::<_, std::io::Error>(buffer)
    });
    let mut message = Buffer::from_vec(&domain, b"awaited".to_vec())?;
    while let Err(rejected) = sender.send(message, to_receiver) {
        assert!(rejected.is_again(), "{rejected}");
        message = rejected.buffer;
        senders.queue.read().map_err(Error::from)?;
        tokio::task::yield_now().await;
    }
    senders.next().await?;
    let received = received.await??;
    println!("{}", String::from_utf8_lossy(&received));
    assert_eq!(&received[..], b"awaited");
    Ok(())
}
