// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The congestion control of connections.

use std::sync::{Once, OnceLock};

use crate::tcp::same_host::is_within_host;
use base::log::{Source, Subsys, log_warn};
use sys::socket::Socket;

/// Congestion controls without pacing, the better one first. A host may permit only the second.
const UNPACED: [&str; 2] = ["cubic", "reno"];

/// Sets the congestion control of a socket before it connects or listens, whose connections inherit it: `wanted`, or
/// none that paces. BBR delays bytes by timers, to fit a bandwidth that it has measured; memory has no such limit. A
/// connection that has had BBR is paced for good.
pub(super) fn begin(socket: &Socket, wanted: Option<&str>) {
    set_first(socket, wanted, paced_default(socket).is_some());
}

fn set_first(socket: &Socket, wanted: Option<&str>, is_paced: bool) {
    let names: &[&str] = match &wanted {
        Some(name) => std::slice::from_ref(name),
        None if is_paced => &UNPACED,
        None => &[],
    };
    // `choose` reports a name that is not permitted.
    let _ = names.iter().any(|name| socket.set_congestion(name).is_ok());
}

/// Sets the congestion control of a connection: `wanted`, or the host's default if the connection leaves the host.
pub(super) fn choose(socket: &Socket, wanted: Option<&str>, source: &Source) {
    let Some(name) = wanted else {
        if let Some(name) = paced_default(socket)
            && !is_within_host(socket)
        {
            // Every user may choose the default.
            let _ = socket.set_congestion(name);
        }
        return;
    };
    static TOLD: Once = Once::new();
    if let Err(error) = socket.set_congestion(name) {
        TOLD.call_once(|| {
            log_warn!(
                source,
                Subsys::EpCtrl,
                "FI_TCP_CONGESTION={name} has no effect: {}; net.ipv4.tcp_allowed_congestion_control has the names that \
                 any user may choose",
                base::Error::from(error)
            );
        });
    }
}

/// Returns the host's default congestion control if it paces. The first call is with a new socket, which has it.
fn paced_default(socket: &Socket) -> Option<&'static str> {
    static NAME: OnceLock<Option<String>> = OnceLock::new();
    let name = NAME.get_or_init(|| {
        let name = socket.congestion().ok();
        name.filter(|name| name.starts_with("bbr"))
    });
    name.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::SOURCE;

    /// Returns a listener and a socket that may connect to it, which both have this congestion control if the host
    /// permits it.
    fn sockets(name: &str) -> Option<[Socket; 2]> {
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = Socket::bound(any, None, 0).unwrap();
        let socket = Socket::unconnected(None, listener.local().unwrap()).unwrap();
        let both = [listener, socket];
        let permitted = both
            .iter()
            .all(|socket| socket.set_congestion(name).is_ok());
        permitted.then_some(both)
    }

    /// Connects two such sockets; returns both ends.
    fn connected([listener, socket]: [Socket; 2]) -> [Socket; 2] {
        listener.listen(1).unwrap();
        let (socket, _) = socket.connect_to(listener.local().unwrap()).unwrap();
        let mut accepted = listener.accept().unwrap();
        while accepted.is_none() {
            std::thread::yield_now();
            accepted = listener.accept().unwrap();
        }
        [accepted.unwrap().0, socket]
    }

    #[test]
    fn within_a_host_nothing_is_ever_paced() {
        // Not every kernel has BBR.
        let Some(both) = sockets("bbr") else {
            return;
        };
        for socket in &both {
            set_first(socket, None, true);
        }
        // Before they connect, and also the connection that the listener has accepted.
        for socket in &connected(both) {
            choose(socket, None, &SOURCE);
            let name = socket.congestion().unwrap();
            assert!(UNPACED.contains(&name.as_str()), "{name}");
        }
    }

    #[test]
    fn what_does_not_pace_stays_and_the_setting_is_obeyed() {
        let both = sockets("reno").unwrap();
        for socket in &both {
            set_first(socket, None, false);
        }
        let other = UNPACED
            .iter()
            .chain(&["bbr"])
            .find(|name| sockets(name).is_some());
        for socket in &connected(both) {
            choose(socket, None, &SOURCE);
            assert_eq!(socket.congestion().unwrap(), "reno");
            choose(socket, Some("nosuchname"), &SOURCE);
            assert_eq!(socket.congestion().unwrap(), "reno");
            choose(socket, other.copied(), &SOURCE);
            assert_eq!(socket.congestion().unwrap(), *other.unwrap());
        }
    }

    #[test]
    fn a_setting_counts_from_the_beginning() {
        let [_, socket] = sockets("reno").unwrap();
        let other = UNPACED
            .iter()
            .chain(&["bbr"])
            .find(|name| sockets(name).is_some());
        set_first(&socket, other.copied(), true);
        assert_eq!(socket.congestion().unwrap(), *other.unwrap());
    }
}
