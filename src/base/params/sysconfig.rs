// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The system's file of variables, libfabric.conf: fabric(7), FI_PREFER_SYSCONFIG.
//!
//! Lines have the form `NAME=value`; lines without `=` are ignored and nothing is trimmed. The first line for a name
//! counts.
#![forbid(unsafe_code)]

use std::path::Path;

use super::value::{Kind, Value};
use sys::regular_file;

/// The entries of the file, in its order.
#[derive(Default)]
pub(super) struct SystemFile {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
}

impl SystemFile {
    /// Reads the file of this installation; a file that cannot be read has no entries.
    pub(super) fn load() -> SystemFile {
        SystemFile::read(Path::new(DIRECTORY))
    }

    fn read(directory: &Path) -> SystemFile {
        regular_file::read(&directory.join(NAME))
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

    /// Returns the value of a variable: the environment's before the file's, unless FI_PREFER_SYSCONFIG is true. The
    /// file may contain that variable, too.
    pub(super) fn choose(
        &self,
        variable: &str,
        environment: impl Fn(&str) -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        let Some(ours) = self.find(variable) else {
            return environment(variable);
        };
        let prefers_file = environment(PREFER)
            .or_else(|| self.find(PREFER))
            .and_then(|text| Kind::Bool.parse(&text))
            == Some(Value::Bool(true));
        match environment(variable) {
            Some(theirs) if !prefers_file => Some(theirs),
            _ => Some(ours),
        }
    }

    fn find(&self, variable: &str) -> Option<Vec<u8>> {
        self.entries
            .iter()
            .find(|(name, _)| name == variable.as_bytes())
            .map(|(_, value)| value.clone())
    }
}

/// Fixed when the library is built, like the other paths of an installation.
const DIRECTORY: &str = match option_env!("SYSCONFDIR") {
    Some(directory) => directory,
    None => "/etc",
};
const NAME: &str = "libfabric.conf";
const PREFER: &str = "FI_PREFER_SYSCONFIG";

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Returns the value of a variable, given the file and the environment as `NAME=value` lines.
    fn chosen(file: &str, environment: &str, variable: &str) -> Option<String> {
        let environment = SystemFile::parse(environment.as_bytes());
        SystemFile::parse(file.as_bytes())
            .choose(variable, |name| environment.find(name))
            .map(|value| String::from_utf8(value).unwrap())
    }

    fn from_file(file: &str, variable: &str) -> Option<String> {
        chosen(file, "", variable)
    }

    #[test]
    fn the_file_has_its_name_in_the_directory() {
        let directory = std::env::temp_dir().join(format!("ironfabric-etc-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        assert_eq!(SystemFile::read(&directory).entries.len(), 0);
        fs::write(directory.join("libfabric.conf"), b"FI_A=\xff\nFI_B=2\n").unwrap();
        let file = SystemFile::read(&directory);
        // A FIFO without a writer must not block the program.
        fs::remove_file(directory.join("libfabric.conf")).unwrap();
        let fifo = directory.join("libfabric.conf");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(SystemFile::read(&directory).entries.len(), 0);
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(file.find("FI_A"), Some(b"\xff".to_vec()));
        assert_eq!(file.find("FI_B"), Some(b"2".to_vec()));
    }

    #[test]
    fn a_line_is_a_name_and_a_value() {
        let file = "FI_A=x=y\nnothing\nFI_E=\n# FI_D=comment\nFI_LAST=no newline";
        assert_eq!(from_file(file, "FI_A").as_deref(), Some("x=y"));
        assert_eq!(from_file(file, "FI_E").as_deref(), Some(""));
        assert_eq!(from_file(file, "FI_LAST").as_deref(), Some("no newline"));
        assert_eq!(from_file(file, "FI_D"), None);
        assert_eq!(from_file(file, "nothing"), None);
        assert_eq!(from_file("", "FI_A"), None);
    }

    #[test]
    fn nothing_is_trimmed() {
        let file = " FI_B=x\nFI_C = spaces \nFI_F=v \r\nfi_g=lower";
        assert_eq!(from_file(file, "FI_B"), None);
        assert_eq!(from_file(file, "FI_C"), None);
        assert_eq!(from_file(file, "FI_C ").as_deref(), Some(" spaces "));
        assert_eq!(from_file(file, "FI_F").as_deref(), Some("v \r"));
        assert_eq!(from_file(file, "FI_G"), None);
    }

    #[test]
    fn the_first_line_for_a_name_counts() {
        let file = "FI_A=first\nFI_A=second";
        assert_eq!(from_file(file, "FI_A").as_deref(), Some("first"));
    }

    #[test]
    fn the_environment_wins_unless_the_file_is_preferred() {
        let choose = |prefer: &str, file_prefers: &str| {
            let file = format!("FI_A=file\n{file_prefers}");
            chosen(&file, &format!("FI_A=environment\n{prefer}"), "FI_A").unwrap()
        };
        assert_eq!(choose("", ""), "environment");
        assert_eq!(choose("FI_PREFER_SYSCONFIG=yes", ""), "file");
        assert_eq!(choose("FI_PREFER_SYSCONFIG=0", ""), "environment");
        assert_eq!(choose("FI_PREFER_SYSCONFIG=bogus", ""), "environment");
        assert_eq!(choose("", "FI_PREFER_SYSCONFIG=1"), "file");
        assert_eq!(
            choose("FI_PREFER_SYSCONFIG=0", "FI_PREFER_SYSCONFIG=1"),
            "environment"
        );
    }

    #[test]
    fn one_side_alone_is_enough() {
        let prefer = "FI_PREFER_SYSCONFIG=1";
        assert_eq!(chosen("FI_A=file", prefer, "FI_A").as_deref(), Some("file"));
        assert_eq!(chosen("FI_A=file", "", "FI_A").as_deref(), Some("file"));
        let both = "FI_A=environment\nFI_PREFER_SYSCONFIG=1";
        assert_eq!(chosen("", both, "FI_A").as_deref(), Some("environment"));
        assert_eq!(
            chosen("FI_B=x", both, "FI_A").as_deref(),
            Some("environment")
        );
    }
}
