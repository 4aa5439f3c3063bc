// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The hook `debug`: logs the result of every call, outstanding sends, completions and events. fi_hook(7).

use core::fmt::Arguments;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{print, subsys_of};
use abi::*;
use base::log::{self, Level, Source};
use base::text::{error_words, flags};
use client::wrap::{Call, Completion, Name, Slot, Watch};

pub struct Debug {
    hooked: &'static Source,
    /// Number of -FI_EAGAIN results, for each slot.
    again: Vec<AtomicU64>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Endpoints of sends that have not completed, by context; several sends may have the same context.
    sends: BTreeMap<usize, Vec<usize>>,
    /// Number of outstanding sends of each endpoint.
    outstanding: BTreeMap<usize, u64>,
    /// Endpoints that report only the completions that are requested.
    selective: Vec<usize>,
    /// For each event queue: the kinds of events and their numbers.
    events: BTreeMap<usize, BTreeMap<u32, u64>>,
}

/// The log gets the first -FI_EAGAIN result of each slot, and then one in this many.
const AGAIN: u64 = 10_000_000;

impl Debug {
    pub fn new(hooked: &'static Source) -> Debug {
        Debug {
            hooked,
            again: (0..Slot::COUNT).map(|_| AtomicU64::new(0)).collect(),
            known: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, call: &Call<'_>, text: Arguments) {
        let function = format!("debug_{}", call.slot().name());
        log::write(
            self.hooked,
            Level::Trace,
            subsys_of(call),
            &function,
            line!(),
            text,
        );
    }

    /// Records what is needed to interpret later calls.
    fn note(&self, call: &Call<'_>, result: i64) {
        if result < 0 {
            return;
        }
        let flags = call.argument(Name::flags).unwrap_or(0);
        if call.slot() == const { Slot::of("base", "bind") }
            && flags & FI_SELECTIVE_COMPLETION != 0
            && flags & FI_TRANSMIT != 0
        {
            self.known().selective.push(call.object());
        }
        if call.slot().table() == "eq" && result > 0 && flags & FI_PEEK == 0 {
            let event = match call.slot().name().as_str() {
                "eq_read" | "eq_sread" => call.event(),
                "eq_readerr" => Some(ERROR),
                _ => None,
            };
            if let Some(event) = event {
                let mut known = self.known();
                let kinds = known.events.entry(call.object()).or_default();
                *kinds.entry(event).or_default() += 1;
            }
        }
    }

    fn log_completion(&self, call: &Call<'_>, completion: &Completion, ep: Option<(usize, u64)>) {
        let Completion {
            context,
            flags: bits,
            len,
            tag,
            ..
        } = completion;
        let words = flags::CQ_EVENT_FLAGS.sum(*bits);
        self.say(
            call,
            format_args!(
                "cq_entry: op_context: {context:#x} flags: {words} len: {len} tag: {tag:#x}"
            ),
        );
        if let Some((ep, left)) = ep {
            self.say(call, format_args!("ep: {ep:#x} tx_outs: {left}"));
        }
    }
}

impl Watch for Debug {
    /// Records a send before its call, because it may complete in another thread before the call returns.
    fn before(&self, call: &mut Call<'_>) -> u64 {
        let mut known = self.known();
        let sends = known.counts(call);
        if sends {
            known
                .sends
                .entry(call.context())
                .or_default()
                .push(call.object());
            *known.outstanding.entry(call.object()).or_default() += 1;
        }
        u64::from(sends)
    }

    fn after(&self, call: &Call<'_>, before: u64, result: i64) {
        if before == 1 && result < 0 {
            self.known().done(call.context());
        }
        self.note(call, result);
        let completions = match call.slot().table() {
            "cq" if call.argument(Name::count).is_some() => call.completions(),
            "cq" if result > 0 => call.failure().iter().map(|one| one.completion).collect(),
            _ => Vec::new(),
        };
        let ends = |one: &Completion| self.known().done(one.context);
        let ended: Vec<_> = completions.iter().map(ends).collect();
        if !log::enabled(self.hooked, Level::Trace, subsys_of(call)) {
            return;
        }
        if result == -i64::from(FI_EAGAIN) {
            // Relaxed: the counter is independent of other memory.
            let count = self.again[call.slot().number()].fetch_add(1, Ordering::Relaxed);
            if !count.is_multiple_of(AGAIN) {
                return;
            }
        }
        let words = match i32::try_from(result) {
            Ok(code @ ..=0) => format!(" ({})", error_words(code)),
            _ => String::new(),
        };
        let (name, object) = (call.slot().name(), call.object());
        self.say(
            call,
            format_args!("fi_{name} (fid: {object:#x}) returned: {result}{words}"),
        );
        if before == 1 && result >= 0 {
            let outstanding = self.known().outstanding.get(&object).copied();
            let outstanding = outstanding.unwrap_or(0);
            self.say(call, format_args!("ep: {object:#x} tx_outs: {outstanding}"));
        }
        for (completion, ep) in completions.iter().zip(ended) {
            self.log_completion(call, completion, ep);
        }
        if matches!(name.as_str(), "cq_open" | "cntr_open" | "av_open") {
            for text in call.attributes() {
                for line in text.lines() {
                    self.say(call, format_args!("{line}"));
                }
            }
        }
    }

    fn closed(&self, object: usize, class: u32) {
        let mut known = self.known();
        match class {
            FI_CLASS_EQ => {
                let events = known.events.remove(&object).unwrap_or_default();
                drop(known);
                let heading = format!("EQ events: (fid: {object:#x})");
                let counts = EVENTS.iter().map(|(event, name)| {
                    let count = events.get(event).unwrap_or(&0);
                    format!("{name:<20}: {count}")
                });
                print(self.hooked, [heading].into_iter().chain(counts));
            }
            _ => {
                known.selective.retain(|other| *other != object);
                let left = known.outstanding.remove(&object).unwrap_or(0);
                drop(known);
                if left > 0 {
                    print(
                        self.hooked,
                        [format!("ep: {object:#x} closed, tx_outs: {left}")],
                    );
                }
            }
        }
    }
}

impl Known {
    /// Whether the call is a send whose completion is reported.
    fn counts(&self, call: &Call<'_>) -> bool {
        if !matches!(call.slot().table(), "msg" | "tagged") || !call.slot().name().contains("send")
        {
            return false;
        }
        let flags = call.argument(Name::flags).unwrap_or(0);
        flags & FI_COMPLETION != 0 || !self.selective.contains(&call.object())
    }

    /// Removes a send with this context that has ended. Returns its endpoint and the number of sends still outstanding
    /// there.
    fn done(&mut self, context: usize) -> Option<(usize, u64)> {
        let eps = self.sends.get_mut(&context)?;
        let ep = eps.pop();
        if eps.is_empty() {
            self.sends.remove(&context);
        }
        let left = self.outstanding.get_mut(&ep?)?;
        *left = left.saturating_sub(1);
        Some((ep?, *left))
    }
}

/// Key for errors among the events.
const ERROR: u32 = u32::MAX;

const EVENTS: [(u32, &str); 8] = [
    (FI_NOTIFY, "FI_NOTIFY"),
    (FI_CONNREQ, "FI_CONNREQ"),
    (FI_CONNECTED, "FI_CONNECTED"),
    (FI_SHUTDOWN, "FI_SHUTDOWN"),
    (FI_MR_COMPLETE, "FI_MR_COMPLETE"),
    (FI_AV_COMPLETE, "FI_AV_COMPLETE"),
    (FI_JOIN_COMPLETE, "FI_JOIN_COMPLETE"),
    (ERROR, "errors"),
];
