// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The hook `trace`: logs a line for each call that succeeds. fi_hook(7).

use core::fmt::Arguments;
use core::sync::atomic::{AtomicU32, Ordering};

use super::subsys_of;
use abi::*;
use base::log::{self, Level, Source, Subsys};
use base::text::error_words;
use client::wrap::{Call, Completion, Name, Slot, Watch};

pub struct Trace {
    hooked: &'static Source,
    /// Address format of the endpoint that was opened last.
    addr_format: AtomicU32,
}

impl Trace {
    pub fn new(hooked: &'static Source) -> Trace {
        Trace {
            hooked,
            addr_format: AtomicU32::new(0),
        }
    }

    fn say(&self, call: &Call<'_>, subsys: Subsys, text: Arguments) {
        let function = format!("trace_{}", call.slot().name());
        log::write(self.hooked, Level::Trace, subsys, &function, line!(), text);
    }
}

impl Watch for Trace {
    fn after(&self, call: &Call<'_>, _before: u64, result: i64) {
        let subsys = subsys_of(call);
        if result < 0 || !log::enabled(self.hooked, Level::Trace, subsys) {
            return;
        }
        match call.slot().table() {
            _ if call.slot().transfers() && !call.slot().name().ends_with("valid") => {
                self.say(call, subsys, format_args!("{}", transfer(call)));
            }
            "cq" => self.completions(call, result),
            "cm" => self.connection(call),
            "mr" => {
                let (_, len, _) = call.region();
                let flags = call.argument(Name::flags).unwrap_or(0);
                let mr = opened(call, Name::mr);
                self.say(
                    call,
                    subsys,
                    format_args!("mr {mr:#x} len {len} flags {flags:#x}"),
                );
                self.attributes(call, subsys);
            }
            "domain" | "fabric" if call.argument(Name::context).is_some() => {
                if let Some(format) = call.addr_format() {
                    self.addr_format.store(format, Ordering::Relaxed);
                }
                let (what, handle) = what_is_opened(call);
                let context = call.argument(Name::context).unwrap_or(0);
                let (table, inside) = (call.slot().table(), call.object());
                self.say(
                    call,
                    subsys,
                    format_args!("{what} {handle:#x} {table} {inside:#x} context {context:#x}"),
                );
                self.attributes(call, subsys);
            }
            // Applications poll these calls again and again.
            "cntr" if call.argument(Name::value).is_none() => (),
            "base" | "fabric" | "ep" | "cntr" | "poll" | "wait"
                if matches!(
                    call.slot().name().as_str(),
                    "tostr" | "trywait" | "poll" | "wait" | "rx_size_left" | "tx_size_left"
                ) => {}
            "eq" => {
                if result > 0 && call.argument(Name::event).is_some() {
                    let event = call.event().unwrap_or(0);
                    self.say(call, subsys, format_args!("event {event} len {result}"));
                }
            }
            _ => self.say(call, subsys, format_args!("{}", arguments(call))),
        }
    }
}

impl Trace {
    /// Logs the attributes with which an object is opened, line by line.
    fn attributes(&self, call: &Call<'_>, subsys: Subsys) {
        for text in call.attributes() {
            for line in text.lines() {
                self.say(call, subsys, format_args!("{line}"));
            }
        }
    }

    fn completions(&self, call: &Call<'_>, result: i64) {
        if call.slot() == const { Slot::of("cq", "readerr") } {
            let Some(failure) = call.failure().filter(|_| result > 0) else {
                return;
            };
            let entry = failure.completion;
            let (err, text) = (failure.err, error_words(failure.err));
            let prov_errno = failure.prov_errno;
            let received = match is_received(&entry) {
                true => format!(
                    ", len {} buf {:#x} data {} tag {:#x} olen {}",
                    entry.len,
                    entry.buf,
                    hex(entry.data),
                    entry.tag,
                    failure.olen
                ),
                false => String::new(),
            };
            let Completion { context, flags, .. } = entry;
            self.say(
                call,
                Subsys::Cq,
                format_args!(
                    "ctx {context:#x} flags {flags:#x}{received} err {err} ({text}) prov_errno {prov_errno}"
                ),
            );
            return;
        }
        if call.argument(Name::count).is_none() {
            return;
        }
        let format = call.cq_format();
        for entry in call.completions() {
            let text = completion(&entry, format);
            self.say(call, Subsys::Cq, format_args!("{text}"));
        }
    }

