// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Finds out how peers on this host are reached, for `fi_info -v`.
//!
//! Two children of this program, neither the parent of the other, exchange a message as two ranks of a job would. The
//! one that connects reads in the library's log how, for example `connected to 127.0.0.1:4000, opened by us, with
//! extensions, over shared memory, large messages in one copy`.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::show;
use abi::*;
use calls::endpoint::{Endpoint, Plan};
use calls::fabric;
use calls::failure::{Failure, Result};
use calls::info::Query;
use calls::log::{self, Line};
use calls::output;
use client::{Info, InfoList};

/// The result of an attempt: the way in which peers are reached, if the library logs it, or the reason why they are
/// not.
pub type Outcome = core::result::Result<Option<String>, String>;

/// Runs an attempt for each provider of `list` that has suitable endpoints.
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

/// Writes a line for each provider of `list` whose library logs how it connects.
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

/// Starts two children and returns the way that they found, if the library logs it.
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

/// Starts a child with the same command line. `whom` defines its task: a provider, and an address for the
/// child that connects.
fn start(whom: &str) -> io::Result<Child> {
    Command::new(env::current_exe()?)
        .args(env::args_os().skip(1))
        .env(NEIGHBOUR, whom)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

/// Reads the first line that a child writes.
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

/// Ends a child that has answered, or has failed to.
fn end(child: &mut Child) {
    // The child may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// Returns the task of this process, if it is a child of `report`.
pub fn is_one() -> Option<String> {
    env::var(NEIGHBOUR).ok()
}

/// Runs the task of a child: wait for a message, or send one.
pub fn be(whom: &str, mut query: Query) {
    if query.flags & FI_SOURCE != 0 {
        // The two children cannot both have the requested port.
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

/// Prints its own address, and answers a message, which has the address of its sender.
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
    // The parent ends this process when the caller has its answer.
    until(&mut endpoint, deadline, |_| false)
}

/// Sends a message to `address`, and returns the way that it took.
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

/// Returns how a connection was made, and why not over shared memory, if that was tried.
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

/// Returns true if endpoints of this entry exchange messages without a connection made by the application.
fn talks(info: &Info) -> bool {
    let caps = info.raw().caps;
    info.ep_type() == FI_EP_RDM
        && caps & (FI_MSG | FI_TAGGED) != 0
        && caps & FI_SEND != 0
        && caps & FI_RECV != 0
}

/// Opens an endpoint from this provider's first suitable entry and posts a receive. Also returns the deadline.
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

/// Time limit, far longer than an attempt takes.
const LIMIT: Duration = Duration::from_secs(2);

/// Variable that is set for the children of `report`.
const NEIGHBOUR: &str = "FI_INFO_NEIGHBOUR";

/// The first word in the line of a child.
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
