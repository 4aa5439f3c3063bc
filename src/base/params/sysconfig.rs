// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The system's file of variables, libfabric.conf: fabric(7), FI_PREFER_SYSCONFIG.
//!
//! Lines `NAME=value`; lines without `=` are ignored and nothing is trimmed. The first line for a name counts.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

use super::value::{Kind, Value};

/// The entries of the file, in its order.
#[derive(Default)]
pub(super) struct SystemFile {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
}

impl SystemFile {
    /// Reads the file of this installation; a file that cannot be read has no entries.
    pub(super) fn load() -> SystemFile {
        fs::read(Path::new(DIRECTORY).join(NAME))
            .map(|text| SystemFile::parse(&text))
            .unwrap_or_default()
    }

    fn parse(text: &[u8]) -> SystemFile {
        let entries = text
            .split(|byte| *byte == b'\n')
            .filter_map(|line| {
                let equals = line.iter().position(|byte| *byte == b'=')?;
                Some((line[..equals].to_vec(), line[equals + 1..].to_vec()))
            })
            .collect();
        SystemFile { entries }
    }

    /// The value of a variable: the environment's before the file's, unless `prefer` (the text of
    /// FI_PREFER_SYSCONFIG in the environment) is true.
    pub(super) fn choose(
        &self,
        variable: &str,
        environment: Option<Vec<u8>>,
        prefer: Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        let file = self.find(variable);
        let prefers_file = prefer
            .and_then(|text| Kind::Bool.parse(&text))
            .is_some_and(|truth| truth == Value::Bool(true));
        if prefers_file {
            file.or(environment)
        } else {
            environment.or(file)
        }
    }

    fn find(&self, variable: &str) -> Option<Vec<u8>> {
        self.entries
            .iter()
            .find(|(name, _)| name == variable.as_bytes())
            .map(|(_, value)| value.clone())
    }
}

/// Fixed when the library is built, like the rest of an installation's layout.
const DIRECTORY: &str = match option_env!("SYSCONFDIR") {
    Some(directory) => directory,
    None => "/etc",
};
const NAME: &str = "libfabric.conf";
