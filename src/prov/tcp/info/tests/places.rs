// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Nodes, services, addresses and interfaces.

use super::*;
use base::Caps;

#[test]
fn every_address_has_its_entry() {
    let answer = ask(&empty());
    assert_eq!(counts(&answer), [A, 0, A]);
    assert!(answer.reasons.is_empty());
    let rdm: Vec<_> = answer.entries[A..].iter().map(place).collect();
    let none = || "none".to_owned();
    let expected = [
        ("192.0.2.2:0", "eth0", "192.0.2.0/24", FI_SOCKADDR_IN),
        ("[fd00::2]:0", "eth0", "fd00::/64", FI_SOCKADDR_IN6),
        ("[2001:db8::2]:0", "eth0", "2001:db8::/32", FI_SOCKADDR_IN6),
        ("127.0.0.1:0", "lo", "127.0.0.1/32", FI_SOCKADDR_IN),
        ("[::1]:0", "lo", "::1/128", FI_SOCKADDR_IN6),
    ]
    .map(|(src, domain, fabric, format)| (src.to_owned(), none(), domain, fabric, format));
    assert_eq!(rdm, expected);
    for info in &answer.entries {
        let local = info.domain.name.as_deref() == Some(c"lo");
        let remote = info.caps.contains(Caps::REMOTE_COMM);
        assert!(info.caps.contains(Caps::LOCAL_COMM) && remote != local);
        assert_eq!(info.domain.caps, Caps::LOCAL_COMM | Caps::REMOTE_COMM);
    }
}

#[test]
fn formats_select_a_family() {
    let with = |addr_format| {
        let hints = Hints {
            addr_format,
            ..empty()
        };
        counts(&ask(&hints))
    };
    assert_eq!(with(FI_SOCKADDR_IN), [2, 0, 2]);
    assert_eq!(with(FI_SOCKADDR_IN6), [3, 0, 3]);
    assert_eq!(with(FI_SOCKADDR), [A, 0, A]);
    assert_eq!(with(FI_SOCKADDR_IP), [A, 0, A]);
    for other in [FI_SOCKADDR_IB, FI_ADDR_STR, FI_ADDR_EFA, 77, u32::MAX] {
        assert_eq!(with(other), [0, 0, 0], "{other}");
    }
}

#[test]
fn nodes_and_services_are_places() {
    let rdm = |node: Option<&CStr>, service: Option<&CStr>, flags| {
        let mut hints = empty();
        hints.ep.as_mut().unwrap().ep_type = FI_EP_RDM.0;
        let answer = ask_for(&hints, node, service, flags);
        let places: Vec<_> = answer.entries.iter().map(place).collect();
        let [(src, dest, domain, fabric, _)] = &places[..] else {
            return format!("{} entries", places.len());
        };
        format!("{src} {dest} {domain} {fabric}")
    };
    let s = FI_SOURCE;
    assert_eq!(rdm(None, None, s), "0 entries");
    assert_eq!(rdm(None, Some(c"7"), s), "0.0.0.0:7 none tcp tcp");
    assert_eq!(
        rdm(Some(c"192.0.2.2"), Some(c"7"), s),
        "192.0.2.2:7 none eth0 192.0.2.0/24"
    );
    assert_eq!(
        rdm(Some(c"192.0.2.2"), None, s),
        "192.0.2.2:0 none eth0 192.0.2.0/24"
    );
    assert_eq!(rdm(Some(c"192.0.2.9"), None, s), "192.0.2.9:0 none tcp tcp");
    assert_eq!(
        rdm(Some(c"peer"), Some(c"7"), 0),
        "192.0.2.2:0 198.51.100.7:7 eth0 192.0.2.0/24"
    );
    assert_eq!(
        rdm(Some(c"peer"), None, FI_NUMERICHOST),
        "192.0.2.2:0 198.51.100.7:0 eth0 192.0.2.0/24"
    );
    assert_eq!(rdm(None, Some(c"7"), 0), "[::1]:0 [::1]:7 lo ::1/128");
    assert_eq!(
        rdm(Some(c"2001:db8::7"), Some(c"7"), 0),
        "none [2001:db8::7]:7 tcp tcp"
    );
    assert_eq!(rdm(Some(c"nobody"), None, 0), "0 entries");
    assert_eq!(rdm(Some(c"peer"), Some(c"bad"), s), "0 entries");
    assert_eq!(
        rdm(Some(c"fi_sockaddr://192.0.2.2:7"), None, 0),
        "0 entries"
    );
    // A place with a specific address can serve as source and as destination.
    let answer = ask_for(&empty(), Some(c"127.0.0.1"), None, 0);
    assert!(
        answer
            .entries
            .iter()
            .all(|info| info.caps.contains(Caps::REMOTE_COMM))
    );
}

