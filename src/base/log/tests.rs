// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests the log from the side of a module that logs, with callbacks in place of a sink.
//!
//! Trusted with: reading the strings that `import` passes to the callbacks.

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::*;
use abi::{fi_log_level, fi_log_subsys, fi_ops_log, fi_provider};
use sync::inside::Inside;

static TESTER: Source = Source::new(c"log-tester");
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// There is one set of callbacks per process, so tests that install callbacks run one at a time.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lines() -> Vec<String> {
    core::mem::take(&mut LINES.lock().unwrap())
}

/// Accepts only lines of the tester, because other tests may log at the same time.
unsafe extern "C" fn enabled(
    provider: *const fi_provider,
    level: fi_log_level,
    _subsys: fi_log_subsys,
    flags: u64,
) -> c_int {
    assert_eq!(flags, 0);
    c_int::from(core::ptr::eq(provider, TESTER.provider()) && level.0 < Level::Debug as u32)
}

unsafe extern "C" fn log(
    provider: *const fi_provider,
    level: fi_log_level,
    subsys: fi_log_subsys,
    function: *const c_char,
    line: c_int,
    message: *const c_char,
) {
    if !core::ptr::eq(provider, TESTER.provider()) {
        return;
    }
    assert!(line > 0);
    // SAFETY: `import` passes strings that live during the call, and the provider of a `Source`.
    let (name, function, message) = unsafe {
        (
            CStr::from_ptr((*provider).name),
            CStr::from_ptr(function),
            CStr::from_ptr(message),
        )
    };
    let text = |text: &CStr| text.to_str().unwrap().to_owned();
    LINES.lock().unwrap().push(format!(
        "{} {} {} {} {}",
        text(name),
        level.0,
        subsys.0,
        text(function),
        text(message)
    ));
}

fn install_callbacks() {
    let ops = fi_ops_log {
        size: size_of::<fi_ops_log>(),
        enabled: Some(enabled),
        ready: None,
        log: Some(log),
    };
    // SAFETY: both are functions of this file.
    install(Some(unsafe { Callbacks::new(ops) }));
}

fn say(number: u32) {
    log_warn!(&TESTER, Subsys::EpCtrl, "warn {number} {}", "text");
    log_trace!(&TESTER, Subsys::Av, "trace");
    log_info!(&TESTER, Subsys::Cntr, "info\0\nnot hidden");
}

struct Speaker;

impl Speaker {
    fn speak(&self) {
        let inner = || log_info!(&TESTER, Subsys::Core, "closure");
        inner();
    }
}

#[test]
fn callbacks_get_the_lines_that_they_want() {
    let _turn = turn();
    install_callbacks();
    say(7);
    Speaker.speak();
    install(None);
    say(8);
    let expected = [
        "log-tester 0 3 say warn 7 text",
        "log-tester 1 5 say trace",
        "log-tester 2 9 say info\\x00\\nnot hidden",
        "log-tester 2 0 speak closure",
    ];
    assert_eq!(lines(), expected);
}

#[test]
fn a_line_that_nobody_wants_is_not_formatted() {
    let _turn = turn();
    install_callbacks();
    let mut formatted = 0;
    let mut count = || formatted += 1;
    log_debug!(&TESTER, Subsys::Mr, "{:?}", count());
    assert_eq!(formatted, 0);
    let mut count = || formatted += 1;
    log_info!(&TESTER, Subsys::Mr, "{:?}", count());
    install(None);
    assert_eq!(formatted, 1);
    assert_eq!(lines().len(), 1);
}

#[test]
fn a_source_is_a_provider_for_c() {
    let provider = TESTER.provider();
    let version = provider.fi_version;
    // SAFETY: the source is static, and so is its name.
    let name = unsafe { CStr::from_ptr(provider.name) };
    assert_eq!(name, c"log-tester");
    assert_eq!(version, release::API);
    assert_eq!((&raw const *provider).addr(), (&raw const TESTER).addr());
}

#[test]
fn a_repeated_message_waits_for_its_time() {
    let next = AtomicU64::new(0);
    assert!(is_due(&next, 5_000, 2_000));
    assert_eq!(next.load(Ordering::Relaxed), 7_000);
    assert!(!is_due(&next, 5_001, 2_000));
    assert!(!is_due(&next, 6_999, 2_000));
    assert!(is_due(&next, 7_000, 2_000));
    assert!(is_due(&next, 20_000, 0));
    assert!(is_due(&next, 20_000, 0));
}

#[test]
fn the_name_of_the_function_is_the_last_in_its_path() {
    assert_eq!(function_of("fabric::stream::ep::Ep<T>::send::here"), "send");
    assert_eq!(
        function_of("<a::B as c::D>::send::{{closure}}::{{closure}}::here"),
        "send"
    );
    assert_eq!(function_of("here"), "here");
}

/// Tests the lines of one thread: one that holds a lock, and a callback that logs while lines are delivered.
#[test]
fn lines_under_a_lock_come_when_it_is_given_back() {
    let _turn = turn();
    install_callbacks();
    let outer = Inside::enter();
    say(1);
    let inner = Inside::enter();
    say(2);
    drop(inner);
    assert!(lines().is_empty());
    drop(outer);
    say(3);
    install(None);
    let texts: Vec<String> = lines().into_iter().filter(|l| l.contains("warn")).collect();
    let expected = [1, 2, 3].map(|n| format!("log-tester 0 3 say warn {n} text"));
    assert_eq!(texts, expected);
}

/// A loaded provider logs from within a call that was made under a lock: no callback runs there.
#[test]
fn callbacks_are_asked_for_lines_of_others_behind_the_lock() {
    let _turn = turn();
    install_callbacks();
    let origin = Origin::from(&TESTER);
    let (info, debug, subsys) = (Level::Info as c_int, Level::Debug as c_int, 4);
    let text = |text: &CStr| text.to_owned();
    let next = AtomicU64::new(0);
    let inside = Inside::enter();
    assert!(has_waiter(&origin, debug, subsys), "to be asked later");
    assert!(ready(&origin, debug, subsys, &next) && !ready(&origin, debug, subsys, &next));
    for level in [debug, info] {
        let (function, message) = (text(c"call"), text(c"line"));
        hand_on(&origin, level, subsys, function, 1, message, None);
    }
    assert!(lines().is_empty());
    drop(inside);
    assert!(!has_waiter(&origin, debug, subsys), "asked now");
    install(None);
    assert_eq!(lines(), [format!("log-tester {info} 4 call line")]);
}

#[test]
fn lines_that_nobody_wants_any_more_are_for_the_variables() {
    let _turn = turn();
    install_callbacks();
    let inside = Inside::enter();
    say(1);
    install(None);
    drop(inside);
    assert!(lines().is_empty());
}

#[test]
fn the_end_of_the_process_leaves_no_line_behind() {
    let _turn = turn();
    install_callbacks();
    let (inside, ended) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _inside = Inside::enter();
            say(5);
            inside.wait();
            ended.wait();
        });
        inside.wait();
        assert!(lines().is_empty());
        at_exit();
        assert_eq!(lines().len(), 3);
        ended.wait();
    });
    install(None);
    assert!(lines().is_empty());
}

#[test]
fn a_repeated_line_under_a_lock_waits_for_its_time() {
    let _turn = turn();
    install_callbacks();
    // The callbacks have no `ready`, so such a line is never due.
    let inside = Inside::enter();
    log_misuse!(&TESTER, Subsys::Cq, "again");
    drop(inside);
    install(None);
    assert!(lines().is_empty());
}
