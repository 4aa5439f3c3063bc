// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What peers on this host are reached over, for `fi_info -v`.
//!
//! It is tried: two children of this program, neither the parent of the other, talk as two ranks of a job would. The one
//! that connects hears from the library's log how, as in
//! `connected to 127.0.0.1:4000, opened by us, with extensions, over shared memory, large messages in one copy`.
#![forbid(unsafe_code)]

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::show;
use crate::abi::*;
use crate::calls::endpoint::{Endpoint, Plan};
use crate::calls::fabric;
use crate::calls::failure::{Failure, Result};
use crate::calls::info::Query;
use crate::calls::log::{self, Line};
use crate::calls::output;
use crate::ffi::client::{Info, InfoList};

/// What came of an attempt: what peers are reached over, if the library says it, or why they are not reached.
pub type Outcome = core::result::Result<Option<String>, String>;

/// An attempt for each provider of `list` that has endpoints for it.
pub fn attempts(list: &InfoList) -> Vec<(String, Outcome)> {
    let mut tried: Vec<(String, Outcome)> = Vec::new();
    for info in list.iter().filter(talks) {
        let provider = show::or_null(info.provider());
        if tried.iter().all(|(known, _)| *known != provider) {
            let outcome = attempt(&provider);
            tried.push((provider, outcome));
        }
    }
    tried
}

/// A line for each provider of `list` whose library says what its connections go over.
pub fn report(out: &mut dyn Write, list: &InfoList) -> io::Result<()> {
    for (provider, outcome) in attempts(list) {
        match outcome {
            Ok(Some(way)) => writeln!(
                out,
                "# {provider} FI_EP_RDM: a peer on this host is reached over {way}"
            )?,
            Ok(None) => {}
            Err(why) => writeln!(
                out,
                "# {provider} FI_EP_RDM: a peer on this host was not reached: {why}"
            )?,
        }
    }
    Ok(())
}

/// What the two have found, if the library says it.
fn attempt(provider: &str) -> Outcome {
    let mut waiting = start(provider).map_err(|error| error.to_string())?;
    let outcome = answer(&mut waiting).and_then(|address| {
        let mut calling =
            start(&format!("{provider} {address}")).map_err(|error| error.to_string())?;
        let way = answer(&mut calling);
        end(&mut calling);
        way
    });
    end(&mut waiting);
    outcome.map(|way| Some(way).filter(|way| !way.is_empty()))
}

