// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `fi_info --table`: each provider once, with a line for each of its interfaces.

use std::io::{Result, Write};

use serde_json::{Value, json};

use super::json;
use calls::link::{self, Link};
use calls::text;
use client::InfoList;

/// One provider.
#[derive(Debug, Default, PartialEq)]
struct Row {
    provider: String,
    types: Vec<String>,
    protocols: Vec<String>,
    offers: Vec<String>,
    interfaces: Vec<Interface>,
}

/// One domain of a provider.
#[derive(Debug, Default, PartialEq)]
struct Interface {
    name: String,
    addresses: Vec<String>,
    /// The state of the system's interface of that name, if there is one, otherwise the link state from the provider.
    state: Option<String>,
    /// Speed in Mbit/s.
    speed: Option<u64>,
    mtu: Option<u64>,
}

/// Writes the table, aligned for a terminal.
pub fn write(out: &mut dyn Write, list: &InfoList) -> Result<()> {
    write_rows(out, &rows(list))
}

/// `{"table": [...]}`: the same, with the full names of types, protocols and capabilities.
pub fn write_json(out: &mut dyn Write, list: &InfoList) -> Result<()> {
    let interface = |one: &Interface| {
        json!({
            "name": one.name, "addresses": one.addresses, "state": one.state, "speed": one.speed, "mtu": one.mtu,
        })
    };
    let row = |row: &Row| {
        let interfaces: Vec<Value> = row.interfaces.iter().map(interface).collect();
        json!({
            "provider": row.provider,
            "types": row.types,
            "protocols": row.protocols,
            "offers": row.offers,
            "interfaces": interfaces,
        })
    };
    let table: Vec<Value> = rows(list).iter().map(row).collect();
    serde_json::to_writer_pretty(&mut *out, &json!({ "table": table }))?;
    writeln!(out)
}

fn rows(list: &InfoList) -> Vec<Row> {
    let links = link::all();
    let mut rows: Vec<Row> = Vec::new();
    for entry in list.iter().map(|info| json::entry(&text::info(info))) {
        add(&mut rows, &entry, &links);
    }
    rows
}

/// Adds an entry to the rows. The entry is parsed from `fi_tostr`, which every library has.
fn add(rows: &mut Vec<Row>, entry: &Value, links: &[Link]) {
    let provider = words(&entry["fabric_attr"]["prov_name"]);
    let at = rows.iter().position(|row| row.provider == provider);
    let at = at.unwrap_or_else(|| {
        rows.push(Row {
            provider,
            ..Row::default()
        });
        rows.len() - 1
    });
    let row = &mut rows[at];
    once(&mut row.types, words(&entry["ep_attr"]["type"]));
    once(&mut row.protocols, words(&entry["ep_attr"]["protocol"]));
    for cap in entry["caps"].as_array().into_iter().flatten() {
        once(&mut row.offers, words(cap));
    }
    let name = words(&entry["domain_attr"]["name"]);
    let known = row.interfaces.iter().position(|one| one.name == name);
    let known = known.unwrap_or_else(|| {
        row.interfaces.push(interface(name, entry, links));
        row.interfaces.len() - 1
    });
    if let Some(address) = entry["src_addr"].as_str() {
        once(&mut row.interfaces[known].addresses, bare(address));
    }
}

fn interface(name: String, entry: &Value, links: &[Link]) -> Interface {
    let said = &entry["nic"]["link_attr"];
    let link = links.iter().find(|link| link.name == name);
    let state = link.map(|link| match (link.is_up, link.is_running) {
        (true, true) => "up".to_owned(),
        (true, false) => "no carrier".to_owned(),
        (false, _) => "down".to_owned(),
    });
    let said_state = said["state"]
        .as_str()
        .map(|state| state.trim_start_matches("FI_LINK_").to_ascii_lowercase());
    let bits = said["speed"].as_u64().filter(|speed| *speed > 0);
    Interface {
        state: state.or(said_state),
        speed: link
            .and_then(|link| link.speed.map(u64::from))
            .filter(|speed| *speed > 0)
            .or(bits.map(|bits| bits / 1_000_000)),
        mtu: link
            .and_then(|link| link.mtu.map(u64::from))
            .or(said["mtu"].as_u64()),
        name,
        addresses: Vec::new(),
    }
}

fn once(list: &mut Vec<String>, word: String) {
    if !word.is_empty() && !list.contains(&word) {
        list.push(word);
    }
}

fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Removes the format and a zero port from an address: `fi_sockaddr_in://192.0.2.1:0`. Names of this process, such as
/// `fi_shm://4711`, have no use for the reader and are dropped.
pub fn bare(address: &str) -> String {
    let Some((format, rest)) = address.split_once("://") else {
        return address.to_owned();
    };
    let rest = match format {
        _ if format.starts_with("fi_sockaddr") => rest.strip_suffix(":0").unwrap_or(rest),
        _ if format.starts_with("fi_addr_") => rest,
        _ => return String::new(),
    };
    match rest
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        Some(v6) => v6.to_owned(),
        None => rest.to_owned(),
    }
}

