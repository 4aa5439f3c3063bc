// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The congestion control of connections.

use std::sync::Once;

use crate::tcp::same_host::is_within_host;
use base::log::{Source, Subsys, log_warn};
use sys::socket::Socket;

/// Congestion controls without pacing, the better one first. A host may permit only the second.
const UNPACED: [&str; 2] = ["cubic", "reno"];

/// Sets the congestion control of a connection: `wanted`, if there is one. Otherwise a connection within the host gets
/// none that paces: BBR delays bytes by timers, to fit a bandwidth that it has measured, and memory has no such limit.
pub(super) fn choose(socket: &Socket, wanted: Option<&str>, source: &Source) {
    let Some(name) = wanted else {
        let paces = |name: String| name.starts_with("bbr");
        if is_within_host(socket) && socket.congestion().is_ok_and(paces) {
            let _ = UNPACED
                .iter()
                .any(|name| socket.set_congestion(name).is_ok());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::SOURCE;

    /// Returns one end of a connection within the host, whose congestion control the test may set.
    fn connected(name: &str) -> Option<(Socket, std::net::TcpListener)> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (socket, _) = Socket::connect(None, listener.local_addr().unwrap()).unwrap();
        socket.set_congestion(name).ok()?;
        Some((socket, listener))
    }

    #[test]
    fn within_a_host_nothing_paces() {
        // Not every kernel has BBR.
        let Some((socket, _listener)) = connected("bbr") else {
            return;
        };
        choose(&socket, None, &SOURCE);
        let name = socket.congestion().unwrap();
        assert!(UNPACED.contains(&name.as_str()), "{name}");
    }

    #[test]
    fn what_does_not_pace_stays_and_the_setting_is_obeyed() {
        let (socket, _listener) = connected("reno").unwrap();
        choose(&socket, None, &SOURCE);
        assert_eq!(socket.congestion().unwrap(), "reno");
        choose(&socket, Some("nosuchname"), &SOURCE);
        assert_eq!(socket.congestion().unwrap(), "reno");
        let other = UNPACED
            .iter()
            .chain(&["bbr"])
            .find(|name| connected(name).is_some())
            .unwrap();
        choose(&socket, Some(other), &SOURCE);
        assert_eq!(socket.congestion().unwrap(), **other);
    }
}
