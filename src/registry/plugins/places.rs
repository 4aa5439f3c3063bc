// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Locations of loadable providers: FI_PROVIDER_PATH, fabric(7).

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A piece of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Each file in the folder whose name ends in `fi.so`.
    Folder(PathBuf),
    /// This file, which takes precedence over others of its name.
    Preferred(PathBuf),
}

/// Locations to search, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Whether the first provider of a name is used instead of the newest.
    pub by_discovery: bool,
    /// Known names are first tried through the loader's own search.
    pub bare_names: bool,
    pub pieces: Vec<Piece>,
    /// Pieces that are probably mistakes.
    pub complaints: Vec<String>,
}

impl Places {
    /// Parses the text of the variable; `default` is the folder that belongs to this library.
    pub fn of(text: Option<&str>, default: Option<&Path>) -> Places {
        let text = text.unwrap_or_default();
        let mut places = Places {
            by_discovery: text.starts_with('@'),
            bare_names: text.is_empty(),
            ..Places::default()
        };
        let list = text.strip_prefix('@').unwrap_or(text);
        for piece in list.split(':').filter(|piece| !piece.is_empty()) {
            match piece.strip_prefix('+') {
                None => places.pieces.push(Piece::Folder(piece.into())),
                Some("") => {}
                Some(file) if file.starts_with('/') => {
                    places.pieces.push(Piece::Preferred(file.into()));
                }
                Some(file) => places.complaints.push(format!(
                    "FI_PROVIDER_PATH: +{file} is no absolute path and is left out"
                )),
            }
        }
        let any_folder = places.pieces.iter().any(|p| matches!(p, Piece::Folder(_)));
        if let (false, Some(default)) = (any_folder, default) {
            places.pieces.push(Piece::Folder(default.to_owned()));
        }
        places
    }
}

/// Returns the files of a folder that may be providers, from the last name to the first. An unreadable folder has none.
pub fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<OsString> = entries.map(|entry| entry.file_name()).collect();
    names.retain(|name| {
        let name = name.as_bytes();
        name.len() > SUFFIX.len() && name.ends_with(SUFFIX)
    });
    names.sort();
    names.iter().rev().map(|name| folder.join(name)).collect()
}

/// Returns the name of the provider in a file name: `efa` for `libefa-fi.so`.
pub fn short_name(file: &Path) -> Option<&str> {
    let name = file.file_name()?.to_str()?;
    name.strip_prefix("lib")?.strip_suffix("-fi.so")
}

/// Returns the file name of a provider: `librxm-fi.so` for `ofi_rxm`.
pub fn file_name(provider: &str) -> String {
    let short = provider
        .strip_prefix("ofi_")
        .or(provider.strip_prefix("off_"));
    format!("lib{}-fi.so", short.unwrap_or(provider))
}

const SUFFIX: &[u8] = b"fi.so";

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<String> {
        let places = Places::of(Some(text), Some(Path::new("/D")));
        let show = |piece: &Piece| match piece {
            Piece::Folder(folder) => folder.display().to_string(),
            Piece::Preferred(file) => format!("+{}", file.display()),
        };
        places.pieces.iter().map(show).collect()
    }

    #[test]
    fn l6_pieces_are_separated_by_colons() {
        assert_eq!(pieces("::a:"), ["a"]);
        assert_eq!(pieces(" a:b"), [" a", "b"]);
        assert_eq!(pieces("a:../b:a"), ["a", "../b", "a"]);
    }

    #[test]
    fn l7_l10_preferred_files_leave_the_default_folder() {
        assert_eq!(pieces("+/x/y.so:/a"), ["+/x/y.so", "/a"]);
        assert_eq!(pieces("+/x/y.so"), ["+/x/y.so", "/D"]);
        assert_eq!(pieces("a+b"), ["a+b"]);
    }

    #[test]
    fn l8_without_a_path_names_are_tried_and_the_default_folder() {
        for text in [None, Some("")] {
            let places = Places::of(text, Some(Path::new("/D")));
            assert!(places.bare_names && !places.by_discovery);
            assert_eq!(places.pieces, [Piece::Folder("/D".into())]);
        }
        assert_eq!(Places::of(None, None).pieces, []);
        assert!(!Places::of(Some(":"), None).bare_names);
    }

    #[test]
    fn l9_a_leading_at_is_order_of_discovery() {
        let places = Places::of(Some("@a:@b"), Some(Path::new("/D")));
        assert!(places.by_discovery && !places.bare_names);
        assert_eq!(places.pieces, ["a", "@b"].map(|f| Piece::Folder(f.into())));
        assert_eq!(pieces("@"), ["/D"]);
    }

    #[test]
    fn l11_relative_preferred_files_are_told() {
        let places = Places::of(Some("+rel/x-fi.so:+:b"), None);
        assert_eq!(places.pieces, [Piece::Folder("b".into())]);
        assert_eq!(places.complaints.len(), 1);
        assert!(places.complaints[0].contains("+rel/x-fi.so"));
    }

    #[test]
    fn l13_l14_names_end_in_fi_so_and_come_last_to_first() {
        let folder = std::env::temp_dir().join(format!("places-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in [
            "libaaa-fi.so",
            "xfi.so",
            "fi.so",
            "libfoo.so",
            "libbbb-fi.so",
        ] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let found = files_in(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        let names = ["xfi.so", "libbbb-fi.so", "libaaa-fi.so"];
        assert_eq!(found, names.map(|name| folder.join(name)));
        assert!(files_in(&folder).is_empty());
    }

    #[test]
    fn files_are_named_after_providers() {
        assert_eq!(short_name(Path::new("/a/libefa-fi.so")), Some("efa"));
        assert_eq!(short_name(Path::new("/a/xfi.so")), None);
        assert_eq!(file_name("ofi_rxm"), "librxm-fi.so");
        assert_eq!(file_name("off_coll"), "libcoll-fi.so");
        assert_eq!(file_name("tcp"), "libtcp-fi.so");
    }
}