fn write_rows(out: &mut dyn Write, rows: &[Row]) -> Result<()> {
    let mut lines = vec![HEAD.map(str::to_owned)];
    for row in rows {
        lines.extend(lines_of(row));
    }
    let width = |column: usize| {
        let widths = lines.iter().map(|line| line[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    for line in &lines {
        let cells = line.iter().zip(&widths);
        let text: String = cells
            .map(|(cell, width)| format!("{cell:<width$}  "))
            .collect();
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}

/// The properties of the provider fill the first columns, one below the other; its interfaces are in the columns beside
/// them.
fn lines_of(row: &Row) -> Vec<[String; HEAD.len()]> {
    let types = row.types.iter().map(|word| short(word, "FI_EP_"));
    let protocols = row.protocols.iter().map(|word| short(word, "FI_PROTO_"));
    let types: Vec<String> = types.collect();
    let protocols: Vec<String> = protocols.collect();
    let offers = [offers(&row.offers)];
    let height = row.interfaces.len().max(protocols.len()).max(1);
    let line = |at: usize| {
        let of = |list: &[String]| list.get(at).cloned().unwrap_or_default();
        let interface = row.interfaces.get(at);
        let first = |text: &str| {
            if at == 0 {
                text.to_owned()
            } else {
                String::new()
            }
        };
        [
            first(&row.provider),
            first(&types.join(",")),
            of(&protocols),
            of(&offers),
            interface.map_or_else(String::new, |one| one.name.clone()),
            interface.map_or_else(String::new, link_of),
            interface.map_or_else(String::new, |one| one.addresses.join(" ")),
        ]
    };
    (0..height).map(line).collect()
}

fn short(word: &str, prefix: &str) -> String {
    word.strip_prefix(prefix)
        .unwrap_or(word)
        .to_ascii_lowercase()
}

/// Returns the capabilities that move data.
fn offers(caps: &[String]) -> String {
    let there = KINDS
        .iter()
        .filter(|(cap, _)| caps.iter().any(|has| has == cap));
    let there: Vec<&str> = there.map(|(_, word)| *word).collect();
    there.join(",")
}

/// `up 10 Gbit/s`
fn link_of(interface: &Interface) -> String {
    let speed = interface.speed.map(|speed| match speed {
        0..1000 => format!("{speed} Mbit/s"),
        _ if speed % 1000 == 0 => format!("{} Gbit/s", speed / 1000),
        _ => format!("{:.1} Gbit/s", speed as f64 / 1000.0),
    });
    let parts = [interface.state.clone(), speed];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(" ")
}

const HEAD: [&str; 7] = [
    "PROVIDER",
    "TYPES",
    "PROTOCOL",
    "OFFERS",
    "INTERFACE",
    "LINK",
    "ADDRESSES",
];

const KINDS: [(&str, &str); 7] = [
    ("FI_MSG", "msg"),
    ("FI_TAGGED", "tagged"),
    ("FI_RMA", "rma"),
    ("FI_ATOMIC", "atomic"),
    ("FI_MULTICAST", "multicast"),
    ("FI_COLLECTIVE", "collective"),
    ("FI_HMEM", "hmem"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn given(provider: &str, kind: &str, domain: &str, address: &str) -> Value {
        json!({
            "caps": ["FI_MSG", "FI_RMA", "FI_SEND"],
            "src_addr": address,
            "fabric_attr": { "prov_name": provider },
            "domain_attr": { "name": domain },
            "ep_attr": { "type": kind, "protocol": "FI_PROTO_XNET" },
        })
    }

    #[test]
    fn a_provider_is_there_once_with_each_interface_once() {
        let link = Link {
            name: "eth0".into(),
            is_up: true,
            is_running: true,
            speed: Some(2500),
            ..Link::default()
        };
        let mut rows = Vec::new();
        for kind in ["FI_EP_RDM", "FI_EP_MSG"] {
            for (domain, address) in [
                ("eth0", "fi_sockaddr_in://192.0.2.1:0"),
                ("eth0", "fi_sockaddr_in6://[2001:db8::1]:0"),
                ("lo", "fi_sockaddr_in://127.0.0.1:0"),
            ] {
                let entry = given("tcp", kind, domain, address);
                add(&mut rows, &entry, std::slice::from_ref(&link));
            }
        }
        add(
            &mut rows,
            &given("shm", "FI_EP_RDM", "shm", "fi_shm://7"),
            &[],
        );
        let mut out = Vec::new();
        write_rows(&mut out, &rows).unwrap();
        let text = "PROVIDER  TYPES    PROTOCOL  OFFERS   INTERFACE  LINK           ADDRESSES\n\
                    tcp       rdm,msg  xnet      msg,rma  eth0       up 2.5 Gbit/s  192.0.2.1 2001:db8::1\n\
                    \x20                                     lo                        127.0.0.1\n\
                    shm       rdm      xnet      msg,rma  shm\n";
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }

    #[test]
    fn what_a_provider_says_of_its_link_counts_where_the_system_has_none() {
        let mut entry = given(
            "verbs",
            "FI_EP_MSG",
            "mlx5_0",
            "fi_sockaddr_in://192.0.2.1:7",
        );
        entry["nic"] = json!({ "link_attr": { "state": "FI_LINK_UP", "speed": 100_000_000_000u64, "mtu": 4096 } });
        let mut rows = Vec::new();
        add(&mut rows, &entry, &[]);
        let interface = &rows[0].interfaces[0];
        assert_eq!(link_of(interface), "up 100 Gbit/s");
        assert_eq!(
            (interface.mtu, interface.addresses[0].as_str()),
            (Some(4096), "192.0.2.1:7")
        );
    }
}
