// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The hook `perf`: measures the cost of calls and prints it when the fabric is closed. fi_hook(7).
//!
//! FI_PERF_CNTR selects the unit: instructions or cycles of the calling thread. If the counters of the processor are
//! not available, as in many virtual machines, the hook logs this and measures nanoseconds.

use core::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::print;
use abi::FI_CLASS_FABRIC;
use base::log::{Source, Subsys, log_warn};
use base::settings::Settings;
use client::wrap::{Call, Slot, Watch};
use sys::counter::{self, Event};

pub struct Perf {
    hooked: &'static Source,
    unit: Unit,
    start: Instant,
    /// Sum and number of calls for each slot.
    calls: Vec<(AtomicU64, AtomicU64)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    Counted(Event),
    Nanoseconds,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Counted(Event::Instructions) => "CPU instr",
            Unit::Counted(Event::Cycles) => "CPU cycles",
            Unit::Nanoseconds => "nanoseconds",
        }
    }
}

impl Perf {
    pub fn new(hooked: &'static Source) -> Perf {
        let wanted = Settings::get().perf_cntr.as_deref().unwrap_or("cpu_instr");
        let event = match wanted {
            "cpu_cycles" => Event::Cycles,
            "cpu_instr" => Event::Instructions,
            _ => {
                log_warn!(
                    hooked,
                    Subsys::Core,
                    "FI_PERF_CNTR={wanted} is neither cpu_instr nor cpu_cycles; cpu_instr is counted"
                );
                Event::Instructions
            }
        };
        let unit = match counter::read(event) {
            Ok(_) => Unit::Counted(event),
            Err(error) => {
                log_warn!(
                    hooked,
                    Subsys::Core,
                    "perf: {wanted} cannot be counted ({error}); nanoseconds are measured instead"
                );
                Unit::Nanoseconds
            }
        };
        Perf {
            hooked,
            unit,
            start: Instant::now(),
            calls: (0..Slot::COUNT).map(|_| Default::default()).collect(),
        }
    }

    fn now(&self) -> u64 {
        match self.unit {
            // A thread that cannot open its counter contributes 0.
            Unit::Counted(event) => counter::read(event).unwrap_or(0),
            Unit::Nanoseconds => self.start.elapsed().as_nanos() as u64,
        }
    }

    fn table(&self) -> Vec<String> {
        let mut lines = vec![
            String::new(),
            format!("PERF: {}", self.unit.name()),
            format!("{:<20}{:<10}Events", "Name", "Avg"),
        ];
        for slot in Slot::all() {
            let (sum, count) = &self.calls[slot.number()];
            let (sum, count) = (sum.load(Ordering::Relaxed), count.load(Ordering::Relaxed));
            if count > 0 {
                let average = format!("{:.2}", sum as f64 / count as f64);
                let average = average.trim_end_matches('0').trim_end_matches('.');
                lines.push(format!(
                    "{:<20}{average:<10}{count}",
                    format!("perf_{}", slot.name())
                ));
            }
        }
        lines
    }
}

/// The tables whose calls are counted.
const COUNTED: [&str; 8] = [
    "msg",
    "tagged",
    "wr",
    "rma",
    "atomic",
    "collective",
    "cq",
    "cntr",
];

impl Watch for Perf {
    fn before(&self, call: &mut Call<'_>) -> u64 {
        match COUNTED.contains(&call.slot().table()) {
            true => self.now(),
            false => 0,
        }
    }

    fn after(&self, call: &Call<'_>, before: u64, _result: i64) {
        if COUNTED.contains(&call.slot().table()) {
            let (sum, count) = &self.calls[call.slot().number()];
            // Relaxed: the numbers order no other memory.
            sum.fetch_add(self.now().saturating_sub(before), Ordering::Relaxed);
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn closed(&self, _object: usize, class: u32) {
        if class == FI_CLASS_FABRIC {
            print(self.hooked, self.table());
        }
    }
}