/// A child with the same command line, which is to be `whom`: a provider, and the address that it calls if it calls.
fn start(whom: &str) -> io::Result<Child> {
    Command::new(env::current_exe()?)
        .args(env::args_os().skip(1))
        .env(NEIGHBOUR, whom)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

/// The first line that a child writes.
fn answer(child: &mut Child) -> core::result::Result<String, String> {
    let mut line = String::new();
    if let Some(out) = child.stdout.as_mut() {
        BufReader::new(out)
            .read_line(&mut line)
            .map_err(|error| error.to_string())?;
    }
    match line.trim_end_matches('\n').split_once(' ') {
        Some((DONE, answer)) => Ok(answer.to_owned()),
        Some((FAILED, why)) => Err(why.to_owned()),
        _ => Err("the one that tried it has gone".to_owned()),
    }
}

/// It has answered, or will not.
fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// Whom this process is to be, if it is a child of `report`.
pub fn is_one() -> Option<String> {
    env::var(NEIGHBOUR).ok()
}

/// The part of a child: to be called, or to call.
pub fn be(whom: &str, mut query: Query) {
    if query.flags & FI_SOURCE != 0 {
        // Two cannot have the one port that was asked for.
        query.service = None;
    }
    let answered = query.ask().and_then(|list| match whom.split_once(' ') {
        Some((provider, address)) => call(provider, address, &list).map(|way| say(DONE, &way)),
        None => be_called(whom, &list),
    });
    if let Err(failure) = answered {
        say(FAILED, &failure.to_string());
    }
}

fn say(kind: &str, what: &str) {
    output::print(|out| writeln!(out, "{kind} {what}"));
}

/// Says where it is, and answers the message that comes, which says where its sender is.
fn be_called(provider: &str, list: &InfoList) -> Result {
    let (mut endpoint, deadline) = open(provider, list)?;
    let digits: String = endpoint
        .address()?
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    say(DONE, &digits);
    until(&mut endpoint, deadline, Endpoint::has_received)?;
    let length = endpoint.take_received().unwrap_or(0);
    let caller = endpoint.incoming()[..length].to_vec();
    endpoint.set_peer(&caller)?;
    endpoint.post_by(deadline, |endpoint| endpoint.send(0))?;
    // This process is ended once the caller has what it wants.
    until(&mut endpoint, deadline, |_| false)
}

/// Sends a message to `address`, and hears how it went.
fn call(provider: &str, address: &str, list: &InfoList) -> Result<String> {
    log::import()?;
    let (mut endpoint, deadline) = open(provider, list)?;
    let digits = address.as_bytes().chunks(2);
    let address: Option<Vec<u8>> = digits
        .map(|two| u8::from_str_radix(str::from_utf8(two).ok()?, 16).ok())
        .collect();
    endpoint.set_peer(&address.ok_or_else(|| Failure::new("the address", FI_EINVAL))?)?;
    let own = endpoint.address()?;
    endpoint.outgoing()[..own.len()].copy_from_slice(&own);
    endpoint.post_by(deadline, |endpoint| endpoint.send(own.len()))?;
    until(&mut endpoint, deadline, Endpoint::has_received)?;
    Ok(way(&log::take()).unwrap_or_default())
}

/// What a connection goes over, and why not over shared memory, if that was tried.
fn way(lines: &[Line]) -> Option<String> {
    let connected = lines
        .iter()
        .filter_map(|line| line.text.strip_prefix("connected to "))
        .find_map(|line| line.split_once(", over "))?;
    let refused = lines
        .iter()
        .find_map(|line| line.text.split_once(": no shared memory: "));
    Some(match refused {
        Some((_, why)) => format!("{}, not over shared memory: {why}", connected.1),
        None => connected.1.to_owned(),
    })
}

/// Whether endpoints of this entry send and receive messages without a connection of the application's.
fn talks(info: &Info) -> bool {
    let caps = info.raw().caps;
    info.ep_type() == FI_EP_RDM
        && caps & (FI_MSG | FI_TAGGED) != 0
        && caps & FI_SEND != 0
        && caps & FI_RECV != 0
}

/// An endpoint of this provider's first entry for such, with a receive posted, and until when it may take.
fn open(provider: &str, list: &InfoList) -> Result<(Endpoint, Instant)> {
    let is_meant = |info: &Info| talks(info) && info.provider().as_deref() == Some(provider);
    let info = list
        .iter()
        .find(is_meant)
        .ok_or_else(|| Failure::new("fi_getinfo", FI_ENODATA))?;
    let domain = fabric::domain(&fabric::open(info)?, info)?;
    let plan = Plan {
        longest: LONGEST,
        tag: (info.raw().caps & FI_MSG == 0).then_some(0),
        window: 1,
        access: FI_SEND,
        inject: true,
    };
    let mut endpoint = Endpoint::open(&domain, info, None, &plan)?;
    let deadline = Instant::now() + LIMIT;
    endpoint.post_by(deadline, Endpoint::receive)?;
    Ok((endpoint, deadline))
}

fn until(endpoint: &mut Endpoint, deadline: Instant, done: impl Fn(&Endpoint) -> bool) -> Result {
    while !done(endpoint) {
        thread::sleep(Duration::from_micros(100));
        endpoint.progress_by(deadline, "a message to it")?;
    }
    Ok(())
}

/// Room for an address.
const LONGEST: usize = 256;

/// Much longer than it ever takes.
const LIMIT: Duration = Duration::from_secs(2);

/// Set for the children of `report`.
const NEIGHBOUR: &str = "FI_INFO_NEIGHBOUR";

/// How the line of a child begins.
const DONE: &str = "done";
const FAILED: &str = "failed";

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(texts: &[&str]) -> Option<String> {
        let line = |text: &&str| Line {
            provider: "tcp".to_owned(),
            level: FI_LOG_INFO,
            text: (*text).to_owned(),
        };
        way(&texts.iter().map(line).collect::<Vec<_>>())
    }

    #[test]
    fn the_log_says_what_a_connection_goes_over() {
        let shared = "connected to 127.0.0.1:7, opened by us, with extensions, over shared memory";
        let tcp = "connected to 127.0.0.1:7, opened by us, with extensions, over TCP";
        assert_eq!(heard(&["RDM endpoint", shared]).unwrap(), "shared memory");
        assert_eq!(heard(&[tcp]).unwrap(), "TCP");
        assert_eq!(
            heard(&["127.0.0.1:7: no shared memory: another user", tcp]).unwrap(),
            "TCP, not over shared memory: another user"
        );
        assert!(heard(&["connected to 127.0.0.1:7", "else"]).is_none());
    }
}