#[test]
fn hints_of_addresses_are_places() {
    let rdm = |src: &str, dest: &str, node: Option<&CStr>, flags| {
        let given = |text: &str| if text.is_empty() { None } else { address(text) };
        let mut hints = Hints {
            src_addr: given(src),
            dest_addr: given(dest),
            ..empty()
        };
        hints.ep.as_mut().unwrap().ep_type = FI_EP_RDM.0;
        let answer = ask_for(&hints, node, None, flags);
        let (src, dest, domain, ..) = place(&answer.entries[0]);
        format!("{src} {dest} {domain}")
    };
    assert_eq!(rdm("192.0.2.2:9", "", None, 0), "192.0.2.2:9 none eth0");
    assert_eq!(rdm("192.0.2.9:9", "", None, 0), "192.0.2.9:9 none tcp");
    assert_eq!(
        rdm("", "198.51.100.7:7", None, 0),
        "192.0.2.2:0 198.51.100.7:7 eth0"
    );
    assert_eq!(
        rdm("127.0.0.1:9", "127.0.0.2:7", None, 0),
        "127.0.0.1:9 127.0.0.2:7 lo"
    );
    assert_eq!(
        rdm("127.0.0.1:9", "127.0.0.2:7", Some(c"peer"), 0),
        "127.0.0.1:9 198.51.100.7:0 lo"
    );
    assert_eq!(
        rdm("127.0.0.1:9", "127.0.0.2:7", Some(c"192.0.2.2"), FI_SOURCE),
        "192.0.2.2:0 127.0.0.2:7 eth0"
    );
}

#[test]
fn the_format_of_a_result_is_that_of_its_addresses() {
    let with = |addr_format, src: &str| {
        let hints = Hints {
            addr_format,
            src_addr: address(src),
            ..empty()
        };
        ask(&hints).entries.first().map(|info| info.addr_format)
    };
    assert_eq!(with(0, "127.0.0.1:9"), Some(FI_SOCKADDR_IN));
    assert_eq!(with(0, "[::1]:9"), Some(FI_SOCKADDR_IN6));
    assert_eq!(with(FI_SOCKADDR, "127.0.0.1:9"), Some(FI_SOCKADDR));
    assert_eq!(with(FI_SOCKADDR_IN6, "127.0.0.1:9"), None);
}

#[test]
fn addresses_that_are_none_are_refused() {
    for bytes in [vec![], vec![0; 15], vec![0xff; 16], vec![0; 200]] {
        let hints = Hints {
            src_addr: Some(bytes),
            ..empty()
        };
        let answer = ask(&hints);
        assert!(answer.entries.is_empty());
        assert_eq!(answer.reasons[0].refusal.field, "src_addr");
    }
}

#[test]
fn one_interface_can_be_chosen() {
    let with = |iface: &str| {
        let params = Params {
            iface: Some(iface.to_owned()),
            ..Params::default()
        };
        answer(&query(Some(&empty()), 0), &params, &Machine)
    };
    assert_eq!(counts(&with("lo")), [2, 0, 2]);
    assert_eq!(counts(&with("eth0")), [3, 0, 3]);
    for none in ["eth", "ETH0", "eth00", "eth0,lo", "eth7"] {
        let answer = with(none);
        assert_eq!(counts(&answer), [0, 0, 0], "{none}");
        let text = format!("refused: tcp: FI_TCP_IFACE: wanted {none:?}, offered \"eth0, lo\"");
        assert_eq!(answer.reasons[0].to_string(), text);
    }
}

#[test]
fn an_entry_that_is_handed_back_is_found_again() {
    // A program does this for a second endpoint next to one that it opened at a loopback address.
    let asked = ask_for(&empty(), Some(c"127.0.0.1"), Some(c"7471"), FI_SOURCE);
    for info in asked.entries {
        assert!(info.caps.contains(Caps::REMOTE_COMM));
        let mut hints: Hints = info.into();
        hints.src_addr = None;
        let names: Vec<_> = ask(&hints)
            .entries
            .iter()
            .map(|info| info.domain.name.clone())
            .collect();
        let wanted = hints.domain.and_then(|domain| domain.name);
        assert!(!names.is_empty() && names.iter().all(|name| *name == wanted));
    }
}
