// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The output of fi_info(1) for entries, providers and variables. Scripts parse it, so its form is fixed.

use std::io::{Result, Write};

use abi::*;
use base::escape;
use calls::params::Param;
use calls::text;
use client::{Info, InfoList};

/// Writes a few lines about each entry.
pub fn brief(out: &mut dyn Write, list: &InfoList) -> Result<()> {
    for info in list.iter() {
        writeln!(out, "provider: {}", or_null(info.provider()))?;
        writeln!(out, "    fabric: {}", or_null(info.fabric_name()))?;
        writeln!(out, "    domain: {}", or_null(info.domain_name()))?;
        writeln!(out, "    version: {}", version(info.provider_version()))?;
        writeln!(out, "    type: {}", ep_type(&info))?;
        let protocol = text::value(info.protocol(), FI_TYPE_PROTOCOL);
        writeln!(out, "    protocol: {protocol}")?;
    }
    Ok(())
}

/// Writes the full text of each entry, or of those whose text contains `containing`.
pub fn full(out: &mut dyn Write, list: &InfoList, containing: Option<&str>) -> Result<()> {
    for text in list.iter().map(|info| text::info(info)) {
        if containing.is_none_or(|part| contains(&text, part)) {
            writeln!(out, "---")?;
            out.write_all(text.as_bytes())?;
        }
    }
    Ok(())
}

/// Writes only names and versions, and the files of loadable providers.
pub fn providers(out: &mut dyn Write, list: &InfoList) -> Result<()> {
    for info in list.iter() {
        writeln!(out, "{}:", or_null(info.provider()))?;
        writeln!(out, "    version: {}", version(info.provider_version()))?;
        // This library stores the file in the place of the fabric's name.
        if let Some(file) = info.fabric_name() {
            writeln!(out, "    file: {file}")?;
        }
    }
    Ok(())
}

/// Writes the variables whose name contains `filter`, as lines that a shell can read.
pub fn variables(out: &mut dyn Write, params: &[Param], filter: Option<&str>) -> Result<()> {
    let wanted = |param: &&Param| filter.is_none_or(|part| contains(&param.name, part));
    for param in params.iter().filter(wanted) {
        writeln!(out, "# {}: {}", param.name, kind(param.kind))?;
        writeln!(out, "# {}", param.help)?;
        if let Some(value) = &param.value {
            let quote = if value.contains(' ') { "\"" } else { "" };
            writeln!(out, "{}={quote}{value}{quote}", param.name)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Writes a file of variables for the system, in which each is a comment until it is set.
pub fn config(out: &mut dyn Write, params: &[Param]) -> Result<()> {
    writeln!(
        out,
        "# libfabric.conf: settings of all processes on this host; ironfabric(7) tells where it lies. A variable in the\n\
         # environment comes before its line here, unless FI_PREFER_SYSCONFIG is set. Lines are NAME=value, without\n\
         # blanks; remove the # of a line to set it.\n"
    )?;
    for param in params {
        writeln!(out, "# {} ({})", param.help, kind(param.kind))?;
        writeln!(
            out,
            "#{}={}\n",
            param.name,
            param.value.as_deref().unwrap_or_default()
        )?;
    }
    Ok(())
}

pub fn ep_type(info: &Info) -> String {
    text::value(info.ep_type().0, FI_TYPE_EP_TYPE)
}

/// Returns a name as one line, with control characters escaped.
pub fn or_null(text: Option<String>) -> String {
    text.map_or_else(|| "(null)".to_owned(), |text| escape::line(&text))
}

pub fn version(number: u32) -> String {
    format!("{}.{}", number >> 16, number & 0xffff)
}

pub fn kind(kind: fi_param_type) -> &'static str {
    match kind {
        FI_PARAM_STRING => "String",
        FI_PARAM_INT => "Integer",
        FI_PARAM_BOOL => "Boolean (0/1, on/off, true/false, yes/no)",
        FI_PARAM_SIZE_T => "size_t",
        _ => "Unknown",
    }
}

/// Returns true if `text` contains `part`, ignoring case.
pub fn contains(text: &str, part: &str) -> bool {
    text.to_ascii_lowercase()
        .contains(&part.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn param(name: &str, value: Option<&str>) -> Param {
        Param {
            name: name.to_owned(),
            kind: FI_PARAM_INT,
            help: "what it does".to_owned(),
            value: value.map(str::to_owned),
        }
    }

    fn written(params: &[Param], filter: Option<&str>) -> String {
        let mut out = Vec::new();
        variables(&mut out, params, filter).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn variables_show_what_is_set() {
        let params = [
            param("FI_A", None),
            param("FI_B", Some("1")),
            param("FI_C", Some("a b")),
        ];
        let text = "# FI_A: Integer\n# what it does\n\n\
                    # FI_B: Integer\n# what it does\nFI_B=1\n\n\
                    # FI_C: Integer\n# what it does\nFI_C=\"a b\"\n\n";
        assert_eq!(written(&params, None), text);
    }

    #[test]
    fn variables_are_chosen_by_a_part_of_their_name() {
        let params = [param("FI_TCP_IFACE", None), param("FI_LOG_LEVEL", None)];
        assert!(written(&params, Some("tcp")).starts_with("# FI_TCP_IFACE"));
        assert!(!written(&params, Some("tcp")).contains("LOG"));
        assert_eq!(written(&params, Some("does")), "");
    }
}