    fn connection(&self, call: &Call<'_>) {
        let object = call.object();
        let flags = call.argument(Name::flags).unwrap_or(0);
        match call.slot().name().as_str() {
            "getname" | "setname" | "getpeer" | "connect" => {
                let address = call.address(self.addr_format.load(Ordering::Relaxed));
                self.say(call, Subsys::EpCtrl, format_args!("addr: {address}"));
            }
            "listen" | "reject" => self.say(call, Subsys::EpCtrl, format_args!("pep {object:#x}")),
            "accept" => self.say(call, Subsys::EpCtrl, format_args!("ep {object:#x}")),
            _ => self.say(
                call,
                Subsys::EpCtrl,
                format_args!("ep {object:#x} flags {flags:#x}"),
            ),
        }
    }
}

/// The arguments of a transfer as text.
fn transfer(call: &Call<'_>) -> String {
    let one = call.transfer();
    let mut text = format!("buf {:#x} len {} addr {}", one.buf, one.len, one.addr);
    let table = call.slot().table();
    if matches!(table, "rma" | "atomic") {
        text += &format!(" raddr {:#x}", one.remote);
    }
    text += &format!(" data {} flags {:#x}", hex(one.data), one.flags);
    match table {
        "tagged" => text += &format!(" tag {:#x} ignore {:#x}", one.tag, one.ignore),
        "rma" => text += &format!(" key {:#x}", one.key),
        "atomic" => {
            let number = |which| call.argument(which).unwrap_or(0);
            let (datatype, op) = (number(Name::datatype), number(Name::op));
            text += &format!(" key {:#x} datatype {datatype} op {op}", one.key);
        }
        _ => (),
    }
    text + &format!(" ctx {:#x}", one.context)
}

fn completion(entry: &Completion, format: fi_cq_format) -> String {
    let mut text = format!("ctx {:#x}", entry.context);
    if !matches!(
        format,
        FI_CQ_FORMAT_MSG | FI_CQ_FORMAT_DATA | FI_CQ_FORMAT_TAGGED
    ) {
        return text;
    }
    text += &format!(" flags {:#x}", entry.flags);
    if !is_received(entry) {
        return text;
    }
    text += &format!(" len {}", entry.len);
    if format != FI_CQ_FORMAT_MSG {
        text += &format!(" buf {:#x}, data {}", entry.buf, hex(entry.data));
    }
    if format == FI_CQ_FORMAT_TAGGED {
        text += &format!(" tag {:#x}", entry.tag);
    }
    text
}

fn is_received(entry: &Completion) -> bool {
    entry.flags & (FI_RECV | FI_REMOTE_WRITE) != 0
}

/// Formats a number as `%#lx` of C does.
fn hex(number: u64) -> String {
    match number {
        0 => "0".to_owned(),
        _ => format!("{number:#x}"),
    }
}

/// All arguments of a call with their names.
fn arguments(call: &Call<'_>) -> String {
    let mut text = format!("fid {:#x}", call.object());
    for (argument, value) in call.arguments() {
        text += &format!(" {argument:?} {value:#x}");
    }
    text
}

/// The handle that a call has stored at the address in this argument.
fn opened(call: &Call<'_>, which: Name) -> u64 {
    call.opened(which).unwrap_or(0)
}

fn what_is_opened(call: &Call<'_>) -> (&'static str, u64) {
    const PLACES: [(Name, &str); 11] = [
        (Name::dom, "domain"),
        (Name::pep, "pep"),
        (Name::eq, "eq"),
        (Name::av, "av"),
        (Name::cq, "cq"),
        (Name::ep, "ep"),
        (Name::sep, "sep"),
        (Name::cntr, "cntr"),
        (Name::stx, "stx"),
        (Name::rx_ep, "srx"),
        (Name::ctx, "xpu_ctx"),
    ];
    let place = PLACES
        .into_iter()
        .find(|(which, _)| call.argument(*which).is_some());
    place.map_or(("object", 0), |(which, what)| (what, opened(call, which)))
}
