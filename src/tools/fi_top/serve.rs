// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Counters in the text format of Prometheus, served by HTTP on the loopback interface.
//!
//! Each connection has a thread and one deadline for all of it, so clients that are silent or slow delay no others.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::options::Options;
use crate::prometheus;
use calls::visitors::Visitors;

/// Time limit for a request and its answer, without the search for processes.
const LIMIT: Duration = Duration::from_secs(2);
/// Limit on the bytes of a request.
const LONGEST: usize = 16 * 1024;
/// Limit on simultaneous connections.
const MOST: usize = 64;

/// Serves until the program is ended.
pub fn run(options: &Options, port: u16) -> io::Result<ExitCode> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    println!("http://{}/metrics", listener.local_addr()?);
    io::stdout().flush()?;
    let options = options.clone();
    let page = Shared::new(move || prometheus::text(&crate::look_once(&options)));
    accept(&listener, page, LIMIT);
    Ok(ExitCode::SUCCESS)
}

fn accept<F>(listener: &TcpListener, page: Shared<F>, limit: Duration)
where
    F: Fn() -> String + Send + Sync + 'static,
{
    let visitors = Visitors::new(MOST);
    thread::scope(|threads| {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // If no descriptors are left, the next attempt fails as well.
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            let Ok(admission) = visitors.admit(&stream) else {
                continue;
            };
            let page = page.clone();
            // If the thread cannot start, the connection is closed.
            let _ = thread::Builder::new().spawn_scoped(threads, move || {
                // A client that sends an invalid request gets no answer.
                let _ = answer(&stream, &page, limit);
                drop(admission);
            });
        }
    });
}

/// The page, made for one client at a time. Clients that arrived before it was begun share it.
struct Shared<F> {
    make: Arc<F>,
    last: Arc<Mutex<Option<Page>>>,
}

/// The time when the page was begun, and its text.
type Page = (Instant, Arc<str>);

impl<F: Fn() -> String> Shared<F> {
    fn new(make: F) -> Shared<F> {
        Shared {
            make: Arc::new(make),
            last: Arc::default(),
        }
    }

    fn text(&self) -> Arc<str> {
        let asked = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((begun, text)) if *begun >= asked => text.clone(),
            _ => {
                let begun = Instant::now();
                let text: Arc<str> = (self.make)().into();
                *last = Some((begun, text.clone()));
                text
            }
        }
    }
}

impl<F> Clone for Shared<F> {
    fn clone(&self) -> Shared<F> {
        Shared {
            make: self.make.clone(),
            last: self.last.clone(),
        }
    }
}

fn answer<F>(stream: &TcpStream, page: &Shared<F>, limit: Duration) -> io::Result<()>
where
    F: Fn() -> String,
{
    let request = request(stream, Instant::now() + limit)?;
    let mut words = request.split_whitespace();
    let (status, body): (_, Arc<str>) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics" | "/")) => ("200 OK", page.text()),
        (Some("GET"), _) => ("404 Not Found", "there is /metrics\n".into()),
        _ => ("405 Method Not Allowed", "".into()),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    send(stream, answer.as_bytes(), Instant::now() + limit)?;
    stream.shutdown(Shutdown::Write)
}

/// Returns the first line of a request, after its last line has arrived.
fn request(mut stream: &TcpStream, end: Instant) -> io::Result<String> {
    let mut bytes = Vec::new();
    loop {
        stream.set_read_timeout(Some(left(end)?))?;
        let mut more = [0; 1024];
        match stream.read(&mut more) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&more[..count]),
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(error),
        }
        if bytes.len() > LONGEST {
            return Err(ErrorKind::InvalidData.into());
        }
        if bytes.windows(4).any(|end| end == b"\r\n\r\n")
            || bytes.windows(2).any(|end| end == b"\n\n")
        {
            break;
        }
    }
    let line = bytes.split(|&byte| byte == b'\n').next();
    Ok(String::from_utf8_lossy(line.unwrap_or_default()).into_owned())
}

fn send(mut stream: &TcpStream, mut bytes: &[u8], end: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(end)?))?;
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the time until the deadline. If none is left, it is an error, because a timeout of zero would mean no limit.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A server that runs until the tests end.
    fn server(limit: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || accept(&listener, Shared::new(|| "page\n".to_owned()), limit));
        address
    }

    fn get(at: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        // The server may close the connection with bytes unread.
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn requests_are_answered() {
        let at = server(LIMIT);
        let page = get(at, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("\r\n\r\npage\n"));
        assert!(get(at, b"GET /other HTTP/1.1\r\n\r\n").contains(" 404 "));
        assert!(get(at, b"POST / HTTP/1.1\r\n\r\n").contains(" 405 "));
        assert_eq!(get(at, &[b'x'; 2 * LONGEST]), "");
    }

    #[test]
    fn silent_and_slow_clients_delay_no_others() {
        let limit = Duration::from_millis(400);
        let at = server(limit);
        let mut slow: Vec<TcpStream> = (0..3 * MOST)
            .map(|_| TcpStream::connect(at).unwrap())
            .collect();
        for stream in &mut slow {
            // The server may have closed the connection in favour of a newer one.
            let _ = stream.write_all(b"GET ");
        }
        let begin = Instant::now();
        assert!(get(at, b"GET / HTTP/1.1\r\n\r\n").contains(" 200 "));
        assert!(begin.elapsed() < limit, "{:?}", begin.elapsed());
        // Sending a byte now and then extends no deadline.
        let mut slowest = slow.pop().unwrap();
        while slowest.write_all(b"/").is_ok() {
            assert!(begin.elapsed() < 10 * limit);
            thread::sleep(limit / 20);
        }
    }

    #[test]
    fn clients_that_wait_share_a_page() {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let shared = Shared::new(|| {
            MADE.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(50));
            String::new()
        });
        thread::scope(|threads| {
            for _ in 0..8 {
                threads.spawn(|| shared.text());
            }
        });
        assert!(MADE.load(Ordering::Relaxed) < 8);
    }
}
