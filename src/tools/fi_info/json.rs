// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `--json`: the content of the other views, for programs. An entry has the members of `struct fi_info` under their
//! names in C, in the form of `fi_tostr`: flags are lists of words, numbers of up to 64 bits are numbers, NULL is null.

use std::io::{Result, Write};

use serde_json::{Map, Value, json};

use super::show;
use calls::params::Param;
use calls::text;
use client::InfoList;

/// `{"entries": [...]}`: the entries whose text contains `containing`.
pub fn entries(out: &mut dyn Write, list: &InfoList, containing: Option<&str>) -> Result<()> {
    let texts = list.iter().map(text::info);
    let wanted = texts.filter(|text| containing.is_none_or(|part| show::contains(text, part)));
    let entries: Vec<Value> = wanted.map(|text| entry(&text)).collect();
    write(out, &json!({ "entries": entries }))
}

/// `{"providers": [...]}`: name, version, and the file of a loadable provider.
pub fn providers(out: &mut dyn Write, list: &InfoList) -> Result<()> {
    let one = |info: client::Info<'_>| {
        let version = show::version(info.provider_version());
        json!({ "name": info.provider(), "version": version, "file": info.fabric_name() })
    };
    let providers: Vec<Value> = list.iter().map(one).collect();
    write(out, &json!({ "providers": providers }))
}

/// `{"variables": [...]}`: those whose name contains `filter`. A variable that is not set has the value null.
pub fn variables(out: &mut dyn Write, params: &[Param], filter: Option<&str>) -> Result<()> {
    let wanted = params
        .iter()
        .filter(|param| filter.is_none_or(|part| show::contains(&param.name, part)));
    let one = |param: &Param| {
        let kind = show::kind(param.kind);
        json!({ "name": param.name, "type": kind, "help": param.help, "value": param.value })
    };
    let variables: Vec<Value> = wanted.map(one).collect();
    write(out, &json!({ "variables": variables }))
}

fn write(out: &mut dyn Write, value: &Value) -> Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

/// Parses the text of an entry: a line for each member; members of a struct are indented below its name.
pub fn entry(text: &str) -> Value {
    let lines = text
        .trim_matches('\0')
        .lines()
        .filter(|line| !line.trim().is_empty());
    let lines: Vec<(usize, &str)> = lines
        .map(|line| (line.len() - line.trim_start().len(), line.trim()))
        .collect();
    // The first line is the name of the struct itself.
    let mut rest = lines.get(1..).unwrap_or_default();
    let depth = rest.first().map_or(0, |&(depth, _)| depth);
    Value::Object(members(&mut rest, depth))
}

fn members(rest: &mut &[(usize, &str)], depth: usize) -> Map<String, Value> {
    let mut object = Map::new();
    while let Some((&(indent, line), behind)) = rest.split_first()
        && indent >= depth
    {
        *rest = behind;
        // A line with unexpected indentation belongs to no struct.
        if indent > depth {
            continue;
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let inner = rest.first().map_or(0, |&(indent, _)| indent);
        let value = match value.trim().is_empty() && inner > depth {
            true => Value::Object(members(rest, inner)),
            false => member(value.trim()),
        };
        // `fi_tx_attr` is the type name of the member `tx_attr`.
        let name = name.strip_prefix("fi_").unwrap_or(name);
        object.insert(name.to_owned(), value);
    }
    object
}

fn member(text: &str) -> Value {
    if let Some(words) = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
    {
        let words = words
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty());
        return words.collect();
    }
    if let "(null)" | "(nil)" = text {
        return Value::Null;
    }
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    number.map_or_else(|| text.into(), Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_its_members_and_structs() {
        let text = "fi_info:\n    caps: [ FI_MSG, FI_RMA ]\n    mode: [  ]\n    \
                    src_addr: fi_sockaddr_in://127.0.0.1:0\n    dest_addr: (null)\n    \
                    fi_tx_attr:\n        size: 256\n        tclass: 0x10\n    \
                    fi_fabric_attr:\n        name: net: one\n        api_version: 2.6\n    nic: (nil)\n";
        let wanted = json!({
            "caps": ["FI_MSG", "FI_RMA"],
            "mode": [],
            "src_addr": "fi_sockaddr_in://127.0.0.1:0",
            "dest_addr": null,
            "tx_attr": { "size": 256, "tclass": 16 },
            "fabric_attr": { "name": "net: one", "api_version": "2.6" },
            "nic": null,
        });
        assert_eq!(entry(text), wanted);
    }

    #[test]
    fn the_largest_number_is_one() {
        assert_eq!(member("18446744073709551615"), json!(u64::MAX));
        assert_eq!(member("0xffffffffffffffff"), json!(u64::MAX));
        assert_eq!(member("-1x"), json!("-1x"));
    }

    #[test]
    fn lines_out_of_place_do_no_harm() {
        assert_eq!(entry(""), json!({}));
        assert_eq!(entry("fi_info:\n"), json!({}));
        let text = "fi_info:\n    a: 1\n            lost: 2\n    b: 3\n";
        assert_eq!(entry(text), json!({ "a": 1, "b": 3 }));
    }
}
