// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The control connection of two doctors: they exchange lines of words, of which the first is the kind of the line.
//!
//! The other side may be any program. A line has a limited length and must arrive in time; an unexpected line ends the
//! session.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub struct Control {
    stream: TcpStream,
    /// The end of the whole session.
    end: Instant,
    /// Bytes that arrived behind the last line.
    rest: Vec<u8>,
}

impl Control {
    pub fn new(stream: TcpStream, limit: Duration) -> Control {
        Control {
            stream,
            end: Instant::now() + limit,
            rest: Vec::new(),
        }
    }

    /// Sends a line. An error is a text to print behind "HOST: ".
    pub fn say(&mut self, line: &str) -> Result<(), String> {
        let time = self.time(Duration::MAX)?;
        let failed = |error: std::io::Error| format!("nothing can be sent to it: {error}");
        self.stream.set_write_timeout(Some(time)).map_err(failed)?;
        let bytes = format!("{line}\n");
        self.stream.write_all(bytes.as_bytes()).map_err(failed)
    }

    /// Returns the words behind `verb` in the next line, which must arrive within `limit`.
    pub fn hear(&mut self, verb: &str, limit: Duration) -> Result<Vec<String>, String> {
        let line = self.line(Instant::now() + limit)?;
        let mut words = line.split(' ').map(str::to_owned);
        match words.next() {
            Some(first) if first == verb => Ok(words.filter(|word| !word.is_empty()).collect()),
            _ => Err(format!("it says {line:?} where \"{verb} ...\" is due")),
        }
    }

    fn line(&mut self, end: Instant) -> Result<String, String> {
        loop {
            if let Some(at) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=at).collect();
                let text = str::from_utf8(&line[..at]).ok();
                return text
                    .filter(|text| {
                        text.bytes()
                            .all(|byte| byte == b' ' || byte.is_ascii_graphic())
                    })
                    .map(str::to_owned)
                    .ok_or_else(|| "it says something else than words".to_owned());
            }
            if self.rest.len() > LONGEST {
                return Err(format!(
                    "it sends more than {LONGEST} bytes without an end of line"
                ));
            }
            self.more(end.saturating_duration_since(Instant::now()))?;
        }
    }

    fn more(&mut self, limit: Duration) -> Result<(), String> {
        let time = self.time(limit)?;
        let lost = |error: std::io::Error| format!("the connection ended: {error}");
        self.stream.set_read_timeout(Some(time)).map_err(lost)?;
        let mut bytes = [0; 1024];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err("it closed the connection".to_owned()),
            Ok(count) => {
                self.rest.extend_from_slice(&bytes[..count]);
                Ok(())
            }
            Err(error) if is_timeout(&error) || error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(lost(error)),
        }
    }

    /// Returns the remainder of `limit`, or of the whole session if that ends earlier.
    fn time(&self, limit: Duration) -> Result<Duration, String> {
        let time = self
            .end
            .saturating_duration_since(Instant::now())
            .min(limit);
        match time.is_zero() {
            true => Err("it does not answer in time".to_owned()),
            false => Ok(time),
        }
    }
}

/// A socket with a time limit reports its end by either kind of error.
pub fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Limit on the length of a line, far above any valid line.
const LONGEST: usize = 4096;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const SOON: Duration = Duration::from_millis(200);

    /// Returns the result of a conversation in which the other side sends these bytes and then waits.
    fn heard(bytes: &'static [u8]) -> Result<Vec<String>, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let other = thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            // The connection may be closed already, as the test expects.
            let _ = stream.write_all(bytes);
            let _ = stream.read(&mut [0]);
        });
        let (stream, _) = listener.accept().unwrap();
        let outcome = Control::new(stream, SOON).hear("ports", SOON);
        other.join().unwrap();
        outcome
    }

    #[test]
    fn the_line_that_is_due_is_heard() {
        assert_eq!(heard(b"ports 1  22\nmore").unwrap(), ["1", "22"]);
        assert_eq!(heard(b"ports\n").unwrap(), [""; 0]);
    }

    #[test]
    fn other_bytes_are_an_error_in_time() {
        let begin = Instant::now();
        assert!(heard(b"SSH-2.0-OpenSSH\n").unwrap_err().contains("is due"));
        assert!(
            heard(b"ports \xff\x00\n")
                .unwrap_err()
                .contains("else than words")
        );
        assert!(
            heard(b"ports \x1b[2J\n")
                .unwrap_err()
                .contains("else than words")
        );
        assert!(
            heard(&[b'x'; 100_000])
                .unwrap_err()
                .contains("without an end of line")
        );
        assert_eq!(heard(b"ports 1").unwrap_err(), "it does not answer in time");
        assert!(begin.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_side_that_sends_a_byte_at_a_time_gets_no_longer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let other = thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            while stream.write_all(b"p").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let (stream, _) = listener.accept().unwrap();
        let begin = Instant::now();
        assert!(
            Control::new(stream, Duration::from_secs(60))
                .hear("ports", SOON)
                .is_err()
        );
        assert!(begin.elapsed() < Duration::from_secs(5));
        other.join().unwrap();
    }
}
