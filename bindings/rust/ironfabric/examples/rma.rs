// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! rma [PROVIDER]: one endpoint writes to and reads from memory of another one. The owner of the memory makes no call
//! for the data. A message reports that they are there.

use ironfabric::*;

struct Node {
    domain: Domain,
    queue: CompletionQueue,
    vector: AddressVector,
    endpoint: Endpoint,
}

impl Node {
    fn open(provider: &str) -> Result<Node> {
        let mut hints = Hints::new()
            .caps(Caps::MSG | Caps::RMA)
            .endpoint_type(EndpointType::Rdm)
            .provider(provider);
        if provider == "tcp" {
            hints = hints.source("127.0.0.1", None);
        }
        let info = hints.query()?.first().ok_or(Error::NODATA)?;
        let domain = Domain::open(&Fabric::open(&info)?, &info)?;
        let queue = CompletionQueue::open(&domain, QueueOptions::default())?;
        let vector = AddressVector::open(&domain, 1)?;
        let endpoint = domain
            .endpoint(&info)?
            .queue(&queue)?
            .address_vector(&vector)?
            .enable()?;
        Ok(Node {
            domain,
            queue,
            vector,
            endpoint,
        })
    }
}

/// Posts an operation of `node` and waits for its completion. Both queues are read, because with some providers the
/// peer has to make calls, too.
fn complete(
    node: &mut Node,
    other: &mut Node,
    mut buffer: Buffer,
    post: impl Fn(&Endpoint, Buffer) -> Posted<Shared>,
) -> Result<Buffer> {
    while let Err(rejected) = post(&node.endpoint, buffer) {
        if !rejected.is_again() {
            return Err(rejected.error);
        }
        buffer = rejected.buffer;
        node.queue.read()?;
        other.queue.read()?;
    }
    loop {
        if let Some(done) = node.queue.read()?.next() {
            return Ok(done.into_buffer().expect("the buffer of the operation"));
        }
        other.queue.read()?;
    }
}

fn main() -> Result<()> {
    let provider = std::env::args().nth(1).unwrap_or_else(|| "tcp".into());
    let (mut owner, mut user) = (Node::open(&provider)?, Node::open(&provider)?);
    let to_owner = user.vector.insert(&owner.endpoint.address()?)?;
    owner.vector.insert(&user.endpoint.address()?)?;

    let window = Window::new(
        &owner.domain,
        4096,
        Access::REMOTE_READ | Access::REMOTE_WRITE,
    )?;
    // A program sends these 24 bytes to its peer in a message.
    let memory = RemoteMemory::from_bytes(&window.remote().to_bytes());

    let text = b"written by a peer";
    let place = memory
        .slice(100, text.len() as u64)
        .expect("a part of the window");
    let mut buffer = Buffer::new(&user.domain, 64)?;
    buffer.copy_from(text);
    let buffer = complete(&mut user, &mut owner, buffer, |endpoint, buffer| {
        endpoint.write(buffer, to_owner, place)
    })?;
    let buffer = complete(&mut user, &mut owner, buffer, |endpoint, buffer| {
        endpoint.read(buffer, to_owner, place)
    })?;
    assert_eq!(&buffer[..], text);

    owner
        .endpoint
        .recv(Buffer::new(&owner.domain, 8)?, Peer::ANY)?;
    complete(&mut user, &mut owner, buffer, |endpoint, mut buffer| {
        buffer.copy_from(b"done");
        endpoint.send(buffer, to_owner)
    })?;
    while owner.queue.read()?.count() == 0 {}
    let mut found = [0; 17];
    window.read(100, &mut found);
    assert_eq!(&found, text);
    println!("{provider}: {}", String::from_utf8_lossy(&found));
    // Ends the access of peers; the bytes are not copied.
    let bytes = window.into_vec()?;
    assert_eq!(bytes.len(), 4096);
    Ok(())
}
